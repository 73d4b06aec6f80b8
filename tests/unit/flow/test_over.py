"""Functions with OVER give the same rows however batches are cut, on however many owners, and with restarts between
them; and the rows of a plain computation, row by row."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from penstock.columns import large
from penstock.columns.frames import sum_frames
from penstock.errors import DefinitionError, RecordError, UnsupportedError
from penstock.flow.kernels.session import Session
from penstock.flow.operators import over_values
from penstock.flow.operators.over_frames import Partitions
from penstock.flow.operators.over_functions import OverFunctions
from penstock.plan.explain import explain
from penstock.plan.nodes import OverAggregate
from penstock.plan.planning import plan_job
from penstock.plan.traits import traits
from penstock.spi import INSERTIONS
from penstock.types import RowKind
from tests.changelogs import SEEDS
from tests.corpora import parsed
from tests.plans import check_job, nodes
from tests.unit.flow import running
from tests.unit.flow.running import TABLES, Row, Running, shown

SINK = "CREATE TABLE t (k STRING, n INT) WITH ('connector' = 'any', 'mode' = 'I');"
CHANGED = "CREATE TABLE t (k STRING, n INT) WITH ('connector' = 'any', 'mode' = 'I,UB,UA,D');"
#: What a function makes of the rows of a frame, the last of which is the row itself or one that is equal to it.
Function = Callable[[Sequence[int | None]], Any]


def _valued(values: Sequence[int | None]) -> list[int]:
    return [each for each in values if each is not None]


FUNCTIONS: dict[str, Function] = {
    "COUNT(*)": len,
    "COUNT(n)": lambda values: len(_valued(values)),
    "SUM(n)": lambda values: sum(_valued(values)) if _valued(values) else None,
    "AVG(n)": lambda values: sum(_valued(values)) // len(_valued(values)) if _valued(values) else None,
    "MIN(n)": lambda values: min(_valued(values), default=None),
    "MAX(n)": lambda values: max(_valued(values), default=None),
    "FIRST_VALUE(n)": lambda values: next(iter(_valued(values)), None),
    "LAST_VALUE(n)": lambda values: next(iter(_valued(values)[::-1]), None),
    "COUNT(DISTINCT n)": lambda values: len(set(_valued(values))),
    "SUM(DISTINCT n)": lambda values: sum(set(_valued(values))) if _valued(values) else None,
    "CARDINALITY(ARRAY_AGG(n))": lambda values: len(values) or None,
}
#: Frames as they are written: how many rows they go back, or how many milliseconds; None for all.
FRAMES: dict[str, tuple[int | None, int | None]] = {
    "": (None, None),
    "RANGE BETWEEN INTERVAL '3' SECOND PRECEDING AND CURRENT ROW": (None, 3000),
    "ROWS UNBOUNDED PRECEDING": (10**6, None),
    "ROWS 2 PRECEDING": (2, None),
    "ROWS BETWEEN 0 PRECEDING AND CURRENT ROW": (0, None),
}


def query(
    frame: str, functions: Sequence[str], *, table: str = "s", keys: str = "PARTITION BY k ", by: str = "ts"
) -> str:
    """A query with functions over one window."""
    results = ", ".join(f"CAST({_over(each)} AS STRING)" for each in functions)
    window = f"WINDOW w AS ({keys}ORDER BY {by} {frame})"
    return f"SELECT k, CAST(n AS STRING), CAST(ts AS STRING), {results} FROM {table} {window}"


def _over(function: str) -> str:
    """A function over the window w."""
    if function.startswith("CARDINALITY("):
        return f"CARDINALITY({function.removeprefix('CARDINALITY(')[:-1]} OVER w)"
    return f"{function} OVER w"


def expected(
    rows: Sequence[Row], frame: str, functions: Sequence[str], *, by_key: bool = True
) -> list[tuple[Any, ...]]:
    """The rows with their results, computed one by one."""
    back, length = FRAMES[frame]
    found = []
    ordered = sorted((each for each in rows if each[2] is not None), key=lambda row: row[2] or 0)
    for at, (k, n, ms) in enumerate(ordered):
        own = [(n, ms) for key, n, ms in ordered[: at + 1] if key == k or not by_key]
        if back is not None:
            members = own[max(0, len(own) - back - 1) :]
        else:
            own = [(n, ms) for key, n, ms in ordered if key == k or not by_key]
            members = [row for row in own if row[1] <= ms and (length is None or row[1] >= ms - length)]
        values = [n for n, _ in members]
        results = (FUNCTIONS[each](values) for each in functions)
        found.append(
            (k, None if n is None else str(n), shown(ms or 0), *(None if x is None else str(x) for x in results))
        )
    return found


def some_rows(rng: random.Random, count: int, lag: int = 1999) -> list[Row]:
    """Rows of a few keys, out of order by less than the watermark's two seconds."""
    rows: list[Row] = []
    at = 5000
    for _ in range(count):
        rows.append((rng.choice(["a", "b", None]), rng.choice([None, 0, 1, 2, 7]), max(1, at - rng.randrange(lag + 1))))
        at += rng.choice([0, 10, 400, 3000])
    return rows


