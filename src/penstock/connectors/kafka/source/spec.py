"""How a Kafka table is read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import TYPE_CHECKING, Protocol

import pyarrow as pa

from penstock.connectors.kafka.dead_letters import adapt_guarantee, build_letters_of_rows
from penstock.connectors.kafka.sink.spec import KafkaSinkSpec, find_progress_problems
from penstock.connectors.kafka.table.header_filter import HEADER_FILTER
from penstock.connectors.kafka.table.metadata import OF_VALUE, MetadataColumn, with_metadata_types
from penstock.connectors.kafka.table.offsets import OFFSETS, PARTITIONS
from penstock.connectors.kafka.table.options import BoundedMode, KafkaSourceOptions, ResetStrategy, StartupMode
from penstock.connectors.kafka.table.spec import KafkaTableSpec
from penstock.errors import Problem
from penstock.kafka.partitions import TopicPartition
from penstock.settings import Settings
from penstock.spi import RefusedRow, ScanCapabilities, SinkSpec, Watermark, describe_idleness
from penstock.types import RowKind, RowType

if TYPE_CHECKING:
    from penstock.connectors.kafka.source.retriever import Retriever

#: The row kinds of a table that upserts.
UPSERTS = frozenset({RowKind.UPDATE_AFTER, RowKind.DELETE})


class CustomOffsets(Protocol):
    """Chooses an offset for each partition. Called once, on the driver, when the job first starts."""

    def offsets(self, partitions: tuple[TopicPartition, ...], retriever: Retriever, /) -> Mapping[TopicPartition, int]:
        """The offsets, for some or all of ``partitions``. An exception fails the start of the job."""


@dataclass(frozen=True, kw_only=True)
class KafkaScanSpec(KafkaTableSpec[KafkaSourceOptions]):
    """Reads topics into the columns of ``produced``.

    ``group_id`` is empty when no group is used. ``start_by`` and ``stop_by`` are objects of the user that choose the
    offsets instead of the options; they stay on the driver. ``dead_letters`` is the sink of records that cannot be
    decoded. Messages that name another table than ``table_id`` are refused. Of retractions, only the columns of
    ``primary_key`` are sure to have values. ``asks_for_group``: the user has named the group and said that its offsets
    are the start. ``timed``: a row without an event time cannot be used.
    """

    produced: RowType
    group_id: str
    start_by: CustomOffsets | None = field(default=None, hash=False)
    stop_by: CustomOffsets | None = field(default=None, hash=False)
    watermark: Watermark | None = None
    dead_letters: KafkaSinkSpec | None = None
    table_id: tuple[str, ...] = ()
    primary_key: tuple[str, ...] = ()
    asks_for_group: bool = field(default=False, compare=False)
    timed: bool = False

    def require_times(self) -> KafkaScanSpec:
        """The same scan, in which a record without an event time cannot be used."""
        return replace(self, timed=True)

    @property
    def time_column(self) -> str:
        """The column that no row may lack because its event time follows from it; empty if there is none."""
        watermark = self.watermark
        return watermark.column if self.timed and watermark is not None and watermark.lag is not None else ""

    @property
    def native(self) -> RowType:
        """The columns of the reading tasks, before metadata columns are cast to their declared types."""
        return with_metadata_types(self.produced, self.metadata)

    @property
    def capabilities(self) -> ScanCapabilities:
        """Changes where the format reads them. A table that upserts gives rows that replace others, and deletions."""
        return ScanCapabilities(
            kinds=self.kinds,
            bounded=self.bounded,
            measures=self.watermark is not None and self.watermark.lag is not None,
            native=tuple((column.name, column.native) for column in self.metadata),
            metadata=tuple((column.name, column.key) for column in self.metadata),
            upsert_keys=self.upsert_keys,
        )

    @property
    def kinds(self) -> frozenset[RowKind]:
        """The row kinds of the rows."""
        return UPSERTS if self.upserts else super().kinds

    def problems(self, settings: Settings) -> tuple[Problem, ...]:
        """A problem when dead letters would go to the job's progress topic."""
        topics = self.dead_letters.options.topic if self.dead_letters else ()
        return find_progress_problems(topics, settings, "scan.dead-letter.topic", self.table)

    def dead_letter_sink(self, others: Sequence[SinkSpec]) -> KafkaSinkSpec | None:
        """The sink of the dead letters in a job with the sinks ``others``; None when they are not kept."""
        return None if self.dead_letters is None else adapt_guarantee(self.dead_letters, others)

    def build_dead_letters(self, rows: pa.RecordBatch, refused: Sequence[RefusedRow]) -> pa.RecordBatch:
        """The dead letters of rows of this scan, which gives records as they are, with their key, headers, timestamp,
        topic and partition, as rows of the sink followed by :data:`penstock.spi.HIDDEN`."""
        names = {column.key: column.name for column in self.metadata}
        return build_letters_of_rows(rows, refused, {**names, "": self.value_columns[0]})

    @property
    def value_metadata(self) -> tuple[MetadataColumn, ...]:
        """The metadata columns that the value's format reads."""
        return tuple(column for column in self.metadata if column.key.startswith(OF_VALUE))

    @property
    def reset(self) -> ResetStrategy:
        """Where to start in a partition without a valid start offset (``auto.offset.reset``)."""
        given = self.options.property("auto.offset.reset")
        return ResetStrategy(given.strip().lower()) if given is not None else ResetStrategy.NONE

    @property
    def bounded(self) -> bool:
        """Whether reading ends by itself."""
        return self.options.bounded_mode is not BoundedMode.UNBOUNDED or self.stop_by is not None

    def for_tasks(self) -> KafkaScanSpec:
        """The scan for planning and reading: without objects that are used only once and may not be picklable."""
        return replace(self, start_by=None, stop_by=None)

    @property
    def partitions(self) -> frozenset[TopicPartition]:
        """The only partitions that are read; empty when all are."""
        return frozenset(map(self.with_topic, self.options.partitions))

    @property
    def discovery(self) -> timedelta | None:
        """How often new partitions are looked for. None, for never, when the scan has an end, as in Flink, or chosen
        partitions."""
        interval = self.options.discovery_interval
        return interval if interval > timedelta(0) and not self.bounded and not self.partitions else None

    @property
    def commits(self) -> bool:
        """Whether the group's offsets are committed with every batch."""
        return bool(self.group_id) and self.options.commit_offsets is not False

    def with_topic(self, tp: TopicPartition) -> TopicPartition:
        """``tp`` of an option, with the table's only topic where it names none."""
        return tp[0] or self.options.topic[0], tp[1]

    def describe(self) -> str:
        """A human-readable description. Secrets are masked."""
        start = " ".join((self.options.startup_mode.value, self._start_text()))
        chosen = PARTITIONS.show(self.options.partitions)
        return self._describe_lines(
            (
                f"{self.connector} scan '{self.table}'",
                f"topic: {self.shown_topics}",
                f"partitions: {chosen}" if chosen else "",
            ),
            "FROM",
            (
                f"start: {f'by {self.start_by}' if self.start_by is not None else start.strip()}",
                f"end: {f'by {self.stop_by}' if self.stop_by is not None else self.options.bounded_mode.value}",
                f"discovery: {self.discovery or 'off'}",
                f"headers: {HEADER_FILTER.show(self.options.header_filter)}" if self.options.header_filter else "",
                f"event time: {self._event_time(self.watermark)}" if self.watermark else "",
                f"dead letters: {self.options.dead_letter_topic}" if self.dead_letters else "",
            ),
            self.notes,
        )

    def _start_text(self) -> str:
        """What the mode of the start refers to."""
        match self.options.startup_mode:
            case StartupMode.GROUP_OFFSETS:
                return f"of '{self.group_id}', else {self.reset.value}"
            case StartupMode.TIMESTAMP:
                return str(self.options.startup_timestamp)
            case StartupMode.SPECIFIC_OFFSETS:
                return OFFSETS.show(self.options.startup_offsets)
        return ""

    @staticmethod
    def _event_time(watermark: Watermark) -> str:
        idle = describe_idleness(watermark.idle_timeout)
        idle = f", {idle}" if idle else ""
        by = watermark.column or "the records' timestamps"
        how = f"{by} less {watermark.lag} ms" if watermark.lag is not None else "as the engine computes it"
        return f"watermark of a partition: {how}{idle}; of the table: the smallest"
