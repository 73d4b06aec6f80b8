"""Random values of rows that change: a retraction has those of its row."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from penstock.errors import UnsupportedError
from penstock.plan.explain import explain
from penstock.plan.nodes import Materialize, Node, Sink
from penstock.plan.planning import plan_job
from penstock.plan.walk import fold
from tests.corpora import parsed
from tests.unit.flow.running import TABLES, Row, Running

GROUPS = "SELECT k, COUNT(*) AS n FROM s GROUP BY k"


def sink_of(query: str, table: str = "CREATE TABLE t (k STRING, v STRING)", options: str = "I,UB,UA,D") -> Sink:
    """The planned sink of a query."""
    script = f"{TABLES} {table} WITH ('connector' = 'any', 'mode' = '{options}'); INSERT INTO t {query}"
    (job,) = parsed(script).jobs
    return plan_job(job).sinks[0]


def decided(sink: Sink) -> list[Materialize]:
    """The steps that keep random values."""
    found: list[Materialize] = []

    def visit(node: Node, _: tuple[None, ...]) -> None:
        if isinstance(node, Materialize) and node.decided:
            found.append(node)

    fold((sink,), visit)
    return found


def rows(numbers: random.Random, count: int) -> list[Row]:
    return [(numbers.choice("abcde"), numbers.randrange(10), 0) for _ in range(count)]


@pytest.mark.parametrize("owners", [1, 3])
def test_a_retraction_has_the_random_values_of_its_row(tmp_path: Path, owners: int):
    """``Running`` sees to it that each row that is retracted is there."""
    running = Running(f"SELECT k, CAST(n AS STRING), CAST(UUID() AS STRING) FROM ({GROUPS})", str(tmp_path))
    numbers = random.Random(1)
    counts: Counter[Any] = Counter()
    for _ in range(6):
        given = rows(numbers, 20)
        counts.update(k for k, _, _ in given)
        running.run([given[:10], given[10:]], owners)
        assert {(k, n) for k, n, _ in running.result} == {(k, str(n)) for k, n in counts.items()}
        running.start()
    assert len({value for _, _, value in running.result}) == len(running.result)


def test_a_condition_of_chance_decides_for_a_row_and_its_retraction(tmp_path: Path):
    running = Running(f"SELECT k, CAST(n AS STRING) FROM ({GROUPS}) WHERE RAND() < 0.5", str(tmp_path))
    numbers, sizes = random.Random(2), set()
    for _ in range(30):
        running.run([rows(numbers, 5)], 2)
        sizes.add(len(running.result))
        assert len(running.result) == len({k for k, _ in running.result})
    assert len(sizes) > 1


def test_state_is_above_random_values_of_rows_that_change(tmp_path: Path):
    query = "SELECT CAST(r AS STRING), CAST(COUNT(*) AS STRING), CAST(SUM(n) AS STRING)"
    running = Running(f"{query} FROM (SELECT n, RAND_INTEGER(3) AS r FROM ({GROUPS})) GROUP BY r", str(tmp_path))
    numbers, count = random.Random(3), 0
    for _ in range(10):
        running.run([rows(numbers, 7)], 2)
        count += 7
        assert sum(int(total) for _, _, total in running.result) == count


def test_one_row_of_all_has_its_random_value(tmp_path: Path):
    """Its key has no columns."""
    query = "SELECT CAST(n AS STRING), CAST(UUID() AS STRING) FROM (SELECT COUNT(*) AS n FROM s)"
    running = Running(query, str(tmp_path))
    for number in range(1, 4):
        running.run([[("a", 1, 0)]], 2)
        assert [n for n, _ in running.result] == [str(number)]


def test_tables_of_changes_have_random_values_by_their_key(tmp_path: Path):
    options = "WITH ('connector' = 'any', 'mode' = 'I,UB,UA,D');"
    script = f"{TABLES} CREATE TABLE d (k STRING, n INT, PRIMARY KEY (k) NOT ENFORCED) {options}"
    (job,) = parsed(
        f"{script} CREATE TABLE t (k STRING, v STRING) {options} INSERT INTO t SELECT k, UUID() FROM d;"
    ).jobs
    (kept,) = decided(plan_job(job).sinks[0])
    assert kept.keys == ("k",)


@pytest.mark.parametrize(
    "query",
    [
        "SELECT k, UUID() FROM c",
        f"SELECT CAST(n AS STRING), UUID() FROM ({GROUPS} UNION ALL {GROUPS})",
        "SELECT k, CAST(n AS STRING) FROM c WHERE RAND() > 0.5",
    ],
)
def test_rows_without_a_key_are_refused(query: str):
    with pytest.raises(
        UnsupportedError, match="another value when its row is retracted, and rows that change have no key"
    ):
        sink_of(query)


UPSERTS = "CREATE TABLE t (k STRING, v STRING, PRIMARY KEY (k) NOT ENFORCED)"


@pytest.mark.parametrize(
    ("query", "table", "kept"),
    [
        # A table that replaces the row of a key finds it by that.
        (f"SELECT k, CONCAT(UUID(), CAST(n AS STRING)) FROM ({GROUPS})", UPSERTS, 0),
        (f"SELECT UUID(), CAST(n AS STRING) FROM ({GROUPS})", UPSERTS, 1),
        (f"SELECT k, CAST(n AS STRING) FROM ({GROUPS}) WHERE RAND() > 0.5", UPSERTS, 1),
        # Rows that are only added have their values for good.
        ("SELECT k, UUID() FROM s", UPSERTS, 0),
        (f"SELECT UUID(), k FROM ({GROUPS})", "CREATE TABLE t (k STRING, v STRING)", 0),  # the first row of each k
        ("SELECT k, MAX(u) FROM (SELECT k, UUID() AS u FROM s) GROUP BY k", UPSERTS, 0),
        # What nobody reads is not kept.
        (f"SELECT k, CAST(n AS STRING) FROM (SELECT k, n, UUID() AS u FROM ({GROUPS}))", UPSERTS, 0),
    ],
)
def test_values_are_kept_where_rows_are_found_by_them(query: str, table: str, kept: int):
    mode = "I,UA,D" if table == UPSERTS else "I,UB,UA,D"
    assert len(decided(sink_of(query, table, mode))) == kept


def test_a_plan_that_was_planned_stays():
    script = f"{TABLES} CREATE TABLE t (k STRING, v STRING) WITH ('connector' = 'any', 'mode' = 'I,UB,UA,D');"
    (job,) = parsed(f"{script} INSERT INTO t SELECT CAST(n AS STRING), UUID() FROM ({GROUPS});").jobs
    once = plan_job(job)
    assert plan_job(once) == once
    assert "the last row of each `k`, with the random values that it had first" in explain(once)


def test_flinks_default_keeps_nothing_and_refuses_state():
    ignore = "SET 'table.optimizer.non-deterministic-update.strategy' = 'IGNORE';"
    table = f"{TABLES} CREATE TABLE t (k STRING, v STRING) WITH ('connector' = 'any', 'mode' = 'I,UB,UA,D');"
    (job,) = parsed(f"{ignore} {table} INSERT INTO t SELECT CAST(n AS STRING), UUID() FROM ({GROUPS});").jobs
    assert decided(plan_job(job).sinks[0]) == []
    query = f"SELECT r, CAST(SUM(n) AS STRING) FROM (SELECT n, UUID() AS r FROM ({GROUPS})) GROUP BY r"
    (job,) = parsed(f"{ignore} {table} INSERT INTO t {query};").jobs
    with pytest.raises(UnsupportedError, match="has another value when its row is retracted"):
        plan_job(job)
