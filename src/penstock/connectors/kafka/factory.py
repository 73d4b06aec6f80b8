"""The ``kafka`` connector: from a table definition to what is read or written."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from penstock.connectors.kafka.sink.dead_letters import definition
from penstock.connectors.kafka.sink.spec import KafkaSinkSpec
from penstock.connectors.kafka.source.spec import KafkaScanSpec
from penstock.connectors.kafka.table.client import completed
from penstock.connectors.kafka.table.metadata import READABLE, MetadataColumn, as_metadata
from penstock.connectors.kafka.table.options import (
    BoundedMode,
    KafkaSinkOptions,
    KafkaSourceOptions,
    StartupMode,
)
from penstock.connectors.kafka.table.resolution import Resolution, Side
from penstock.errors import OptionsError, Problem
from penstock.options import OptionSet
from penstock.spi import Guarantee, Surface, TableDefinition, TableFormat, Watermark, formats
from penstock.types.casts import widens

PARTITIONERS = ("default", "fixed", "round-robin", "all-to-zero")


class KafkaConnector:
    """Append-only tables over Kafka topics; rules in the order of Flink's ``KafkaDynamicTableFactory``."""

    identifier = "kafka"
    options: Mapping[str, type[OptionSet]] = {"Source": KafkaSourceOptions, "Sink": KafkaSinkOptions}
    runtime = "penstock.connectors.kafka.spark:KafkaRuntime"
    metadata = READABLE

    def scan(self, table: TableDefinition) -> KafkaScanSpec:
        """What reading ``table`` means. Raises OptionsError or UnsupportedError with every problem found."""
        resolution = Resolution(table, Side.READ)
        found = resolution.resolve(KafkaSourceOptions)
        options = found.options
        group = options.group_id or (f"KafkaSource-{table.name}" if table.surface is Surface.SQL else "")
        _needs_group(options, group, resolution)
        named = table.surface is Surface.YAML and isinstance(formats.get(found.value.identifier), TableFormat)
        return KafkaScanSpec(
            table=table.name,
            options=options,
            value=found.value,
            key=found.key,
            physical=table.physical,
            key_fields=found.key_columns,
            key_prefix=options.key_fields_prefix,
            value_prefix=options.value_fields_prefix,
            value_columns=found.value_columns,
            metadata=found.metadata,
            produced=table.produced,
            group_id=group,
            client=completed(options.properties, group),
            start_by=table.objects.get("scan.startup.mode"),
            stop_by=table.objects.get("scan.bounded.mode"),
            watermark=_measured(table.watermark, found.metadata),
            dead_letters=self._dead_letters(table, options),
            table_id=tuple(table.name.split(".")) if named else (),
            notes=found.notes,
        )

    def _dead_letters(self, table: TableDefinition, options: KafkaSourceOptions) -> KafkaSinkSpec | None:
        if options.dead_letter_topic is None:
            return None
        return self.sink(definition(table, options.dead_letter_topic))

    def sink(self, table: TableDefinition) -> KafkaSinkSpec:
        """What writing ``table`` means. Raises OptionsError or UnsupportedError with every problem found."""
        resolution = Resolution(table, Side.WRITE)
        partitioner = table.options.get("sink.partitioner", "default").strip()
        if partitioner and partitioner not in PARTITIONERS:
            resolution.unsupported.append(
                Problem(
                    f"partitioner '{partitioner}' cannot be loaded: classes of one's own are not supported yet",
                    "sink.partitioner",
                    resolution.origin.of("sink.partitioner"),
                    f"use one of {', '.join(PARTITIONERS[:3])}",
                )
            )
        found = resolution.resolve(KafkaSinkOptions)
        options = found.options
        exactly_once = options.guarantee is Guarantee.EXACTLY_ONCE
        return KafkaSinkSpec(
            table=table.name,
            options=options,
            value=found.value,
            key=found.key,
            schema=as_metadata(table.written, found.metadata),
            key_columns=found.key_columns,
            key_prefix=options.key_fields_prefix,
            value_prefix=options.value_fields_prefix,
            value_columns=found.value_columns,
            metadata=found.metadata,
            guarantee=options.guarantee,
            transactional_id_prefix=(options.transactional_id_prefix or "") if exactly_once else "",
            topics=options.topic,
            topic_pattern=options.topic_pattern or "",
            partitioner=options.partitioner.strip(),
            client=completed(options.properties, ""),
            notes=found.notes,
        )


def _measured(watermark: Watermark | None, metadata: tuple[MetadataColumn, ...]) -> Watermark | None:
    """What reading tasks can measure by themselves: not a metadata column that is cast to another type."""
    if watermark is None or watermark.lag is None:
        return watermark
    cast = {each.name for each in metadata if not widens(each.native, each.type)}
    return replace(watermark, column="", lag=None) if watermark.column in cast else watermark


def _needs_group(options: KafkaSourceOptions, group: str, resolution: Resolution) -> None:
    """SQL derives a group from the table's name. A source in YAML or of a builder may be without one."""
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
