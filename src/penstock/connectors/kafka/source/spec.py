"""What reading a Kafka table means, fully resolved."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta

from penstock.connectors.kafka.sink.dead_letters import beside
from penstock.connectors.kafka.sink.spec import KafkaSinkSpec, progress_problems
from penstock.connectors.kafka.source.initializer import CustomOffsets
from penstock.connectors.kafka.table.client import masked
from penstock.connectors.kafka.table.metadata import OF_VALUE, MetadataColumn, as_metadata
from penstock.connectors.kafka.table.offsets import PARTITIONS, PartitionOffset
from penstock.connectors.kafka.table.options import BoundedMode, KafkaSourceOptions, ResetStrategy, StartupMode
from penstock.errors import Problem
from penstock.kafka.session import TopicPartition
from penstock.options import DURATION, Properties
from penstock.settings import Settings
from penstock.spi import CHANGES, INSERTIONS, ChangeFormat, FormatSpec, ScanCapabilities, SinkSpec, Watermark, formats
from penstock.types import RowType


@dataclass(frozen=True, kw_only=True)
class KafkaScanSpec:
    """Reads topics into the columns of ``produced``.

    ``key_fields`` and ``value_columns`` are names of columns, prefixes included; :attr:`key_schema` and
    :attr:`value_schema` are what the formats see. ``group_id`` is empty when no group is used. ``client`` holds
    Kafka's own properties as text, by their Java names. ``start_by`` and ``stop_by`` are objects of the user's that
    choose the offsets instead of the options; they stay on the driver. ``dead_letters`` is where records go that cannot
    be decoded. Messages that name another table than ``table_id`` are refused. ``notes`` are remarks for ``penstock
    check``.
    """

    table: str
    options: KafkaSourceOptions
    value: FormatSpec
    key: FormatSpec | None
    physical: RowType
    key_fields: tuple[str, ...]
    key_prefix: str
    value_prefix: str
    value_columns: tuple[str, ...]
    metadata: tuple[MetadataColumn, ...]
    produced: RowType
    group_id: str
    client: Properties = field(repr=False)
    start_by: CustomOffsets | None = field(default=None, hash=False)
    stop_by: CustomOffsets | None = field(default=None, hash=False)
    watermark: Watermark | None = None
    dead_letters: KafkaSinkSpec | None = None
    table_id: tuple[str, ...] = ()
    notes: tuple[str, ...] = field(default=(), compare=False)

    @property
    def key_schema(self) -> RowType:
        """The columns that the key format decodes, under the names it uses, in the order of 'key.fields'."""
        return self.physical.select(self.key_fields).without_prefix(self.key_prefix)

    @property
    def value_schema(self) -> RowType:
        """The columns that the value format decodes, under the names it uses, in the table's order."""
        return self.physical.select(self.value_columns).without_prefix(self.value_prefix)

    @property
    def native(self) -> RowType:
        """The columns as tasks make them, before metadata columns are cast to their declared types."""
        return as_metadata(self.produced, self.metadata)

    @property
    def changes(self) -> bool:
        """Whether the rows are changes of rows: insertions, updates and deletions."""
        return isinstance(formats.get(self.value.identifier), ChangeFormat)

    @property
    def capabilities(self) -> ScanCapabilities:
        """Changes where the format reads them."""
        return ScanCapabilities(
            kinds=CHANGES if self.changes else INSERTIONS,
            bounded=self.bounded,
            staged=True,
            native=tuple((column.name, column.native) for column in self.metadata),
        )

    def problems(self, settings: Settings) -> tuple[Problem, ...]:
        """What ``settings`` rule out: the job's progress topic takes no dead letters."""
        topics = self.dead_letters.topics if self.dead_letters else ()
        return progress_problems(topics, settings, "scan.dead-letter.topic", self.table)

    def dead_letter_sink(self, others: Sequence[SinkSpec]) -> KafkaSinkSpec | None:
        """The sink of the dead letters in a job that has ``others``, the specs of sinks; None without one."""
        return None if self.dead_letters is None else beside(self.dead_letters, others)

    @property
    def value_metadata(self) -> tuple[MetadataColumn, ...]:
        """The metadata columns that the value's format reads."""
        return tuple(column for column in self.metadata if column.key.startswith(OF_VALUE))

    @property
    def reset(self) -> ResetStrategy:
        """What to do for a partition without a valid start offset (``auto.offset.reset``)."""
        given = self.options.property("auto.offset.reset")
        return ResetStrategy(given.strip().lower()) if given is not None else ResetStrategy.NONE

    @property
    def bounded(self) -> bool:
        """Whether reading ends by itself."""
        return self.options.bounded_mode is not BoundedMode.UNBOUNDED or self.stop_by is not None

    def for_tasks(self) -> KafkaScanSpec:
        """The scan as planning and reading need it: without what is used once and may not be picklable."""
        return replace(self, start_by=None, stop_by=None)

    @property
    def partitions(self) -> frozenset[TopicPartition]:
        """The only partitions that are read; empty when all are."""
        return frozenset((topic or self.options.topic[0], partition) for topic, partition in self.options.partitions)

    @property
    def discovery(self) -> timedelta | None:
        """How often new partitions are looked for; None: never. A scan with an end never looks, as in Flink, nor one
        that was told its partitions."""
        interval = self.options.discovery_interval
        return interval if interval > timedelta(0) and not self.bounded and not self.partitions else None

    @property
    def commits(self) -> bool:
        """Whether the group's offsets are committed with every batch."""
        return bool(self.group_id) and self.options.commit_offsets is not False

    @property
    def start_offsets(self) -> tuple[PartitionOffset, ...]:
        """The start offsets of 'specific-offsets', each with its topic."""
        return self._with_topic(self.options.startup_offsets)

    @property
    def end_offsets(self) -> tuple[PartitionOffset, ...]:
        """The end offsets (not read) of 'specific-offsets', each with its topic."""
        return self._with_topic(self.options.bounded_offsets)

    def _with_topic(self, offsets: tuple[PartitionOffset, ...]) -> tuple[PartitionOffset, ...]:
        return tuple(replace(each, topic=each.topic or self.options.topic[0]) for each in offsets)

    def describe(self) -> str:
        """A few lines for people. Secrets are masked."""
        start = self.options.startup_mode.value
        if self.options.startup_mode is StartupMode.GROUP_OFFSETS:
            start += f" of '{self.group_id}', else {self.reset.value}"
        start = f"by {self.start_by}" if self.start_by is not None else start
        end = f"by {self.stop_by}" if self.stop_by is not None else self.options.bounded_mode.value
        lines = [
            f"kafka scan '{self.table}'",
            f"  topic: {'; '.join(self.options.topic) or '/' + (self.options.topic_pattern or '') + '/'}",
            f"  partitions: {PARTITIONS.show(self.options.partitions)}" if self.options.partitions else "",
            f"  value: {self.value.identifier} {self.value_schema}",
            f"  key: {self.key.identifier} {self.key_schema}" if self.key else "",
            f"  metadata: {', '.join(f'{each.name} FROM {each.key}' for each in self.metadata)}"
            if self.metadata
            else "",
            f"  start: {start}",
            f"  end: {end}",
            f"  discovery: {self.discovery or 'off'}",
            f"  event time: {self._event_time(self.watermark)}" if self.watermark else "",
            f"  dead letters: {self.options.dead_letter_topic}" if self.dead_letters else "",
            f"  client: {', '.join(f'{key}={value}' for key, value in masked(self.client))}",
            *(f"  note: {note}" for note in self.notes),
        ]
        return "\n".join(line for line in lines if line)

    @staticmethod
    def _event_time(watermark: Watermark) -> str:
        idle = f", idle after {DURATION.show(watermark.idle_timeout)}" if watermark.idle_timeout else ""
        by = watermark.column or "the records' timestamps"
        how = f"{by} less {watermark.lag} ms" if watermark.lag is not None else "as the engine computes it"
        return f"watermark of a partition: {how}{idle}; of the table: the smallest"
