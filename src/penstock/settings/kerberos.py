"""Kerberos logins: Flink's ``security.kerberos.login.*``, with its defaults."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from penstock.errors import Problem
from penstock.options import BOOLEAN, TEXT, Codec, OptionSet, Origin, opt

KERBEROS_PREFIX = "security.kerberos.login."
#: The context that Kafka's clients log in with.
KAFKA_CONTEXT = "KafkaClient"


def _parse_names(text: str) -> tuple[str, ...]:
    return tuple(name.strip() for name in text.split(",") if name.strip())


_NAMES = Codec("List<String>", _parse_names, ",".join)


def _check_pair(settings: KerberosSettings) -> Iterator[Problem]:
    if settings.keytab and not settings.principal:
        yield Problem("needs 'security.kerberos.login.principal'", "keytab", hint="name the principal of the keytab")
    if settings.principal and not settings.keytab:
        yield Problem("needs 'security.kerberos.login.keytab'", "principal", hint="name the file with its key")
    if settings.for_kafka and not settings.keytab and not settings.use_ticket_cache:
        hint = "set keytab and principal, or leave it out"
        yield Problem("gives Kafka no way to log in", "use-ticket-cache", hint=hint)


@dataclass(frozen=True, kw_only=True)
class KerberosSettings(OptionSet):
    """For tables with `sasl.mechanism` GSSAPI and without `sasl.jaas.config`."""

    use_ticket_cache: bool = opt(
        "use-ticket-cache",
        BOOLEAN,
        default=True,
        doc="Whether the user's tickets from kinit are used if there is no keytab.",
        example="false",
    )
    keytab: str | None = opt(
        "keytab",
        TEXT,
        default=None,
        doc="File with the key of the principal, on every machine.",
        example="/etc/security/orders.keytab",
    )
    principal: str | None = opt(
        "principal", TEXT, default=None, doc="Principal of the keytab.", example="orders@EXAMPLE.COM"
    )
    contexts: tuple[str, ...] = opt(
        "contexts",
        _NAMES,
        default=(),
        doc=f"The uses of the login, separated by commas; {KAFKA_CONTEXT} is Kafka.",
        example=f"Client,{KAFKA_CONTEXT}",
    )

    rules = (_check_pair,)

    @property
    def for_kafka(self) -> bool:
        """Whether Kafka's clients use this login."""
        return KAFKA_CONTEXT in self.contexts

    def describe(self) -> str:
        """One line for people."""
        return f"{self.principal} by {self.keytab}" if self.keytab else "the user's tickets"


def read_kerberos(given: Mapping[str, str], origin: Origin) -> KerberosSettings | None:
    """The login of Kafka's clients in the given settings, or None.

    Raises OptionsError with every value that cannot be read, or for values that contradict one another.
    """
    if not given:
        return None
    found = KerberosSettings.from_text(given, origin, KERBEROS_PREFIX)
    return found if found.for_kafka else None


def find_kerberos_remarks(given: Mapping[str, str]) -> dict[str, str]:
    """The keys without effect because Kafka is not among the contexts, each with a warning."""
    contexts = f"{KERBEROS_PREFIX}contexts"
    if KAFKA_CONTEXT in _parse_names(given.get(contexts, "")):
        return {}
    return {key: f"'{key}' has no effect: '{contexts}' does not name {KAFKA_CONTEXT}" for key in given}
