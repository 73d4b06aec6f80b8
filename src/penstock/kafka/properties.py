"""Kafka's client properties by their Java names, as users write them under ``properties.*``.

Every property of the Java consumer, producer and admin client (Kafka 4.3) is in exactly one of three lists:
:data:`ACTS` does here what it does there, :data:`REFUSED` would contradict what penstock does itself, and
:data:`WITHOUT_MEANING` configures a part of the Java client that has no counterpart; it is accepted, so that an
existing table definition keeps working. Anything else is a mistake and is answered with the nearest known name.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from penstock.errors import OptionsError, Problem

__all__ = ["ACTS", "REFUSED", "WITHOUT_MEANING", "ClientConfig", "Property", "check"]

READ_COMMITTED = "read_committed"
READ_UNCOMMITTED = "read_uncommitted"


@dataclass(frozen=True, kw_only=True)
class ClientConfig:
    """Everything a Kafka client of ours needs to know. Hashable and picklable: it is the key of the session pool.

    Field names are the Java names with ``_`` for ``.``; sizes are bytes, times are milliseconds, ``None`` is "not
    given". Secrets are left out of ``repr``.
    """

    bootstrap_servers: tuple[str, ...]
    client_id: str = "penstock"
    client_rack: str = ""
    client_dns_lookup: str = "use_all_dns_ips"
    group_id: str | None = None

    security_protocol: str = "PLAINTEXT"
    ssl_truststore_location: str | None = None
    ssl_truststore_certificates: str | None = field(default=None, repr=False)
    ssl_keystore_location: str | None = None
    ssl_keystore_certificate_chain: str | None = field(default=None, repr=False)
    ssl_keystore_key: str | None = field(default=None, repr=False)
    ssl_key_password: str | None = field(default=None, repr=False)
    ssl_endpoint_identification_algorithm: str = "https"
    ssl_enabled_protocols: tuple[str, ...] = ("TLSv1.2", "TLSv1.3")
    sasl_mechanism: str | None = None
    sasl_username: str | None = None
    sasl_password: str | None = field(default=None, repr=False)

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


class _Malformed(Exception):
    """What was expected of a value."""


def _text(value: str) -> str:
    return value


def _list(value: str) -> tuple[str, ...]:
    items = tuple(item.strip() for item in value.split(",") if item.strip())
    if not items:
        raise _Malformed("expected a comma separated list")
    return items


def _flag(value: str) -> bool:
    if value.strip().lower() not in {"true", "false"}:
        raise _Malformed(f"expected true or false, not '{value}'")
    return value.strip().lower() == "true"


def _number(low: int, high: int = 2**31 - 1) -> Callable[[str], int]:
    def parse(value: str) -> int:
        try:
            number = int(value.strip())
        except ValueError:
            raise _Malformed(f"expected a whole number, not '{value}'") from None
        if not low <= number <= high:
            raise _Malformed(f"expected a number between {low} and {high}, not {number}")
        return number

    return parse


def _one_of(*names: str, fold: Callable[[str], str] = str) -> Callable[[str], str]:
    def parse(value: str) -> str:
        if fold(value.strip()) not in names:
            raise _Malformed(f"expected one of {', '.join(repr(name) for name in names)}, not '{value}'")
        return fold(value.strip())

    return parse


def _servers(value: str) -> tuple[str, ...]:
    servers = tuple(re.sub(r"^[A-Za-z_]+://", "", server) for server in _list(value))
    for server in servers:
        if not re.fullmatch(r"(\[[0-9A-Fa-f:.%]+\]|[^:\s/]+):\d{1,5}", server):
            raise _Malformed(f"expected host:port, not '{server}'")
    return servers


def _acks(value: str) -> int:
    known = {"all": -1, "-1": -1, "0": 0, "1": 1}
    if value.strip().lower() not in known:
        raise _Malformed(f"expected 'all', '1' or '0', not '{value}'")
    return known[value.strip().lower()]


def _protocols(value: str) -> tuple[str, ...]:
    protocols = _list(value)
    if not set(protocols) <= {"TLSv1.2", "TLSv1.3"}:
        raise _Malformed(f"expected TLSv1.2, TLSv1.3 or both, not '{value}'")
    return protocols


def _reset(value: str) -> str:
    if value.strip().lower() not in {"earliest", "latest", "none"}:
        raise _Malformed(f"expected 'earliest', 'latest' or 'none', not '{value}'")
    return value.strip().lower()


def _check_algorithm(value: str) -> str:
    if value.strip().lower() not in {"", "https"}:
        raise _Malformed(f"expected 'https', or nothing for no host name check, not '{value}'")
    return value.strip().lower()


def _gzip_level(value: str) -> int | None:
    level = _number(-1, 9)(value)
    if level == 0:
        raise _Malformed("expected a level from 1 to 9, or -1 for the default, not 0")
    return None if level < 0 else level


def _pem(value: str) -> str:
    if value.strip().upper() != "PEM":
        raise _Malformed(f"stores of type '{value}' cannot be read; convert the store to PEM and set the type to PEM")
    return "PEM"


@dataclass(frozen=True)
class Property:
    """One property that acts: its reader and what it does, as shown in the reference."""

    read: Callable[[str], Any]
    doc: str
    secret: bool = False


_MS = _number(0, 2**63 - 1)

#: Properties that do here what they do in the Java client.
ACTS: Mapping[str, Property] = {
    "bootstrap.servers": Property(_servers, "Brokers to ask first, as `host:port,host:port`."),
    "client.id": Property(_text, "Name of this client in the brokers' logs, metrics and quotas."),
    "client.rack": Property(_text, "Rack of this client; sent with every fetch."),
    "client.dns.lookup": Property(
        _one_of("use_all_dns_ips", "resolve_canonical_bootstrap_servers_only"), "How bootstrap names are resolved."
    ),
    "group.id": Property(_text, "Consumer group whose offsets are read and committed."),
    "security.protocol": Property(
        _one_of("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL", fold=str.upper), "Encryption and authentication."
    ),
    "ssl.truststore.type": Property(_pem, "Format of the truststore: PEM."),
    "ssl.truststore.location": Property(_text, "PEM file with the certificates to trust."),
    "ssl.truststore.certificates": Property(_text, "Certificates to trust, as PEM text.", secret=True),
    "ssl.keystore.type": Property(_pem, "Format of the keystore: PEM."),
    "ssl.keystore.location": Property(_text, "PEM file with this client's private key and certificate chain."),
    "ssl.keystore.certificate.chain": Property(_text, "This client's certificate chain, as PEM text.", secret=True),
    "ssl.keystore.key": Property(_text, "This client's private key, as PEM text.", secret=True),
    "ssl.key.password": Property(_text, "Password of the private key.", secret=True),
    "ssl.endpoint.identification.algorithm": Property(
        _check_algorithm, "`https` compares the broker's host name with its certificate; empty does not."
    ),
    "ssl.enabled.protocols": Property(_protocols, "TLS versions that may be used."),
    "sasl.mechanism": Property(_text, "PLAIN, SCRAM-SHA-256 or SCRAM-SHA-512."),
    "sasl.jaas.config": Property(_text, "Login module with `username` and `password`.", secret=True),
    "request.timeout.ms": Property(_number(1), "Longest wait for one answer; then the connection is closed."),
    "default.api.timeout.ms": Property(_number(1), "Longest time for an operation, with all its retries."),
    "delivery.timeout.ms": Property(_number(1), "Longest time until a record batch is acknowledged."),
    "retry.backoff.ms": Property(_MS, "First wait before an operation is tried again."),
    "retry.backoff.max.ms": Property(_MS, "Longest wait before an operation is tried again."),
    "reconnect.backoff.ms": Property(_MS, "First wait before connecting to the same broker again."),
    "reconnect.backoff.max.ms": Property(_MS, "Longest wait before connecting to the same broker again."),
    "socket.connection.setup.timeout.ms": Property(_number(1), "Longest wait for a connection."),
    "socket.connection.setup.timeout.max.ms": Property(_number(1), "Longest wait for a connection after failures."),
    "metadata.max.age.ms": Property(_MS, "Age after which leaders and partitions are asked for again."),
    "connections.max.idle.ms": Property(_number(1), "Idle time after which a connection is closed."),
    "isolation.level": Property(
        _one_of(READ_UNCOMMITTED, READ_COMMITTED, fold=str.lower),
        "`read_committed` leaves out open and aborted transactions.",
    ),
    "auto.offset.reset": Property(_reset, "Where to start when the group has no valid offset."),
    "check.crcs": Property(_flag, "Verify the checksum of every record batch read."),
    "fetch.max.bytes": Property(_number(1), "Upper bound of one fetch answer; a larger record batch still passes."),
    "max.partition.fetch.bytes": Property(_number(1), "Upper bound per partition of one fetch answer."),
    "fetch.min.bytes": Property(_number(0), "Bytes a broker waits for before it answers a fetch."),
    "fetch.max.wait.ms": Property(_number(0), "Longest time a broker waits for `fetch.min.bytes`."),
    "allow.auto.create.topics": Property(_flag, "Whether asking for a missing topic may create it."),
    "acks": Property(_acks, "Replicas that must have a record batch: `all`, `1` or `0`."),
    "enable.idempotence": Property(_flag, "Broker-side removal of repeated record batches."),
    "compression.type": Property(_one_of("none", "gzip", "snappy", "lz4", "zstd", fold=str.lower), "Compression."),
    "compression.gzip.level": Property(_gzip_level, "Level for gzip; -1 for the default, 6."),
    "compression.lz4.level": Property(_number(1, 17), "Level for lz4."),
    "compression.zstd.level": Property(_number(-131_072, 22), "Level for zstd."),
    "batch.size": Property(_number(0), "Size at which a record batch is cut; 0 for one record in each."),
    "max.request.size": Property(_number(0), "Largest produce request."),
    "buffer.memory": Property(_number(0, 2**63 - 1), "Bytes that may wait to be acknowledged."),
    "max.in.flight.requests.per.connection": Property(_number(1), "Produce requests under way per broker."),
    "retries": Property(
        _number(0),
        "How often a record batch is sent again; `delivery.timeout.ms` is the other bound. 0 ends idempotence.",
    ),
    "transaction.timeout.ms": Property(_number(1), "Time after which the broker aborts an open transaction."),
}

_CODEC = "penstock reads and writes bytes; a format does the rest"

#: Properties that penstock sets itself, with the reason.
REFUSED: Mapping[str, str] = {
    "key.deserializer": _CODEC,
    "value.deserializer": _CODEC,
    "key.serializer": _CODEC,
    "value.serializer": _CODEC,
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
_OTHER_LOGIN = "belongs to a login mechanism other than PLAIN and SCRAM"

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
            "ssl.keymanager.algorithm", "ssl.trustmanager.algorithm", "ssl.secure.random.implementation",
        ),
        _JAVA,
    ),
    **dict.fromkeys(("ssl.truststore.password", "ssl.keystore.password"), "PEM stores have no password of their own"),
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
            "sasl.client.callback.handler.class", "sasl.login.callback.handler.class", "sasl.login.class",
            "sasl.login.connect.timeout.ms", "sasl.login.read.timeout.ms", "sasl.login.refresh.buffer.seconds",
            "sasl.login.refresh.min.period.seconds", "sasl.login.refresh.window.factor",
            "sasl.login.refresh.window.jitter", "sasl.login.retry.backoff.max.ms", "sasl.login.retry.backoff.ms",
            "sasl.kerberos.kinit.cmd", "sasl.kerberos.min.time.before.relogin", "sasl.kerberos.service.name",
            "sasl.kerberos.ticket.renew.jitter", "sasl.kerberos.ticket.renew.window.factor",
            "sasl.oauthbearer.assertion.algorithm", "sasl.oauthbearer.assertion.claim.aud",
            "sasl.oauthbearer.assertion.claim.exp.seconds", "sasl.oauthbearer.assertion.claim.iss",
            "sasl.oauthbearer.assertion.claim.jti.include", "sasl.oauthbearer.assertion.claim.nbf.seconds",
            "sasl.oauthbearer.assertion.claim.sub", "sasl.oauthbearer.assertion.file",
            "sasl.oauthbearer.assertion.private.key.file", "sasl.oauthbearer.assertion.private.key.passphrase",
            "sasl.oauthbearer.assertion.template.file", "sasl.oauthbearer.client.credentials.client.id",
            "sasl.oauthbearer.client.credentials.client.secret", "sasl.oauthbearer.clock.skew.seconds",
            "sasl.oauthbearer.expected.audience", "sasl.oauthbearer.expected.issuer",
            "sasl.oauthbearer.header.urlencode", "sasl.oauthbearer.jwks.endpoint.refresh.ms",
            "sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms", "sasl.oauthbearer.jwks.endpoint.retry.backoff.ms",
            "sasl.oauthbearer.jwks.endpoint.url", "sasl.oauthbearer.jwt.retriever.class",
            "sasl.oauthbearer.jwt.validator.class", "sasl.oauthbearer.scope", "sasl.oauthbearer.scope.claim.name",
            "sasl.oauthbearer.sub.claim.name", "sasl.oauthbearer.token.endpoint.url",
        ),
        _OTHER_LOGIN,
    ),
}  # fmt: skip

MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")


# --- all of them together --------------------------------------------------------------------------------------


def _read(properties: Mapping[str, str]) -> tuple[dict[str, Any], tuple[Problem, ...]]:
    values: dict[str, Any] = {}
    problems: list[Problem] = []
    for name, value in properties.items():
        if name in ACTS:
            try:
                values[name.replace(".", "_")] = ACTS[name].read(value)
            except _Malformed as malformed:
                problems.append(Problem(str(malformed), name))
        elif name in REFUSED:
            problems.append(Problem(f"cannot be set: {REFUSED[name]}", name, hint="remove it"))
        elif name not in WITHOUT_MEANING:
            problems.append(_unknown(name))
    if "bootstrap.servers" not in properties:
        problems.append(Problem("is required", "bootstrap.servers", hint="give it as host:port,host:port"))
    problems += _stores(properties, values)
    problems += _login(properties, values)
    problems += _idempotence(values)
    for name in ("ssl_truststore_type", "ssl_keystore_type", "sasl_jaas_config"):
        values.pop(name, None)
    return values, tuple(problems)


def _unknown(name: str) -> Problem:
    nearest = difflib.get_close_matches(name, [*ACTS, *WITHOUT_MEANING, *REFUSED], n=1)
    hint = f"did you mean '{nearest[0]}'?" if nearest else "names are those of Kafka's Java client"
    return Problem("is no property of a Kafka client", name, hint=hint)


def _stores(properties: Mapping[str, str], values: dict[str, Any]) -> list[Problem]:
    problems = []
    for store in ("truststore", "keystore"):
        if f"ssl.{store}.location" in properties and f"ssl.{store}.type" not in properties:
            problems.append(
                Problem(
                    "is of type JKS unless said otherwise, and only PEM files can be read",
                    f"ssl.{store}.location",
                    hint=f"convert the store to PEM and set ssl.{store}.type=PEM",
                )
            )
    chain, key = "ssl.keystore.certificate.chain", "ssl.keystore.key"
    if (chain in properties) != (key in properties):
        given, missing = (chain, key) if chain in properties else (key, chain)
        problems.append(Problem(f"needs '{missing}'", given))
    for name in ("ssl_truststore_location", "ssl_keystore_location"):
        values[name] = values.get(name) or None
    return problems


def _login(properties: Mapping[str, str], values: dict[str, Any]) -> list[Problem]:
    if not str(values.get("security_protocol", "")).startswith("SASL_"):
        values.pop("sasl_mechanism", None)
        return []
    mechanism = properties.get("sasl.mechanism", "GSSAPI").strip().upper()
    values["sasl_mechanism"] = mechanism
    if mechanism not in MECHANISMS:
        default = "" if "sasl.mechanism" in properties else " (Kafka's default)"
        return [
            Problem(f"'{mechanism}'{default} is not supported", "sasl.mechanism", hint="use " + ", ".join(MECHANISMS))
        ]
    if "sasl.jaas.config" not in properties:
        return [Problem("is required with security.protocol=" + values["security_protocol"], "sasl.jaas.config")]
    try:
        values["sasl_username"], values["sasl_password"] = _jaas(properties["sasl.jaas.config"], mechanism)
    except _Malformed as malformed:
        return [Problem(str(malformed), "sasl.jaas.config")]
    return []


_JAAS = re.compile(r"\s*(?P<module>[\w.$]+)\s+(?:required|requisite|sufficient|optional)\b(?P<options>.*?);?\s*", re.S)
_JAAS_OPTION = re.compile(r"""([\w.]+)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|'((?:[^'\\]|\\.)*)'|([^\s;"']+))""", re.S)


def _jaas(text: str, mechanism: str) -> tuple[str, str]:
    """User name and password of a JAAS login module; the module may carry the prefix of a shaded Kafka client.

    Never quotes the text in an error: it holds the password.
    """
    if '=\\"' in text:  # an editor that wants quotes escaped leaves the backslashes in
        text = text.replace('\\"', '"')
    found = _JAAS.fullmatch(text)
    module = "PlainLoginModule" if mechanism == "PLAIN" else "ScramLoginModule"
    expected = f'expected \'org.apache.kafka.common.security.{module} required username="..." password="...";\''
    if found is None:
        raise _Malformed(expected)
    if found["module"].rpartition(".")[2] != module:
        raise _Malformed(f"login module {found['module']} does not belong to {mechanism}: {expected}")
    options = {}
    for name, double, single, bare in _JAAS_OPTION.findall(found["options"]):
        options[name] = re.sub(r"\\(.)", r"\1", double or single) if double or single else bare
    for name in ("username", "password"):
        if name not in options:
            raise _Malformed(f"has no {name}: {expected}")
    return options["username"], options["password"]


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
