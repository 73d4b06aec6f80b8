"""Connectors and formats by name: the built-in ones from a literal table, others from entry points."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import Any, Generic, TypeVar

from penstock.errors import PenstockError, PluginError, nearest
from penstock.spi.plugin.formats import Format
from penstock.spi.plugin.tables import Connector

_T = TypeVar("_T")

#: Connectors of Flink, Flink CDC and related services, whose names are not treated as misspellings.
_FLINK = """
adb3.0 clickhouse db2 db2-cdc dynamodb doris elasticsearch elasticsearch-6 elasticsearch-7 firehose
fluss hbase-1.4 hbase-2.2 hive hudi iceberg jdbc kinesis lindorm maxcompute mongodb mongodb-cdc mysql mysql-cdc
oceanbase odps opensearch opensearch-2 oracle oracle-cdc ots paimon pinot postgres-cdc prometheus pulsar rabbitmq rds
redis sls sqlserver-cdc starrocks tidb-cdc values vitess-cdc
"""


@dataclass(frozen=True)
class Registry(Generic[_T]):
    """Finds plug-ins of a protocol by their lower-case identifiers, and imports each on first use."""

    noun: str
    group: str
    protocol: type[_T]
    built_in: tuple[tuple[str, str], ...]

    def names(self) -> tuple[str, ...]:
        """Every known identifier, sorted."""
        return tuple(sorted({entry.name.lower() for entry in self._entries()}))

    def get(self, identifier: str) -> _T:
        """The plug-in of that name. Raises PluginError when it is missing, ambiguous, broken or of another protocol."""
        name = identifier.strip().lower()
        found = [entry for entry in self._entries() if entry.name.lower() == name]
        if not found:
            hint = nearest(name, self.names())
            raise PluginError(
                f"no {self.noun} '{identifier}'; known: {', '.join(self.names())}" + (f" ({hint})" if hint else "")
            )
        sources = [entry.dist.name if entry.dist is not None else "penstock" for entry in found]
        if len(found) > 1:
            raise PluginError(f"{' and '.join(sources)} both offer {self.noun} '{identifier}'; uninstall one of them")
        plugin: _T = _load_plugin(self, found[0], sources[0])
        return plugin

    def load(self, entry: EntryPoint, source: str) -> _T:
        """The plug-in of an entry point of the distribution ``source``. Raises PluginError."""
        try:
            loaded = entry.load()
        except PenstockError:
            raise
        except Exception as error:  # a plug-in may fail in any way; the cause is kept
            raise PluginError(f"{self.noun} '{entry.name}' of {source} failed to load: {error}") from error
        plugin: Any = loaded() if isinstance(loaded, type) else loaded
        if not isinstance(plugin, self.protocol):
            raise PluginError(
                f"'{entry.value}' of {source} is not a {self.noun}: it lacks part of {self.protocol.__name__}"
            )
        return plugin

    def _entries(self) -> tuple[EntryPoint, ...]:
        return (*_make_built_in_entries(self.group, self.built_in), *_entries(self.group))


@cache
def _load_plugin(registry: Registry[Any], entry: EntryPoint, source: str) -> Any:
    """A plug-in, loaded and checked once."""
    return registry.load(entry, source)


def explain_unknown_connector(name: str, known: Sequence[str], shown: str = "") -> tuple[str, str]:
    """The problem that no connector has this ``name``, which the user wrote as ``shown``, and a hint."""
    shown = shown or f"'{name}'"
    listed = f"there are {', '.join(known)}"
    if name == "jdbc":
        return (
            f"there is no connector {shown} yet",
            "'postgres' writes to PostgreSQL, with the same options for the database",
        )
    if name in _FLINK.split():
        return f"there is no connector {shown} yet", listed
    return f"there is no connector {shown}", nearest(name, known) or listed


@cache
def _make_built_in_entries(group: str, built_in: tuple[tuple[str, str], ...]) -> tuple[EntryPoint, ...]:
    return tuple(EntryPoint(name, path, group) for name, path in built_in)


@cache
def _entries(group: str) -> tuple[EntryPoint, ...]:
    return tuple(entry_points(group=group))


connectors: Registry[Connector] = Registry(
    "connector",
    "penstock.connectors",
    Connector,  # type: ignore[type-abstract]
    (
        ("blackhole", "penstock.connectors.blackhole.factory:BlackholeConnector"),
        ("datagen", "penstock.connectors.datagen.factory:DatagenConnector"),
        ("filesystem", "penstock.connectors.filesystem.factory:FilesystemConnector"),
        ("hologres", "penstock.connectors.postgres.hologres.factory:HologresConnector"),
        ("kafka", "penstock.connectors.kafka.factory:KafkaConnector"),
        ("postgres", "penstock.connectors.postgres.factory:PostgresConnector"),
        ("print", "penstock.connectors.print.factory:PrintConnector"),
        ("upsert-kafka", "penstock.connectors.kafka.upsert.factory:UpsertKafkaConnector"),
        ("values", "penstock.connectors.values.factory:ValuesConnector"),
    ),
)

formats: Registry[Format] = Registry(
    "format",
    "penstock.formats",
    Format,  # type: ignore[type-abstract]
    (
        ("avro", "penstock.formats.avro.factory:FORMAT"),
        ("avro-confluent", "penstock.formats.avro_confluent.factory:FORMAT"),
        ("canal-json", "penstock.formats.canal_json.factory:FORMAT"),
        ("csv", "penstock.formats.csv.factory:FORMAT"),
        ("debezium-avro-confluent", "penstock.formats.debezium_avro_confluent.factory:FORMAT"),
        ("debezium-json", "penstock.formats.debezium_json.factory:FORMAT"),
        ("json", "penstock.formats.json.factory:FORMAT"),
        ("maxwell-json", "penstock.formats.maxwell_json.factory:FORMAT"),
        ("ogg-json", "penstock.formats.ogg_json.factory:FORMAT"),
        ("protobuf", "penstock.formats.protobuf.factory:FORMAT"),
        ("raw", "penstock.formats.raw.factory:FORMAT"),
    ),
)
