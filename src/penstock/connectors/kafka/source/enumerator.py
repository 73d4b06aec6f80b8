"""Plans how far each micro-batch of a scan reads."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, field, replace
from functools import cached_property

from penstock.clock import now_ms
from penstock.connectors.kafka.source.admission import Admission
from penstock.connectors.kafka.source.alarms import Alarm
from penstock.connectors.kafka.source.losses import (
    drop_topics,
    skip_expired,
    skip_recreated,
    skip_truncated,
    truncation_error,
)
from penstock.connectors.kafka.source.positions import Position, Positions, Split, cut
from penstock.connectors.kafka.source.scan_watermarks import Notes, Watermarks
from penstock.connectors.kafka.source.spec import KafkaScanSpec
from penstock.connectors.kafka.source.starts_and_stops import (
    find_existing_topics,
    list_positions,
    note_epochs,
    select_partitions,
    topic_ids,
)
from penstock.errors import KafkaError
from penstock.kafka.offsets import EARLIEST, LATEST, LogOffset, check_truncation
from penstock.kafka.partitions import TopicPartition
from penstock.kafka.session import Session, session_for
from penstock.spi import PARTITIONS_PER_SOURCE


@dataclass(frozen=True)
class ReaderSpec:
    """The scan for planning and reading, which other processes unpickle.

    ``start`` and ``stop`` were resolved once, before the query first started; ``stop`` is None for an unbounded scan.
    ``waits``: a stop was beyond the end of its log when the query was started. ``once``: the stops are the ends that
    this start has found; a later start continues from there. ``whole``: all records are one batch, which nothing
    limits. ``notes`` is the file of :class:`~penstock.connectors.kafka.source.scan_watermarks.Notes`.
    """

    scan: KafkaScanSpec
    ordinal: int
    parallelism: int
    start: Positions
    stop: Positions | None
    waits: bool = False
    once: bool = False
    whole: bool = False
    notes: str = ""


@dataclass
class Enumerator:
    """Plans the micro-batches of one scan, in Spark's planning process. Its state may be lost."""

    spec: ReaderSpec
    _discovered: float = field(default_factory=time.monotonic)
    _seen: dict[TopicPartition, int] = field(default_factory=dict)
    _waiting: frozenset[TopicPartition] = frozenset()
    _looked: bool = False
    _admission: Admission = field(init=False)
    _watermarks: Watermarks | None = field(init=False, default=None)
    _alarm: Alarm = field(init=False)

    def __post_init__(self) -> None:
        self._admission = Admission(self.spec.scan.options)
        self._alarm = Alarm(f"{self.spec.notes}.alarm")
        if self.spec.once:  # new partitions are looked for at once
            self._discovered = -math.inf
        if self.spec.scan.watermark is not None:
            # A batch of all records waits for all partitions.
            idle_timeout = None if self.spec.whole else self.spec.scan.watermark.idle_timeout
            self._watermarks = Watermarks(idle_timeout, Notes(self.spec.notes))

    @cached_property
    def session(self) -> Session:
        """The session with the cluster."""
        return session_for(self.spec.scan.client_config)

    def latest(self, start: Positions) -> Positions:
        """The end of the batch that begins at ``start``. A batch of all records begins when they exist.

        New partitions are added at the start of their log with nothing to read in this batch, so that the offset log
        has their start before their first record is read. Raises PossibleDataLossError when records were lost: a log
        ends before ``start``, or a topic was recreated, or deleted before it was read to its end. With
        'scan.fail-on-data-loss' = 'false' positions move on instead (:mod:`penstock.connectors.kafka.source.losses`).

        In a scan with event time an advance of the watermark makes a batch even when there is nothing to read.
        """
        reached = self._find_latest(start)
        if self._watermarks is not None:
            end = None if self.spec.once else self.spec.stop  # more records come in a later run
            reached = self._watermarks.advance(start, reached, self._waiting, end)
        reached, now = replace(reached, woken=start.woken), now_ms()
        # A batch for another reason answers the request too.
        return replace(reached, woken=now) if reached == start and self._alarm.due(now) else reached

    def _find_latest(self, start: Positions) -> Positions:
        note_epochs(self.session, start)
        begin = self._resume(start) if self._fixed else self._skip_losses(start)
        if _jumps(start, begin):
            return begin
        try:
            available = self.available(begin)
        except KafkaError:
            gone = self._find_gone(start)
            if not gone:
                raise
            return drop_topics(start, gone, self._seen, self._skips)
        wanted = {tp: end.offset - begin.at[tp].offset for tp, end in available.at.items()}
        self._waiting = frozenset(tp for tp, count in wanted.items() if count)
        stop = self.spec.stop
        last = stop is not None and all(at.offset >= stop.offset(tp, at.offset) for tp, at in available.at.items())
        if self.spec.whole:
            if not last:
                return start
            shares = wanted
        else:  # without a batch Spark would end a query whose ends are known
            shares = self._admission.admit(wanted, last=last, idles=not (self._fixed or self.spec.once))
        at = {}
        for tp, end in available.at.items():
            before, share = begin.at[tp], shares[tp]
            if share == wanted[tp]:
                at[tp] = end
            else:  # equal to the start where nothing is read: a difference of epochs would make a batch
                at[tp] = replace(end, offset=before.offset + share) if share else before
        new, ids = self._discover(start)
        return Positions(at | new, {**ids, **start.topic_ids})

    def available(self, start: Positions) -> Positions:
        """The ends of the logs of the partitions in ``start``, or their stops where these are earlier."""
        ends = self._find_ends(start)
        for (topic, partition), end in ends.items():
            before = start.at[topic, partition]
            if end.offset < before.offset:
                raise truncation_error((topic, partition), before.offset, end.offset)
            if end.epoch != before.epoch >= 0 and end.epoch >= 0:
                check_truncation(self.session, {(topic, partition): LogOffset(before.offset, -1, before.epoch)})
        self._seen |= {tp: end.offset for tp, end in ends.items()}
        return Positions({tp: replace(end, lost=start.at[tp].lost) for tp, end in ends.items()}, start.topic_ids)

    def _find_ends(self, start: Positions) -> dict[TopicPartition, Position]:
        stop = self.spec.stop
        if stop is not None and self._fixed:
            ends = {tp: replace(stop.at.get(tp, at), lost=at.lost) for tp, at in start.at.items()}
            # A difference of epochs alone would make a batch.
            return {tp: end if end.offset > start.at[tp].offset else start.at[tp] for tp, end in ends.items()}
        ends = list_positions(self.session, start.at, LATEST)
        if stop is None:
            return ends
        if self.spec.once:
            stop = replace(stop, at={**start.at, **stop.at})  # newer records are left for a later run
        return {
            tp: replace(end, offset=min(end.offset, max(stop.offset(tp, end.offset), start.at[tp].offset)))
            for tp, end in ends.items()
        }

    @property
    def _fixed(self) -> bool:
        """Whether the ends are known: the stops were resolved once, and none is beyond the end of its log."""
        return self.spec.stop is not None and not self.spec.waits and not self.spec.once

    @property
    def _skips(self) -> bool:
        return not self.spec.scan.options.fail_on_data_loss

    # --- lost records ----------------------------------------------------------------------------------------

    def _resume(self, start: Positions) -> Positions:
        """``start`` of a scan whose ends are known, moved to the end of logs that were truncated below it while no
        process planned."""
        if self._looked or not self._skips:
            return start
        self._looked = True
        begun, ends = self.spec.start, self._find_ends(start)
        read = {tp: at for tp, at in start.at.items() if begun.offset(tp, 0) < at.offset < ends[tp].offset}
        if not read:
            return start
        # The tasks report topics that were deleted or recreated.
        ids = topic_ids(self.session.topics({topic for topic, _ in read}))
        left = {tp: at for tp, at in read.items() if ids.get(tp[0]) == start.topic_ids.get(tp[0])}
        return Positions(
            {**start.at, **skip_truncated(self.session, Positions(left, start.topic_ids)).at}, start.topic_ids
        )

    def _skip_losses(self, start: Positions) -> Positions:
        """``start``, changed by what the logs have lost."""
        topics = self.session.topics(_topics_in(start), fresh=self._skips)
        gone = self._find_gone(start) if _topics_in(start) - topics.keys() else set()
        if gone:
            return drop_topics(start, gone, self._seen, self._skips)
        begin = skip_recreated(self.session, start, topics, self._skips)
        if begin is not start or not self._skips:
            return begin
        begin = skip_truncated(self.session, start)
        return begin if begin is not start else skip_expired(self.session, start)

    def _find_gone(self, start: Positions) -> set[str]:
        """The topics of ``start`` that no longer exist, checked twice, since metadata may lag."""
        missing = _topics_in(start) - self.session.topics(_topics_in(start)).keys()
        return {topic for topic in missing if not self._exists(topic)}

    def _exists(self, topic: str) -> bool:
        try:
            self.session.topic(topic)
        except KafkaError:
            return topic in self.session.topics([topic])
        return True

    # --- new partitions --------------------------------------------------------------------------------------

    def _discover(self, start: Positions) -> tuple[dict[TopicPartition, Position], dict[str, str]]:
        interval = self.spec.scan.discovery
        now = time.monotonic()
        if interval is None or now - self._discovered < interval.total_seconds():
            return {}, {}
        self._discovered = now
        topics = find_existing_topics(self.session, self.spec.scan)
        if skip_recreated(self.session, start, topics, self._skips) is not start:
            return {}, {}
        new = [tp for tp in select_partitions(topics, self.spec.scan) if tp not in start.at]
        return list_positions(self.session, new, EARLIEST) if new else {}, topic_ids(topics) if new else {}

    # --- tasks -----------------------------------------------------------------------------------------------

    def ranges(self, start: Positions, end: Positions) -> list[Split]:
        """The offsets of the batch from ``start`` to ``end``, for each partition in order; a range may be empty."""
        base = self.spec.ordinal * PARTITIONS_PER_SOURCE
        found = []
        for number, tp in enumerate(end.partitions(), base):
            topic, partition = tp
            after = end.at[tp]
            before, id_ = start.at.get(tp, after), end.topic_ids.get(topic, "")
            begin = min(before.offset + after.lost - before.lost, after.offset)
            if tp in start.at and start.topic_ids.get(topic, "") != id_:
                begin = after.offset
            found.append(Split(number, topic, id_, partition, begin, after.offset, after.epoch))
        return found

    def tasks(self, start: Positions, end: Positions) -> list[tuple[Split, ...]]:
        """The tasks of the batch from ``start`` to ``end``. One task without ranges reports a watermark that advances
        without records."""
        most = self.spec.scan.options.parallelism
        tasks = cut(self.ranges(start, end), most or self.spec.parallelism, most)
        moved = end.watermark != start.watermark or end.woken != start.woken
        return tasks or ([()] if moved else [])


def _topics_in(positions: Positions) -> set[str]:
    return {topic for topic, _ in positions.at}


def _jumps(start: Positions, begin: Positions) -> bool:
    """Whether ``begin`` differs from ``start`` by more than logs that now begin later."""
    return begin.topic_ids != start.topic_ids or any(
        begin.at[tp].offset - at.offset != begin.at[tp].lost - at.lost for tp, at in start.at.items()
    )
