"""Queries as values, from SQL to rows."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.errors import ExecutionError
from tests.programs import Way, outcome

TABLES: dict[str, list[Any]] = {
    "t": [("+I", (1, "a", 3)), ("+I", (2, "b", 4)), ("+I", (3, None, 5)), ("-D", (2, "b", 4)), ("+I", (None, "x", 1))],
    "o": [("+I", (1, "a", 10)), ("+I", (None, "a", 20))],
    "nothing": [],
}
COLUMNS = ["k INT", "v STRING", "n BIGINT"]


def rows(query: str, way: Way, folder: str) -> list[str]:
    plain: dict[str, Any] = {"schema": COLUMNS, "primary_key": None, "options": {}}
    tables = [
        {**plain, "name": name, "changelog_mode": "I,D", "before": changes, "after": []}
        for name, changes in TABLES.items()
    ]
    program = {"name": "values", "tables": tables, "sinks": [plain | {"name": "s"}], "run": {"end_of_input": "none"}}
    return sorted(outcome(program | {"sql": [f"INSERT INTO s {query}"]}, way, folder)["s"].elements())


@pytest.mark.parametrize("way", [Way(), Way(1, 3)], ids=["one batch", "many"])
def test_a_query_is_a_value(way: Way, tmp_path):
    case = "CASE WHEN k IN ({0}) THEN 'in' WHEN k NOT IN ({0}) THEN 'not in' ELSE '?' END"
    cases = [
        ("SELECT k, v, (SELECT MAX(n) FROM o) FROM t", ["[1, a, 20]", "[3, null, 20]", "[null, x, 20]"]),
        ("SELECT k, v, (SELECT n FROM nothing) FROM t", ["[1, a, null]", "[3, null, null]", "[null, x, null]"]),
        ("SELECT k, v, n FROM t WHERE n > (SELECT k FROM o WHERE n = 10) + 2 OR v = 'x'",
         ["[3, null, 5]", "[null, x, 1]"]),
        (f"SELECT k, {case.format('SELECT k FROM o')}, n FROM t", ["[1, in, 3]", "[3, ?, 5]", "[null, ?, 1]"]),
        (f"SELECT k, {case.format('SELECT k FROM nothing')}, n FROM t",
         ["[1, not in, 3]", "[3, not in, 5]", "[null, not in, 1]"]),
        (f"SELECT k, {case.format('SELECT k FROM o WHERE k > 0')}, n FROM t",
         ["[1, in, 3]", "[3, not in, 5]", "[null, ?, 1]"]),
        ("SELECT k, CASE WHEN EXISTS (SELECT 1 FROM nothing) THEN 'a' WHEN EXISTS (SELECT 1 FROM o) THEN 'b' "
         "END, n FROM t",
         ["[1, b, 3]", "[3, b, 5]", "[null, b, 1]"]),
        ("SELECT CAST(COUNT(*) AS INT), v, SUM(n * (SELECT MAX(n) FROM o)) + (SELECT MAX(k) FROM t) FROM t GROUP BY v "
         "HAVING SUM(n) > (SELECT MIN(k) FROM o)", ["[1, a, 63]", "[1, null, 103]"]),
    ]  # fmt: skip
    for number, (query, expected) in enumerate(cases):
        assert rows(query, way, str(tmp_path / str(number))) == expected, query


@pytest.mark.parametrize(
    ("query", "place"),
    [
        ("SELECT k, (SELECT v FROM o), n FROM t", "line 5, column 25"),
        ("SELECT CAST(1 AS INT), SINGLE_VALUE(v), COUNT(*) FROM o", "line 5, column 38"),
    ],
)
def test_several_rows_are_no_value(query: str, place: str, tmp_path):
    with pytest.raises(ExecutionError, match=f"^{place}: a query used as a value returned several rows"):
        rows(query, Way(), str(tmp_path))
