"""The client properties of a Kafka table, completed by its options and settings."""

from __future__ import annotations

from penstock.options import Properties
from penstock.settings import KerberosSettings

#: Properties for the connector, which its client does not get.
CONNECTOR_PROPERTIES = (
    "auto.commit.interval.ms",
    "commit.offsets.on.checkpoint",
    "enable.auto.commit",
    "flink.partition-discovery.interval-millis",
    "partition.discovery.interval.ms",
    "register.consumer.metrics",
    "register.producer.metrics",
)


def add_group(properties: Properties, group_id: str) -> Properties:
    """The properties with this group, and with ``client.id.prefix`` as the client id where only that is given."""
    given = dict(properties)
    if group_id:
        given["group.id"] = group_id
    if "client.id.prefix" in given:
        given.setdefault("client.id", given["client.id.prefix"])
    return tuple(sorted(given.items()))


def with_login(properties: Properties, kerberos: KerberosSettings | None) -> Properties:
    """The properties with the job's Kerberos login, where they ask for Kerberos and have no login."""
    given = dict(properties)
    asks = given.get("security.protocol", "").strip().upper().startswith("SASL_")
    asks = asks and given.get("sasl.mechanism", "GSSAPI").strip().upper() == "GSSAPI"
    if kerberos is None or kerberos.keytab is None or not asks or "sasl.jaas.config" in given:
        return properties
    keytab, principal = (_quote(each or "") for each in (kerberos.keytab, kerberos.principal))
    module = "com.sun.security.auth.module.Krb5LoginModule"
    given["sasl.jaas.config"] = f"{module} required useKeyTab=true keyTab={keytab} principal={principal};"
    return tuple(sorted(given.items()))


def _quote(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
