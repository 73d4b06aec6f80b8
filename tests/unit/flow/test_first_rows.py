"""First rows of keys by event time, which are given when the watermark reaches them."""

from __future__ import annotations

import random
from collections import Counter
from datetime import timedelta
from typing import Any

from penstock.plan.traits import traits
from penstock.spi import CHANGES, INSERTIONS
from penstock.types import RowKind
from tests.changelogs import SEEDS
from tests.corpora import parsed
from tests.unit.flow.running import TABLES, Row, Running, shown

FIRST = """SELECT k, CAST(n AS STRING), CAST(ts AS STRING) FROM (
SELECT *, ROW_NUMBER() OVER (PARTITION BY k ORDER BY ts) AS place FROM s) WHERE place = 1"""
DAY = 86_400_000


def first(rows: list[Row]) -> Counter[tuple[Any, ...]]:
    """The first row of each key."""
    found: dict[str | None, Row] = {}
    for k, n, ms in rows:
        if ms is not None and (k not in found or ms < (found[k][2] or 0)):
            found[k] = (k, n, ms)
    return Counter((k, None if n is None else str(n), shown(ms or 0)) for k, n, ms in found.values())


def test_each_key_gives_its_first_row_once_however_batches_are_cut(tmp_path):
    for seed in SEEDS[: max(3, len(SEEDS) // 10)]:
        rng = random.Random(seed)
        running = Running(FIRST, str(tmp_path / str(seed)))
        rows: list[Row] = []
        at = 0
        for _ in range(150):  # out of order by less than the watermark's two seconds
            key = rng.choice([None, *"abcdefghijklmnop"][: 1 + at // 3000])
            rows.append((key, rng.choice([None, 1, 2, 3]), max(0, at - rng.randrange(1999))))
            at += rng.choice([0, 10, 400, 3000])
        rows.append(("a", 1, None))
        left, given = list(rows), 0
        while left:
            size = rng.choice([1, 2, 10, 1000])
            part, left = left[:size], left[size:]
            given += len(running.run([part], rng.choice([1, 3]), ended=not left))
            if rng.random() < 0.2:
                running.start()
        assert running.result == first(rows)
        assert given == running.result.total()
        assert running.late == 1  # the row without a time
        assert running.stored == given


def test_a_row_waits_for_the_watermark_and_for_earlier_ones(tmp_path):
    running = Running(FIRST, str(tmp_path))
    assert running.run([[("a", 1, 10_000), ("b", 1, 9000)]]) == []
    assert running.run([[("a", 2, 9000), ("a", 3, 9000), ("a", 4, 9500)]]) == []
    running.start()
    assert running.run([[("c", 5, 10_999)]]) == []
    assert sorted(running.run([[("c", 6, 11_000)]])) == [("a", "2", shown(9000)), ("b", "1", shown(9000))]
    assert running.run([[("a", 7, 13_000)]]) == [("c", "5", shown(10_999))]
    assert running.run([[]], ended=True) == []
    assert running.late == 0


def test_without_keys_one_row_of_all_is_first(tmp_path):
    running = Running(FIRST.replace("PARTITION BY k ", ""), str(tmp_path))
    assert running.run([[("a", 1, 3000), ("b", 2, 2000)], [("c", 3, 2500)]], owners=3) == []
    assert running.run([[("d", 4, 9000)]], owners=3) == [("b", "2", shown(2000))]
    assert running.run([[("e", 5, 7500)]], owners=3, ended=True) == []


def test_rows_before_the_watermark_of_the_batch_before_are_late(tmp_path):
    running = Running(FIRST, str(tmp_path))
    assert running.run([[("a", 1, 9000), ("z", 1, 12_000)]]) == [("a", "1", shown(9000))]
    assert running.run([[("b", 1, 9999), ("c", 1, 10_000), ("a", 2, 9000)]]) == [("c", "1", shown(10_000))]
    assert running.late == 2


def test_rows_far_ahead_of_the_watermark_need_few_timers(tmp_path):
    running = Running(FIRST, str(tmp_path))
    running.driver.partitions = (0, 1)
    rows: list[Row] = [(str(number), 1, 3000 + number * DAY // 5000) for number in range(5000)]
    assert running.run([rows, [("slow", 1, 0)]], owners=3, partitions=(0, 1)) == []
    (tables,) = running.manifest.operators.values()
    assert sum(len(refs) for name, refs in tables.items() if name.startswith("timers")) < 3 * 150
    for hours in range(24):
        running.run([[("slow", 1, 10_000 + hours * DAY // 24)]], owners=3, partitions=(1,))
        reached = 8000 + hours * DAY // 24
        assert running.result == first([("slow", 1, 0), *(row for row in rows if (row[2] or 0) <= reached)])
    running.run([[]], ended=True)
    assert running.result == first([("slow", 1, 0), *rows])
    assert running.stored == 5001


def test_a_key_that_was_forgotten_gives_a_row_again_and_rows_that_wait_are_not_forgotten(tmp_path):
    running = Running(FIRST, str(tmp_path), ttl=timedelta(seconds=5))
    running.driver.now_ms = 1000
    assert running.run([[("a", 1, 0), ("z", 1, 2000)]]) == [("a", "1", shown(0))]
    running.driver.now_ms = 5999
    assert running.run([[("a", 2, 3000), ("y", 1, 5000)]]) == [("z", "1", shown(2000))]
    running.driver.now_ms = 100_000
    found = running.run([[("a", 3, 6000), ("x", 1, 9000)]])
    assert sorted(found) == [("a", "3", shown(6000)), ("y", "1", shown(5000))]


def test_first_rows_are_final_and_last_ones_are_not():
    for query, kinds in ((FIRST, INSERTIONS), (FIRST.replace("ts)", "ts DESC)"), CHANGES)):
        sink = "CREATE TABLE t (k STRING, n STRING, ts STRING) WITH ('connector' = 'any', 'mode' = 'I,UB,UA,D');"
        (job,) = parsed(f"{TABLES} {sink} INSERT INTO t {query}").jobs
        assert traits(job.sinks[0].input).kinds == kinds - {RowKind.DELETE}
