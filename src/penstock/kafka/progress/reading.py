"""Reading the progress topic: the claims and the progress of transactional ids."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.deadline import Deadline
from penstock.delivery import Claim, Progress
from penstock.errors import CheckpointError, RetriableError
from penstock.kafka.fetch import Chunk, Fetcher, Range
from penstock.kafka.offsets import EARLIEST, LATEST, list_offsets
from penstock.kafka.partitions import format_partition
from penstock.kafka.produce import Producer, ProducerIdentity
from penstock.kafka.progress import records
from penstock.kafka.progress.records import NotBelievedError, Seal, encode_record, parse_record
from penstock.kafka.progress.topic import RECREATED, ProgressTopic
from penstock.kafka.properties import READ_UNCOMMITTED
from penstock.kafka.record_batches import ControlType, read_batch_headers
from penstock.kafka.session import Session


@dataclass(frozen=True)
class ProgressRead:
    """The records of a transactional id in the progress topic.

    ``progress`` and ``claim`` are the last committed records. ``latest_claim`` is the last one written, even if its
    transaction was not committed: its writer owned the id then, as the producer ``latest_claimant``. ``ignored`` names
    the records with the id's keys that are not believed, with the reasons. ``marks`` are the marks found, with their
    partitions.
    """

    progress: Progress | None = None
    claim: Claim | None = None
    latest_claim: Claim | None = None
    latest_claimant: ProducerIdentity | None = None
    ignored: tuple[str, ...] = ()
    marks: frozenset[tuple[int, bytes]] = frozenset()


def read_present_progress(
    session: Session, topic: ProgressTopic, transactional_id: str, *, deadline: Deadline | None = None
) -> ProgressRead:
    """Read the last published batch from the present leader (rule "progress reads are definite"). Definite after
    InitProducerId.

    A leader that is cut off from the other brokers, or has just resumed after a pause, does not know that it has been
    replaced: it answers reads from its old log, which may lack the end of our transaction. But it cannot acknowledge a
    record. So a mark is written first, and a read without the mark is not believed. Raises RetriableError if no read
    has the mark in time, and the errors of :func:`read_progress`.
    """
    deadline = deadline or session.deadline()
    mark = uuid.uuid4().hex.encode()
    batch = encode_record(records.mark_key(transactional_id), mark, topic.partition_of(transactional_id))
    with Producer(session, plain=True) as producer:
        producer.submit(topic.name, batch.partition, batch.data, batch.count)
        producer.flush(deadline)
    backoff = session.backoff()
    while True:
        read = read_progress(session, topic, transactional_id, deadline=deadline)
        if (batch.partition, mark) in read.marks:
            return read
        session.forget_topics([topic.name])
        wait = backoff.next()
        if deadline.left <= wait:
            raise RetriableError(
                f"progress of transactional id '{transactional_id}' was read from a broker that lacks the record just "
                f"written to topic '{topic.name}': it may be cut off from the other brokers. Check their network"
            )
        time.sleep(wait)


def read_progress(
    session: Session, topic: ProgressTopic, transactional_id: str, *, deadline: Deadline | None = None
) -> ProgressRead:
    """Read the last published batch, for display; decisions need :func:`read_present_progress`.

    Reads up to the high watermark regardless of open transactions, and pairs our records with the control markers of
    their producer, so another id's open transaction hides nothing. Raises RetriableError on a time-out, which is never
    treated as the end, and CheckpointError if the topic was created again.
    """
    return read_progress_of(session, topic, [transactional_id], deadline=deadline)[transactional_id]


def read_progress_of(
    session: Session, topic: ProgressTopic, transactional_ids: Iterable[str], *, deadline: Deadline | None = None
) -> dict[str, ProgressRead]:
    """Like :func:`read_progress`, for several ids in one pass over the topic."""
    ids = tuple(dict.fromkeys(transactional_ids))
    name = topic.name
    # A query with a new checkpoint writes to another partition if the topic was enlarged since.
    info = session.topics([name], deadline).get(name)
    if info and info.topic_id and topic.topic_id and info.topic_id != topic.topic_id:
        raise CheckpointError(
            f"progress topic '{name}' has id {info.topic_id}, and had {topic.topic_id} before: {RECREATED}. Check the "
            "cluster"
        )
    count = max(topic.partitions, len(info.partitions) if info else 0)
    tps = [(name, partition) for partition in range(count)]
    starts, ends = (
        list_offsets(session, tps, at, isolation=READ_UNCOMMITTED, deadline=deadline) for at in (EARLIEST, LATEST)
    )
    ranges = []
    for tp in tps:
        start, end = starts[tp], ends[tp]
        if start and end and start.offset < end.offset:
            ranges.append(Range(*tp, start.offset, end.offset, topic.topic_id))
    readers = [_Reader(each.partition, ids, topic.seal) for each in ranges]
    for chunk in Fetcher(session, ranges, isolation=READ_UNCOMMITTED):
        readers[chunk.range].take(chunk)
    return {each: _combine(each, readers) for each in ids}


def _combine(transactional_id: str, readers: Sequence[_Reader]) -> ProgressRead:
    def find_last(found: Iterable[_Written | None]) -> _Written | None:
        return reduce(_choose_later, filter(None, found), None)

    progress = find_last(each.committed.get((transactional_id, Progress)) for each in readers)
    claim = find_last(each.committed.get((transactional_id, Claim)) for each in readers)
    latest = find_last(each.latest_claims.get(transactional_id) for each in readers)
    return ProgressRead(
        progress.record if progress else None,  # type: ignore[arg-type]
        claim.record if claim else None,  # type: ignore[arg-type]
        latest.record if latest else None,  # type: ignore[arg-type]
        latest.by if latest else None,
        tuple(reason for each in readers for reason in each.ignored.get(transactional_id, ())),
        frozenset((each.partition, mark) for each in readers for mark in each.marks.get(transactional_id, ())),
    )


@dataclass(frozen=True)
class _Written:
    """A record, its producer (id -1: outside transactions), and its timestamp in ms."""

    record: Progress | Claim
    by: ProducerIdentity
    timestamp: int


def _choose_later(one: _Written | None, other: _Written) -> _Written:
    """The later of two records with the same key in different partitions.

    The records of one checkpoint stay in one partition, even if the topic is enlarged. A query with a new checkpoint
    may write to another one. Offsets of different partitions have no order, but batch ids of one query have, and so
    have the epochs of one producer id, which rise with every transaction and every owner. Timestamps decide only if
    both differ: with a wrong clock, :func:`decide` may then get another query's record and stop, or continue with our
    own.
    """
    if one is None:
        return other
    a, b = one.record, other.record
    if isinstance(a, Progress) and isinstance(b, Progress) and a.query_id == b.query_id:
        return one if a.batch_id > b.batch_id else other
    if one.by.producer_id == other.by.producer_id:
        return one if one.by.epoch > other.by.epoch else other
    return one if one.timestamp > other.timestamp else other


#: The key of a record: a transactional id, and the record's type.
_Key = tuple[str, type[Progress | Claim]]


class _Reader:
    """Reads one partition of the progress topic for some transactional ids."""

    def __init__(self, partition: int, transactional_ids: Sequence[str], seal: Seal | None):
        self.partition = partition
        self.committed: dict[_Key, _Written] = {}
        self.latest_claims: dict[str, _Written] = {}
        self.ignored: dict[str, list[str]] = {}
        self.marks: dict[str, set[bytes]] = {}
        self._seal = seal
        self._marked = {records.mark_key(each): each for each in transactional_ids}
        self._keys: dict[bytes, _Key] = {
            records.record_key(each, cls): (each, cls) for each in transactional_ids for cls in (Progress, Claim)
        }
        self._open: list[tuple[_Key, _Written]] = []

    def take(self, chunk: Chunk) -> None:
        where = format_partition((chunk.topic, chunk.partition))
        heads = read_batch_headers(chunk.records, where=where)
        heads = heads[heads["base_offset"] < chunk.end]
        events: list[tuple[int, Any]] = []
        for found in chunk.slices(check_crcs=False):
            keys = pa.array([*self._keys, *self._marked], pa.binary())
            ours = np.flatnonzero(pc.is_in(found.keys, value_set=keys))
            events += [(int(found.offsets[row]), (found.keys[row].as_py(), found.values[row].as_py())) for row in ours]
        markers = heads[heads["control_type"] != ControlType.NONE]
        events += [(int(marker["base_offset"]), marker) for marker in markers]
        for offset, event in sorted(events, key=lambda each: each[0]):
            if not isinstance(event, tuple):
                self._end(event)
                continue
            key, value = event
            if key in self._marked:
                self.marks.setdefault(self._marked[key], set()).add(value)
                continue
            transactional_id, cls = self._keys[key]
            head = heads[int(np.searchsorted(heads["base_offset"], offset, side="right")) - 1]
            try:
                if not head["is_transactional"]:
                    raise NotBelievedError("was written outside of a transaction")
                record = parse_record(cls, transactional_id, value, self._seal)
            except NotBelievedError as reason:
                text = f"{where}, offset {offset}: the record {reason}; find out which program writes it"
                self.ignored.setdefault(transactional_id, []).append(text)
                continue
            by = ProducerIdentity(int(head["producer_id"]), int(head["producer_epoch"]))
            written = _Written(record, by, int(head["max_timestamp"]))
            if cls is Claim:
                self.latest_claims[transactional_id] = written
            self._open.append(((transactional_id, cls), written))

    def _end(self, marker: Any) -> None:
        """The end of a transaction. Since transaction.version 2 its marker may have a later epoch than its records."""
        still_open = []
        for key, written in self._open:
            if written.by.producer_id != marker["producer_id"] or written.by.epoch > marker["producer_epoch"]:
                still_open.append((key, written))
            elif marker["control_type"] == ControlType.COMMIT and not self._repeats(key, written):
                self.committed[key] = written
        self._open = still_open

    def _repeats(self, key: _Key, written: _Written) -> bool:
        """Whether the same query has committed a later batch before: the record is a copy of an old one."""
        known = self.committed.get(key)
        old, new = known and known.record, written.record
        return (
            isinstance(old, Progress)
            and isinstance(new, Progress)
            and (old.query_id == new.query_id and old.batch_id > new.batch_id)
        )
