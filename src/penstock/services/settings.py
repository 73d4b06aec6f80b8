"""A broker's configuration: what penstock decides, what the caller overrides, and how Java reads it."""

from __future__ import annotations

import base64
import hashlib
import re
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from penstock.errors import ServiceError
from penstock.services.certificates import Certificates

#: The only address that a development broker listens on.
HOST = "127.0.0.1"

#: What goes to a broker's log: warnings and errors, to standard error (log4j 2).
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

# Levels that are laid down when the storage is formatted, and are no settings of the running broker.
_FEATURES = frozenset(
    {
        "eligible.leader.replicas.version",
        "group.version",
        "kraft.version",
        "metadata.version",
        "share.version",
        "streams.version",
        "transaction.version",
    }
)
_PROTOCOLS = ("SSL", "SASL_PLAINTEXT", "SASL_SSL")
_MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER")
_CERTIFICATE_NAME = re.compile(r"[A-Za-z0-9_-]+")


@dataclass(frozen=True)
class Security:
    """How clients reach the brokers when not in plain text.

    ``protocol`` is SSL, SASL_PLAINTEXT or SASL_SSL, ``mechanism`` PLAIN, SCRAM-SHA-256, SCRAM-SHA-512 or OAUTHBEARER,
    and ``users`` maps names to passwords (never shown). With OAUTHBEARER everybody comes in who presents a token in his
    name, signed or not, and passwords are not looked at. ``certificates`` are names of clients that get one; with any,
    nobody comes in without. The brokers and the controller talk in plain text among themselves, on the same machine.
    """

    protocol: str = "SASL_SSL"
    mechanism: str = "SCRAM-SHA-512"
    users: Mapping[str, str] = field(default_factory=dict, repr=False)
    certificates: Sequence[str] = ()

    def __post_init__(self) -> None:
        if self.protocol not in _PROTOCOLS:
            raise ServiceError(
                f"security protocol '{self.protocol}' is unknown; expected one of {', '.join(_PROTOCOLS)}"
            )
        if self.sasl and self.mechanism not in _MECHANISMS:
            raise ServiceError(
                f"SASL mechanism '{self.mechanism}' is unknown; expected one of {', '.join(_MECHANISMS)}"
            )
        if self.sasl and not self.users:
            raise ServiceError(f"{self.protocol} without users lets nobody in; give at least one name and password")
        if self.certificates and not self.tls:
            raise ServiceError(f"{self.protocol} has no certificates; use SSL or SASL_SSL")
        for name in self.certificates:
            if not _CERTIFICATE_NAME.fullmatch(name):
                raise ServiceError(f"'{name}' cannot be a client's name; use letters, digits, '_' and '-'")

    @property
    def sasl(self) -> bool:
        return self.protocol.startswith("SASL_")

    @property
    def tls(self) -> bool:
        return self.protocol.endswith("SSL")


@dataclass(frozen=True)
class NodePorts:
    """The TCP ports of one node. ``client`` equals ``internal`` when clients come in by the nodes' own listener."""

    client: int
    internal: int
    controller: int


