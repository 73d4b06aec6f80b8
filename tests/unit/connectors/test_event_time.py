"""Watermarks of partitions: measured by tasks, passed on, and combined with the next batch."""

from __future__ import annotations

from datetime import timedelta

import numpy as np
import pyarrow as pa
import pytest

from penstock.connectors.kafka.source.positions import Position, Positions
from penstock.connectors.kafka.source.scan_watermarks import END, Measure, Notes, Watermarks
from penstock.spi import Watermark

A, B = ("orders", 0), ("orders", 1)


class Clock:
    """A clock that a test sets."""

    now = 100.0

    def __call__(self):
        return self.now


@pytest.fixture
def notes(tmp_path):
    return Notes(str(tmp_path / "notes.json"))


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def marks(notes, clock):
    return Watermarks(timedelta(seconds=10), Notes(str(notes._path)), clock)


def positions(**given):
    places = {"a": A, "b": B}
    return Positions({places[name]: Position(offset) for name, offset in given.items()}, {"orders": "id"})


def test_the_smallest_watermark_counts_once_all_partitions_have_one(marks, notes):
    start = marks.advance(positions(a=0, b=0), positions(a=5, b=5), {A, B}, None)
    assert start.watermark is None
    notes.add([(A, 1000)])
    start = marks.advance(start, positions(a=6, b=6), {A, B}, None)
    assert (start.at[A].watermark, start.at[B].watermark, start.watermark) == (1000, None, None)
    notes.add([(B, 700)])
    start = marks.advance(start, positions(a=7, b=7), {A, B}, None)
    assert (start.at[A].watermark, start.at[B].watermark, start.watermark) == (1000, 700, 700)
    assert Positions.from_json(start.to_json()) == start


def test_a_watermark_never_goes_back(marks, notes):
    notes.add([(A, 1000), (B, 700)])
    start = marks.advance(positions(a=0, b=0), positions(a=1, b=1), {A, B}, None)
    notes.add([(A, 900), (B, 600)])
    assert marks.advance(start, positions(a=2, b=2), {A, B}, None).watermark == 700
    # A partition found later is where the others are.
    found = marks.advance(start, Positions({**start.at, ("orders", 2): Position(0)}, start.topic_ids), {A, B}, None)
    assert found.at["orders", 2].watermark == found.watermark == 700


def test_news_alone_make_a_batch_only_when_the_whole_moves(marks, notes):
    notes.add([(A, 1000), (B, 700)])
    start = marks.advance(positions(a=0, b=0), positions(a=1, b=1), {A, B}, None)
    same = positions(a=1, b=1)
    assert marks.advance(start, same, set(), None) == start
    notes.add([(A, 2000)])
    assert marks.advance(start, same, set(), None) == start
    notes.add([(B, 1500)])
    moved = marks.advance(start, same, set(), None)
    assert moved.watermark == 1500
    assert marks.advance(moved, same, set(), None) == moved


def test_a_silent_partition_is_idle_after_the_timeout(marks, notes, clock):
    notes.add([(A, 1000), (B, 700)])
    start = marks.advance(positions(a=0, b=0), positions(a=1, b=1), {A, B}, None)
    clock.now += 6
    start = marks.advance(start, positions(a=2, b=1), {A}, None)
    clock.now += 6
    start = marks.advance(start, positions(a=3, b=1), {A}, None)
    assert (start.at[B].idle, start.at[A].idle, start.watermark) == (True, False, 1000)
    # Nothing but time: all are idle, and everything stays.
    clock.now += 60
    assert marks.advance(start, positions(a=3, b=1), set(), None) == start
    notes.add([(A, 3000), (B, 1100)])
    back = marks.advance(start, positions(a=3, b=2), {B}, None)
    assert (back.at[B].idle, back.watermark) == (False, 1100)


def test_a_partition_with_records_that_wait_is_not_idle(marks, notes, clock):
    notes.add([(A, 1000), (B, 700)])
    start = marks.advance(positions(a=0, b=0), positions(a=1, b=1), {A, B}, None)
    clock.now += 60
    assert marks.advance(start, positions(a=1, b=1), {B}, None) == start


def test_an_empty_partition_that_is_idle_does_not_count(marks, notes, clock):
    notes.add([(A, 1000)])
    start = marks.advance(positions(a=0, b=0), positions(a=1, b=0), {A}, None)
    assert start.watermark is None
    clock.now += 60
    assert marks.advance(start, positions(a=1, b=0), set(), None).watermark == 1000


def test_a_partition_that_is_at_its_stop_is_at_the_end_of_time(marks, notes):
    stop = positions(a=10, b=1)
    notes.add([(A, 1000)])
    start = marks.advance(positions(a=0, b=0), positions(a=5, b=1), {A, B}, stop)
    assert (start.at[B].watermark, start.watermark) == (END, 1000)
    assert marks.advance(start, positions(a=10, b=1), {A}, stop).watermark == END


def test_what_tasks_measure():
    rows = pa.record_batch(
        {
            "us": pa.array([5_000_999, None, 3_000_000], pa.timestamp("us", "UTC")),
            "local": pa.array([5_000_999, None, 3_000_000], pa.timestamp("us")),
            "s": pa.array([7, None, 9], pa.int64()),
            "none": pa.nulls(3, pa.timestamp("us")),
        }
    )
    stamps = np.array([-1, 8000, 4000])
    for given, expected in (
        (Watermark("us", 100), 4900),
        (Watermark("local", 0), 5000),
        (Watermark("s", 0, unit=1000), 9000),
        (Watermark("s", 2, unit=1), 7),
        (Watermark("", 1), 7999),
        (Watermark("none", 0), None),
        (Watermark("us", None), None),
    ):
        measure = Measure(given)
        measure.note(A, stamps, rows)
        assert measure.reached.get(A) == expected, given
    measure = Measure(Watermark("", 0))
    measure.note(A, stamps, rows)
    measure.note(A, np.array([3000, 2000, 1000]), rows)
    measure.note(B, np.array([-1, -1, -1]), rows)
    measure.note(B, stamps[:0], rows.slice(0, 0))
    assert measure.reached == {A: 8000}


def test_notes_are_read_by_another_process_and_deleted(notes, tmp_path):
    reader = Notes(str(tmp_path / "notes.json"))
    assert reader.read() == {}
    notes.add([(A, 1), (B, 5)])
    notes.add([(A, 0)])
    assert reader.read() == {A: 1, B: 5}
    notes.close()
    notes.close()
    assert reader.read() == {A: 1, B: 5}
    assert list(tmp_path.iterdir()) == []
