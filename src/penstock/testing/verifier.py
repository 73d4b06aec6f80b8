"""The verifier: tells whether numbered records arrived once, whole batches at a time and in order.

Two readers look at what was written, both under read_committed: one follows the log beside the running job, one reads
all of it afterwards. What the brokers' logs say about transactions is read a third time, raw, to judge the two.
"""

from __future__ import annotations

import json
import math
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from penstock.connectors.kafka.source.positions import Positions
from penstock.errors import KafkaError, RetriableError
from penstock.kafka.batches import ControlType, batch_headers
from penstock.kafka.fetch import Chunk, Fetcher, Range
from penstock.kafka.offsets import EARLIEST, LATEST, list_offsets
from penstock.kafka.progress import TOPIC
from penstock.kafka.properties import READ_COMMITTED, READ_UNCOMMITTED, ClientConfig
from penstock.kafka.session import Session, TopicPartition, session_for
from penstock.testing.numbered import NumberedRecords, numbers_of
from penstock.testing.transactions import TransactionInspector

_POLL_SECONDS = 0.05
_MOMENT_SECONDS = 5.0  # brokers may be down when something is started again
_NUMBERS = 1 << 40  # a record's identity is p * _NUMBERS + n

Ints = NDArray[Any]


@dataclass(frozen=True)
class Verdict:
    """What became of the numbered records. All counts but the first two should be 0.

    Attributes:
        expected: records that had to arrive.
        records: what the reader afterwards saw.
        lost: records that a reader has not seen.
        duplicated: how often a reader saw a record again.
        strangers: records that were not to arrive at all.
        aborted_visible: records of transactions that were aborted or never ended, seen by a reader.
        torn: batches of which only a part is visible; and one more when records are visible that no progress record
            covers.
        disordered: how often, of two records from one partition to another, the later came first.
        open_transactions: partitions still held back by an open transaction, long after the end.
        recovery_seconds: from :meth:`Verifier.restarted` to the first record that the reader beside the job saw then.
    """

    expected: int
    records: int
    lost: int
    duplicated: int
    strangers: int
    aborted_visible: int
    torn: int
    disordered: int
    open_transactions: int
    recovery_seconds: float | None = None

    @property
    def exact(self) -> bool:
        """Whether every record arrived exactly once, in order, and nothing was left behind."""
        return not any(
            (
                self.lost,
                self.duplicated,
                self.strangers,
                self.aborted_visible,
                self.torn,
                self.disordered,
                self.open_transactions,
            )
        )


@dataclass(frozen=True, eq=False)
class _Seen:
    """Records of one partition that a reader saw at ``time`` (monotonic seconds)."""

    time: float
    place: TopicPartition
    offsets: Ints
    ids: Ints


