"""Kafka's client properties by their Java names, as users write them under ``properties.*``.

Every property of the Java consumer, producer and admin client (Kafka 4.3) is in exactly one of three lists:
:data:`ACTS` does here what it does there, :data:`REFUSED` would contradict what penstock does itself, and
:data:`WITHOUT_MEANING` configures a part of the Java client that has no counterpart; it is accepted, so that an
existing table definition keeps working. Anything else is a mistake and is answered with the nearest known name.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from penstock.errors import OptionsError, Problem
from penstock.kafka.login import LOGIN_PROPERTIES, Login, read_login
from penstock.options import BOOLEAN, COMMA_LIST, TEXT, Codec, Property, number, one_of
from penstock.tls import TLS_PROPERTIES, Tls, read_tls

READ_COMMITTED = "read_committed"
READ_UNCOMMITTED = "read_uncommitted"


@dataclass(frozen=True, kw_only=True)
class ClientConfig:
    """Everything a Kafka client of ours needs to know. Hashable and picklable: it is the key of the session pool.

    Field names are the Java names with ``_`` for ``.``, ``tls`` and ``login`` stand for ``ssl.*`` and ``sasl.*``; sizes
    are bytes, times are milliseconds, ``None`` is "not given". Secrets are left out of ``repr``.
    """

    bootstrap_servers: tuple[str, ...]
    client_id: str = "penstock"
    client_rack: str = ""
    client_dns_lookup: str = "use_all_dns_ips"
    group_id: str | None = None

    security_protocol: str = "PLAINTEXT"
    tls: Tls = field(default_factory=Tls)
    login: Login | None = None

    request_timeout_ms: int = 30_000
    default_api_timeout_ms: int = 60_000
    delivery_timeout_ms: int = 120_000
    retry_backoff_ms: int = 100
    retry_backoff_max_ms: int = 1_000
    reconnect_backoff_ms: int = 50
    reconnect_backoff_max_ms: int = 1_000
    socket_connection_setup_timeout_ms: int = 10_000
    socket_connection_setup_timeout_max_ms: int = 30_000
    metadata_max_age_ms: int = 300_000
    connections_max_idle_ms: int = 540_000

    isolation_level: str = READ_UNCOMMITTED
    auto_offset_reset: str | None = None
    check_crcs: bool = True
    fetch_max_bytes: int = 52_428_800
    max_partition_fetch_bytes: int | None = None
    fetch_min_bytes: int = 1
    fetch_max_wait_ms: int = 500
    allow_auto_create_topics: bool = True

    acks: int = -1
    enable_idempotence: bool = True
    compression_type: str = "none"
    compression_gzip_level: int | None = None
    compression_lz4_level: int | None = None
    compression_zstd_level: int | None = None
    batch_size: int | None = None
    max_request_size: int = 1_048_576
    buffer_memory: int = 33_554_432
    max_in_flight_requests_per_connection: int = 5
    retries: int = 2**31 - 1
    transaction_timeout_ms: int | None = None

    @classmethod
    def from_properties(cls, properties: Mapping[str, str], where: str = "") -> ClientConfig:
        """Read properties by Kafka's own names.

        Raises :class:`OptionsError` with every problem at once; ``where`` names the place the properties were
        written at.
        """
        values, problems = _read(properties)
        if problems:
            raise OptionsError(tuple(Problem(p.reason, p.key, p.where or where, p.hint) for p in problems))
        return cls(**values)


def check(properties: Mapping[str, str]) -> tuple[Problem, ...]:
    """Every problem of these properties, none when :meth:`ClientConfig.from_properties` would accept them."""
    return _read(properties)[1]


# --- single values ---------------------------------------------------------------------------------------------


def _servers(value: str) -> tuple[str, ...]:
    servers = tuple(re.sub(r"^[A-Za-z_]+://", "", server) for server in COMMA_LIST.parse(value))
    for server in servers:
        if not re.fullmatch(r"(\[[0-9A-Fa-f:.%]+\]|[^:\s/]+):\d{1,5}", server):
            raise ValueError("expected host:port, with commas between several")
    return servers


def _acks(value: str) -> int:
    known = {"all": -1, "-1": -1, "0": 0, "1": 1}
    if value.strip().lower() not in known:
        raise ValueError("expected 'all', '1' or '0'")
    return known[value.strip().lower()]


def _gzip_level(value: str) -> int | None:
    level = number(-1, 9).parse(value)
    if level == 0:
        raise ValueError("expected a level from 1 to 9, or -1 for the default")
    return None if level < 0 else level


_MS = number(0, 2**63 - 1)

#: Properties that do here what they do in the Java client.
ACTS: Mapping[str, Property] = {
    "bootstrap.servers": Property(Codec("List<String>", _servers), "Brokers to ask first, as `host:port,host:port`."),
    "client.id": Property(TEXT, "Name of this client in the brokers' logs, metrics and quotas."),
    "client.rack": Property(TEXT, "Rack of this client; sent with every fetch."),
    "client.dns.lookup": Property(
        one_of("use_all_dns_ips", "resolve_canonical_bootstrap_servers_only"), "How bootstrap names are resolved."
    ),
    "group.id": Property(TEXT, "Consumer group whose offsets are read and committed."),
    "security.protocol": Property(
        one_of("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL", fold=str.upper), "Encryption and authentication."
    ),
    **TLS_PROPERTIES,
    **LOGIN_PROPERTIES,
    "request.timeout.ms": Property(number(1), "Longest wait for one answer; then the connection is closed."),
    "default.api.timeout.ms": Property(number(1), "Longest time for an operation, with all its retries."),
    "delivery.timeout.ms": Property(number(1), "Longest time until a record batch is acknowledged."),
    "retry.backoff.ms": Property(_MS, "First wait before an operation is tried again."),
    "retry.backoff.max.ms": Property(_MS, "Longest wait before an operation is tried again."),
    "reconnect.backoff.ms": Property(_MS, "First wait before connecting to the same broker again."),
    "reconnect.backoff.max.ms": Property(_MS, "Longest wait before connecting to the same broker again."),
    "socket.connection.setup.timeout.ms": Property(number(1), "Longest wait for a connection."),
    "socket.connection.setup.timeout.max.ms": Property(number(1), "Longest wait for a connection after failures."),
    "metadata.max.age.ms": Property(_MS, "Age after which leaders and partitions are asked for again."),
    "connections.max.idle.ms": Property(number(1), "Idle time after which a connection is closed."),
    "isolation.level": Property(
        one_of(READ_UNCOMMITTED, READ_COMMITTED, fold=str.lower),
        "`read_committed` leaves out open and aborted transactions.",
    ),
    "auto.offset.reset": Property(
        one_of("earliest", "latest", "none", fold=str.lower), "Where to start when the group has no valid offset."
    ),
    "check.crcs": Property(BOOLEAN, "Verify the checksum of every record batch read."),
    "fetch.max.bytes": Property(
        number(1),
        "Upper bound of one fetch answer; a larger record batch still passes. What was fetched is decompressed 64 MiB "
        "at a time; a record batch that decompresses to more than 256 MiB is an error.",
    ),
    "max.partition.fetch.bytes": Property(number(1), "Upper bound per partition of one fetch answer."),
    "fetch.min.bytes": Property(number(0), "Bytes a broker waits for before it answers a fetch."),
    "fetch.max.wait.ms": Property(number(0), "Longest time a broker waits for `fetch.min.bytes`."),
    "allow.auto.create.topics": Property(BOOLEAN, "Whether asking for a missing topic may create it."),
    "acks": Property(
        Codec("String", _acks),
        "Replicas that must have a record batch: `all`, `1` or `0`. At-least-once needs `all`: with less, which is "
        "warned of, it loses records with a broker. Exactly-once refuses less.",
    ),
    "enable.idempotence": Property(BOOLEAN, "Broker-side removal of repeated record batches."),
    "compression.type": Property(one_of("none", "gzip", "snappy", "lz4", "zstd", fold=str.lower), "Compression."),
    "compression.gzip.level": Property(Codec("Integer", _gzip_level), "Level for gzip; -1 for the default, 6."),
    "compression.lz4.level": Property(number(1, 17), "Level for lz4."),
    "compression.zstd.level": Property(number(-131_072, 22), "Level for zstd."),
    "batch.size": Property(number(0), "Size at which a record batch is cut; 0 for one record in each."),
    "max.request.size": Property(number(0), "Largest produce request."),
    "buffer.memory": Property(number(0, 2**63 - 1), "Bytes that may wait to be acknowledged."),
    "max.in.flight.requests.per.connection": Property(number(1), "Produce requests under way per broker."),
    "retries": Property(
        number(0),
        "How often a record batch is sent again; `delivery.timeout.ms` is the other bound. 0 ends idempotence.",
    ),
    "transaction.timeout.ms": Property(number(1), "Time after which the broker aborts an open transaction."),
}

_CODEC = "penstock reads and writes bytes; a format does the rest"

#: Properties that penstock sets itself, with the reason.
REFUSED: Mapping[str, str] = {
    "key.deserializer": _CODEC,
    "value.deserializer": _CODEC,
    "key.serializer": _CODEC,
    "value.serializer": _CODEC,
    "auto.offset.reset.strategy": "Flink sets it by the offsets initializer; Kafka's own name is auto.offset.reset",
    "transactional.id": "it is derived from the transactional id prefix and the query's name",
    "transaction.two.phase.commit.enable": "a micro-batch is one transaction and needs no second phase",
    "partitioner.class": "Java classes are not loaded; the sink option 'sink.partitioner' chooses partitions",
    "partitioner.ignore.keys": "the sink option 'sink.partitioner' chooses partitions",
    "interceptor.classes": "Java classes are not loaded, and no record would pass through them",
    "config.providers": "Java classes are not loaded, and values that name a provider would be taken as they are",
    "ssl.cipher.suites": "cipher suites cannot be chosen; use ssl.enabled.protocols",
}

_GROUP = "partitions are assigned by the engine, not by a consumer group"
_METRICS = "metrics are reported by the engine"
_JAVA = "names a Java class or a Java security provider"
_SPREAD = "rows without keys are spread over all partitions alike"
_CONNECTOR = "read by the Kafka connector"
_RENEWAL = "a token is asked for when a connection is opened; one that fails in between is opened again"
_BROKERS = "a token is verified by the brokers"
_ASSERTION = "belongs to the grant by assertion (RFC 7523), which is not supported; client credentials are"
_GSSAPI = "tickets are looked after by the system's Kerberos"

#: Properties that are accepted and do nothing, with the reason.
WITHOUT_MEANING: Mapping[str, str] = {
    **dict.fromkeys(
        (
            "session.timeout.ms", "heartbeat.interval.ms", "max.poll.interval.ms", "max.poll.records",
            "partition.assignment.strategy", "group.instance.id", "group.protocol", "group.remote.assignor",
            "exclude.internal.topics", "internal.leave.group.on.close", "share.acknowledgement.mode",
            "share.acquire.mode",
        ),
        _GROUP,
    ),
    **dict.fromkeys(
        (
            "metric.reporters", "metrics.num.samples", "metrics.recording.level", "metrics.sample.window.ms",
            "enable.metrics.push", "auto.include.jmx.reporter",
        ),
        _METRICS,
    ),
    **dict.fromkeys(
        (
            "security.providers", "ssl.provider", "ssl.protocol", "ssl.engine.factory.class",
            "sasl.client.callback.handler.class", "sasl.login.class",
            "ssl.keymanager.algorithm", "ssl.trustmanager.algorithm", "ssl.secure.random.implementation",
        ),
        _JAVA,
    ),
    "linger.ms": "the rows of a micro-batch are all there when they are encoded, so there is nothing to wait for",
    "max.block.ms": "waiting is bounded by delivery.timeout.ms and, for transactions, by default.api.timeout.ms",
    "metadata.max.idle.ms": "a client knows the topics of its table only",
    **dict.fromkeys(("partitioner.adaptive.partitioning.enable", "partitioner.availability.timeout.ms"), _SPREAD),
    **dict.fromkeys(("receive.buffer.bytes", "send.buffer.bytes"), "the operating system sizes socket buffers"),
    **dict.fromkeys(
        ("metadata.recovery.strategy", "metadata.recovery.rebootstrap.trigger.ms", "bootstrap.controllers"),
        "brokers are asked for again from the bootstrap servers whenever none answers",
    ),
    **dict.fromkeys(
        (
            "partition.discovery.interval.ms", "flink.partition-discovery.interval-millis", "client.id.prefix",
            "commit.offsets.on.checkpoint", "register.consumer.metrics", "register.producer.metrics",
            "enable.auto.commit", "auto.commit.interval.ms",
        ),
        _CONNECTOR,
    ),
    **dict.fromkeys(
        (
            "sasl.login.refresh.buffer.seconds", "sasl.login.refresh.min.period.seconds",
            "sasl.login.refresh.window.jitter", "sasl.login.retry.backoff.max.ms", "sasl.login.retry.backoff.ms",
        ),
        _RENEWAL,
    ),
    **dict.fromkeys(
        (
            "sasl.kerberos.kinit.cmd", "sasl.kerberos.min.time.before.relogin", "sasl.kerberos.ticket.renew.jitter",
            "sasl.kerberos.ticket.renew.window.factor",
        ),
        _GSSAPI,
    ),
    **dict.fromkeys(
        (
            "sasl.oauthbearer.assertion.algorithm", "sasl.oauthbearer.assertion.claim.aud",
            "sasl.oauthbearer.assertion.claim.exp.seconds", "sasl.oauthbearer.assertion.claim.iss",
            "sasl.oauthbearer.assertion.claim.jti.include", "sasl.oauthbearer.assertion.claim.nbf.seconds",
            "sasl.oauthbearer.assertion.claim.sub", "sasl.oauthbearer.assertion.file",
            "sasl.oauthbearer.assertion.private.key.file", "sasl.oauthbearer.assertion.private.key.passphrase",
            "sasl.oauthbearer.assertion.template.file",
        ),
        _ASSERTION,
    ),
    **dict.fromkeys(
        (
            "sasl.oauthbearer.clock.skew.seconds", "sasl.oauthbearer.expected.audience",
            "sasl.oauthbearer.expected.issuer", "sasl.oauthbearer.jwks.endpoint.refresh.ms",
            "sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms", "sasl.oauthbearer.jwks.endpoint.retry.backoff.ms",
            "sasl.oauthbearer.jwks.endpoint.url", "sasl.oauthbearer.jwt.validator.class",
            "sasl.oauthbearer.scope.claim.name", "sasl.oauthbearer.sub.claim.name",
        ),
        _BROKERS,
    ),
}  # fmt: skip

# --- all of them together --------------------------------------------------------------------------------------


_READ_TOGETHER = {**TLS_PROPERTIES, **LOGIN_PROPERTIES}


def _read(properties: Mapping[str, str]) -> tuple[dict[str, Any], tuple[Problem, ...]]:
    values: dict[str, Any] = {}
    problems: list[Problem] = []
    for name, value in properties.items():
        if name in _READ_TOGETHER:
            continue
        if name in ACTS:
            try:
                values[name.replace(".", "_")] = ACTS[name].read(value)
            except ValueError as malformed:
                problems.append(Problem(str(malformed), name))
        elif name in REFUSED:
            problems.append(Problem(f"cannot be set: {REFUSED[name]}", name, hint="remove it"))
        elif name not in WITHOUT_MEANING:
            problems.append(_unknown(name))
    if "bootstrap.servers" not in properties:
        problems.append(Problem("is required", "bootstrap.servers", hint="give it as host:port,host:port"))
    values["tls"], wrong = read_tls(properties)
    problems += wrong
    values["login"], wrong = read_login(properties, str(values.get("security_protocol", "")).startswith("SASL_"))
    problems += wrong
    problems += _idempotence(values)
    return values, tuple(problems)


def _unknown(name: str) -> Problem:
    nearest = difflib.get_close_matches(name, [*ACTS, *WITHOUT_MEANING, *REFUSED], n=1)
    hint = f"did you mean '{nearest[0]}'?" if nearest else "names are those of Kafka's Java client"
    return Problem("is no property of a Kafka client", name, hint=hint)


def _idempotence(values: dict[str, Any]) -> list[Problem]:
    """Java's rule (KIP-679): other acks and no retries turn idempotence off, unless it is asked for; more than 5
    requests under way contradict it."""
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
