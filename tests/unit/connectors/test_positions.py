"""Positions as text, and how a batch is cut into tasks."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.connectors.kafka.source.positions import Position, Positions, Split, cut
from penstock.errors import CheckpointError

#: From nothing to more than one round of full tasks.
lengths = st.lists(st.integers(0, 100) | st.integers(0, 60_000) | st.integers(0, 3_000_000), max_size=8)
parallelisms = st.integers(1, 9)


def ranges_of(lengths):
    """One range per partition, each beginning somewhere else."""
    return [Split(i, "orders", "id", i, i * 7, i * 7 + length) for i, length in enumerate(lengths)]


@settings(deadline=None)
@given(lengths, parallelisms)
def test_tasks_hold_every_offset_once_and_in_order(lengths, parallelism):
    wanted = ranges_of(lengths)
    pieces = [piece for task in cut(wanted, parallelism) for piece in task]

    assert all(len(piece) > 0 for piece in pieces)
    for whole in wanted:
        own = [piece for piece in pieces if piece.number == whole.number]
        assert {(piece.topic, piece.topic_id, piece.partition) for piece in own} <= {("orders", "id", whole.partition)}
        joints = [whole.start, *(end for piece in own for end in (piece.start, piece.end)), whole.end]
        assert all(a == b for a, b in zip(joints[::2], joints[1::2], strict=True)) or not len(whole)
    numbers = [piece.number for piece in pieces]
    assert numbers == sorted(numbers)


@settings(deadline=None)
@given(lengths, parallelisms)
def test_there_are_as_many_tasks_as_pay_and_they_are_even(lengths, parallelism):
    total = sum(lengths)
    sizes = [sum(map(len, task)) for task in cut(ranges_of(lengths), parallelism)]

    assert all(sizes)
    if total < 50_000:
        assert len(sizes) == (1 if total else 0)
    if total <= parallelism * 500_000:
        assert len(sizes) <= parallelism
    assert all(size <= 500_000 for size in sizes)
    assert len(set(sizes[:-1])) <= 1
    assert all(last <= one for one, last in pairwise(sizes))


@settings(deadline=None)
@given(lengths, parallelisms, st.integers(1, 5))
def test_a_scan_that_was_told_its_most_has_no_task_more(lengths, parallelism, most):
    tasks = cut(ranges_of(lengths), parallelism, most)

    assert len(tasks) <= most
    assert sum(len(piece) for task in tasks for piece in task) == sum(lengths)


partitions = st.tuples(st.text(min_size=1, max_size=5), st.integers(0, 99))
positions = st.builds(Position, st.integers(0, 2**62), st.integers(-1, 9))


@settings(deadline=None)
@given(st.dictionaries(partitions, positions, max_size=6), st.randoms())
def test_positions_survive_their_text_whatever_their_order(at, random):
    topic_ids = {topic: f"id of {topic}" for topic, _ in at}
    shuffled = list(at.items())
    random.shuffle(shuffled)
    one, other = Positions(at, topic_ids), Positions(dict(shuffled), topic_ids)

    assert Positions.from_json(one.to_json()) == one
    assert str(one.to_json()) == str(other.to_json())
    assert one.partitions() == tuple(sorted(at))


@pytest.mark.parametrize(
    "document",
    [
        {"orders": 7},
        {"orders": {"id": ""}},
        {"orders": {"partitions": {}}},
        {"orders": {"id": "", "partitions": {"x": {"offset": 1, "epoch": 1}}}},
        {"orders": {"id": "", "partitions": {"0": {"offset": 1}}}},
        {"orders": {"id": "", "partitions": {"0": 5}}},
        {"logOffset": 3, "version": 1},
    ],
)
def test_positions_of_somebody_else_are_refused(document):
    with pytest.raises(CheckpointError, match="positions that are not penstock's"):
        Positions.from_json(document)


def test_a_partition_without_a_position_has_the_default():
    at = Positions({("orders", 0): Position(7)})

    assert at.offset(("orders", 0), 1) == 7
    assert at.offset(("orders", 1), 1) == 1
