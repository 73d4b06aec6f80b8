"""How far a batch reads, where no broker has to be asked: the stops of a bounded scan are known."""

from __future__ import annotations

import itertools
from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.connectors.kafka.factory import KafkaConnector
from penstock.connectors.kafka.source.admission import Admission
from penstock.connectors.kafka.source.alarms import Alarm
from penstock.connectors.kafka.source.enumerator import Enumerator, ReaderSpec
from penstock.connectors.kafka.source.positions import Position, Positions
from penstock.spi import PARTITIONS_PER_SOURCE, Column, TableDefinition
from penstock.types import BIGINT

places = st.tuples(st.sampled_from(["a", "b"]), st.integers(0, 9))
wanted = st.dictionaries(places, st.integers(0, 50) | st.integers(0, 10**9), max_size=8)


def enumerator(stop, ordinal=0, parallelism=4, **options):
    given_options = {
        "topic": "a;b",
        "properties.bootstrap.servers": "localhost:1",
        "format": "json",
        "scan.startup.mode": "earliest-offset",
        "scan.bounded.mode": "latest-offset",
        **options,
    }
    scan = KafkaConnector().scan(TableDefinition("t", (Column("id", BIGINT),), given_options))
    start = Positions({place: Position(0) for place in stop}, {"a": "id-a", "b": "id-b"})
    stops = Positions({place: Position(at) for place, at in stop.items()}, start.topic_ids)
    return Enumerator(ReaderSpec(scan, ordinal, parallelism, start, stops))


@settings(deadline=None)
@given(wanted, st.integers(1, 500))
def test_batches_reach_the_stop_and_never_pass_it(stop, most):
    stop = {place: at % 1000 for place, at in stop.items()}
    planning = enumerator(stop, **{"scan.max-records-per-trigger": str(most)})
    at, batches = planning.spec.start, 0
    while (reached := planning.latest(at)) != at:
        moved = {place: reached.at[place].offset - at.at[place].offset for place in stop}
        assert all(step >= 0 for step in moved.values())
        assert 0 < sum(moved.values()) <= most
        assert reached.topic_ids == {"a": "id-a", "b": "id-b"}
        at, batches = reached, batches + 1

    assert {place: position.offset for place, position in at.at.items()} == stop
    assert batches == -(-sum(stop.values()) // most)


def test_tasks_number_their_places_apart_from_other_sources():
    planning = enumerator({("a", 0): 10, ("a", 2): 10, ("b", 1): 10}, ordinal=3)
    ((*ranges,),) = planning.tasks(planning.spec.start, planning.latest(planning.spec.start))

    base = 3 * PARTITIONS_PER_SOURCE
    assert [(each.number, each.topic, each.topic_id, each.partition) for each in ranges] == [
        (base, "a", "id-a", 0),
        (base + 1, "a", "id-a", 2),
        (base + 2, "b", "id-b", 1),
    ]


def test_the_scan_s_own_parallelism_counts():
    stop = {("a", 0): 200_000}
    own = enumerator(stop, parallelism=1, **{"scan.parallelism": "3"})
    end = own.latest(own.spec.start)

    assert len(own.tasks(own.spec.start, end)) == 3
    assert len(enumerator(stop, parallelism=2).tasks(own.spec.start, end)) == 2


def test_a_partition_that_is_new_is_read_from_where_it_came_in():
    planning = enumerator({("a", 0): 10})
    end = Positions({("a", 0): Position(10), ("a", 1): Position(5)}, {"a": "id-a"})

    ((only,),) = planning.tasks(planning.spec.start, end)
    assert (only.partition, only.start, only.end) == (0, 0, 10)


def test_tasks_know_in_which_leader_epoch_their_ranges_end():
    planning = enumerator({("a", 0): 10})
    end = Positions({("a", 0): Position(60_000, 7), ("a", 1): Position(5)}, {"a": "id-a"})

    tasks = planning.tasks(Positions({place: Position(0) for place in end.at}, end.topic_ids), end)
    assert len(tasks) > 1
    assert {(each.partition, each.epoch) for task in tasks for each in task} == {(0, 7), (1, -1)}


def test_a_bounded_scan_waits_for_no_minimum():
    planning = enumerator({("a", 0): 10}, **{"scan.min-records-per-trigger": "8", "scan.max-records-per-trigger": "8"})
    first = planning.latest(planning.spec.start)
    assert first.at["a", 0].offset == 8
    assert planning.latest(first).at["a", 0].offset == 10


def test_a_bounded_scan_with_a_rate_never_looks_as_if_it_were_at_its_end():
    """No batch while there is something to read would end the query."""
    planning = enumerator({("a", 0): 60}, **{"scan.max-records-per-second": "50"})
    ticks = itertools.count(0, 0.005)  # every look at the clock is five milliseconds later
    planning._admission = Admission(planning.spec.scan.options, lambda: next(ticks))
    at, steps = planning.spec.start, []
    while (reached := planning.latest(at)) != at:
        steps.append(reached.at["a", 0].offset - at.at["a", 0].offset)
        at = reached
    assert at.at["a", 0].offset == 60
    assert steps == [50, *[1] * 10]


def test_in_batch_mode_a_bounded_scan_is_one_batch_whatever_limits_it():
    limits = {f"scan.max-records-per-{each}": "50" for each in ("second", "trigger")}
    planning = Enumerator(replace(enumerator({("a", 0): 60, ("b", 1): 7}, **limits).spec, whole=True))
    planning._admission = Admission(planning.spec.scan.options, lambda: 7.0)
    end = planning.latest(planning.spec.start)
    assert {place: at.offset for place, at in end.at.items()} == {("a", 0): 60, ("b", 1): 7}
    assert planning.latest(end) == end


def test_a_batch_that_is_asked_for_is_one_task_and_comes_until_none_is(tmp_path):
    spec = replace(enumerator({("a", 0): 10}).spec, notes=str(tmp_path / "notes"))
    planning, alarm = Enumerator(spec), Alarm(f"{spec.notes}.alarm")
    end = planning.latest(spec.start)
    assert planning.latest(end) == end
    alarm.set(1)
    woken = planning.latest(end)
    assert (woken.at, woken.woken > 0) == (end.at, True)
    assert planning.tasks(end, woken) == [()]
    assert Positions.from_json(woken.to_json()).woken == woken.woken
    alarm.set(None)
    assert planning.latest(woken) == woken
    alarm.set(1 << 60)
    assert planning.latest(woken) == woken
