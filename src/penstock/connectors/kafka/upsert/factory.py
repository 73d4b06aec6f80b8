"""The ``upsert-kafka`` connector: from a table definition to a scan or a sink."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from penstock.connectors.kafka.factory import build_scan, build_sink
from penstock.connectors.kafka.sink.spec import KafkaSinkSpec
from penstock.connectors.kafka.source.spec import KafkaScanSpec
from penstock.connectors.kafka.table.metadata import READABLE
from penstock.connectors.kafka.upsert.options import UpsertKafkaSinkOptions, UpsertKafkaSourceOptions
from penstock.connectors.kafka.upsert.resolution import UpsertResolution
from penstock.options import OptionSet
from penstock.spi import TableDefinition


class UpsertKafkaConnector:
    """Tables over Kafka topics with one row for each key: a message inserts or replaces the row of its key, and one
    without a value deletes it. Rules of Flink's ``UpsertKafkaDynamicTableFactory``; see [the
    guide](../upsert-kafka.md)."""

    identifier = "upsert-kafka"
    options: Mapping[str, type[OptionSet]] = {"Source": UpsertKafkaSourceOptions, "Sink": UpsertKafkaSinkOptions}
    runtime = "penstock.connectors.kafka.spark.runtime:KafkaRuntime"
    metadata = READABLE

    def scan(self, table: TableDefinition) -> KafkaScanSpec:
        """How ``table`` is read. Raises OptionsError or UnsupportedError with every problem found."""
        return build_scan(UpsertResolution(table, writes=False))

    def sink(self, table: TableDefinition) -> KafkaSinkSpec:
        """How ``table`` is written. Raises OptionsError or UnsupportedError with every problem found."""
        resolution = UpsertResolution(table, writes=True)
        return replace(build_sink(resolution), buffer_rows=resolution.buffer_rows)