class Verifier:
    """Watches the output of a job that copies numbered records.

    ::

        source = NumberedRecords(bootstrap, "in")
        with Verifier(bootstrap, source, ["out"]) as verifier:
            source.write(10_000)
            ...                                    # run the job, and do to it what is to be survived
            verdict = verifier.verdict()
        assert verdict.exact, verdict

    Args:
        bootstrap: ``host:port,...`` of the brokers, in plain text; better not by way of a proxy that misbehaves.
        source: who writes the records.
        outputs: the topics that the job writes. A record is expected once in all of them together.
        transactional_ids: the job's (``<prefix>-<job name>``; several when the prefix was changed): torn batches are
            found by their progress records. Empty where there are none.
        first: the first ``n`` of each partition that is expected; 0 by default.
        ordered: whether order is promised (not where the job shuffles).
    """

    def __init__(
        self,
        bootstrap: str,
        source: NumberedRecords,
        outputs: Sequence[str],
        *,
        transactional_ids: Sequence[str] = (),
        progress_topic: str = TOPIC,
        first: Mapping[int, int] | None = None,
        ordered: bool = True,
    ):
        self.source, self.outputs = source, tuple(outputs)
        self.first = dict(first or {})
        self.transactional_ids, self.progress_topic = tuple(transactional_ids), progress_topic
        self.ordered = ordered
        self.inspector = TransactionInspector(bootstrap)
        self._session = session_for(
            ClientConfig.from_properties({"bootstrap.servers": bootstrap, "isolation.level": READ_COMMITTED})
        )
        for topic in self.outputs:
            self._session.topic(topic, create=True)
        self._beside = _Follower(self._session, self.outputs)
        self._restarted: tuple[float, int] | None = None  # when, and what had been seen by then

    def __enter__(self) -> Verifier:
        self._beside.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._beside.stop()

    # --- beside the running job ------------------------------------------------------------------------------

    @property
    def seen(self) -> int:
        """How many records the reader beside the job has seen, repetitions among them."""
        return self._beside.count

    def wait_for_records(self, records: int, seconds: float, alive: Callable[[], bool] = lambda: True) -> bool:
        """Wait until so many different records are visible. False when they are not after so many seconds, or when
        ``alive`` says that nothing more will come."""
        until = time.monotonic() + seconds
        while True:
            running = alive()
            if not running:
                self._beside.catch_up()
            if self._beside.count >= records and len(np.unique(_joined(self._beside.seen))) >= records:
                return True
            if not running or time.monotonic() > until:
                return False
            time.sleep(_POLL_SECONDS)

    def restarted(self) -> None:
        """Note that the job is started again now, or that a fault which it has to recover from is put in now."""
        now = time.monotonic()
        self._beside.catch_up(_MOMENT_SECONDS)  # what was visible before is no sign of recovery
        self._restarted = (now, len(self._beside.seen))

    # --- afterwards ------------------------------------------------------------------------------------------

    def verdict(self, patience: float = 10.0) -> Verdict:
        """Judge, when the job has ended or has nothing left to do. Open transactions get ``patience`` seconds to end.

        Raises KafkaError when a record in the output carries no number.
        """
        held = self.inspector.wait_until_none_open(self.outputs, patience)
        if self.transactional_ids:  # of the progress topic, which others use too, only what is the job's
            held += self.inspector.wait_until_none_open([self.progress_topic], patience, self.transactional_ids)
        self._beside.catch_up()
        self._beside.stop()
        beside, after = self._beside.seen, _read_all(self._session, self.outputs)
        expected = self._expected()
        aborted = _aborted(self._session, self.outputs)
        counts = [_compare(_joined(seen), expected) for seen in (beside, after)]
        return Verdict(
            expected=len(expected),
            records=sum(len(each.ids) for each in after),
            lost=max(each[0] for each in counts),
            duplicated=max(each[1] for each in counts),
            strangers=max(each[2] for each in counts),
            aborted_visible=max(_within(seen, aborted) for seen in (beside, after)),
            torn=self._torn(np.unique(_joined(after)), expected),
            disordered=max(_disordered(seen) for seen in (beside, after)) if self.ordered else 0,
            open_transactions=len(held),
            recovery_seconds=self._recovery(beside),
        )

    def _expected(self) -> Ints:
        return np.concatenate(
            [
                np.arange(self.first.get(place, 0), count, dtype=np.int64) + place * _NUMBERS
                for place, count in sorted(self.source.written.items())
            ]
        )

    def _recovery(self, beside: Sequence[_Seen]) -> float | None:
        if self._restarted is None:
            return None
        began, known = self._restarted
        return beside[known].time - began if len(beside) > known else None

    def _torn(self, visible: Ints, expected: Ints) -> int:
        if not self.transactional_ids:
            return 0
        written = {each.place[1]: each for each in _read_all(self._session, [self.source.topic], joined=True)}
        torn, covered = 0, [np.empty(0, np.int64)]
        for batch in _batches(self._session, self.progress_topic, self.transactional_ids):
            ids = np.concatenate([np.empty(0, np.int64), *(_between(written, batch, each) for each in written)])
            ids = ids[np.isin(ids, expected)]  # the first batch's record does not say where it began
            found = int(np.isin(ids, visible).sum())
            torn += 0 < found < len(ids)
            covered.append(ids)
        return torn + bool(len(np.setdiff1d(visible, np.concatenate(covered))))