def run_cut(job: Running, rows: Sequence[Row], rng: random.Random) -> list[tuple[Any, ...]]:
    """The rows that a query gives for rows that are cut into batches, tasks and owners at random, with restarts."""
    left, given = list(rows), []
    while left:
        size = rng.choice([1, 2, 10, 1000])
        part, left = left[:size], left[size:]
        middle = rng.randrange(len(part) + 1)
        tasks = [part] if rng.random() < 0.5 else [part[:middle], part[middle:]]
        given += job.run(tasks, rng.choice([1, 3]), ended=not left)
        if rng.random() < 0.2:
            job.start()
    return given


@pytest.mark.parametrize("frame", FRAMES)
def test_results_by_event_time_however_batches_are_cut(frame: str, tmp_path):
    for seed in SEEDS[: max(2, len(SEEDS) // 10)]:
        rng = random.Random(seed)
        for number, functions in enumerate((list(FUNCTIONS)[:6], list(FUNCTIONS)[6:])):
            running = Running(query(frame, functions), str(tmp_path / f"{seed}-{number}"))
            rows = [*some_rows(rng, 60), ("a", 1, None)]
            assert sorted(map(str, run_cut(running, rows, rng))) == sorted(map(str, expected(rows, frame, functions)))
            assert running.late == 1  # the row without a time


def test_without_keys_all_rows_are_one_partition(tmp_path):
    rng = random.Random(1)
    rows = some_rows(rng, 60)
    for number, frame in enumerate(FRAMES):
        running = Running(query(frame, ["SUM(n)"], keys=""), str(tmp_path / str(number)))
        found = run_cut(running, rows, rng)
        assert sorted(map(str, found)) == sorted(map(str, expected(rows, frame, ["SUM(n)"], by_key=False)))


def test_rows_come_in_the_order_of_time(tmp_path):
    rng = random.Random(2)
    running = Running(query("ROWS 2 PRECEDING", ["COUNT(*)"]), str(tmp_path))
    found = run_cut(running, some_rows(rng, 60), rng)
    assert [each[2] for each in found] == sorted(each[2] for each in found)


def test_frames_with_a_length_of_time_leave_nothing_behind(tmp_path):
    running = Running(query("RANGE INTERVAL '3' SECOND PRECEDING", ["SUM(n)"]), str(tmp_path))
    rows: list[Row] = [(f"key {number}", number, 1000 + 10 * number) for number in range(100)]
    running.run([rows])
    assert running.stored > 100
    running.run([[("later", 1, 60_000)]])
    running.run([[("later", 1, 60_001)]])
    assert running.stored < 10


def test_rows_of_a_limited_number_keep_just_these(tmp_path):
    running = Running(query("ROWS 2 PRECEDING", ["SUM(n)"]), str(tmp_path))
    for number in range(50):
        running.run([[("a", number, 1000 * number + 1)]])
    assert running.stored <= 2 + 3 + 1  # the frame, the rows that wait, and how far the partition has come


def test_rows_behind_the_watermark_are_late_in_frames_of_all_rows(tmp_path):
    running = Running(query("", ["SUM(n)"]), str(tmp_path))
    running.run([[("a", 1, 5000), ("b", 1, 9000)]])  # the watermark is at 7000
    running.run([[("c", 1, 7000), ("b", 2, 7001)]])
    assert running.late == 1
    running.run([[]], ended=True)
    assert (None, "c") not in {(each[1], each[0]) for each in running.result}
    assert ("b", "2", shown(7001), "2") in running.result
    assert ("b", "1", shown(9000), "3") in running.result


def test_rows_at_or_before_one_that_was_given_are_late_in_limited_frames(tmp_path):
    running = Running(query("ROWS 5 PRECEDING", ["SUM(n)"]), str(tmp_path))
    running.run([[("a", 1, 5000), ("b", 1, 9000)]])
    assert running.result == {("a", "1", shown(5000), "1"): 1}
    running.run([[("a", 2, 5000), ("a", 4, 5001), ("c", 1, 10)]])
    assert running.late == 1
    running.run([[]], ended=True)
    assert ("a", "4", shown(5001), "5") in running.result
    assert ("c", "1", shown(10), "1") in running.result  # of a partition of which nothing was given


def test_state_of_all_rows_before_is_forgotten_after_its_time_to_live(tmp_path):
    running = Running(query("", ["SUM(n)"]), str(tmp_path), ttl=timedelta(hours=1))
    running.run([[("a", 1, 5000), ("b", 1, 9000)]])
    running.driver.now_ms += 3_600_001
    running.run([[("a", 2, 8000), ("b", 1, 20_000)]])
    assert ("a", "2", shown(8000), "2") in running.result


def test_rows_of_frames_live_as_long_as_their_partition(tmp_path):
    running = Running(query("ROWS 5 PRECEDING", ["SUM(n)"]), str(tmp_path), ttl=timedelta(hours=1))
    for number in range(4):
        running.run([[("a", 1, 5000 * (number + 1))]])
        running.driver.now_ms += 1_900_000
    running.run([[]], ended=True)
    assert ("a", "1", shown(20_000), "4") in running.result
    running.start()


def test_by_processing_time_results_come_at_once(tmp_path):
    for number, (frame, last) in enumerate((("", "15"), ("ROWS 1 PRECEDING", "12"))):
        running = Running(query(frame, ["SUM(n)"], table="p", by="at"), str(tmp_path / str(number)))
        running.run([[("a", 1, 1), ("b", 5, 1), ("a", 2, 1)]], 3)
        running.start()
        found = running.run([[("a", 4, 1)], [("a", 8, 2)]])
        assert [each[3] for each in found][-1] == last


def test_by_processing_time_a_length_of_time_is_that_of_the_clock(tmp_path):
    frame = "RANGE INTERVAL '10' SECOND PRECEDING"
    running = Running(query(frame, ["SUM(n)"], table="p", by="at"), str(tmp_path))
    running.driver.now_ms = 100_000
    assert [each[3] for each in running.run([[("a", 1, 1), ("a", 2, 1)]])] == ["3", "3"]
    running.driver.now_ms = 110_000
    assert [each[3] for each in running.run([[("a", 4, 1)]])] == ["7"]
    running.driver.now_ms = 110_001
    assert [each[3] for each in running.run([[("a", 8, 1)]])] == ["12"]
    running.driver.now_ms = 200_000
    running.run([[("b", 1, 1)]])
    assert running.stored <= 3


def test_in_another_order_results_change_with_rows_that_come_and_go(tmp_path):
    text = "SELECT k, CAST(n AS STRING), CAST(SUM(n) OVER w AS STRING), CAST(COUNT(*) OVER w AS STRING) FROM c "
    for seed, frame in enumerate(("", "ROWS UNBOUNDED PRECEDING")):
        rng = random.Random(seed)
        running = Running(f"{text} WINDOW w AS (PARTITION BY k ORDER BY n {frame})", str(tmp_path / str(seed)))
        rows: list[Row] = []
        for _ in range(30):
            kinds, part = [], []
            for _ in range(rng.choice([1, 3, 8])):
                gone = bool(rows) and rng.random() < 0.4
                row = rows.pop(rng.randrange(len(rows))) if gone else (rng.choice("ab"), rng.randrange(5), 0)
                rows += [] if gone else [row]
                part.append(row)
                kinds.append(RowKind.DELETE if gone else RowKind.INSERT)
            running.run([part], rng.choice([1, 3]), kinds=kinds)
            found = []
            for at, (k, n, _) in enumerate(sorted(rows, key=lambda row: row[1] or 0)):
                ordered = sorted(rows, key=lambda row: row[1] or 0)
                own = ordered[: at + 1] if frame else [row for row in ordered if (row[1] or 0) <= (n or 0)]
                values = [row[1] or 0 for row in own if row[0] == k]
                found.append((k, str(n), str(sum(values)), str(len(values))))
            assert sorted(running.result.elements()) == sorted(found)


def test_functions_of_partitions(tmp_path):
    text = (
        "SELECT k, CAST(n AS STRING), CAST(LAG(n) OVER w AS STRING), CAST(LAG(n, 2, -1) OVER w AS STRING), "
        "CAST(RANK() OVER w AS STRING), CAST(DENSE_RANK() OVER w AS STRING) FROM s "
        "WINDOW w AS (PARTITION BY k ORDER BY ts)"
    )
    rows: list[Row] = [("a", n, ms) for n, ms in ((1, 1000), (2, 2000), (3, 2000), (4, 5000), (5, 9000))]
    for number, size in enumerate((1, 2, 5)):
        running = Running(text, str(tmp_path / str(number)))
        for first in range(0, 5, size):
            running.run([rows[first : first + size]], ended=first + size >= 5)
        assert sorted(running.result) == [
            ("a", "1", None, "-1", "1", "1"),
            ("a", "2", "2", "1", "2", "2"),
            ("a", "3", "2", "1", "2", "2"),
            ("a", "4", "3", "2", "4", "3"),
            ("a", "5", "4", "3", "5", "4"),
        ]


def test_row_numbers_of_all_rows(tmp_path):
    text = "SELECT k, CAST(n AS STRING), CAST(1 + ROW_NUMBER() OVER (PARTITION BY k ORDER BY ts) AS STRING) FROM s"
    running = Running(text, str(tmp_path))
    running.run([[("a", 1, 1000), ("b", 2, 1000)]])
    running.run([[("a", 3, 2000)]], ended=True)
    assert sorted(running.result) == [("a", "1", "2"), ("a", "3", "3"), ("b", "2", "2")]


def test_the_plan_says_what_is_kept_and_how_rows_are_ordered():
    (job,) = parsed(f"{TABLES} {SINK} INSERT INTO t SELECT k, SUM(n) OVER (PARTITION BY k ORDER BY ts) FROM s").jobs
    found = check_job(job)
    assert traits(found.sinks[0].input).kinds == INSERTIONS
    text = explain(found)
    assert "functions over RANGE BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW of each `k`, by `ts`" in text
    assert "keeps each group, and the rows that the watermark has not reached, as 't: over(s)'" in text
    assert "takes rows by the hash of `k`" in text


def test_a_batch_gives_no_changes():
    text = "SELECT k, SUM(n) OVER (PARTITION BY k ORDER BY n) FROM b"
    table = "CREATE TABLE b (k STRING, n INT) WITH ('connector' = 'any', 'mode' = 'I', 'bounded' = 'True');"
    found = {}
    for mode in ("STREAMING", "BATCH"):
        (job,) = parsed(
            f"SET 'execution.runtime-mode' = '{mode}'; {TABLES} {CHANGED} {table} INSERT INTO t {text}"
        ).jobs
        found[mode] = explain(check_job(job))
        (changelog,) = parsed(f"SET 'execution.runtime-mode' = '{mode}'; {table} EXPLAIN {text}").printed
        assert ("changelogMode=[I,UB,UA]" in changelog) == ("changelogMode" in changelog) == (mode == "STREAMING")
    assert "gives +I,-U,+U" in found["STREAMING"].replace(", ", ",")
    assert "functions over" in found["BATCH"]
    assert "gives" not in found["BATCH"]


@pytest.mark.parametrize("frame", ["", "ROWS 5 PRECEDING"])
def test_random_values_that_are_written_twice_are_different(frame: str, tmp_path):
    results = (
        "CAST(SUM(RAND()) OVER w AS STRING), CAST(SUM(RAND()) OVER w + 0 AS STRING), CAST(AVG(RAND()) OVER w AS STRING)"
    )
    running = Running(f"SELECT k, {results} FROM s WINDOW w AS (PARTITION BY k ORDER BY ts {frame})", str(tmp_path))
    ((_, *found),) = running.run([[("a", 1, 1000)]], ended=True)
    assert len({*found}) == 3


@pytest.mark.parametrize("function", ["FIRST_VALUE", "LAST_VALUE"])
def test_the_first_of_different_values_is_not_known_in_a_batch(function: str):
    text = f"{TABLES} {SINK} INSERT INTO t SELECT k, {function}(DISTINCT n) OVER (PARTITION BY k ORDER BY n) FROM s"
    with pytest.raises(UnsupportedError, match=rf"{function}\(DISTINCT ..\) with OVER is not supported in batch mode"):
        parsed(f"SET 'execution.runtime-mode' = 'BATCH'; {text}")


#: What Flink gives for the values p, q, p, r, p, q, q, s and r, a second each: the last and the first different value
#: of frames of three rows, and all of them.
DIFFERENT = "p p p|q p p,q|q p p,q|r p p,q,r|r p p,r|q p p,r,q|q p p,q|s q q,s|r q q,s,r"


@pytest.mark.parametrize("frame", ["ROWS 2 PRECEDING", "RANGE INTERVAL '2' SECOND PRECEDING"])
@pytest.mark.parametrize("size", [1, 9])
def test_a_value_that_comes_again_stays_where_it_is(size: int, frame: str, tmp_path):
    results = ("LAST_VALUE(DISTINCT k)", "FIRST_VALUE(DISTINCT k)", "LISTAGG(DISTINCT k)")
    over = ", ".join(f"CAST({each} OVER w AS STRING)" for each in results)
    running = Running(f"SELECT k, {over} FROM s WINDOW w AS (ORDER BY ts {frame})", str(tmp_path))
    rows: list[Row] = [(value, 1, 1000 * at + 1000) for at, value in enumerate("pqprpqqsr")]
    found = []
    for first in range(0, 9, size):
        found += running.run([rows[first : first + size]], ended=first + size == 9)
        running.start()
    assert [" ".join(each[1:]) for each in found] == DIFFERENT.split("|")


LISTS = (
    "CAST(CARDINALITY(ARRAY_AGG(n) OVER w) AS STRING), CAST(LISTAGG(k) OVER w AS STRING), "
    "CAST(LISTAGG(DISTINCT k) OVER w AS STRING)"
)


@pytest.mark.parametrize(
    ("table", "window"),
    [
        ("s", "ORDER BY ts"),
        ("s", "PARTITION BY n ORDER BY ts ROWS 20 PRECEDING"),
        ("c", "ORDER BY n"),
    ],
)
def test_lists_of_frames_are_made_in_parts(table: str, window: str, tmp_path, monkeypatch):
    rng, found = random.Random(5), []
    rows = some_rows(rng, 60)
    text = f"SELECT k, CAST(n AS STRING), {LISTS} FROM {table} WINDOW w AS ({window})"
    for number, most in enumerate((None, 100)):
        if most:
            monkeypatch.setattr(over_values, "_MOST_BYTES", most)
            monkeypatch.setattr(large, "_MOST_BYTES", most)
        job = Running(text, str(tmp_path / str(number)))
        found.append([job.run([rows[:30]]), job.run([rows[30:]], ended=True)])
    assert found[0] == found[1]
    assert any(found[0])


def test_lists_may_have_more_together_than_a_column_can_hold(tmp_path):
    query = "SELECT LISTAGG(k) OVER (ORDER BY ts) FROM s"
    (job,) = parsed(
        f"{TABLES} CREATE TABLE t (k STRING) WITH ('connector' = 'any', 'mode' = 'I'); INSERT INTO t {query}"
    ).jobs
    (node,) = (each for each in nodes(*plan_job(job).sinks) if isinstance(each, OverAggregate))
    functions = OverFunctions.from_node(node, strict=False)
    length, count = 1 << 20, 70
    columns = {"k": ["x" * length] * count, "ts": list(range(count))}
    schema = functions.given.schema
    rows = pa.record_batch([pa.array(columns[each.name], each.type) for each in schema], schema=schema)
    partitions = Partitions.from_rows(np.zeros(count, np.int64), [np.arange(count)])
    framed = functions.frame_rows(rows, partitions)
    parts = functions.compute_results(framed, functions.compute_states(framed), np.arange(count))
    lengths = [pc.binary_length(part.column(functions.schema.names[-1])).to_pylist() for part in parts]
    assert len(lengths) > 10
    assert [each for part in lengths for each in part] == [at * (length + 1) - 1 for at in range(1, count + 1)]
    assert sum(map(sum, lengths)) > 1 << 31


def test_in_the_order_of_time_rows_must_only_be_added():
    changing = "SELECT k, SUM(n) OVER (PARTITION BY k ORDER BY {}) FROM c"
    with pytest.raises(DefinitionError, match="takes rows that are only added, and the query's rows change"):
        parsed(f"{TABLES} {SINK} INSERT INTO t {changing.format('ts')}")
    (job,) = parsed(f"{TABLES} {SINK} INSERT INTO t {changing.format('n')}").jobs
    assert traits(check_job(job).sinks[0].input).changing


@pytest.mark.parametrize(
    ("function", "kind"),
    [("SUM(n)", "INT"), ("SUM(n * 4000000000)", "BIGINT")],
)
def test_an_overflow_fails_where_the_settings_say_so(function: str, kind: str, tmp_path, monkeypatch):
    rows: list[Row] = [("a", 2_000_000_000, 1000), ("a", 2_000_000_000, 2000)]
    for number, frame in enumerate(("", "ROWS 5 PRECEDING")):
        text = query(frame, [function])
        assert len(Running(text, str(tmp_path / f"wraps {number}")).run([rows], ended=True)) == 2
        monkeypatch.setattr(running, "Session", lambda zone: Session(zone, strict=True))
        with pytest.raises(RecordError, match=f"exceeds the range of {kind}"):
            Running(text, str(tmp_path / f"fails {number}")).run([rows], ended=True)
        monkeypatch.undo()


@pytest.mark.parametrize(("known", "new"), [("a", "b"), ("b", "a")])
def test_ranks_of_a_new_key_beside_a_known_one(known: str, new: str, tmp_path):
    functions = "CAST(RANK() OVER w AS STRING), CAST(RANK() OVER w + 1 AS STRING)"
    query = f"SELECT k, CAST(n AS STRING), {functions} FROM c WINDOW w AS (PARTITION BY k ORDER BY n)"
    running = Running(query, str(tmp_path))
    running.run([[(known, 5, 1000)]], kinds=[RowKind.INSERT])
    found = running.run([[(known, 2, 2000), (new, 1, 3000)]], kinds=[RowKind.INSERT] * 2)
    assert {(known, "2", "1", "2"), (new, "1", "1", "2")} <= {row[-4:] for row in found}


@pytest.mark.parametrize("first", [np.inf, -np.inf, np.nan])
def test_sums_do_not_take_over_what_is_in_no_frame_of_theirs(first: float):
    values, ends = np.array([first, 1.0, 2.0, 3.0]), np.array([1, 2, 3, 4])
    assert sum_frames(values, np.array([0, 1, 2, 2]), ends).tolist()[1:] == [1.0, 2.0, 5.0]
