"""The options of the ``avro-confluent`` format."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import timedelta
from typing import ClassVar

from penstock.errors import Problem
from penstock.formats.avro.options import check_record_schema
from penstock.formats.avro_confluent.settings import (
    PROPERTIES,
    URLS,
    RegistryAddress,
    RegistrySettings,
    check_addresses,
    read_settings,
)
from penstock.options import BOOLEAN, DURATION, MAP, TEXT, OptionSet, Properties, Rule, opt

_STORE = "JKS or PKCS12; a PEM file with the property `schema.registry.ssl.{}.type` = `PEM`."


def _check_addresses(options: AvroConfluentOptions) -> Iterator[Problem]:
    yield from check_addresses(options.addresses)


def _check_client(options: AvroConfluentOptions) -> Iterator[Problem]:
    yield from options._build_settings((), 0)[1]


def _check_timeout(options: AvroConfluentOptions) -> Iterator[Problem]:
    if options.request_timeout <= timedelta(0):
        yield Problem("expected a duration greater than 0", "request.timeout")


@dataclass(frozen=True, kw_only=True)
class AvroConfluentOptions(OptionSet):
    """Options of ``avro-confluent``, with Flink's names and defaults, and two more: ``timestamp_mapping.legacy`` and
    ``request.timeout``."""

    addresses: tuple[RegistryAddress, ...] = opt(
        "url",
        URLS,
        aliases=("schema-registry.url",),
        doc="The address of the schema registry. Several addresses are separated by commas and tried in turn.",
        example="http://localhost:8081",
    )
    subject: str | None = opt(
        "subject",
        TEXT,
        default=None,
        default_text="in sinks of `kafka` with one topic: the topic and `-value` or `-key`",
        aliases=("schema-registry.subject",),
        doc="The subject under which the schema of written messages is registered or looked up.",
    )
    schema: str | None = opt(
        "schema",
        TEXT,
        default=None,
        aliases=("schema-registry.schema",),
        doc="The Avro schema, as JSON, for reading, writing and registration; by default it is derived from the "
        "columns. Fields and columns are paired by name.",
    )
    auto_register: bool = opt(
        "auto.register.schemas",
        BOOLEAN,
        default=True,
        doc="Whether the schema of written messages is registered. If not, it must be registered already.",
    )
    keystore_location: str | None = opt(
        "ssl.keystore.location",
        TEXT,
        default=None,
        doc="File with the client's certificate: " + _STORE.format("keystore"),
    )
    keystore_password: str | None = opt(
        "ssl.keystore.password", TEXT, default=None, doc="Password of that file.", secret=True
    )
    truststore_location: str | None = opt(
        "ssl.truststore.location",
        TEXT,
        default=None,
        doc="File with the certificates to trust, by default the system's: " + _STORE.format("truststore"),
    )
    truststore_password: str | None = opt(
        "ssl.truststore.password", TEXT, default=None, doc="Password of that file.", secret=True
    )
    basic_source: str | None = opt(
        "basic-auth.credentials-source",
        TEXT,
        default=None,
        doc="The source of user and password: `USER_INFO`, or `URL` if they are part of the address.",
    )
    basic_login: str | None = opt(
        "basic-auth.user-info", TEXT, default=None, doc="User and password.", example="user:password", secret=True
    )
    bearer_source: str | None = opt(
        "bearer-auth.credentials-source", TEXT, default=None, doc="The source of the token: `STATIC_TOKEN`."
    )
    bearer_token: str | None = opt("bearer-auth.token", TEXT, default=None, doc="The token.", secret=True)
    properties: Properties = opt(
        "properties",
        MAP,
        default=(),
        doc="Properties of Confluent's client, by their names there; also one by one, as `properties.<name>`. Options "
        f"win over them. They are {', '.join(f'`{name}`' for name in PROPERTIES)} and `schema.registry.ssl.*`, which "
        "are the same as Kafka's.",
        secret=True,
    )
    legacy_timestamps: bool = opt(
        "timestamp_mapping.legacy",
        BOOLEAN,
        default=True,
        doc="Map timestamps as this option of `avro` does. Flink has it only for `avro`.",
    )
    request_timeout: timedelta = opt(
        "request.timeout",
        DURATION,
        default=timedelta(minutes=2),
        doc="How long requests to the registry are repeated before the batch fails. Not in Flink.",
    )
    settings: RegistrySettings = field(init=False, repr=False, compare=False)

    rules: ClassVar[tuple[Rule, ...]] = (check_record_schema, _check_addresses, _check_client, _check_timeout)

    def __post_init__(self) -> None:
        timeout = self.request_timeout / timedelta(milliseconds=1)
        object.__setattr__(self, "settings", self._build_settings(self.addresses, timeout)[0])

    def _build_settings(
        self, addresses: tuple[RegistryAddress, ...], timeout_ms: float
    ) -> tuple[RegistrySettings, list[Problem]]:
        properties = ("basic-auth.", "bearer-auth.", "ssl.")
        given = {
            each.key: getattr(self, name)
            for name, each in self.declared_options().items()
            if each.key.startswith(properties)
        }
        own = {key: value for key, value in given.items() if value is not None}
        return read_settings(addresses, dict(self.properties), timeout_ms, own)
