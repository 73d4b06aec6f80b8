"""What plans compute is what the queries mean: SQLite says what that is."""

from __future__ import annotations

import sqlite3
from collections import Counter
from typing import Any

import hypothesis
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.errors import UnsupportedError
from penstock.plan.nodes import Scan
from tests.corpora import parsed
from tests.interpreter import Row, bag, rows_of
from tests.plans import check_job
from tests.queries import QUERIES, TABLES

_COLUMNS = ("k", "v", "n")
_ROWS = st.lists(
    st.tuples(st.none() | st.integers(0, 3), st.none() | st.sampled_from("ab"), st.integers(0, 3)), max_size=6
)


def _literal(scan: Scan) -> list[Row]:
    """The rows of VALUES."""
    found: list[Row] = scan.spec.rows.select(list(scan.schema.names)).to_pylist()  # type: ignore[attr-defined]
    return found


def _sqlite(query: str, tables: dict[str, list[Row]]) -> Counter[tuple[Any, ...]]:
    with sqlite3.connect(":memory:") as database:
        for name, rows in tables.items():
            database.execute(f"CREATE TABLE {name} (k INT, v TEXT, n INT{', ts INT' if name == 'a' else ''})")
            marks = ", ".join("?" * (4 if name == "a" else 3))
            database.executemany(f"INSERT INTO {name} VALUES ({marks})", [tuple(row.values()) for row in rows])
        return Counter(database.execute(query).fetchall())


@settings(max_examples=100, deadline=None)
@given(QUERIES, _ROWS, _ROWS, _ROWS)
def test_plans_mean_what_sqlite_says(query: str, a: Any, b: Any, c: Any):
    keyed = {row[0] or 0: (row[0] or 0, *row[1:]) for row in b}.values()
    tables = {
        "a": [dict(zip((*_COLUMNS, "ts"), (*row, at), strict=True)) for at, row in enumerate(a)],
        "b": [dict(zip(_COLUMNS, row, strict=True)) for row in keyed],
        "c": [dict(zip(_COLUMNS, row, strict=True)) for row in c],
    }
    try:
        (job,) = parsed(f"{TABLES} INSERT INTO bag {query}").jobs
    except UnsupportedError:
        hypothesis.reject()
    wanted = _sqlite(query, tables)

    assert bag(rows_of(job.sinks[0], tables, _literal), _COLUMNS) == wanted
    assert bag(rows_of(check_job(job).sinks[0], tables, _literal), _COLUMNS) == wanted
