"""UNNEST, from SQL to rows."""

from __future__ import annotations

from typing import Any

import pytest

from tests.programs import Way, outcome

COLUMNS = ["name STRING", "a ARRAY<INT>", "r ARRAY<ROW<x INT, y STRING>>", "m MAP<STRING, INT>", "s MULTISET<STRING>"]
ROWS = [
    ("Bob", [1, None, 3], [{"row": [1, "x"]}, None], {"map": [["a", 1], ["b", 2]]}, {"map": [["m", 2], ["n", 1]]}),
    ("Al", None, [], {"map": []}, None),
    ("Ed", [], None, None, {"map": []}),
]
BOB_A = ["[Bob, 1]", "[Bob, 3]", "[Bob, null]"]


def rows(query: str, columns: str, way: Way, folder: str) -> list[str]:
    """The rows of a query, of which some were taken back."""
    gone = ("+I", "-D")
    changes = [*(["+I", row] for row in ROWS), *([kind, ("Eve", [9], [], None, None)] for kind in gone)]
    table: dict[str, Any] = {"name": "t", "schema": COLUMNS, "primary_key": None, "before": changes, "after": []}
    sink = {"name": "s", "schema": columns.split(", "), "primary_key": None, "options": {}}
    run = {"end_of_input": "none"}
    program = {"name": "unnest", "tables": [table | {"changelog_mode": "I,D"}], "sinks": [sink], "run": run}
    return sorted(outcome(program | {"sql": [f"INSERT INTO s {query}"]}, way, folder)["s"].elements())


@pytest.mark.parametrize("way", [Way(), Way(1, 3)], ids=["one batch", "many"])
def test_a_row_is_given_once_for_each_element(way: Way, tmp_path):
    cases = [
        ("SELECT name, x FROM t CROSS JOIN UNNEST(a) AS u (x)", "p STRING, q INT", BOB_A),
        ("SELECT name, x FROM t, UNNEST(t.a) AS u (x)", "p STRING, q INT", BOB_A),
        ("SELECT u.* FROM t JOIN UNNEST(r) AS u ON u.x IS NULL OR name = 'Bob'", "p INT, q STRING",
         ["[1, x]", "[null, null]"]),
        ("SELECT k, v FROM t LEFT JOIN UNNEST(m) AS u (k, v) ON TRUE WHERE name <> 'Ed'", "p STRING, q INT",
         ["[a, 1]", "[b, 2]", "[null, null]"]),
        ("SELECT x, n FROM t LEFT JOIN UNNEST(a) WITH ORDINALITY AS u (x, n) ON TRUE", "p INT, q INT",
         ["[1, 1]", "[3, 3]", "[null, 2]", "[null, null]", "[null, null]"]),
        ("SELECT e, COUNT(*) FROM t, UNNEST(s) AS u (e) GROUP BY e", "p STRING, q BIGINT", ["[m, 2]", "[n, 1]"]),
        ("SELECT x, y FROM t, UNNEST(a) AS u (x), UNNEST(ARRAY[x, 7]) AS w (y) WHERE y > 2", "p INT, q INT",
         ["[1, 7]", "[3, 3]", "[3, 7]", "[null, 7]"]),
        ("SELECT 'x', y FROM UNNEST(ARRAY[1, 2]) AS u (y)", "p STRING, q INT", ["[x, 1]", "[x, 2]"]),
        ("SELECT name, x FROM (SELECT name, ARRAY_AGG(x) AS l FROM t, UNNEST(a) AS u (x) GROUP BY name), "
         "UNNEST(l) AS u (x)",
         "p STRING, q INT", BOB_A),
    ]  # fmt: skip
    for number, (query, columns, expected) in enumerate(cases):
        assert rows(query, columns, way, str(tmp_path / str(number))) == expected, query


def test_functions_are_computed_beside_unnest(tmp_path):
    query = "SELECT name, POWER(x, 2) FROM t, UNNEST(a) AS u (x) WHERE x IS NOT NULL"
    assert rows(query, "p STRING, q DOUBLE", Way(), str(tmp_path)) == ["[Bob, 1.0]", "[Bob, 9.0]"]
