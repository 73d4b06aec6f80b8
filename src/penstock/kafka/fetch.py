"""Reading ranges of offsets as raw record batches. The next request is under way while the last answer is processed."""

from __future__ import annotations

import struct
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future
from concurrent.futures import wait as wait_for
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Any
from uuid import UUID

from kafka.protocol.consumer import FetchRequest

from penstock.deadline import Backoff
from penstock.errors import KafkaError, PossibleDataLossError, Problem, RetriableError, UnsupportedError
from penstock.kafka.faults import Action, Fault, KafkaFault, check_code, fault_from_code
from penstock.kafka.leaders import PartitionInfo
from penstock.kafka.offsets import EARLIEST, LATEST, list_offsets
from penstock.kafka.partitions import TopicPartition, format_partition
from penstock.kafka.properties import READ_COMMITTED, READ_UNCOMMITTED
from penstock.kafka.record_batches import SCAN_BYTES, Records, scan
from penstock.kafka.session import Session
from penstock.kafka.wire import Node

# base offset and length at the start of a record batch, magic at 16, last offset delta at 23
_BATCH = struct.Struct(">qi4xb6xi")
_LENGTH_BYTES = 12
_OFFSET_OUT_OF_RANGE = 1
#: Large enough per partition and answer that round trips do not matter; Java's 1 MiB is sized for its heap.
_PARTITION_BYTES = 8 << 20


@dataclass(frozen=True)
class Range:
    """Offsets of one partition, from ``start`` to ``end`` (exclusive).

    With ``topic_id``, a topic that was deleted and created again under the same name is noticed. ``leader_epoch`` is
    the one in which the range was planned: earlier leaders are not asked, as they may lack the end.
    """

    topic: str
    partition: int
    start: int
    end: int
    topic_id: UUID | None = None
    leader_epoch: int = -1


@dataclass(frozen=True, eq=False)
class Chunk:
    """Whole record batches of one partition, as the broker holds them.

    ``range`` is the index of their range, ``records`` their bytes. As the first and last batch are whole, they may
    hold records below ``start`` or from ``end`` on, which are to be skipped. The next chunk of the range starts at
    ``next_offset``. ``aborted`` are (producer id, first offset) of the aborted transactions in these batches; their
    records are to be skipped as well, and so are control batches.
    """

    range: int
    topic: str
    partition: int
    records: memoryview
    start: int
    end: int
    next_offset: int
    aborted: tuple[tuple[int, int], ...]
    high_watermark: int
    last_stable_offset: int
    log_start_offset: int

    def slices(
        self, *, check_crcs: bool = True, headers: bool = False, max_bytes: int = SCAN_BYTES
    ) -> Iterator[Records]:
        """The wanted records: one slice of at most ``max_bytes`` after the other. See :func:`scan`."""
        start, left = self.start, True
        while left:
            records = scan(
                self.records,
                start_offset=start,
                end_offset=self.end,
                check_crcs=check_crcs,
                aborted=self.aborted,
                headers=headers,
                where=format_partition((self.topic, self.partition)),
                max_bytes=max_bytes,
            )
            yield records
            start, left = records.next_offset, records.left


@dataclass(eq=False)
class _Reading:
    """The progress of a range. ``stalled`` is the time since which it has made none."""

    index: int
    range: Range
    next: int
    backoff: Backoff
    stalled: float | None = None
    not_before: float = 0.0
    replica: Node | None = None

    @property
    def done(self) -> bool:
        return self.next >= self.range.end

    @property
    def tp(self) -> TopicPartition:
        return self.range.topic, self.range.partition

    @property
    def name(self) -> str:
        return format_partition(self.tp)


@dataclass
class FetchCounts:
    """The answers to a fetcher's requests: their number, the milliseconds until they came, and the milliseconds that
    the brokers delayed them (quotas), in total and at most, and the most bytes of records in one."""

    answers: int = 0
    latency: float = 0
    latency_max: float = 0
    throttled: float = 0
    throttled_max: float = 0
    size_max: int = 0

    def add(self, latency: float, throttled: float, size: int) -> None:
        """Count an answer."""
        self.answers += 1
        self.latency += latency
        self.latency_max = max(self.latency_max, latency)
        self.throttled += throttled
        self.throttled_max = max(self.throttled_max, throttled)
        self.size_max = max(self.size_max, size)


