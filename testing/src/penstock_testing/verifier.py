"""The verifier: whether numbered records arrived once, in whole batches and in order.

Two readers see the output under read_committed: one follows the log beside the running job, one reads all of it
afterwards. A third pass reads the raw logs, which say how transactions ended, and judges both readers by them.
"""

from __future__ import annotations

import json
import math
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import astuple, dataclass
from typing import Any, TypeAlias

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from penstock.connectors.kafka.source.positions import Positions
from penstock.deadline import awaited
from penstock.errors import KafkaError, RetriableError
from penstock.kafka.fetch import Chunk, Fetcher, Range
from penstock.kafka.offsets import EARLIEST, LATEST, list_offsets
from penstock.kafka.partitions import TopicPartition
from penstock.kafka.progress import TOPIC
from penstock.kafka.properties import READ_COMMITTED, READ_UNCOMMITTED, ClientConfig
from penstock.kafka.record_batches import ControlType, Records, read_batch_headers
from penstock.kafka.session import Session, session_for
from penstock_testing.numbered import NumberedRecords, numbers_of
from penstock_testing.transactions import TransactionInspector

_POLL_SECONDS = 0.05
_MOMENT_SECONDS = 5.0  # brokers may be down at a restart
_NUMBERS = 1 << 40  # a record's identity is p * _NUMBERS + n

#: The columns that say where a record is.
_PLACE = ["topic", "partition", "offset"]

_NOTHING = pd.DataFrame({"topic": "", "partition": 0, "offset": 0, "id": 0, "time": 0.0}, index=range(0))

Ints = NDArray[Any]


@dataclass(frozen=True)
class Verdict:
    """The fate of the numbered records. All counts but the first two should be 0.

    Attributes:
        expected: records that should arrive.
        records: records that the reader afterwards saw.
        lost: records that a reader has not seen.
        duplicated: how often a reader saw a record again.
        strangers: records that should not have arrived.
        aborted_visible: records of aborted or unfinished transactions that a reader saw.
        torn: batches that are visible in part; one more when records are visible that no progress record covers.
        disordered: how often, of two records from one partition to another, the later came first.
        open_transactions: partitions that an open transaction still holds back, long after the end.
        recovery_seconds: from :meth:`Verifier.restarted` to the next record that the reader beside the job saw.
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
        """Whether every record arrived exactly once, in order, and no transaction was left open."""
        _, _, *faults, _ = astuple(self)
        return not any(faults)


#: Gives the partition that each of some records was written to, and its number there. The text says where they are.
Numbers: TypeAlias = Callable[[Records, str], tuple[NDArray[Any], NDArray[Any]]]


class Verifier:
    """Watches the output of a job that copies numbered records.

    ::

        source = NumberedRecords(bootstrap, "in")
        with Verifier(bootstrap, source, ["out"]) as verifier:
            source.write(10_000)
            ...                                    # run the job, and inject the faults that it has to survive
            verdict = verifier.verdict()
        assert verdict.exact, verdict

    Args:
        bootstrap: ``host:port,...`` of the brokers, in plain text. Go past a proxy that injects faults.
        source: the writer of the records.
        outputs: the topics that the job writes. Each record is expected once in all of them together.
        transactional_ids: the job's (``<prefix>-<job name>``; several when the prefix was changed). Their progress
            records show which batches are torn. Empty for a job without transactions.
        first: the first ``n`` of each partition that is expected; 0 by default.
        ordered: whether the job keeps the order (it does not when it shuffles).
        numbers: gives ``p`` and ``n`` of records of a place; by their headers unless the job cannot copy those.
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
        numbers: Numbers | None = None,
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
        self._numbers = numbers or _read_headers
        self._beside = _Follower(self._session, self.outputs, self._numbers)
        self._restarted: tuple[float, int] | None = None  # when, and how many records had been seen by then

    def __enter__(self) -> Verifier:
        self._beside.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._beside.stop()

    # --- beside the running job ------------------------------------------------------------------------------

    @property
    def seen(self) -> int:
        """How many records the reader beside the job has seen, duplicates among them."""
        return self._beside.count

    def wait_for_records(self, records: int, seconds: float, alive: Callable[[], bool] = lambda: True) -> bool:
        """Waits until this many different records are visible. False if they are not within ``seconds``, or when
        ``alive`` says that nothing more will come."""
        until = time.monotonic() + seconds
        while True:
            running = alive()
            if not running:
                self._beside.catch_up()
            if self.seen >= records and _concatenate(self._beside.seen)["id"].nunique() >= records:
                return True
            if not running or time.monotonic() > until:
                return False
            time.sleep(_POLL_SECONDS)

    def restarted(self) -> None:
        """Notes that the job is started again now, or that a fault is injected now from which it has to recover."""
        now = time.monotonic()
        self._beside.catch_up(_MOMENT_SECONDS)  # records that were visible before do not show recovery
        self._restarted = (now, self.seen)

    # --- afterwards ------------------------------------------------------------------------------------------

    def verdict(self, patience: float = 10.0) -> Verdict:
        """Judges when the job has ended or has nothing left to do. Open transactions get ``patience`` seconds to end.

        Raises KafkaError when a record in the output carries no number.
        """
        held = self.inspector.wait_until_none_open(self.outputs, patience)
        if self.transactional_ids:  # other jobs use the progress topic too
            held += self.inspector.wait_until_none_open([self.progress_topic], patience, self.transactional_ids)
        self._beside.catch_up()
        self._beside.stop()
        beside, after = _concatenate(self._beside.seen), _read_all(self._session, self.outputs, self._numbers)
        expected = self._compute_expected()
        aborted = _find_aborted(self._session, self.outputs)
        counts = [_compare(seen, expected) for seen in (beside, after)]
        return Verdict(
            expected=len(expected),
            records=len(after),
            lost=max(each[0] for each in counts),
            duplicated=max(each[1] for each in counts),
            strangers=max(each[2] for each in counts),
            aborted_visible=max(len(seen.merge(aborted, on=_PLACE)) for seen in (beside, after)),
            torn=self._count_torn(after["id"].unique(), expected),
            disordered=max(_count_disordered(seen) for seen in (beside, after)) if self.ordered else 0,
            open_transactions=len(held),
            recovery_seconds=self._recovery(beside),
        )

    def _compute_expected(self) -> Ints:
        numbers = [
            np.arange(self.first.get(partition, 0), count, dtype=np.int64) + partition * _NUMBERS
            for partition, count in self.source.written.items()
        ]
        return np.concatenate(numbers)

    def _recovery(self, beside: pd.DataFrame) -> float | None:
        if self._restarted is None:
            return None
        began, known = self._restarted
        return float(beside["time"].iloc[known]) - began if len(beside) > known else None

    def _count_torn(self, visible: Ints, expected: Ints) -> int:
        if not self.transactional_ids:
            return 0
        topic = self.source.topic
        read = _read_all(self._session, [topic], _read_headers)
        written = {each: read[read["partition"] == each] for each in self.source.written}
        torn, covered = 0, [np.empty(0, np.int64)]
        for start, end in _batches(self._session, self.progress_topic, self.transactional_ids):
            pieces = [np.empty(0, np.int64)]
            for partition, rows in written.items():
                tp = topic, partition
                bounds = (start.offset(tp, 0) if start else 0), end.offset(tp, 0)
                low, high = rows["offset"].searchsorted(bounds)
                pieces.append(rows["id"].to_numpy()[low:high])
            ids = np.concatenate(pieces)
            ids = ids[np.isin(ids, expected)]  # the progress record of the first batch does not say where it began
            torn += bool(0 < np.isin(ids, visible).sum() < len(ids))
            covered.append(ids)
        return torn + bool(len(np.setdiff1d(visible, np.concatenate(covered))))