class _Follower:
    """Reads some topics under read_committed, in a thread, as far as their last stable offsets go."""

    def __init__(self, session: Session, topics: Sequence[str]):
        self.seen: list[_Seen] = []
        self.count = 0
        self._session, self._topics = session, topics
        self._positions: dict[TopicPartition, int] = {}
        self._rounds = 0
        self._stopping = threading.Event()
        self._failure: KafkaError | None = None
        self._thread = threading.Thread(target=self._run, name="verifier", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stopping.set()
        if self._thread.ident is not None:
            self._thread.join()

    def catch_up(self, seconds: float = math.inf) -> None:
        """Return when all has been read that was visible at the time of the call, or after so many seconds."""
        wanted, until = self._rounds + 2, time.monotonic() + seconds  # the round under way may have begun before
        while self._rounds < wanted and self._thread.is_alive() and time.monotonic() < until:
            time.sleep(_POLL_SECONDS)
        if self._failure is not None:
            raise self._failure

    def _run(self) -> None:
        try:
            while not self._stopping.is_set():
                try:
                    self._read()
                except RetriableError:  # brokers that are down are among what is tested
                    self._session.forget_topics(self._topics)
                else:
                    self._rounds += 1
                self._stopping.wait(_POLL_SECONDS)
        except KafkaError as error:
            self._failure = error

    def _read(self) -> None:
        if self._rounds % 20 == 0:  # partitions may be added
            self._session.forget_topics(self._topics)
        ranges = []
        for place, end in _ends(self._session, self._topics, READ_COMMITTED).items():
            start = self._positions.setdefault(place, 0)
            if start < end:
                ranges.append(Range(*place, start, end))
        if not ranges:
            return
        for chunk in Fetcher(self._session, ranges, isolation=READ_COMMITTED):
            self._positions[chunk.topic, chunk.partition] = chunk.next_offset
            for found in _decode(chunk):
                self.seen.append(found)
                self.count += len(found.ids)


# --- reading -----------------------------------------------------------------------------------------------------


def _ends(session: Session, topics: Iterable[str], isolation: str) -> dict[TopicPartition, int]:
    places = [(name, each.partition) for name in topics for each in session.topic(name).partitions]
    found = list_offsets(session, places, LATEST, isolation=isolation)
    return {place: end.offset for place, end in found.items() if end is not None}


def _chunks(session: Session, topics: Iterable[str], isolation: str) -> Iterable[Chunk]:
    """All that the topics hold."""
    ends = _ends(session, topics, isolation)
    starts = list_offsets(session, ends, EARLIEST)
    ranges = [
        Range(*place, start.offset, end)
        for place, end in ends.items()
        if (start := starts[place]) is not None and start.offset < end
    ]
    return Fetcher(session, ranges, isolation=isolation)


def _decode(chunk: Chunk) -> Iterator[_Seen]:
    where = f"topic '{chunk.topic}', partition {chunk.partition}"
    for records in chunk.slices(headers=True):
        if len(records):
            places, numbers = numbers_of(records.headers, where)
            place = chunk.topic, chunk.partition
            yield _Seen(time.monotonic(), place, records.offsets, places * _NUMBERS + numbers)


def _read_all(session: Session, topics: Iterable[str], *, joined: bool = False) -> list[_Seen]:
    """What a reader sees now; with ``joined`` one piece for each partition."""
    found = [each for chunk in _chunks(session, topics, READ_COMMITTED) for each in _decode(chunk)]
    if not joined:
        return found
    places: dict[TopicPartition, list[_Seen]] = {}
    for each in found:
        places.setdefault(each.place, []).append(each)
    return [
        _Seen(0, place, np.concatenate([each.offsets for each in members]), _joined(members))
        for place, members in places.items()
    ]


def _batches(
    session: Session, topic: str, transactional_ids: Sequence[str]
) -> list[tuple[Positions | None, Positions]]:
    """Where each batch that was ever committed began and ended, by its last progress record."""
    keys = pa.array([each.encode() for each in transactional_ids], pa.binary())
    aborted = _aborted(session, [topic])
    found: dict[tuple[str, int], tuple[Positions | None, Positions]] = {}
    # Raw, since somebody else's open transaction hides what is behind it in the same partition.
    pieces = ((chunk, records) for chunk in _chunks(session, [topic], READ_UNCOMMITTED) for records in chunk.slices())
    for chunk, records in pieces:
        ours = pc.is_in(records.keys, value_set=keys).to_numpy(zero_copy_only=False)
        ours &= ~_inside(records.offsets, aborted.get((chunk.topic, chunk.partition)))
        for value in records.values.take(pa.array(np.flatnonzero(ours))).to_pylist():
            progress = json.loads(value)
            start, end = progress["start"]["sources"][0], progress["end"]["sources"][0]
            found[progress["query_id"], progress["batch_id"]] = (
                None if start is None else Positions.from_json(start),
                Positions.from_json(end),
            )
    return list(found.values())


def _between(written: Mapping[int, _Seen], batch: tuple[Positions | None, Positions], partition: int) -> Ints:
    """The records of one partition of the source that a batch covers."""
    source = written[partition]
    start, end = batch
    first = 0 if start is None else start.offset(source.place, 0)
    last = end.offset(source.place, 0)
    low, high = np.searchsorted(source.offsets, [first, last])
    return source.ids[low:high]


def _aborted(session: Session, topics: Iterable[str]) -> dict[TopicPartition, Ints]:
    """First and last offset (two columns) of each record batch of a transaction that was not committed, from what is
    in the logs themselves: batches, and the markers that end transactions."""
    open_batches: dict[TopicPartition, dict[int, list[tuple[int, int]]]] = {}
    aborted: dict[TopicPartition, list[tuple[int, int]]] = {}
    for chunk in _chunks(session, topics, READ_UNCOMMITTED):
        place = (chunk.topic, chunk.partition)
        waiting, ended = open_batches.setdefault(place, {}), aborted.setdefault(place, [])
        for head in batch_headers(chunk.records, where=f"topic '{chunk.topic}', partition {chunk.partition}"):
            producer = int(head["producer_id"])
            if head["control_type"] == ControlType.ABORT:
                ended += waiting.pop(producer, [])
            elif head["control_type"] == ControlType.COMMIT:
                waiting.pop(producer, None)
            elif head["is_transactional"]:
                waiting.setdefault(producer, []).append((int(head["base_offset"]), int(head["last_offset"])))
    for place, left in open_batches.items():
        for batches in left.values():
            aborted[place] += batches
    return {place: np.array(sorted(each), np.int64).reshape(-1, 2) for place, each in aborted.items()}


# --- judging -----------------------------------------------------------------------------------------------------


def _joined(seen: Iterable[_Seen]) -> Ints:
    return np.concatenate([np.empty(0, np.int64), *(each.ids for each in seen)])


def _compare(ids: Ints, expected: Ints) -> tuple[int, int, int]:
    """How many are missing, how many there are again, how many should not be there."""
    different, counts = np.unique(ids, return_counts=True)
    wanted = np.isin(different, expected, assume_unique=True)
    return len(expected) - int(wanted.sum()), int((counts[wanted] - 1).sum()), int((~wanted).sum())


def _within(seen: Iterable[_Seen], spans: Mapping[TopicPartition, Ints]) -> int:
    """How many records lie within the spans of their partitions."""
    return sum(int(_inside(each.offsets, spans.get(each.place)).sum()) for each in seen)


def _inside(offsets: Ints, spans: Ints | None) -> Ints:
    """Which offsets lie within one of the spans (rows of first and last offset, in order)."""
    if spans is None or not len(spans):
        return np.zeros(len(offsets), np.bool_)
    at = np.searchsorted(spans[:, 0], offsets, side="right") - 1
    inside: Ints = (at >= 0) & (offsets <= spans[at, 1])
    return inside


def _disordered(seen: Iterable[_Seen]) -> int:
    """Over the partitions of the output: how often a record follows one with a higher number of the same ``p``."""
    found = 0
    last: dict[tuple[TopicPartition, int], int] = {}
    for each in seen:  # the pieces of a partition are in order
        places = each.ids // _NUMBERS
        for place in np.unique(places):
            numbers = each.ids[places == place]
            before = last.get((each.place, int(place)), -1)
            found += int((np.diff(numbers, prepend=before) < 0).sum())
            last[each.place, int(place)] = int(numbers[-1])
    return found
