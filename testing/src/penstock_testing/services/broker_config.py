"""A broker's configuration: penstock's own settings, the caller's, and the file that Java reads."""

from __future__ import annotations

import base64
import hashlib
import re
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from penstock.errors import ServiceError
from penstock_testing.services.certificates import Certificates

#: The only address that a development broker listens on.
HOST = "127.0.0.1"

#: Brokers log warnings and errors to standard error (log4j 2).
LOGGING = """\
status = error
rootLogger.level = warn
rootLogger.appenderRef.console.ref = console
appender.console.type = Console
appender.console.name = console
appender.console.target = SYSTEM_ERR
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = %d{ISO8601} %-5p %c{1} %m%n
"""

# Feature levels are fixed when the storage is formatted, and are not settings of the running broker.
_FEATURE = re.compile(r"(eligible\.leader\.replicas|group|kraft|metadata|share|streams|transaction)\.version")
_PROTOCOLS = ("SSL", "SASL_PLAINTEXT", "SASL_SSL")
_MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER")
_CERTIFICATE_NAME = re.compile(r"[A-Za-z0-9_-]+")


@dataclass(frozen=True)
class Security:
    """How clients connect to the brokers if not in plain text.

    ``protocol`` is SSL, SASL_PLAINTEXT or SASL_SSL, ``mechanism`` PLAIN, SCRAM-SHA-256, SCRAM-SHA-512 or OAUTHBEARER,
    and ``users`` maps names to passwords (never shown). OAUTHBEARER accepts every token, signed or not, and ignores
    passwords. ``certificates`` are names of clients that get one; if there are any, every client needs one. Brokers and
    controllers use plain text among themselves, on the same machine.
    """

    protocol: str = "SASL_SSL"
    mechanism: str = "SCRAM-SHA-512"
    users: Mapping[str, str] = field(default_factory=dict, repr=False)
    certificates: Sequence[str] = ()

    def __post_init__(self) -> None:
        for title, given, known in (
            ("security protocol", self.protocol, _PROTOCOLS),
            ("SASL mechanism", self.mechanism, _MECHANISMS),
        ):
            if given not in known:
                raise ServiceError(f"{title} '{given}' is unknown; expected one of {', '.join(known)}")
        if self.sasl and not self.users:
            raise ServiceError(f"{self.protocol} without users accepts no login; give at least one name and password")
        if self.certificates and not self.tls:
            raise ServiceError(f"{self.protocol} has no certificates; use SSL or SASL_SSL")
        for name in self.certificates:
            if not _CERTIFICATE_NAME.fullmatch(name):
                raise ServiceError(f"'{name}' cannot be the name of a client; use letters, digits, '_' and '-'")

    @property
    def sasl(self) -> bool:
        return self.protocol.startswith("SASL_")

    @property
    def tls(self) -> bool:
        return self.protocol.endswith("SSL")


@dataclass(frozen=True)
class NodePorts:
    """The TCP ports of one node. ``client`` equals ``internal`` when clients and nodes share a listener."""

    client: int
    internal: int
    controller: int


def feature_levels(properties: Mapping[str, str]) -> dict[str, str]:
    """The feature levels among ``properties`` (``transaction.version``, for example)."""
    return {key: value for key, value in properties.items() if _FEATURE.fullmatch(key)}


def node_settings(
    node: int,
    nodes: Mapping[int, NodePorts],
    data: Path,
    security: Security | None,
    certificates: Certificates | None,
    properties: Mapping[str, str],
    *,
    advertised: int | None = None,
) -> dict[str, str]:
    """The configuration of a node by Kafka's names. ``properties`` override everything but feature levels.

    ``advertised`` is the port that clients connect to instead of the one that the node listens on.
    """
    replicas, in_sync = (3, 2) if len(nodes) >= 3 else (1, 1)
    ports = nodes[node]
    separate = ports.client != ports.internal
    internal = "INTERNAL" if separate else "PLAINTEXT"
    listeners = [f"{internal}://{HOST}:{ports.internal}"]
    shown = list(listeners)
    protocols = [f"{internal}:PLAINTEXT", "CONTROLLER:PLAINTEXT"]
    if separate:
        listeners.append(f"CLIENT://{HOST}:{ports.client}")
        shown.append(f"CLIENT://{HOST}:{advertised or ports.client}")
        protocols.append(f"CLIENT:{security.protocol if security else 'PLAINTEXT'}")
    settings = {
        "process.roles": "broker,controller",
        "node.id": str(node),
        "controller.quorum.voters": ",".join(f"{voter}@{HOST}:{each.controller}" for voter, each in nodes.items()),
        "listeners": ",".join([*listeners, f"CONTROLLER://{HOST}:{ports.controller}"]),
        "advertised.listeners": ",".join(shown),
        "controller.listener.names": "CONTROLLER",
        "inter.broker.listener.name": internal,
        "listener.security.protocol.map": ",".join(protocols),
        "log.dirs": str(data),
        "default.replication.factor": str(replicas),
        "min.insync.replicas": str(in_sync),
        # Few partitions for Kafka's own topics: each costs time at the start and a folder of files.
        "offsets.topic.num.partitions": "4",
        "offsets.topic.replication.factor": str(replicas),
        "transaction.state.log.num.partitions": "4",
        "transaction.state.log.replication.factor": str(replicas),
        "transaction.state.log.min.isr": str(in_sync),
        "share.coordinator.state.topic.num.partitions": "1",
        "share.coordinator.state.topic.replication.factor": str(replicas),
        "share.coordinator.state.topic.min.isr": str(in_sync),
        "group.initial.rebalance.delay.ms": "0",
        # Kafka's default deletes records whose timestamps are more than a week old within minutes. Set in hours, so
        # that the caller's minutes and milliseconds override it.
        "log.retention.hours": "-1",
        "log.cleaner.dedupe.buffer.size": str(8 << 20),  # of the 512 MB heap; Kafka's default takes a quarter of it
        "num.network.threads": "2",
        "num.io.threads": "4",
    }
    if security:
        settings |= _client_listener(security, certificates)
    features = feature_levels(properties)
    return settings | {key: value for key, value in properties.items() if key not in features}


