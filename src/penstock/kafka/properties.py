"""Kafka's client properties by their Java names, as users write them under ``properties.*``.

Every property of the Java consumer, producer and admin client (Kafka 4.3) is in exactly one of three lists:
:data:`ACTS` has the same effect as in Java, :data:`REFUSED` would contradict what penstock does itself, and
:data:`WITHOUT_MEANING` configures a part of the Java client that penstock does not have; it is accepted, so that an
existing table definition keeps working. A name that is close to one of them is an error; any other has no effect, as in
the Java client, and :func:`find_remarks` names it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import MISSING, dataclass, field
from typing import Any

from penstock.errors import OptionsError, Problem, nearest
from penstock.kafka.idle_properties import BY_CONNECTOR, BYTES, REFUSED, SERIALIZERS, WITHOUT_MEANING, is_usual
from penstock.kafka.login import LOGIN_PROPERTIES, Login, read_login
from penstock.options import (
    BOOLEAN,
    COMMA_LIST,
    TEXT,
    Codec,
    Property,
    declared_properties,
    number,
    one_of,
    prop,
    read_properties,
)
from penstock.tls import TLS_PROPERTIES, Tls, read_tls

READ_COMMITTED = "read_committed"
READ_UNCOMMITTED = "read_uncommitted"


def _parse_servers(value: str) -> tuple[str, ...]:
    servers = tuple(re.sub(r"^[A-Za-z_]+://", "", server) for server in COMMA_LIST.parse(value))
    for server in servers:
        if not re.fullmatch(r"(\[[0-9A-Fa-f:.%]+\]|[^:\s/]+):\d{1,5}", server):
            raise ValueError("expected host:port, with commas between several")
    return servers


def _parse_acks(value: str) -> int:
    known = {"all": -1, "-1": -1, "0": 0, "1": 1}
    if value.strip().lower() not in known:
        raise ValueError("expected 'all', '1' or '0'")
    return known[value.strip().lower()]


def _parse_gzip_level(value: str) -> int | None:
    level = number(-1, 9).parse(value)
    if level == 0:
        raise ValueError("expected a level from 1 to 9, or -1 for the default")
    return None if level < 0 else level


_MS = number(0, 2**63 - 1)
_POSITIVE = number(1)


@dataclass(frozen=True, kw_only=True)
class ClientConfig:
    """The properties of a Kafka client that have an effect. Hashable and picklable: it is the key of the session pool.

    Field names are the Java names with ``_`` for ``.``; ``tls`` and ``login`` hold ``ssl.*`` and ``sasl.*``. Sizes are
    bytes, times are milliseconds, ``None`` means that the property was not given. ``repr`` leaves out secrets.
    """

    bootstrap_servers: tuple[str, ...] = prop(
        Codec("List<String>", _parse_servers), "Brokers to ask first, as `host:port,host:port`.", MISSING
    )
    client_id: str = prop(TEXT, "Name of this client in the brokers' logs, metrics and quotas.", "penstock")
    client_rack: str = prop(TEXT, "Rack of this client; sent with every fetch.", "")
    client_dns_lookup: str = prop(
        one_of("use_all_dns_ips", "resolve_canonical_bootstrap_servers_only"),
        "How bootstrap names are resolved.",
        "use_all_dns_ips",
    )
    group_id: str | None = prop(TEXT, "Consumer group whose offsets are read and committed.")

    security_protocol: str = prop(
        one_of("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL", fold=str.upper),
        "Encryption and authentication.",
        "PLAINTEXT",
    )
    tls: Tls = field(default_factory=Tls)
    login: Login | None = None

    request_timeout_ms: int = prop(_POSITIVE, "Longest wait for one answer; then the connection is closed.", 30_000)
    default_api_timeout_ms: int = prop(_POSITIVE, "Longest time for an operation, with all its retries.", 60_000)
    delivery_timeout_ms: int = prop(_POSITIVE, "Longest time until a record batch is acknowledged.", 120_000)
    retry_backoff_ms: int = prop(_MS, "First wait before an operation is tried again.", 100)
    retry_backoff_max_ms: int = prop(_MS, "Longest wait before an operation is tried again.", 1_000)
    reconnect_backoff_ms: int = prop(_MS, "First wait before connecting to the same broker again.", 50)
    reconnect_backoff_max_ms: int = prop(_MS, "Longest wait before connecting to the same broker again.", 1_000)
    socket_connection_setup_timeout_ms: int = prop(_POSITIVE, "Longest wait for a connection.", 10_000)
    socket_connection_setup_timeout_max_ms: int = prop(
        _POSITIVE, "Longest wait for a connection after failures.", 30_000
    )
    metadata_max_age_ms: int = prop(_MS, "Age after which leaders and partitions are asked for again.", 300_000)
    connections_max_idle_ms: int = prop(_POSITIVE, "Idle time after which a connection is closed.", 540_000)

    isolation_level: str = prop(
        one_of(READ_UNCOMMITTED, READ_COMMITTED, fold=str.lower),
        "`read_committed` leaves out open and aborted transactions.",
        READ_UNCOMMITTED,
    )
    auto_offset_reset: str | None = prop(
        one_of("earliest", "latest", "none", fold=str.lower), "Where to start when the group has no valid offset."
    )
    check_crcs: bool = prop(BOOLEAN, "Verify the checksum of every record batch read.", True)
    fetch_max_bytes: int = prop(
        _POSITIVE,
        "Upper bound of one fetch answer; a larger record batch still passes. What was fetched is decompressed 64 MiB "
        "at a time; a record batch that decompresses to more than 256 MiB is an error.",
        52_428_800,
    )
    max_partition_fetch_bytes: int | None = prop(_POSITIVE, "Upper bound per partition of one fetch answer.")
    fetch_min_bytes: int = prop(number(0), "Bytes a broker waits for before it answers a fetch.", 1)
    fetch_max_wait_ms: int = prop(number(0), "Longest time a broker waits for `fetch.min.bytes`.", 500)
    allow_auto_create_topics: bool = prop(BOOLEAN, "Whether asking for a missing topic may create it.", True)

    acks: int = prop(
        Codec("String", _parse_acks),
        "Replicas that must have a record batch: `all`, `1` or `0`. At-least-once needs `all`: with less, records may "
        "be lost with a broker, and a warning says so. Exactly-once refuses less.",
        -1,
    )
    enable_idempotence: bool = prop(BOOLEAN, "Broker-side removal of repeated record batches.", True)
    compression_type: str = prop(
        one_of("none", "gzip", "snappy", "lz4", "zstd", fold=str.lower), "Compression.", "none"
    )
    compression_gzip_level: int | None = prop(
        Codec("Integer", _parse_gzip_level), "Level for gzip; -1 for the default, 6."
    )
    compression_lz4_level: int | None = prop(number(1, 17), "Level for lz4.")
    compression_zstd_level: int | None = prop(number(-131_072, 22), "Level for zstd.")
    batch_size: int | None = prop(number(0), "Size at which a record batch is cut; 0 for one record in each.")
    max_request_size: int = prop(number(0), "Largest produce request.", 1_048_576)
    buffer_memory: int = prop(_MS, "Bytes that may wait to be acknowledged.", 33_554_432)
    max_in_flight_requests_per_connection: int = prop(_POSITIVE, "Produce requests under way per broker.", 5)
    retries: int = prop(
        number(0),
        "How often a record batch is sent again; `delivery.timeout.ms` is the other bound. 0 turns idempotence off.",
        2**31 - 1,
    )
    transaction_timeout_ms: int | None = prop(_POSITIVE, "Time after which the broker aborts an open transaction.")

    @classmethod
    def from_properties(cls, properties: Mapping[str, str], where: str = "") -> ClientConfig:
        """Read properties by Kafka's own names.

        ``where`` is the place that the properties were written at. Raises :class:`OptionsError` with every problem.
        """
        values, problems = _read(properties)
        if problems:
            raise OptionsError(tuple(Problem(p.reason, p.key, p.where or where, p.hint) for p in problems))
        return cls(**values)


def check(properties: Mapping[str, str]) -> tuple[Problem, ...]:
    """Every problem of these properties; none if :meth:`ClientConfig.from_properties` accepts them."""
    return _read(properties)[1]


_OWN = declared_properties(ClientConfig)

#: Properties with the same effect as in the Java client.
ACTS: Mapping[str, Property] = {**_OWN, **TLS_PROPERTIES, **LOGIN_PROPERTIES}
#: Those whose values are never shown.
SECRETS = frozenset(name for name, each in ACTS.items() if each.secret)

#: Prefixes of properties for other programs, which tables contain too: they are not misspellings.
_OF_OTHERS = ("confluent.", "flink.", "key.subject.", "schema.registry.", "value.subject.", "zookeeper.")


def is_property(name: str) -> bool:
    """Whether a Kafka client has a property of this name."""
    return name in ACTS or name in WITHOUT_MEANING or name in REFUSED


def find_remarks(properties: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    """The properties without effect that users may expect to have one, with the reason."""
    unknown = [(name, "it is not a property of a Kafka client") for name in properties if not is_property(name)]
    return (*unknown, *((name, BYTES) for name in properties if name in SERIALIZERS))


def find_without_effect(properties: Mapping[str, str]) -> Mapping[str, str]:
    """The other properties without effect, which a job does not need, each with the reason."""
    found = {name: WITHOUT_MEANING[name] for name in properties if name in WITHOUT_MEANING}
    found |= {name: REFUSED[name] for name in properties if name in REFUSED and is_usual(name, properties[name])}
    return {name: why for name, why in found.items() if name not in SERIALIZERS and why != BY_CONNECTOR}


def describe_without_effect(found: Mapping[str, str], prefix: str = "") -> str:
    """One line about properties of :func:`find_without_effect`, ``prefix`` before their names; empty without any."""
    reasons: dict[str, list[str]] = {}
    for name, why in found.items():
        reasons.setdefault(why, []).append(f"'{prefix}{name}'")
    groups = [f"{', '.join(names)} ({why})" for why, names in reasons.items()]
    return f"no effect here: {', '.join(groups)}" if groups else ""


def _read(properties: Mapping[str, str]) -> tuple[dict[str, Any], tuple[Problem, ...]]:
    found, problems = read_properties(_OWN, properties)
    values = {name.replace(".", "_"): value for name, value in found.items()}
    for name in properties:
        if name in REFUSED and not is_usual(name, properties[name]):
            problems.append(Problem(f"cannot be set: {REFUSED[name]}", name, hint="remove it"))
        elif not is_property(name) and not name.startswith(_OF_OTHERS):
            hint = nearest(name, [*ACTS, *WITHOUT_MEANING, *REFUSED])
            if hint:
                problems.append(Problem("is not a property of a Kafka client", name, hint=hint))
    if "bootstrap.servers" not in properties:
        problems.append(Problem("is required", "bootstrap.servers", hint="give it as host:port,host:port"))
    values["tls"], wrong = read_tls(properties)
    problems += wrong
    values["login"], wrong = read_login(properties, str(values.get("security_protocol", "")).startswith("SASL_"))
    problems += wrong
    problems += _check_idempotence(values)
    return values, tuple(problems)


def _check_idempotence(values: dict[str, Any]) -> list[Problem]:
    """Java's rule (KIP-679): acks other than all, or no retries, turn idempotence off unless it is set explicitly. More
    than 5 requests under way contradict it."""
    contradicting = []
    if values.get("acks", -1) != -1:
        contradicting.append(Problem("must be 'all' with enable.idempotence=true", "acks"))
    if values.get("retries", 1) == 0:
        contradicting.append(Problem("must not be 0 with enable.idempotence=true", "retries"))
    if contradicting:
        return contradicting if values.setdefault("enable_idempotence", False) else []
    if values.get("enable_idempotence", True) and values.get("max_in_flight_requests_per_connection", 5) > 5:
        name = "max.in.flight.requests.per.connection"
        return [Problem("must be at most 5 with enable.idempotence=true", name)]
    return []