def feature_levels(properties: Mapping[str, str]) -> dict[str, str]:
    """Those of ``properties`` that are feature levels (``transaction.version`` and the like)."""
    return {key: value for key, value in properties.items() if key in _FEATURES}


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
    """The whole configuration of node ``node``, by Kafka's names. ``properties`` win over everything but features.

    ``advertised`` is the port that clients are told instead of the one that the node listens on.
    """
    replicas, in_sync = (3, 2) if len(nodes) >= 3 else (1, 1)
    ports = nodes[node]
    separate = ports.client != ports.internal
    internal = "INTERNAL" if separate else "PLAINTEXT"
    listeners = [f"{internal}://{HOST}:{ports.internal}"]
    told = list(listeners)
    protocols = [f"{internal}:PLAINTEXT", "CONTROLLER:PLAINTEXT"]
    if separate:
        listeners.append(f"CLIENT://{HOST}:{ports.client}")
        told.append(f"CLIENT://{HOST}:{advertised or ports.client}")
        protocols.append(f"CLIENT:{security.protocol if security else 'PLAINTEXT'}")
    settings = {
        "process.roles": "broker,controller",
        "node.id": str(node),
        "controller.quorum.voters": ",".join(f"{voter}@{HOST}:{each.controller}" for voter, each in nodes.items()),
        "listeners": ",".join([*listeners, f"CONTROLLER://{HOST}:{ports.controller}"]),
        "advertised.listeners": ",".join(told),
        "controller.listener.names": "CONTROLLER",
        "inter.broker.listener.name": internal,
        "listener.security.protocol.map": ",".join(protocols),
        "log.dirs": str(data),
        "default.replication.factor": str(replicas),
        "min.insync.replicas": str(in_sync),
        # A handful of partitions for Kafka's own topics: each costs time at start and a folder of files.
        "offsets.topic.num.partitions": "4",
        "offsets.topic.replication.factor": str(replicas),
        "transaction.state.log.num.partitions": "4",
        "transaction.state.log.replication.factor": str(replicas),
        "transaction.state.log.min.isr": str(in_sync),
        "share.coordinator.state.topic.num.partitions": "1",
        "share.coordinator.state.topic.replication.factor": str(replicas),
        "share.coordinator.state.topic.min.isr": str(in_sync),
        "group.initial.rebalance.delay.ms": "0",
        # Whatever is written stays: Kafka goes by the records' timestamps, and would delete what happened more than a
        # week ago within minutes. In hours, which give way to the caller's minutes and milliseconds.
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
    settings: dict[str, str] = {}
    if certificates:
        settings |= {
            "ssl.keystore.type": "PKCS12",
            "ssl.keystore.location": str(certificates.keystore),
            "ssl.keystore.password": certificates.password,
        }
    listener = "listener.name.client"
    if certificates and security.certificates:
        settings |= {
            # A listener that also asks for a login would not ask for a certificate by the general setting.
            f"{listener}.ssl.client.auth": "required",
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(certificates.authority),
        }
    if security.sasl:
        mechanism = security.mechanism.lower()
        settings["sasl.enabled.mechanisms"] = security.mechanism
        settings[f"{listener}.{mechanism}.sasl.jaas.config"] = _jaas(security)
    return settings


def _jaas(security: Security) -> str:
    if security.mechanism == "OAUTHBEARER":  # and with it, by default, Kafka's validator of unsigned tokens
        return "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required;"
    if security.mechanism != "PLAIN":
        return "org.apache.kafka.common.security.scram.ScramLoginModule required;"
    users = " ".join(f"user_{name}={_quoted(password)}" for name, password in security.users.items())
    return f"org.apache.kafka.common.security.plain.PlainLoginModule required {users};"


def scram_credentials(security: Security) -> list[str]:
    """The users as StorageTool takes them: salted and hashed (RFC 5802), so that no password is on a command line."""
    if not (security.sasl and security.mechanism.startswith("SCRAM-")):
        return []
    digest = security.mechanism.removeprefix("SCRAM-").replace("-", "").lower()
    rounds = 8192
    credentials = []
    for name, password in security.users.items():
        salt = secrets.token_bytes(24)
        salted = hashlib.pbkdf2_hmac(digest, password.encode(), salt, rounds)
        written = ",".join(
            (
                f"name={name}",
                f"salt={base64.b64encode(salt).decode()}",
                f"saltedpassword={base64.b64encode(salted).decode()}",
                f"iterations={rounds}",
            )
        )
        credentials.append(f"{security.mechanism}=[{written}]")
    return credentials


def client_settings(
    bootstrap: str, security: Security | None, certificates: Certificates | None, user: str | None
) -> dict[str, str]:
    """What a client has to set, by the names of Kafka's Java client, to come in as ``user`` (by default the first).

    Where a certificate is wanted too, it is that of the same name, or else the first.
    """
    settings = {"bootstrap.servers": bootstrap}
    if security:
        settings["security.protocol"] = security.protocol
    if certificates:
        settings |= {"ssl.truststore.type": "PEM", "ssl.truststore.location": str(certificates.authority)}
    if certificates and security and security.certificates:
        named = user if user and user in security.certificates else security.certificates[0]
        settings |= {
            "ssl.keystore.type": "PKCS12",
            "ssl.keystore.location": str(certificates.client(named)),
            "ssl.keystore.password": certificates.password,
        }
    if security and security.sasl:
        name = next(iter(security.users)) if user is None else user
        if name not in security.users:
            raise ServiceError(f"the cluster has no user '{name}'; it has {', '.join(security.users)}")
        settings |= {"sasl.mechanism": security.mechanism, "sasl.jaas.config": _client_jaas(security, name)}
    return settings


def _client_jaas(security: Security, name: str) -> str:
    package = "org.apache.kafka.common.security"
    if security.mechanism == "OAUTHBEARER":
        claim = f"unsecuredLoginStringClaim_sub={_quoted(name)}"
        return f"{package}.oauthbearer.OAuthBearerLoginModule required {claim};"
    module = "plain.Plain" if security.mechanism == "PLAIN" else "scram.Scram"
    login = f"username={_quoted(name)} password={_quoted(security.users[name])}"
    return f"{package}.{module}LoginModule required {login};"


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def render(settings: Mapping[str, str]) -> str:
    """A Java properties file: Latin-1, with backslashes, line ends and everything beyond ASCII escaped."""
    return "".join(f"{_escaped(key)}={_escaped(value)}\n" for key, value in settings.items())


def _escaped(text: str) -> str:
    units = text.replace("\\", "\\\\").replace("\n", "\\n").replace("\r", "\\r").encode("utf-16-be")
    pairs: Sequence[int] = [units[i] << 8 | units[i + 1] for i in range(0, len(units), 2)]
    escaped = "".join(chr(unit) if 0x20 <= unit < 0x7F else f"\\u{unit:04x}" for unit in pairs)
    return escaped.replace(" ", "\\ ", 1) if escaped.startswith(" ") else escaped
