"""Rows in the order of their time, which are given when the watermark reaches them, or batch by batch."""

from __future__ import annotations

import random

import pytest

from penstock.errors import DefinitionError
from penstock.plan.explain import explain
from penstock.plan.flink_plan import flink_explain
from penstock.plan.planning import plan_job
from penstock.plan.traits import traits
from penstock.spi import INSERTIONS
from tests.changelogs import SEEDS
from tests.corpora import parsed
from tests.plans import check_job
from tests.unit.flow.running import TABLES, Row, Running, shown

SORTED = "SELECT k, CAST(n AS STRING), CAST(ts AS STRING) FROM s ORDER BY ts, n DESC"
DAY = 86_400_000
SINK = "CREATE TABLE t (k STRING, n INT) WITH ('connector' = 'any', 'mode' = 'I');"


def in_order(rows: list[Row]) -> list[tuple[str | None, ...]]:
    """The rows by time, then the larger numbers first and NULL last, then as they came."""
    timed = [each for each in rows if each[2] is not None]
    found = sorted(timed, key=lambda row: (row[2] or 0, -(row[1] or 0)))
    return [(k, None if n is None else str(n), shown(ms or 0)) for k, n, ms in found]


def test_rows_come_in_the_order_of_time_however_batches_are_cut(tmp_path):
    for seed in SEEDS[: max(3, len(SEEDS) // 10)]:
        rng = random.Random(seed)
        running = Running(SORTED, str(tmp_path / str(seed)))
        rows: list[Row] = []
        at = 0
        for _ in range(150):  # out of order by less than the watermark's two seconds
            rows.append((rng.choice("ab"), rng.choice([None, 1, 2, 3]), max(0, at - rng.randrange(1999))))
            at += rng.choice([0, 10, 400, 3000])
        rows.append(("a", 1, None))
        left, given = list(rows), []
        while left:
            size = rng.choice([1, 2, 10, 1000])
            part, left = left[:size], left[size:]
            middle = rng.randrange(len(part) + 1)
            tasks = [part] if rng.random() < 0.5 else [part[:middle], part[middle:]]
            given += running.run(tasks, rng.choice([1, 3]), ended=not left)
            if rng.random() < 0.2:
                running.start()
        assert given == in_order(rows)
        assert running.late == 1  # the row without a time
        assert running.stored == 1  # the time of the last row


def test_a_row_is_late_when_one_of_its_time_or_later_was_given(tmp_path):
    running = Running(SORTED, str(tmp_path))
    assert running.run([[("a", 1, 5000), ("b", 2, 1000), ("z", 1, 12_000)]]) == in_order(
        [("b", 2, 1000), ("a", 1, 5000)]
    )
    running.start()
    found = running.run([[("c", 1, 7000), ("a", 1, 5000), ("d", 1, 6000), ("a", 1, 900)]])
    assert found == in_order([("d", 1, 6000), ("c", 1, 7000)])
    assert running.late == 2
    assert running.run([[]], ended=True) == in_order([("z", 1, 12_000)])


def test_rows_far_ahead_of_the_watermark_wait_in_few_parts(tmp_path):
    running = Running(SORTED, str(tmp_path))
    running.driver.partitions = (0, 1)
    rows: list[Row] = [("x", number, 3000 + number * DAY // 2000) for number in range(2000)]
    assert running.run([rows, [("slow", 1, 0)]], owners=3, partitions=(0, 1)) == []
    (tables,) = running.manifest.operators.values()
    assert sum(map(len, tables.values())) < 150
    given = []
    for hours in range(24):
        slow = [("slow", 1, 10_000 + hours * DAY // 24)]
        given += [each for each in running.run([slow], partitions=(1,)) if each[0] == "x"]
        assert given == in_order([row for row in rows if (row[2] or 0) <= 8000 + hours * DAY // 24])
    running.run([[]], ended=True)
    assert running.stored == 1


def test_by_processing_time_the_rows_of_a_batch_are_in_order(tmp_path):
    running = Running("SELECT k, CAST(n AS STRING) FROM p ORDER BY at, n", str(tmp_path))
    tasks: list[list[Row]] = [[("a", 3, None), ("b", 1, None)], [("c", None, None), ("d", 1, None)]]
    assert running.run(tasks, 3) == [("c", None), ("b", "1"), ("d", "1"), ("a", "3")]
    running.start()
    assert running.run([[("e", 2, None)]]) == [("e", "2")]
    assert running.stored == 0


def test_the_plan_says_what_is_kept_and_in_which_order():
    (job,) = parsed(f"{TABLES} {SINK} INSERT INTO t SELECT k, n FROM s ORDER BY ts, n DESC").jobs
    found = check_job(job)
    assert traits(found.sinks[0].input).kinds == INSERTIONS
    text = explain(found)
    assert "rows in the order of `ts`, `n0` DESC\n" in text
    assert "keeps the rows that the watermark has not reached, as 't: sort(s)'" in text
    assert "takes all rows in one task" in text
    assert "TemporalSort(orderBy=[ts ASC, n0 DESC], state=[t: sort(s): " in flink_explain(job.sinks, found.sinks)


def test_rows_of_a_query_in_from_have_no_order():
    (job,) = parsed(f"{TABLES} {SINK} INSERT INTO t SELECT k, n FROM (SELECT * FROM s ORDER BY n)").jobs
    assert "order of" not in explain(plan_job(job))


def test_streams_are_sorted_by_their_time_only():
    for order, reason in (
        ("FROM s ORDER BY ts DESC", "Sort on a non-time-attribute field is not supported"),
        ("FROM s ORDER BY n, ts", "Sort on a non-time-attribute field is not supported"),
        ("FROM c ORDER BY ts", "needs rows that are only added"),
        ("FROM s ORDER BY ts OFFSET 1", "OFFSET without LIMIT"),
    ):
        with pytest.raises(DefinitionError, match=reason):
            parsed(f"{TABLES} {SINK} INSERT INTO t SELECT k, n {order}")
