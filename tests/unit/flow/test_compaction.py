"""Which segments are merged when: over many batches, without any rows."""

from __future__ import annotations

import random
from dataclasses import replace
from itertools import pairwise

import pytest

from penstock.flow.state.compaction import (
    Merge,
    count_stale_rows,
    join_neighbours,
    plan_merges,
    remove_merged,
    split_stacks,
)
from penstock.flow.state.segments import END, SegmentRef


def ref(rows: int, newest: int, low: int = 0, high: int = END, *, stale: int = 0, file: str = "") -> SegmentRef:
    return SegmentRef(file or f"{newest}", 0, rows * 10, rows, low, high, newest, "keyed", stale)


class Simulation:
    """A table of which each batch adds or replaces rows, evenly over the hashes."""

    def __init__(self, dice: random.Random) -> None:
        self.dice = dice
        self.refs: list[SegmentRef] = []
        self.batches = 0
        self.added = 0
        self.live = 0
        self.merged = 0
        self.most = 0

    def batch(self, rows: int, replaced: int = 0) -> None:
        self.batches += 1
        self.added += rows
        self.live += rows - replaced
        newest = 1 + max((each.newest for each in self.refs), default=0)
        refs = [*self.refs, ref(rows, newest, stale=replaced)]
        self.dice.shuffle(refs)  # their order must not matter
        due = plan_merges(refs, 0, END, rows)
        work = sum(part.rows for merge in due for each in merge.refs if (part := each.clip(merge.low, merge.high)))
        self.merged += work
        self.most = max(self.most, work)
        self.refs = join_neighbours([*remove_merged(refs, due), *(self.result(merge) for merge in due)])
        self.check(due)

    def result(self, merge: Merge) -> SegmentRef:
        rows = sum(part.rows for each in merge.refs if (part := each.clip(merge.low, merge.high)))
        share = (merge.high - merge.low) / END
        most = round(self.live * share)  # no segment has more rows than there are keys
        stale = 0 if merge.oldest else count_stale_rows(merge, max(0, rows - most))
        return ref(
            min(rows, most), merge.newest, merge.low, merge.high, stale=stale, file=f"{self.batches}/{merge.low}"
        )

    def check(self, due: list[Merge]) -> None:
        """Everything is somewhere, and of two segments at one place one is newer."""
        assert sum(high - low for low, high, _ in split_stacks(self.refs, END)) == END
        for _, _, stack in split_stacks(self.refs, END):
            ages = [each.newest for each in stack]
            assert ages == sorted(set(ages), reverse=True)
        ends = [(merge.low, merge.high) for merge in sorted(due, key=lambda merge: merge.low)]
        assert all(one[1] <= other[0] for one, other in pairwise(ends))

    @property
    def depth(self) -> int:
        return max(len(stack) for _, _, stack in split_stacks(self.refs, END))


@pytest.mark.parametrize(("rows", "batches"), [(100, 3000), (5_000, 1500), (200_000, 400), (3_000_000, 60)])
def test_each_row_is_rewritten_a_few_times_and_a_batch_never_merges_much(rows: int, batches: int) -> None:
    table = Simulation(random.Random(rows))
    for _ in range(batches):
        table.batch(rows)
        assert table.depth <= 30
        assert len(table.refs) < 200
    assert table.most <= 1.01 * max(4 * rows, 1 << 18, table.added // 64)
    few = 20 if rows < 4096 else 0  # of small segments, two are merged at once
    assert table.merged <= (few + 4) * table.added
    assert sum(each.rows for each in table.refs) >= 0.99 * table.added


def test_batches_of_all_sizes() -> None:
    dice = random.Random(7)
    table = Simulation(dice)
    for _ in range(600):
        table.batch(int(10 ** dice.uniform(0, 5.5)))
        assert table.depth <= 30
    assert table.merged <= 6 * table.added


def test_superseded_rows_are_merged_away() -> None:
    table = Simulation(random.Random(1))
    for _ in range(10):
        table.batch(100_000)
    for _ in range(200):
        table.batch(100_000, replaced=100_000)
        assert sum(each.rows for each in table.refs) <= 3.2 * table.live
    assert table.merged <= 5 * table.added


def test_one_key_leaves_one_segment() -> None:
    table = Simulation(random.Random(1))
    table.batch(1)
    for _ in range(50):
        table.batch(1, replaced=1)
        assert len(table.refs) == 1


def test_segments_beside_one_another_are_one_run() -> None:
    """After a table was kept by several owners, what they merged at other times is merged together."""
    dice = random.Random(3)
    table = Simulation(dice)
    for _ in range(9):
        table.batch(100_000)
    table.refs = [
        replace(part, newest=part.newest * (2 if low else 1))
        for low, high in ((0, END // 3), (END // 3, END))
        for each in table.refs
        if (part := each.clip(low, high))
    ]
    for _ in range(40):
        table.batch(100_000)
        assert table.depth <= 20


def test_parts_of_a_segment_beside_one_another_become_one() -> None:
    whole = ref(1000, 1)
    left, middle, right = (whole.clip(at * END // 4, (at + 1) * END // 4) for at in (0, 1, 3))
    assert None not in (left, middle, right)
    assert join_neighbours([right, middle, left]) == [replace(whole, high=END // 2, rows=500), right]
    assert [each.seen for each in join_neighbours([replace(left, seen=7), replace(middle, seen=5)])] == [5]
    assert [each.seen for each in join_neighbours([left, replace(middle, seen=5)])] == [5]


def test_wide_rows_are_merged_a_few_at_a_time() -> None:
    """A merge happens in memory: no column of it may exceed 2 GiB."""
    wide = [replace(ref(200_000, at), width=100_000) for at in range(1, 9)]
    due = plan_merges(wide, 0, END, wide[0].weight)
    assert due
    for merge in due:
        parts = [part for each in merge.refs if (part := each.clip(merge.low, merge.high))]
        assert sum(part.rows * part.width for part in parts) < 1 << 30


def test_no_merge_reads_more_than_fits_into_memory() -> None:
    """Eight segments of wide rows, which are merged in parts."""
    refs = [SegmentRef(f"f{at}", 0, 30 << 20, 15_000, 0, END, at, "keyed", width=2000) for at in range(1, 9)]
    found = plan_merges(refs, 0, END, refs[0].weight)
    assert len(found) > 1
    for each in found:
        parts = [part for ref in each.refs if (part := ref.clip(each.low, each.high))]
        assert sum(part.rows * part.width for part in parts) <= 26 << 20
