"""The verifier itself: what it must count, made on purpose."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np
import pytest

from penstock.connectors.kafka.source.positions import Position, Positions
from penstock.delivery import Progress
from penstock.kafka.fetch import Fetcher, Range
from penstock.kafka.ownership import write_progress
from penstock.kafka.produce import Producer
from penstock.kafka.progress import ensure_progress_topic
from penstock.kafka.properties import ClientConfig
from penstock.kafka.record_batches import encode, scan
from penstock.kafka.session import Session, session_for
from penstock.kafka.transactions import TransactionClient
from penstock_testing import NumberedRecords, Verdict, Verifier, verifier
from penstock_testing.numbered import numbers_of

pytestmark = pytest.mark.broker

RECORDS = 400  # 100 in each of 4 partitions
CLEAN = Verdict(RECORDS, RECORDS, 0, 0, 0, 0, 0, 0, 0)


class Job:
    """Copies numbered records, batch by batch in a transaction each, as wrongly as it is told."""

    def __init__(self, session: Session, source: str, sink: str):
        self.session, self.source, self.sink = session, source, sink
        self.progress = ensure_progress_topic(session)
        self.client = TransactionClient(session, f"tx-{sink}", 60_000)
        self.client.init()
        self.at = 0

    def batch(
        self,
        number: int,
        *,
        rows: Callable[[np.ndarray], np.ndarray] = lambda rows: rows,
        recorded: bool = True,
        end: str = "commit",
    ) -> None:
        """25 records of each partition; ``rows`` changes which of them are written, and in which order."""
        identity = self.client.begin()
        with Producer(self.session, identity, transactional_id=self.client.transactional_id) as producer:
            for partition in range(4):
                self.copy(producer, partition, number * 25, rows)
            producer.flush()
        if recorded:
            write_progress(self.session, self.client, self.progress, self.span(number))
        if end == "commit":
            self.client.commit()
        elif end == "abort":
            self.client.abort()

    def copy(self, producer: Producer, partition: int, first: int, rows: Callable[[np.ndarray], np.ndarray]) -> None:
        for chunk in Fetcher(self.session, [Range(self.source, partition, first, first + 25)]):
            found = scan(chunk.records, start_offset=first, end_offset=first + 25, headers=True)
            chosen = rows(np.arange(len(found)))
            for each in encode(
                keys=found.keys.take(chosen),
                values=found.values.take(chosen),
                headers=found.headers.take(chosen),
                timestamps=found.timestamps[chosen],
                partitions=np.full(len(chosen), partition % 3, np.int32),
            ):
                producer.submit(self.sink, each.partition, each.data, each.count)

    def span(self, number: int) -> Progress:
        """Where the batch begins and ends. Spark knows no start for batch 0."""

        def positions(offset: int) -> dict[str, object]:
            at = {(self.source, partition): Position(offset) for partition in range(4)}
            return {"sources": [Positions(at).to_json()]}

        start = {"sources": [None]} if number == 0 else positions(number * 25)
        return Progress("query", number, start, positions((number + 1) * 25))


@pytest.fixture
def session(kafka) -> Session:
    return session_for(ClientConfig.from_properties({"bootstrap.servers": kafka.bootstrap}))


@pytest.fixture
def source(kafka, topic) -> NumberedRecords:
    made = NumberedRecords(kafka.bootstrap, topic(4))
    made.write(RECORDS)
    return made


@pytest.fixture
def job(session, source, topic) -> Job:
    return Job(session, source.topic, topic(3))


@pytest.fixture
def watcher(kafka, source, job) -> Iterator[Verifier]:
    with Verifier(kafka.bootstrap, source, [job.sink], transactional_ids=[job.client.transactional_id]) as made:
        yield made


def first_ten(rows: np.ndarray) -> np.ndarray:
    return rows[:10]


def test_numbered_records_carry_their_numbers(session, source):
    (chunk,) = Fetcher(session, [Range(source.topic, 2, 0, 100)])
    found = scan(chunk.records, start_offset=0, end_offset=100, headers=True)
    places, numbers = numbers_of(found.headers, "here")
    assert places.tolist() == [2] * 100
    assert numbers.tolist() == found.offsets.tolist() == list(range(100))
    assert (found.keys[17].as_py(), found.values[17].as_py()) == (b"2-1", b'{"k":"2-1","n":17}')
    assert source.written == dict.fromkeys(range(4), 100)


def test_a_faultless_copy_is_exact(job, watcher):
    for number in range(4):
        job.batch(number)
    verdict = watcher.verdict()
    assert verdict == CLEAN
    assert verdict.exact


def test_an_aborted_batch_that_is_redone_is_exact(job, watcher):
    job.batch(0)
    job.batch(1, rows=first_ten, end="abort")
    watcher.restarted()
    for number in range(1, 4):
        job.batch(number)
    verdict = watcher.verdict()
    assert replace(verdict, recovery_seconds=None) == CLEAN
    assert verdict.recovery_seconds is not None


def test_a_batch_that_is_missing_is_lost(job, watcher):
    for number in (0, 1, 3):
        job.batch(number)
    assert watcher.verdict() == replace(CLEAN, records=300, lost=100)


def test_a_batch_that_is_published_again_is_duplicated(job, watcher):
    for number in (0, 1, 1, 2, 3):
        job.batch(number)
    assert watcher.verdict() == replace(CLEAN, records=500, duplicated=100, disordered=4)


def test_a_batch_of_which_a_part_is_visible_is_torn(job, watcher):
    for number in range(4):
        job.batch(number, rows=first_ten if number == 2 else lambda rows: rows)
    assert watcher.verdict() == replace(CLEAN, records=340, lost=60, torn=1)


def test_records_that_no_progress_record_covers_are_torn(job, watcher):
    for number in range(4):
        job.batch(number, recorded=number != 1)
    assert watcher.verdict() == replace(CLEAN, torn=1)


def test_records_that_come_too_late_are_disordered(job, watcher):
    for number in range(3):
        job.batch(number)
    job.batch(3, rows=lambda rows: rows[::-1])
    assert watcher.verdict() == replace(CLEAN, disordered=4 * 24)


def test_a_transaction_that_stays_open_holds_back_what_is_behind_it(job, watcher):
    for number in range(3):
        job.batch(number)
    job.batch(3, end="never")
    verdict = watcher.verdict(patience=0.5)
    assert verdict == replace(CLEAN, records=300, lost=100, open_transactions=4)


def test_records_of_aborted_transactions_must_not_be_seen(job, watcher, monkeypatch):
    """The readers are made to look at everything, which no reader under read_committed does."""
    monkeypatch.setattr(verifier, "READ_COMMITTED", "read_uncommitted")
    job.batch(0)
    job.batch(1, end="abort")
    for number in range(1, 4):
        job.batch(number)
    verdict = watcher.verdict()
    assert (verdict.aborted_visible, verdict.duplicated) == (100, 100)


def test_records_that_should_not_be_there_are_strangers(kafka, source, job):
    with Verifier(kafka.bootstrap, source, [job.sink], first=dict.fromkeys(range(4), 50)) as watcher:
        for number in range(1, 4):
            job.batch(number)
        assert watcher.verdict() == replace(CLEAN, expected=200, records=300, strangers=100)


def test_what_comes_before_the_first_batch_is_not_its_missing_part(kafka, source, job):
    """The progress record of batch 0 says where it ended alone."""
    with Verifier(
        kafka.bootstrap,
        source,
        [job.sink],
        transactional_ids=[job.client.transactional_id],
        first=dict.fromkeys(range(4), 15),
    ) as watcher:
        job.batch(0, rows=lambda rows: rows[15:])
        for number in range(1, 4):
            job.batch(number)
        assert watcher.verdict() == replace(CLEAN, expected=340, records=340)


def test_records_are_waited_for(job, watcher):
    job.batch(0)
    assert watcher.wait_for_records(100, 30)
    assert not watcher.wait_for_records(101, 0.5)
    assert not watcher.wait_for_records(101, 30, alive=lambda: False)
    assert watcher.seen == 100
