"""What planning and reading do about records that are gone, on a real broker."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

import pytest

from penstock.connectors.kafka.source.enumerator import Enumerator
from penstock.connectors.kafka.source.losses import describe_losses
from penstock.connectors.kafka.source.positions import Position, Positions
from penstock.errors import PossibleDataLossError
from penstock.kafka.fetch import Fetcher, Range
from tests.scans import delete, delete_below, enumerator_of, write
from tests.waiting import eventually


def lenient(kafka: Any, name: str, **options: str) -> Enumerator:
    return enumerator_of(kafka, name, scan_fail__on__data__loss="false", **options)


def offsets(positions: Positions) -> dict[int, int]:
    return {partition: at.offset for (_, partition), at in positions.at.items()}


def volumes(enumerator: Enumerator, start: Positions, end: Positions) -> list[tuple[int, int]]:
    return [(each.start, each.end) for task in enumerator.tasks(start, end) for each in task]


# --- topics that are gone -------------------------------------------------------------------------------------


def test_a_topic_that_was_read_to_its_end_may_go_and_is_told_of(kafka, kafka_admin, topic):
    one, two = topic(2), topic(1)
    write(kafka, one, 3)
    write(kafka, two, 4)
    enumerator = enumerator_of(kafka, f"{one};{two}")
    read = enumerator.latest(enumerator.spec.start)
    delete(kafka_admin, one)

    left = enumerator.latest(read)
    assert left.partitions() == ((two, 0),)
    assert list(left.topic_ids) == [two]
    assert enumerator.tasks(read, left) == []
    assert sorted(describe_losses(read, left)) == [
        f"topic '{one}', partition 0 no longer exists; it was read up to offset 3",
        f"topic '{one}', partition 1 no longer exists; it was read up to offset 0",
    ]
    # It is told once: there is nothing more to say, and no batch either, until the other topic goes on.
    assert enumerator.latest(left) == left
    write(kafka, two, 1)
    assert offsets(enumerator.latest(left)) == {0: 5}
    delete(kafka_admin, two)


def test_a_topic_that_goes_before_its_end_is_a_loss_that_names_both_offsets(kafka, kafka_admin, topic):
    name = topic(1)
    write(kafka, name, 5)
    most = {"scan_max__records__per__trigger": "2"}
    strict, tolerant = enumerator_of(kafka, name, **most), lenient(kafka, name, **most)
    start = strict.spec.start
    read = strict.latest(start)
    assert tolerant.latest(start) == read
    delete(kafka_admin, name)

    with pytest.raises(PossibleDataLossError, match=r"partition 0 was only read up to offset 2: its log ended at 5"):
        strict.latest(read)
    with pytest.raises(
        PossibleDataLossError, match=r"only read up to offset 2: where it ended is not known; 'scan\.fail"
    ):
        Enumerator(strict.spec).latest(read)  # a process that has not seen it alive
    assert tolerant.latest(read) == Positions({}, {})


def test_a_topic_of_a_list_may_go_while_new_partitions_are_looked_for(kafka, kafka_admin, topic):
    one, two = topic(1), topic(1)
    enumerator = enumerator_of(kafka, f"{one};{two}", scan_topic__partition__discovery_interval="1 ms")
    read = enumerator.latest(enumerator.spec.start)
    delete(kafka_admin, one)
    left = enumerator.latest(read)
    kafka_admin.create_partitions({two: 2})

    def with_both_partitions() -> Positions | None:
        found = enumerator.latest(left)
        return found if offsets(found) == {0: 0, 1: 0} else None

    found = eventually(with_both_partitions)
    # The same name again is a new topic, read from its beginning.
    kafka_admin.create_topics({one: {"num_partitions": 1, "replication_factor": 1}}, wait_for_metadata=True)
    write(kafka, one, 2)

    def with_the_new_topic() -> Positions | None:
        again = enumerator.latest(found)
        return again if (one, 0) in again.at else None

    again = eventually(with_the_new_topic)
    assert again.at[one, 0].offset == 0
    assert enumerator.latest(again).at[one, 0].offset == 2


def test_a_topic_that_was_created_anew_is_refused_or_read_from_its_beginning(kafka, kafka_admin, topic):
    name = topic(2)
    write(kafka, name, 5)
    strict, tolerant = enumerator_of(kafka, name), lenient(kafka, name)
    read = strict.latest(strict.spec.start)
    delete(kafka_admin, name)
    kafka_admin.create_topics({name: {"num_partitions": 1, "replication_factor": 1}}, wait_for_metadata=True)
    write(kafka, name, 8)  # more than were read of the former one
    strict.session.forget_topics([name])

    with pytest.raises(PossibleDataLossError, match=r"deleted and recreated \(the topic's id was .*, now it is "):
        strict.latest(read)
    begun = tolerant.latest(read)
    assert (offsets(begun), begun.topic_ids != read.topic_ids) == ({0: 0}, True)
    assert tolerant.tasks(read, begun) == []
    assert sum(len(each) for each in tolerant.ranges(read, begun)) == 0
    assert sorted(describe_losses(read, begun)) == [
        f"topic '{name}', partition 0 was deleted and recreated; the former one was read up to offset 5, the new "
        "one is read from 0 on",
        f"topic '{name}', partition 1 no longer exists; it was read up to offset 0",
    ]
    assert volumes(tolerant, begun, tolerant.latest(begun)) == [(0, 8)]


# --- logs that are shorter than they were ---------------------------------------------------------------------


def test_offsets_that_retention_has_removed_are_passed_over_in_the_same_batch(kafka, kafka_admin, topic):
    name = topic(2)
    write(kafka, name, 20)
    write(kafka, name, 6, partition=1)
    enumerator = lenient(kafka, name, scan_max__records__per__trigger="8")
    delete_below(kafka_admin, name, 15)

    end = enumerator.latest(enumerator.spec.start)
    assert volumes(enumerator, enumerator.spec.start, end) == [
        (15, 15 + end.at[name, 0].offset - 15),
        (0, end.at[name, 1].offset),
    ]
    assert (end.at[name, 0].lost, end.at[name, 1].lost) == (15, 0)
    assert sum(len(each) for each in enumerator.ranges(enumerator.spec.start, end)) == 8
    assert list(describe_losses(enumerator.spec.start, end)) == [
        f"topic '{name}', partition 0: offsets 0 to 15 are no longer in the log; 15 were skipped"
    ]
    # What was counted goes through Spark's offset log, and is not counted again.
    logged = Positions.from_json(end.to_json())
    assert logged == end
    rest = lenient(kafka, name).latest(logged)
    assert (offsets(rest), rest.at[name, 0].lost) == ({0: 20, 1: 6}, 15)
    assert list(describe_losses(end, rest)) == []


def test_a_log_that_was_cut_is_refused_or_read_on_from_the_cut(kafka, topic):
    """The position stands for one that was reached before an unclean leader election cut the log."""
    name = topic(1)
    write(kafka, name, 5)
    strict, tolerant = enumerator_of(kafka, name), lenient(kafka, name)
    beyond = replace(strict.spec.start, at={(name, 0): Position(9, 0)})

    with pytest.raises(PossibleDataLossError, match=r"was read up to offset 9, but its log ends at 5; .*fail-on-data"):
        strict.latest(beyond)
    cut = tolerant.latest(beyond)
    assert (offsets(cut), tolerant.tasks(beyond, cut)) == ({0: 5}, [])
    assert list(describe_losses(beyond, cut)) == [
        f"topic '{name}', partition 0 was read up to offset 9, but its log was truncated at 5; reading continues there"
    ]
    write(kafka, name, 2)
    assert volumes(tolerant, cut, tolerant.latest(cut)) == [(5, 7)]


# --- while reading --------------------------------------------------------------------------------------------


def records_of(fetcher: Fetcher) -> list[int]:
    from penstock.kafka.record_batches import scan

    found = []
    for chunk in fetcher:
        records = scan(
            chunk.records,
            start_offset=chunk.start,
            end_offset=chunk.end,
            check_crcs=True,
            aborted=chunk.aborted,
            headers=False,
            where="",
        )
        found += records.offsets.tolist()
    return found


def test_a_task_passes_over_what_retention_removed_and_counts_it(kafka, kafka_admin, topic):
    name = topic(1)
    write(kafka, name, 20)
    session = enumerator_of(kafka, name).session
    delete_below(kafka_admin, name, 15)

    within = Fetcher(session, [Range(name, 0, 3, 18)], skip_lost=True)
    assert (records_of(within), within.lost) == ([15, 16, 17], 12)
    before = Fetcher(session, [Range(name, 0, 3, 9)], skip_lost=True)
    assert (records_of(before), before.lost) == ([], 6)
    with pytest.raises(PossibleDataLossError, match="offset 3 was requested, but the log holds offsets 15 to 20"):
        records_of(Fetcher(session, [Range(name, 0, 3, 9)]))


def test_a_gap_of_compaction_is_no_loss(kafka, kafka_admin, topic):
    settings = {"cleanup.policy": "compact", "segment.ms": "100", "min.cleanable.dirty.ratio": "0.001"}
    name = topic(1, configs=settings)
    session = enumerator_of(kafka, name).session

    def keyed() -> list[int]:
        from confluent_kafka import Producer

        producer = Producer({"bootstrap.servers": kafka.bootstrap})
        for number in range(10):
            producer.produce(name, str(number).encode(), key=b"k")
        assert producer.flush(60) == 0
        (end,) = (each.offset for each in enumerator_of(kafka, name).latest(enumerator.spec.start).at.values())
        fetcher = Fetcher(session, [Range(name, 0, 0, end)], skip_lost=True)
        found = records_of(fetcher)
        assert fetcher.lost == 0
        return found

    enumerator, until = enumerator_of(kafka, name), time.monotonic() + 60
    while keyed()[0] == 0:
        assert time.monotonic() < until, "nothing was compacted"
        time.sleep(0.2)
    assert records_of(Fetcher(session, [Range(name, 0, 0, 5)])) == []


def test_a_task_ends_where_its_log_was_cut_or_its_topic_is_another(kafka, topic):
    import uuid

    name = topic(1)
    write(kafka, name, 10)
    session = enumerator_of(kafka, name).session

    tail = Fetcher(session, [Range(name, 0, 7, 12)], skip_lost=True)
    assert (records_of(tail), tail.lost) == ([7, 8, 9], 2)
    other = Fetcher(session, [Range(name, 0, 7, 9, uuid.uuid4()), Range(name, 0, 0, 1)], skip_lost=True)
    assert (records_of(other), other.lost) == ([0], 2)


def test_a_task_whose_topic_is_gone_says_so(kafka, kafka_admin, topic):
    name = topic(1)
    write(kafka, name, 10)
    enumerator = enumerator_of(kafka, name)
    known = enumerator.session.topic(name).topic_id
    delete(kafka_admin, name)

    with pytest.raises(PossibleDataLossError, match=r"no longer exists, .* records from offset 7 to 9 were not read"):
        records_of(Fetcher(enumerator.session, [Range(name, 0, 7, 9, known)]))
    gone = Fetcher(enumerator.session, [Range(name, 0, 7, 9, known)], skip_lost=True)
    assert (records_of(gone), gone.lost) == ([], 2)