@dataclass(eq=False)
class _Flight:
    answer: Future[Any]
    readings: dict[TopicPartition, _Reading]
    names: dict[UUID | None, str]
    sent: float
    arrived: float = 0.0

    def __post_init__(self) -> None:
        self.answer.add_done_callback(self._note)

    def _note(self, _: Future[Any]) -> None:
        self.arrived = time.monotonic()


class Fetcher:
    """Iterates over the :class:`Chunk` objects of some ranges until each range is read to its end.

    One request per broker is under way at any time, for all the unfinished partitions that it leads. Chunks of one
    range come in order, those of different ranges in any order. Every range ends, even if its last offsets are control
    batches, were compacted away or belong to aborted transactions.

    Raises PossibleDataLossError if the log does not (or no longer) hold a range; with ``skip_lost``, skips the missing
    offsets and counts them in ``lost``. Raises RetriableError if a partition makes no progress for
    ``default.api.timeout.ms``, and AuthorizationError if it may not be read.
    """

    def __init__(
        self,
        session: Session,
        ranges: Sequence[Range],
        *,
        isolation: str | None = None,
        max_bytes: int | None = None,
        max_partition_bytes: int | None = None,
        skip_lost: bool = False,
    ):
        """``isolation``, ``max_bytes`` and ``max_partition_bytes`` replace the session's settings."""
        config = session.config
        self._session = session
        self._committed = (isolation or config.isolation_level) == READ_COMMITTED
        self._max_bytes = max_bytes or config.fetch_max_bytes
        self._partition_bytes = max_partition_bytes or config.max_partition_fetch_bytes or _PARTITION_BYTES
        self._patience = config.default_api_timeout_ms / 1000
        self._readings = [_Reading(index, each, each.start, session.backoff()) for index, each in enumerate(ranges)]
        self._flights: dict[Node, _Flight] = {}
        self._skips = skip_lost
        #: Offsets that were skipped because the log no longer has them.
        self.lost = 0
        #: The answers so far.
        self.counts = FetchCounts()
        for each in ranges:
            if each.topic_id is not None and each.leader_epoch >= 0:
                session.note_epochs(each.topic, each.topic_id, {each.partition: each.leader_epoch})

    def __iter__(self) -> Iterator[Chunk]:
        while True:
            self._launch()
            if not self._flights:
                waiting = [reading.not_before for reading in self._readings if not reading.done]
                if not waiting:
                    return
                time.sleep(max(0.0, min(waiting) - time.monotonic()))
                continue
            chunks = self._receive()
            self._launch()  # before the caller processes these
            yield from chunks

    # --- requests ---

    def _launch(self) -> None:
        """Send one request to every broker that leads unfinished partitions and has no pending request of ours."""
        now = time.monotonic()
        under_way = {tp for flight in self._flights.values() for tp in flight.readings}
        groups: dict[Node, dict[TopicPartition, tuple[_Reading, PartitionInfo]]] = {}
        # Stalled partitions go first: a broker sends a batch above the limits only at the start of an answer.
        for reading in sorted(self._readings, key=lambda each: each.stalled is None):
            if reading.done or reading.not_before > now or reading.tp in under_way:
                continue
            try:
                info = self._session.partition(*reading.tp, self._session.deadline())
            except KafkaFault as raised:
                self._stall(reading, raised.fault, raised.detail)
                continue
            except RetriableError as error:
                raise RetriableError(f"reading {reading.name} from offset {reading.next}: {error}") from error
            except KafkaError as error:
                self._explain_absence(reading, error)
                continue
            if not self._check_identity(reading):
                continue
            node = info.leader if reading.replica is None else reading.replica
            groups.setdefault(node, {}).setdefault(reading.tp, (reading, info))
        for node, group in groups.items():
            if node not in self._flights:
                ids = {topic: self._session.topic(topic).topic_id for topic, _ in group}
                sent = time.monotonic()
                answer = self._session.send(self._build_request(group, ids), node)
                readings = {tp: reading for tp, (reading, _) in group.items()}
                self._flights[node] = _Flight(answer, readings, {each: name for name, each in ids.items()}, sent)

    def _build_request(
        self, group: dict[TopicPartition, tuple[_Reading, PartitionInfo]], topic_ids: dict[str, UUID | None]
    ) -> Any:
        Topic = FetchRequest.FetchTopic
        topics = []
        for name, members in groupby(group.items(), lambda each: each[0][0]):
            partitions = [
                Topic.FetchPartition(
                    partition=info.partition,
                    current_leader_epoch=info.leader_epoch if reading.replica is None else -1,
                    fetch_offset=reading.next,
                    partition_max_bytes=self._partition_bytes,
                )
                for _, (reading, info) in members
            ]
            topics.append(Topic(topic=name, topic_id=topic_ids[name], partitions=partitions))
        return FetchRequest(
            replica_id=-1,
            max_wait_ms=self._session.config.fetch_max_wait_ms,
            min_bytes=self._session.config.fetch_min_bytes,
            max_bytes=self._max_bytes,
            isolation_level=int(self._committed),
            session_id=0,
            session_epoch=-1,
            topics=topics,
            forgotten_topics_data=[],
            rack_id=self._session.config.client_rack,
            min_version=4,
        )

    def _check_identity(self, reading: _Reading) -> bool:
        """Whether the topic still has the planned id. If not, raises an error or skips the range."""
        topic, wanted = reading.range.topic, reading.range.topic_id
        found = self._session.topic(topic).topic_id
        if wanted is not None and found is not None and wanted != found:
            fresh = self._session.topics([topic]).get(topic)  # the cache may be older than the plan
            found = fresh.topic_id if fresh else found
        if wanted is None or found is None or wanted == found:
            return True
        self._lose(
            reading,
            f"{reading.name}: topic id {found} instead of {wanted}: the topic was deleted and created again, so "
            f"offset {reading.next} is another record now; start again with start positions of your choice",
        )
        return False

    def _explain_absence(self, reading: _Reading, error: KafkaError) -> None:
        """A partition that does not exist. Raises ``error`` if it is not known to have existed."""
        if reading.range.topic_id is None or reading.range.topic in self._session.topics([reading.range.topic]):
            raise error
        self._lose(
            reading,
            f"{reading.name}: the topic no longer exists, and its records from offset {reading.next} to "
            f"{reading.range.end} were not read; start again with start positions of your choice",
        )

    def _lose(self, reading: _Reading, reason: str, following: int | None = None) -> None:
        """Skip the missing offsets up to ``following`` (None: all of the range), or raise PossibleDataLossError."""
        if not self._skips:
            raise PossibleDataLossError(reason)
        end = reading.range.end if following is None else min(following, reading.range.end)
        self.lost += end - reading.next
        reading.next, reading.stalled = end, None

    # --- answers ---

    def _receive(self) -> list[Chunk]:
        """Wait for the first answer and process it."""
        limit = self._session.config.request_timeout_ms / 1000 + 5
        wait_for([flight.answer for flight in self._flights.values()], limit, FIRST_COMPLETED)
        node = next((node for node, flight in self._flights.items() if flight.answer.done()), None)
        if node is None:
            raise RetriableError(f"no answer to any fetch within {limit:g} s; check that the brokers are up")
        flight = self._flights.pop(node)
        try:
            answer = self._session.wait(flight.answer, self._session.deadline(), node)
            check_code(answer.error_code)
        except KafkaFault as raised:
            self._session.forget_topics(topic for topic, _ in flight.readings)
            for reading in flight.readings.values():
                self._stall(reading, raised.fault, raised.detail)
            return []
        partitions = [each for topic in answer.responses for each in topic.partitions]
        size = sum(len(each.records or b"") for each in partitions)
        arrived = flight.arrived or time.monotonic()  # callbacks come a moment after the answer
        self.counts.add((arrived - flight.sent) * 1000, answer.throttle_time_ms, size)
        chunks = []
        for topic in answer.responses:
            for each in topic.partitions:
                tp = topic.topic or flight.names.get(topic.topic_id, ""), each.partition_index
                chunk = self._take(flight.readings[tp], each) if tp in flight.readings else None
                if chunk:
                    chunks.append(chunk)
        return chunks

    def _take(self, reading: _Reading, answer: Any) -> Chunk | None:
        fault = fault_from_code(answer.error_code)
        if fault.code == _OFFSET_OUT_OF_RANGE and self._explain_out_of_range(reading):
            return None
        if fault.action is not Action.NONE:
            self._session.forget_topics([reading.range.topic])
            self._stall(reading, fault)
            return None
        if answer.preferred_read_replica >= 0 and not answer.records:
            reading.replica = answer.preferred_read_replica  # KIP-392: read from a nearer replica
            return None
        size, following = _whole_batches(answer.records or b"", reading.next, reading.range.end)
        if following <= reading.next:
            self._explain_nothing(reading, answer)
            return None
        start, reading.next, reading.stalled = reading.next, following, None
        reading.backoff.attempts = 0
        return Chunk(
            range=reading.index,
            topic=reading.range.topic,
            partition=reading.range.partition,
            records=memoryview(answer.records)[:size],
            start=start,
            end=reading.range.end,
            next_offset=following,
            aborted=tuple((each.producer_id, each.first_offset) for each in answer.aborted_transactions or ()),
            high_watermark=answer.high_watermark,
            last_stable_offset=answer.last_stable_offset,
            log_start_offset=answer.log_start_offset,
        )

    def _explain_nothing(self, reading: _Reading, answer: Any) -> None:
        """An answer without a whole batch, before the end of the range."""
        if answer.high_watermark < reading.range.end:
            # A new leader's high watermark may lag for a moment; ListOffsets waits until it is certain.
            _, end = self._log_bounds(reading)
            if end < reading.range.end:
                self._lose_tail(reading, end)
                return
        detail = ""
        if self._committed and answer.last_stable_offset < reading.range.end:
            detail = (
                f"an open transaction holds the last stable offset at {answer.last_stable_offset}, below the planned "
                f"end {reading.range.end}"
            )
        self._stall(reading, Fault(0, "no records", Action.RETRY), detail)

    def _lose_tail(self, reading: _Reading, end: int) -> None:
        """The log ends at ``end``, before the range does."""
        if end > reading.next and self._skips:  # the next answer has the rest
            self.lost += reading.range.end - end
            reading.range = replace(reading.range, end=end)
            return
        self._lose(
            reading,
            f"{reading.name}: the log ends at offset {end}, but records up to offset {reading.range.end} were "
            "planned: the log was truncated, or the topic was created again. Compare the published records with the "
            "log before you restart from other offsets",
        )

    def _explain_out_of_range(self, reading: _Reading) -> bool:
        """Whether the range skipped offsets; False if its offset is in the log, as the leader was behind."""
        start, end = self._log_bounds(reading)
        if start <= reading.next <= end:
            return False
        self._lose(
            reading,
            f"{reading.name}: offset {reading.next} was requested, but the log holds offsets {start} to {end}; raise "
            "the topic's retention. 'scan.fail-on-data-loss' = 'false' continues without the missing records "
            "('properties.auto.offset.reset' is for starts without a checkpoint)",
            start if reading.next < start else None,
        )
        return True

    def _log_bounds(self, reading: _Reading) -> tuple[int, int]:
        found = [
            list_offsets(self._session, [reading.tp], at, isolation=READ_UNCOMMITTED)[reading.tp]
            for at in (EARLIEST, LATEST)
        ]
        start, end = (0 if each is None else each.offset for each in found)
        return start, end

    def _stall(self, reading: _Reading, fault: Fault, detail: str = "") -> None:
        """Note that a range made no progress. Raises an error that cannot be retried, or after too long a time."""
        label = f"reading {reading.name} from offset {reading.next}"
        if not fault.action.retriable and fault.code != _OFFSET_OUT_OF_RANGE:
            raise fault.lacking("Read").error(label, detail)
        now = time.monotonic()
        reading.replica = None
        reading.stalled = reading.stalled or now
        if now - reading.stalled > self._patience:
            text = f"{fault.name} ({detail})" if detail else fault.name
            raise RetriableError(f"{label}: no progress for {self._patience:g} s, at last {text}")
        reading.not_before = now + reading.backoff.next()


def _whole_batches(records: bytes, next_offset: int, end: int) -> tuple[int, int]:
    """Bytes of the whole batches that start below ``end``, and the offset after the last of them.

    ``next_offset`` where there is no whole batch; at least ``end`` where a batch from there on follows.
    """
    position, following = 0, next_offset
    while position + _BATCH.size <= len(records):
        base, length, magic, last_delta = _BATCH.unpack_from(records, position)
        if magic < 2:
            reason = f"the record batch at offset {base} has message format v{magic}; only v2 is read"
            raise UnsupportedError((Problem(reason, hint="write the old records again"),))
        if length < _BATCH.size - _LENGTH_BYTES:
            raise KafkaError(f"the record batch at offset {base} is malformed: it has a length of {length} bytes")
        if base >= end:
            return position, max(following, end)
        if position + _LENGTH_BYTES + length > len(records):
            break
        position += _LENGTH_BYTES + length
        following = max(following, base + last_delta + 1)
    return position, following