class _Follower:
    """Reads some topics under read_committed, in a thread, up to their last stable offsets."""

    def __init__(self, session: Session, topics: Sequence[str], numbers: Numbers):
        self._numbers = numbers
        self.seen: list[pd.DataFrame] = []
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
        """Returns when everything has been read that was visible at the time of the call, or after ``seconds``."""
        wanted = self._rounds + 2  # the current round may have begun before
        awaited(lambda: self._rounds >= wanted or not self._thread.is_alive(), seconds)
        if self._failure is not None:
            raise self._failure

    def _run(self) -> None:
        try:
            while not self._stopping.is_set():
                if self._rounds % 20 == 0:  # partitions may be added
                    self._session.forget_topics(self._topics)
                try:
                    for chunk in _chunks(self._session, self._topics, READ_COMMITTED, self._positions):
                        self._positions[chunk.topic, chunk.partition] = chunk.next_offset
                        for found in _decode(chunk, self._numbers):
                            self.seen.append(found)
                            self.count += len(found)
                except RetriableError:  # tests take brokers down
                    self._session.forget_topics(self._topics)
                else:
                    self._rounds += 1
                self._stopping.wait(_POLL_SECONDS)
        except KafkaError as error:
            self._failure = error


# --- reading -----------------------------------------------------------------------------------------------------