def _client_listener(security: Security, certificates: Certificates | None) -> dict[str, str]:
    listener = "listener.name.client"
    settings = certificates.key() if certificates else {}
    if certificates and security.certificates:
        # A listener with SASL ignores the general setting.
        settings |= {f"{listener}.ssl.client.auth": "required", **certificates.trust}
    if security.sasl:
        jaas = f"{_login_module(security)} required"
        if security.mechanism == "PLAIN":
            jaas += "".join(f" user_{name}={_quote(password)}" for name, password in security.users.items())
        settings["sasl.enabled.mechanisms"] = security.mechanism
        settings[f"{listener}.{security.mechanism.lower()}.sasl.jaas.config"] = f"{jaas};"
    return settings


def _login_module(security: Security) -> str:
    """Of OAUTHBEARER, the default module accepts unsigned tokens."""
    name = {"OAUTHBEARER": "oauthbearer.OAuthBearer", "PLAIN": "plain.Plain"}.get(security.mechanism, "scram.Scram")
    return f"org.apache.kafka.common.security.{name}LoginModule"


def scram_credentials(security: Security | None) -> list[str]:
    """The users as StorageTool takes them, salted and hashed (RFC 5802): no password is on a command line."""
    if not (security and security.sasl and security.mechanism.startswith("SCRAM-")):
        return []
    digest = security.mechanism.removeprefix("SCRAM-").replace("-", "").lower()
    rounds = 8192
    credentials = []
    for name, password in security.users.items():
        salt = secrets.token_bytes(24)
        salted = hashlib.pbkdf2_hmac(digest, password.encode(), salt, rounds)
        hashed = f"salt={base64.b64encode(salt).decode()},saltedpassword={base64.b64encode(salted).decode()}"
        credentials.append(f"{security.mechanism}=[name={name},{hashed},iterations={rounds}]")
    return credentials


def client_settings(
    bootstrap: str, security: Security | None, certificates: Certificates | None, user: str | None
) -> dict[str, str]:
    """A client's settings by the names of Kafka's Java client, to log in as ``user`` (by default the first).

    If clients need a certificate, it is the one with the user's name, or else the first.
    """
    settings = {"bootstrap.servers": bootstrap}
    if security:
        settings["security.protocol"] = security.protocol
    if certificates:
        settings |= certificates.trust
    if certificates and security and security.certificates:
        named = user if user and user in security.certificates else security.certificates[0]
        settings |= certificates.key(named)
    if security and security.sasl:
        name = next(iter(security.users)) if user is None else user
        if name not in security.users:
            raise ServiceError(f"the cluster has no user '{name}'; it has {', '.join(security.users)}")
        if security.mechanism == "OAUTHBEARER":
            login = f"unsecuredLoginStringClaim_sub={_quote(name)}"
        else:
            login = f"username={_quote(name)} password={_quote(security.users[name])}"
        jaas = f"{_login_module(security)} required {login};"
        settings |= {"sasl.mechanism": security.mechanism, "sasl.jaas.config": jaas}
    return settings


def _quote(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def render(settings: Mapping[str, str]) -> str:
    """A Java properties file in Latin-1: backslashes, line ends and all characters beyond ASCII are escaped."""
    return "".join(f"{_escape(key)}={_escape(value)}\n" for key, value in settings.items())


def _escape(text: str) -> str:
    units = text.replace("\\", "\\\\").replace("\n", "\\n").replace("\r", "\\r").encode("utf-16-be")
    pairs: Sequence[int] = [units[i] << 8 | units[i + 1] for i in range(0, len(units), 2)]
    escaped = "".join(chr(unit) if 0x20 <= unit < 0x7F else f"\\u{unit:04x}" for unit in pairs)
    return escaped.replace(" ", "\\ ", 1) if escaped.startswith(" ") else escaped
