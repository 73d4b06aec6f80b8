"""The ``kafka`` connector: from a table definition to a scan or a sink."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from penstock.connectors.kafka.dead_letters import define_table
from penstock.connectors.kafka.sink.partitioners import BUILT_IN, load
from penstock.connectors.kafka.sink.spec import KafkaSinkSpec
from penstock.connectors.kafka.source.spec import KafkaScanSpec
from penstock.connectors.kafka.table.client_properties import add_group
from penstock.connectors.kafka.table.metadata import READABLE, MetadataColumn, with_metadata_types
from penstock.connectors.kafka.table.options import (
    BoundedMode,
    KafkaSinkOptions,
    KafkaSourceOptions,
    StartupMode,
)
from penstock.connectors.kafka.table.resolution import Resolution
from penstock.errors import OptionsError
from penstock.options import OptionSet
from penstock.spi import Column, Guarantee, Surface, TableDefinition, TableFormat, Watermark, formats
from penstock.types import STRING, RowType
from penstock.types.casts import widens

#: The objects of tables of pipelines: the headers of messages, and the name of the table in their keys.
HEADERS, KEY_TABLE = "sink.headers", "key.table"

_NO_COLUMNS = RowType((), nullable=False)


class KafkaConnector:
    """Append-only tables over Kafka topics; rules in the order of Flink's ``KafkaDynamicTableFactory``."""

    identifier = "kafka"
    options: Mapping[str, type[OptionSet]] = {"Source": KafkaSourceOptions, "Sink": KafkaSinkOptions}
    runtime = "penstock.connectors.kafka.spark.runtime:KafkaRuntime"
    metadata = READABLE

    def scan(self, table: TableDefinition) -> KafkaScanSpec:
        """How ``table`` is read. Raises OptionsError or UnsupportedError with every problem found."""
        return build_scan(Resolution(table, writes=False))

    def sink(self, table: TableDefinition) -> KafkaSinkSpec:
        """How ``table`` is written. Raises OptionsError or UnsupportedError with every problem found."""
        resolution = Resolution(table, writes=True)
        partitioner = table.options.get("sink.partitioner", "default").strip()
        if partitioner and partitioner not in BUILT_IN:
            try:
                load(partitioner)
            except ValueError as error:
                hint = f"{', '.join(BUILT_IN[:3])}, or a Python class: package.module.Class (Java's are not loaded)"
                resolution.problem(str(error), "sink.partitioner", hint)
        return build_sink(resolution)

    def tables_sink(self, table: TableDefinition) -> KafkaSinkSpec:
        """How tables with the options of ``table`` are written, which are found while the job runs. Raises OptionsError
        or UnsupportedError with every problem found."""
        key = Column("key", STRING.with_nullability(False))
        options = {"topic": table.name, **table.options}
        found = self.sink(replace(table, columns=(key,), options=options, primary_key=()))
        return replace(
            found,
            options=found.options if "topic" in table.options else replace(found.options, topic=()),
            physical=_NO_COLUMNS,
            key_columns=(),
            value_columns=(),
            schema=_NO_COLUMNS,
            tables=True,
        )


def build_scan(resolution: Resolution) -> KafkaScanSpec:
    """How the table of ``resolution`` is read. Raises OptionsError or UnsupportedError with every problem found."""
    table, found = resolution.table, resolution.resolve(KafkaSourceOptions)
    options = found.options
    group = options.group_id or (f"KafkaSource-{table.name}" if table.surface is Surface.SQL else "")
    _check_group(options, group, resolution)
    named = table.surface is Surface.YAML and isinstance(formats.get(found.value.identifier), TableFormat)
    dead = options.dead_letter_topic
    return KafkaScanSpec(
        **vars(replace(found, client=add_group(found.client, group))),
        produced=table.produced,
        group_id=group,
        start_by=table.objects.get("scan.startup.mode"),
        stop_by=table.objects.get("scan.bounded.mode"),
        watermark=_restrict_watermark(table.watermark, found.metadata),
        # Properties without effect are noted with the table.
        dead_letters=replace(KafkaConnector().sink(define_table(table, dead)), notes=()) if dead else None,
        table_id=tuple(table.name.split(".")) if named else (),
        primary_key=table.primary_key,
        asks_for_group=options.group_id is not None and "scan.startup.mode" in table.options,
    )


def build_sink(resolution: Resolution) -> KafkaSinkSpec:
    """How the table of ``resolution`` is written. Raises OptionsError or UnsupportedError with every problem found."""
    found = resolution.resolve(KafkaSinkOptions)
    options = found.options
    exactly_once = options.guarantee is Guarantee.EXACTLY_ONCE
    return KafkaSinkSpec(
        **vars(found),
        schema=with_metadata_types(resolution.table.written, found.metadata),
        guarantee=options.guarantee,
        transactional_id_prefix=(options.transactional_id_prefix or "") if exactly_once else "",
        chooser=resolution.table.objects.get("sink.partitioner"),
        headers=resolution.table.objects.get(HEADERS, ()),
        key_table=resolution.table.objects.get(KEY_TABLE, ""),
    )


def _restrict_watermark(watermark: Watermark | None, metadata: tuple[MetadataColumn, ...]) -> Watermark | None:
    """``watermark`` for reading tasks. They cannot measure a metadata column that the engine casts to another type."""
    if watermark is None or watermark.lag is None:
        return watermark
    cast = {each.name for each in metadata if not widens(each.native, each.type)}
    return replace(watermark, column="", lag=None) if watermark.column in cast else watermark


def _check_group(options: KafkaSourceOptions, group: str, resolution: Resolution) -> None:
    """Raises OptionsError when an option needs a group that is not named. SQL derives one from the table's name."""
    if group:
        return
    wants = {
        "scan.startup.mode": options.startup_mode is StartupMode.GROUP_OFFSETS,
        "scan.bounded.mode": options.bounded_mode is BoundedMode.GROUP_OFFSETS,
        "properties.commit.offsets.on.checkpoint": options.commit_offsets is True,
        "properties.enable.auto.commit": options.auto_commit,
    }
    for key, wanted in wants.items():
        if wanted:
            yaml = resolution.table.surface is Surface.YAML
            hint = "write 'properties.group.id', " if yaml else "set 'properties.group.id' (set_group_id), "
            hint += f"or another '{key}'" if key.startswith("scan.") else f"or leave '{key}' out"
            resolution.problem("needs a consumer group", key, hint)
    if resolution.problems:
        raise OptionsError(tuple(resolution.problems))