def _chunks(
    session: Session, topics: Iterable[str], isolation: str, positions: Mapping[TopicPartition, int] | None = None
) -> Iterable[Chunk]:
    """The topics' records from ``positions`` on, by default from the first."""
    tps = [(name, each.partition) for name in topics for each in session.topic(name).partitions]
    ends = list_offsets(session, tps, LATEST, isolation=isolation)
    if positions is None:
        starts = list_offsets(session, tps, EARLIEST)
        positions = {tp: found.offset for tp, found in starts.items() if found}
    ranges = [
        Range(*tp, start, end.offset)
        for tp, end in ends.items()
        if end and (start := positions.get(tp, 0)) < end.offset
    ]
    return Fetcher(session, ranges, isolation=isolation) if ranges else ()


def _read_headers(records: Records, where: str) -> tuple[NDArray[Any], NDArray[Any]]:
    return numbers_of(records.headers, where)


def _decode(chunk: Chunk, find_numbers: Numbers) -> Iterator[pd.DataFrame]:
    where = f"topic '{chunk.topic}', partition {chunk.partition}"
    for records in chunk.slices(headers=True):
        if len(records):
            partitions, numbers = find_numbers(records, where)
            at = {"topic": chunk.topic, "partition": chunk.partition, "offset": records.offsets}
            yield pd.DataFrame({**at, "id": partitions * _NUMBERS + numbers, "time": time.monotonic()})


def _read_all(session: Session, topics: Iterable[str], numbers: Numbers) -> pd.DataFrame:
    """The records that a reader sees now."""
    chunks = _chunks(session, topics, READ_COMMITTED)
    return _concatenate([each for chunk in chunks for each in _decode(chunk, numbers)])


def _batches(
    session: Session, topic: str, transactional_ids: Sequence[str]
) -> Iterable[tuple[Positions | None, Positions]]:
    """Where each committed batch began and ended, by its last progress record."""
    keys = pa.array([each.encode() for each in transactional_ids], pa.binary())
    aborted = _find_aborted(session, [topic])
    found: dict[tuple[str, int], tuple[Positions | None, Positions]] = {}
    # Raw, because another id's open transaction hides the records behind it in the same partition.
    for chunk in _chunks(session, [topic], READ_UNCOMMITTED):
        hidden = aborted["offset"][aborted["partition"] == chunk.partition]
        for records in chunk.slices():
            ours = pc.is_in(records.keys, value_set=keys).to_numpy(zero_copy_only=False)
            ours &= ~np.isin(records.offsets, hidden)
            for value in records.values.filter(pa.array(ours)).to_pylist():
                progress = json.loads(value)
                start, end = progress["start"]["sources"][0], progress["end"]["sources"][0]
                began = None if start is None else Positions.from_json(start)
                found[progress["query_id"], progress["batch_id"]] = began, Positions.from_json(end)
    return found.values()


def _find_aborted(session: Session, topics: Iterable[str]) -> pd.DataFrame:
    """The positions of records whose transaction was not committed, from the logs themselves: from the record batches
    and the markers that end transactions."""
    unfinished: dict[tuple[TopicPartition, int], list[range]] = {}
    aborted: list[tuple[TopicPartition, list[range]]] = []
    for chunk in _chunks(session, topics, READ_UNCOMMITTED):
        tp = (chunk.topic, chunk.partition)
        for head in read_batch_headers(chunk.records, where=f"topic '{chunk.topic}', partition {chunk.partition}"):
            producer = tp, int(head["producer_id"])
            if head["control_type"] in (ControlType.ABORT, ControlType.COMMIT):
                batches = unfinished.pop(producer, [])
                if head["control_type"] == ControlType.ABORT:
                    aborted.append((tp, batches))
            elif head["is_transactional"]:
                offsets = range(int(head["base_offset"]), int(head["last_offset"]) + 1)
                unfinished.setdefault(producer, []).append(offsets)
    aborted += [(tp, batches) for (tp, _), batches in unfinished.items()]
    rows = [(*tp, offset) for tp, batches in aborted for offsets in batches for offset in offsets]
    return pd.DataFrame(rows, columns=_PLACE).astype(_NOTHING.dtypes[_PLACE])


# --- judging -----------------------------------------------------------------------------------------------------


def _concatenate(seen: Sequence[pd.DataFrame]) -> pd.DataFrame:
    return pd.concat(seen, ignore_index=True) if seen else _NOTHING


def _compare(seen: pd.DataFrame, expected: Ints) -> tuple[int, int, int]:
    """How many records are missing, how many are repeated, and how many should not exist."""
    counts = seen["id"].value_counts()
    wanted = counts[counts.index.isin(expected)]
    return len(expected) - len(wanted), int(wanted.sum()) - len(wanted), len(counts) - len(wanted)


def _count_disordered(seen: pd.DataFrame) -> int:
    """How often a record follows one with a higher number of the same ``p``, over the partitions of the output."""
    steps = seen.groupby(["topic", "partition", seen["id"] // _NUMBERS])["id"].diff()
    return int((steps < 0).sum())
