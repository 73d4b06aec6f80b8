"""Connectors and formats by name: the built-in ones by a literal table, others by entry point."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import Any, Generic, TypeVar

from penstock.errors import PenstockError, PluginError
from penstock.options import nearest
from penstock.spi.formats import Format
from penstock.spi.tables import Connector

_T = TypeVar("_T")

#: Connectors of Flink, of Flink CDC and of the services around them: their names are not misspellings of ours.
_FLINK = """
adb3.0 clickhouse db2 db2-cdc datagen dynamodb doris elasticsearch elasticsearch-6 elasticsearch-7 filesystem firehose
fluss hbase-1.4 hbase-2.2 hive hologres hudi iceberg jdbc kinesis lindorm maxcompute mongodb mongodb-cdc mysql mysql-cdc
oceanbase odps opensearch opensearch-2 oracle oracle-cdc ots paimon pinot postgres-cdc prometheus pulsar rabbitmq rds
redis sls sqlserver-cdc starrocks tidb-cdc upsert-kafka values vitess-cdc
"""


@dataclass(frozen=True)
class Registry(Generic[_T]):
    """Finds one kind of plug-in by its lower-case identifier. Nothing is imported before it is asked for."""

    kind: str
    group: str
    protocol: type[_T]
    built_in: tuple[tuple[str, str], ...]

    def names(self) -> tuple[str, ...]:
        """Every identifier that can be asked for, sorted."""
        return tuple(sorted({name for name, _ in self.built_in} | {entry.name.lower() for entry in self._entries()}))

    def get(self, identifier: str) -> _T:
        """The plug-in of that name. Raises PluginError when it is missing, ambiguous, broken or of another kind."""
        name = identifier.strip().lower()
        found = [(path, "penstock") for known, path in self.built_in if known == name]
        found += [(entry.value, _distribution(entry)) for entry in self._entries() if entry.name.lower() == name]
        if not found:
            hint = nearest(name, self.names())
            raise PluginError(
                f"no {self.kind} '{identifier}'; known: {', '.join(self.names())}" + (f" ({hint})" if hint else "")
            )
        if len(found) > 1:
            sources = " and ".join(source for _, source in found)
            raise PluginError(f"{self.kind} '{identifier}' is offered by {sources}; uninstall one of them")
        return self._load(name, *found[0])

    def _load(self, name: str, path: str, source: str) -> _T:
        try:
            module, _, attribute = path.partition(":")
            loaded = getattr(importlib.import_module(module), attribute)
        except PenstockError:
            raise
        except Exception as error:  # a plug-in may fail in any way; the cause is kept
            raise PluginError(f"{self.kind} '{name}' of {source} failed to load: {error}") from error
        plugin: Any = loaded() if isinstance(loaded, type) else loaded
        if not isinstance(plugin, self.protocol):
            raise PluginError(f"'{path}' of {source} is not a {self.kind}: it lacks part of {self.protocol.__name__}")
        return plugin

    def _entries(self) -> tuple[EntryPoint, ...]:
        return _entries(self.group)


def unknown_connector(name: str, known: Sequence[str], shown: str = "") -> tuple[str, str]:
    """Why ``name``, ``shown`` as it was written, is none of the ``known`` connectors, and a hint."""
    shown = shown or f"'{name}'"
    listed = f"there are {', '.join(known)}"
    if name in _FLINK.split():
        return f"there is no connector {shown} yet", listed
    return f"there is no connector {shown}", nearest(name, known) or listed


@cache
def _entries(group: str) -> tuple[EntryPoint, ...]:
    return tuple(entry_points(group=group))


def _distribution(entry: EntryPoint) -> str:
    return entry.dist.name if entry.dist is not None else entry.value


connectors: Registry[Connector] = Registry(
    "connector",
    "penstock.connectors",
    Connector,  # type: ignore[type-abstract]
    (
        ("blackhole", "penstock.connectors.blackhole.factory:BlackholeConnector"),
        ("kafka", "penstock.connectors.kafka.factory:KafkaConnector"),
        ("postgres", "penstock.connectors.postgres.factory:PostgresConnector"),
        ("print", "penstock.connectors.print.factory:PrintConnector"),
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
        ("debezium-json", "penstock.formats.debezium_json.factory:FORMAT"),
        ("json", "penstock.formats.json.factory:FORMAT"),
        ("maxwell-json", "penstock.formats.maxwell_json.factory:FORMAT"),
        ("ogg-json", "penstock.formats.ogg_json.factory:FORMAT"),
        ("protobuf", "penstock.formats.protobuf.factory:FORMAT"),
        ("raw", "penstock.formats.raw.factory:FORMAT"),
    ),
)
