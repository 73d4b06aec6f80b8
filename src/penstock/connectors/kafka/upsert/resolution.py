"""From the definition of an ``upsert-kafka`` table to the equivalent options of the ``kafka`` connector."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar, cast

from penstock.connectors.kafka.table.metadata import MetadataColumn
from penstock.connectors.kafka.table.options import (
    KafkaSinkOptions,
    KafkaSourceOptions,
    KafkaTableOptions,
    StartupMode,
)
from penstock.connectors.kafka.table.resolution import Resolution
from penstock.connectors.kafka.upsert.options import UpsertKafkaSinkOptions, UpsertKafkaSourceOptions
from penstock.options import Properties
from penstock.spi import Column, Surface

_Options = TypeVar("_Options", bound=KafkaTableOptions)

_PRIMARY_KEY = "PRIMARY KEY"
_NOT_HERE = "connector 'upsert-kafka' does not have this option"
_START = "it is read from the beginning, since the last message of each key may be anywhere; leave it out"

#: Options of ``kafka`` that ``upsert-kafka`` does not have, as in Flink, and what to do instead.
_ABSENT = {
    "format": "write 'value.format'",
    "key.fields": "the key is made of the columns of PRIMARY KEY; leave it out",
    "value.fields-prefix": "write 'key.fields-prefix'",
    "scan.startup.mode": _START,
    "scan.startup.specific-offsets": _START,
    "scan.startup.timestamp-millis": _START,
    "scan.header-filter": "a message that is left out would not replace or delete its row; leave it out",
    "sink.partitioner": "a message's partition follows from its key; leave it out",
    "sink.semantic": "write 'sink.delivery-guarantee'",
}


class UpsertResolution(Resolution):
    """Resolves a table of ``upsert-kafka``: its key is the primary key, and reading starts at the beginning."""

    declared = (UpsertKafkaSourceOptions, UpsertKafkaSinkOptions)
    format_options = ("value.format", "key.format")
    key_option = _PRIMARY_KEY
    upserts = True
    absent = {**Resolution.absent, **{key: (_NOT_HERE, hint) for key, hint in _ABSENT.items()}}  # noqa: RUF012
    #: Most keys whose last change a writing task holds back.
    buffer_rows = 0

    def _check_unknown_options(self) -> None:
        super()._check_unknown_options()
        if not self.table.primary_key:
            reason = "is required: its columns are a message's key, which says which row is replaced or deleted"
            yaml = self.table.surface is Surface.YAML
            add = "add PRIMARY KEY (..) NOT ENFORCED to the columns"
            self.problem(reason, _PRIMARY_KEY, "name the columns in a transform: 'primary-keys: id'" if yaml else add)

    def _bind(self, cls: type[_Options], given: Mapping[str, str], properties: Properties) -> _Options:
        key = {"key_fields": self.table.primary_key}
        if issubclass(cls, KafkaSinkOptions):
            sink = UpsertKafkaSinkOptions.from_text(given, self.origin, properties=properties)
            if sink.buffer_interval:
                self.buffer_rows = sink.buffer_rows
            return sink.as_kafka(cls, **key)
        source = UpsertKafkaSourceOptions.from_text(given, self.origin, properties=properties)
        return cast("_Options", source.as_kafka(KafkaSourceOptions, **key, startup_mode=StartupMode.EARLIEST))

    def _refuses_changes(self, name: str, identifier: str) -> bool:
        part = "keys" if name == "key.format" else "values"
        reason = (
            f"connector 'upsert-kafka' does not take '{identifier}' as a format of {part}: it is a format of changes"
        )
        self.problem(reason, name, "for example 'json'; connector 'kafka' reads and writes formats of changes")
        return True

    def _resolve_writable(self, column: Column, options: KafkaTableOptions | None) -> MetadataColumn | None:
        key = column.key or column.name
        if key.startswith("__raw_"):
            reason = f"metadata '{key}' cannot be written: the formats make a message's key and value"
            self._add_column_problem(column.name, reason, "declare the column VIRTUAL")
            return None
        return super()._resolve_writable(column, options)
