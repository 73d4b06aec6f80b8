"""One scan of a running job, on the driver."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark import SparkFiles
from pyspark.sql import DataFrame

from penstock.connectors.kafka.source.alarms import Alarm
from penstock.connectors.kafka.source.commits import CommitTimes
from penstock.connectors.kafka.source.enumerator import Enumerator, ReaderSpec
from penstock.connectors.kafka.source.losses import describe_losses
from penstock.connectors.kafka.source.metrics import SourceMetrics
from penstock.connectors.kafka.source.positions import Positions
from penstock.connectors.kafka.source.reports import ReadReport
from penstock.connectors.kafka.source.scan_watermarks import END, Notes
from penstock.connectors.kafka.source.spec import KafkaScanSpec
from penstock.connectors.kafka.source.start_texts import (
    CommittedBy,
    describe_positions,
    explain_start,
    warn_about_foreign_start,
)
from penstock.connectors.kafka.source.starts_and_stops import (
    describe_data,
    is_beyond_end,
    list_present_ends,
    resolve_present_stop,
    resolve_start,
    resolve_stop,
    with_epochs,
)
from penstock.connectors.kafka.spark.reader import KafkaDataSource
from penstock.deadline import Deadline
from penstock.errors import KafkaError, PenstockError
from penstock.kafka.offsets import CommittedOffset, GroupOffsets, commit_offsets, count_group_members
from penstock.kafka.partitions import TopicPartition
from penstock.kafka.session import session_for
from penstock.spi import (
    DEAD_LETTER,
    INSERTIONS,
    KIND,
    PARTITIONS_PER_SOURCE,
    WATERMARK,
    JobContext,
    OnDriver,
    SentStage,
    Source,
    SourcePartition,
    Stage,
    Task,
    frame_schema,
    read_frame,
    run_until_stopped,
    source_document,
)
from penstock.types import BIGINT, TINYINT, quote_name, spark_type

#: The time limit of the last commit of a job, in ms.
_LAST_COMMIT_MS = 5000


class KafkaScan(Source):
    """One scan of a running job, on the driver."""

    def __init__(self, scan: KafkaScanSpec, ordinal: int, context: JobContext):
        self._scan = scan
        self._context = context
        self._session = session_for(scan.client_config)
        self._check_group()
        self._own = CommittedBy(context.job, context.query_id)
        #: Where the job first starts, and why; empty when it continues from a checkpoint or a savepoint.
        self._start_text = ""
        start, stop = self._resolve(ordinal)
        once = context.settings.once
        if once:
            stop = resolve_present_stop(self._session, scan, start, stop)
        self.timed = scan.watermark is not None
        self.measures = scan.capabilities.measures
        notes = str(Path(SparkFiles.getRootDirectory()) / f"penstock-{context.run_id}-{ordinal}.json")
        self._notes, self._alarm = Notes(notes), Alarm(f"{notes}.alarm")
        ends = {} if stop is None else list_present_ends(self._session, stop)
        waits = not once and stop is not None and is_beyond_end(stop, ends)
        if stop is not None and not waits:
            stop = with_epochs(stop, ends)
        self.bounded = once or (stop is not None and not waits and not scan.options.bounded_streaming)
        self._enumerator = Enumerator(
            ReaderSpec(
                scan.for_tasks(), ordinal, context.parallelism, start, stop, waits, once, context.settings.batch, notes
            )
        )
        self._times = CommitTimes(scan.options, checkpointing=context.settings.checkpointing)
        self._reached = start.to_json()
        self._metrics = SourceMetrics(
            context.operator(scan.table), lambda: self.lag(self._reached), consumer=scan.options.consumer_metrics
        )

    def _check_group(self) -> None:
        """With 'scan.check.duplicated.group.id', raises KafkaError for a group that already has members."""
        if self._scan.options.check_duplicated_group_id and (
            members := count_group_members(self._session, self._scan.group_id)
        ):
            raise KafkaError(
                f"table '{self._scan.table}': consumer group '{self._scan.group_id}' already has {members} member(s); "
                "choose another 'properties.group.id', or stop them"
            )

    def _resolve(self, ordinal: int) -> tuple[Positions, Positions | None]:
        """Start and stop, resolved when the job first starts and later read from the checkpoint (rule "starts are
        resolved once")."""
        checkpoint, start_time = self._context.checkpoint, self._context.settings.start_time
        asked = describe_data(self._session, self._scan)
        resolved = False

        def resolve() -> dict[str, Any]:
            nonlocal resolved
            resolved = True
            group: dict[TopicPartition, CommittedOffset] = {}
            first = resolve_start(
                self._session, self._scan, start_time, warn=self._context.warn, note_group=group.update
            )
            self._start_text = (
                f"starts {explain_start(self._scan, start_time, group, self._own)}: {describe_positions(first)}"
            )
            if warning := warn_about_foreign_start(self._scan, group, self._own):
                self._context.warn(warning)
            last = resolve_stop(self._session, self._scan, first)
            return {"start": first.to_json(), "stop": last.to_json() if last else None}

        known = source_document(self._context, ordinal, self._scan.table, asked, resolve)
        if start_time is not None and not resolved and not self._context.restarted:
            self._context.warn(
                f"table '{self._scan.table}' continues from the checkpoint '{checkpoint.location}'; --start-time has "
                "no effect with one"
            )
        start, stop = known["start"], known.get("stop")
        return Positions.from_json(start), None if stop is None else Positions.from_json(stop)

    def frame(self, stage: SentStage | None = None) -> DataFrame:
        """The streaming DataFrame, with metadata columns in their native types, or the result of ``stage`` on it."""
        schema = frame_schema(self._scan.native, *self._more())
        frame: DataFrame = read_frame(self._context.spark, KafkaDataSource, schema, self._enumerator.spec, stage)
        return frame

    def on_driver(self, stage: Stage, start: dict[str, Any] | None, end: dict[str, Any]) -> OnDriver:
        """One task for all ranges."""
        ranges = self._enumerator.ranges(self._start(start), Positions.from_json(end))
        splits = [each for each in ranges if len(each)]  # one of each partition, so that its order is kept

        def read(instructions: str, abandoned: Callable[[], bool]) -> tuple[pa.Table, bytes]:
            from penstock.connectors.kafka.source.reader import RangeReader, merge_small_batches

            reader = RangeReader(self._enumerator.spec, splits)
            task = Task(0, 1, instructions, abandoned=abandoned)
            batches = list(stage.run(task, merge_small_batches(reader.rows())))
            return pa.Table.from_batches(batches, stage.schema), reader.report.to_bytes()

        return OnDriver(lambda given: run_until_stopped(lambda left: read(given, left), self._context.stopping))

    def read_latest(self, count: int) -> Sequence[pa.RecordBatch]:
        """The rows of the newest records, from the start of the source on."""
        from penstock.connectors.kafka.source.reader import RangeReader

        spec = self._enumerator.spec
        ends = self._enumerator.available(spec.start)
        begun = {tp: replace(at, offset=max(at.offset, ends.at[tp].offset - count)) for tp, at in spec.start.at.items()}
        ranges = self._enumerator.ranges(replace(spec.start, at=begun), ends)
        return list(RangeReader(spec, [each for each in ranges if len(each)]).rows())

    def _more(self) -> Iterator[str]:
        """The columns after the ones that every scan has, as DDL."""
        if self._scan.kinds != INSERTIONS:
            yield f"{quote_name(KIND)} {spark_type(TINYINT)}"
        if self._scan.dead_letters is not None:
            yield f"{quote_name(DEAD_LETTER)} {spark_type(self._scan.dead_letters.schema)}"
        if self.timed:
            yield f"{quote_name(WATERMARK)} {spark_type(BIGINT)}"

    def tasks(self, start: dict[str, Any] | None, end: dict[str, Any]) -> int:
        return len(self._enumerator.tasks(self._start(start), Positions.from_json(end)))

    def partition(self, number: int, end: dict[str, Any]) -> tuple[str, int] | None:
        ordinal, index = divmod(number, PARTITIONS_PER_SOURCE)
        partitions = Positions.from_json(end).partitions()
        return partitions[index] if ordinal == self._enumerator.spec.ordinal and index < len(partitions) else None

    def partitions(self, end: dict[str, Any]) -> Sequence[SourcePartition]:
        """The partitions of all topics. One that was read to its stop has ended, unless a later run reads more."""
        spec, at, first = self._enumerator.spec, Positions.from_json(end), self._first
        stop = None if spec.once else spec.stop
        found = ((number, tp, at.at[tp]) for number, tp in enumerate(at.partitions(), first))
        return tuple(
            SourcePartition(
                number,
                f"{tp[0]}/{tp[1]}",
                position.idle,
                stop is not None and position.offset >= stop.offset(tp, position.offset),
            )
            for number, tp, position in found
        )

    @property
    def _first(self) -> int:
        """The number of the first partition."""
        return self._enumerator.spec.ordinal * PARTITIONS_PER_SOURCE

    def count_records(self, start: dict[str, Any] | None, end: dict[str, Any]) -> int:
        return sum(len(each) for each in self._enumerator.ranges(self._start(start), Positions.from_json(end)))

    def losses(self, start: dict[str, Any] | None, end: dict[str, Any]) -> Sequence[str]:
        """The losses between the two positions, as a sentence for each partition."""
        return [
            f"table '{self._scan.table}': {each}"
            for each in describe_losses(self._start(start), Positions.from_json(end))
        ]

    def has_ended(self, reached: dict[str, Any] | None) -> bool:
        """Whether the source has a stop, and ``reached`` (None: its start) and its watermark are at the end."""
        spec, at = self._enumerator.spec, self._start(reached)
        stop = spec.stop
        return (
            stop is not None
            and all(each.offset >= stop.offset(tp, each.offset) for tp, each in at.at.items())
            and (not self.timed or spec.once or not at.at or at.watermark == END)
        )

    def start_text(self, reached: dict[str, Any] | None) -> str:
        if reached is None and self._start_text:
            return self._start_text
        place = "savepoint" if reached is None and self._context.forked else "checkpoint"
        return f"continues from the {place}: {describe_positions(self._start(reached))}"

    def complete(self) -> bool:
        """Whether the logs have reached the stops."""
        spec = self._enumerator.spec
        if spec.stop is None or not spec.waits:
            return True
        return not is_beyond_end(spec.stop, list_present_ends(self._session, spec.stop))

    def lag(self, reached: dict[str, Any]) -> int | None:
        """How many offsets are between ``reached`` and the end, or the stop, of the source."""
        start = Positions.from_json(reached)
        try:
            ends = self._enumerator.available(start)
        except PenstockError:
            return None
        return sum(end.offset - start.at[tp].offset for tp, end in ends.at.items())

    def find_consumed(self, end: dict[str, Any]) -> GroupOffsets | None:
        """The group's offsets at ``end``."""

        if not self._commits:
            return None
        at = Positions.from_json(end).at
        by = self._own.to_metadata()
        offsets = {tp: CommittedOffset(position.offset, position.epoch, by) for tp, position in at.items()}
        return GroupOffsets(self._session.cluster_id or "", self._scan.group_id, offsets)

    def confirm(self, end: dict[str, Any], recorded: bool | None) -> None:
        """Keep the position, and commit the group's offsets when a commit is due and no transaction has done it."""
        if recorded is None and self._times.due(end):
            recorded = self._commit(end, self._session.deadline())
        self._reached = end
        self._metrics.finish_batch(Positions.from_json(end), recorded)

    def _commit(self, end: dict[str, Any], deadline: Deadline) -> bool | None:
        """Whether the group's offsets were committed, None when it has none. Warns of the first failure only."""
        consumed = self.find_consumed(end)
        if consumed is None:
            return None
        try:
            commit_offsets(self._session, consumed.group, consumed.offsets, deadline=deadline)
        except PenstockError as error:
            if not self._metrics.commits_failed.get_count():
                self._context.warn(f"offsets of group '{consumed.group}' are not committed: {error}")
            return False
        return True

    def receive_reports(self, reports: Sequence[bytes]) -> None:
        """Count the records of a batch, and pass its watermarks on."""
        report = ReadReport.merge(reports)
        self._metrics.read(report)
        self._notes.add(((topic, partition), at) for topic, partition, at in report.watermarks)

    def receive_watermarks(self, watermarks: Mapping[int, int], end: dict[str, Any]) -> None:
        """Pass watermarks that the engine has computed on to the planning process."""
        partitions = {number: self.partition(number, end) for number in watermarks}
        self._notes.add((tp, watermarks[number]) for number, tp in partitions.items() if tp is not None)

    def wake(self, at: int | None) -> None:
        """Have the planning process make a batch at this time; None cancels that."""
        self._alarm.set(at)

    def close(self) -> None:
        """Make the pending commit. Sessions are shared in the process and stay open."""
        self._notes.close()
        self._alarm.close()
        left, self._times.left = self._times.left, None
        if left is not None:
            recorded = self._commit(left, self._session.deadline(_LAST_COMMIT_MS))
            self._metrics.finish_batch(Positions.from_json(left), recorded)

    @property
    def _commits(self) -> bool:
        """Whether the group's offsets are committed at all, with each batch or from time to time."""
        if self._context.settings.checkpointing:
            return self._scan.commits
        return bool(self._scan.group_id) and self._scan.options.auto_commit

    def _start(self, start: dict[str, Any] | None) -> Positions:
        return self._enumerator.spec.start if start is None else Positions.from_json(start)
