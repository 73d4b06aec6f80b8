"""What tables demand of their rows: NOT NULL and lengths of sinks, keys of sources whose changes are repeated."""

from __future__ import annotations

import re
from typing import Any

import pytest

from penstock.errors import RecordError, SchemaError
from tests.programs import Way, outcome

NULLS = "table.exec.sink.not-null-enforcer"
LENGTHS = "table.exec.sink.type-length-enforcer"
REPEATED = "table.exec.source.cdc-events-duplicate"
ROWS = [("+I", (1, "abcd", "00ff01")), ("+I", (2, None, "02")), ("+I", (None, "x", None))]


def rows(config: dict[str, str], sink: str, folder: str, where: str = "", **table: Any) -> list[str]:
    """The rows that a table gets."""
    plain: dict[str, Any] = {"primary_key": None, "options": {}, "schema": ["i INT", "s STRING", "b BYTES"]}
    changes = [(kind, (i, s, b and {"hex": b})) for kind, (i, s, b) in table.pop("rows", ROWS)]
    source = {**plain, "name": "t", "changelog_mode": "I", "before": changes, "after": [], **table}
    sinks = [{**plain, "name": "s", "schema": sink.split(", ")}]
    program = {"name": "constraints", "tables": [source], "sinks": sinks, "config": config}
    run: dict[str, Any] = {"sql": [f"INSERT INTO s SELECT * FROM t {where}"], "run": {"end_of_input": "none"}}
    return sorted(outcome(program | run, Way(1, 2), folder)["s"].elements())


def test_rows_are_left_out_or_fitted(tmp_path):
    cases = [
        ({NULLS: "DROP"}, "i INT NOT NULL, s STRING, b BYTES", ["[1, abcd, [0, -1, 1]]", "[2, null, [2]]"]),
        ({NULLS: "drop"}, "i INT NOT NULL, s STRING NOT NULL, b BYTES", ["[1, abcd, [0, -1, 1]]"]),
        ({LENGTHS: "TRIM_PAD"}, "i INT, s CHAR(2), b BINARY(2)",
         ["[1, ab, [0, -1]]", "[2, null, [2, 0]]", "[null, x , null]"]),
        ({LENGTHS: "TRIM_PAD", NULLS: "DROP"}, "i INT, s VARCHAR(3) NOT NULL, b VARBINARY(1)",
         ["[1, abc, [0]]", "[null, x, null]"]),
        ({LENGTHS: "ERROR"}, "i INT, s VARCHAR(4), b VARBINARY(3)",
         ["[1, abcd, [0, -1, 1]]", "[2, null, [2]]", "[null, x, null]"]),
        ({LENGTHS: "IGNORE"}, "i INT, s CHAR(2), b BYTES",
         ["[1, abcd, [0, -1, 1]]", "[2, null, [2]]", "[null, x, null]"]),
    ]  # fmt: skip
    for number, (config, sink, expected) in enumerate(cases):
        assert rows(config, sink, str(tmp_path / str(number))) == expected, config


@pytest.mark.parametrize(
    ("config", "sink", "reason"),
    [
        ({}, "i INT NOT NULL, s STRING, b BYTES", "column 'i' of table 's' is NOT NULL, and NULL is written into it"),
        ({LENGTHS: "ERROR"}, "i INT, s VARCHAR(3), b BYTES", "'s' of table 's' is VARCHAR(3), and a text of length 4"),
        ({LENGTHS: "ERROR"}, "i INT, s CHAR(4), b BYTES", "column 's' of table 's' is CHAR(4), and a text of length 1"),
        ({LENGTHS: "ERROR"}, "i INT, s STRING, b BINARY(3)", "'b' of table 's' is BINARY(3), and a binary value of"),
    ],
)  # fmt: skip
def test_a_row_that_does_not_fit_fails(config, sink, reason, tmp_path):
    with pytest.raises(RecordError, match=re.escape(reason)):
        rows(config, sink, str(tmp_path))


def test_a_condition_of_the_query_does_not_replace_others(tmp_path):
    sink = "i INT NOT NULL, s STRING NOT NULL, b BYTES"
    found = rows({NULLS: "DROP"}, sink, str(tmp_path), "WHERE i IS NOT NULL")
    assert found == ["[1, abcd, [0, -1, 1]]"]


def test_an_upsert_with_null_takes_its_row_away(tmp_path):
    values = [(1, "a"), (2, None), (3, "c"), (1, None), (2, "b")]
    table = {"rows": [("+U", (i, s, None)) for i, s in values], "changelog_mode": "I,UA,D", "primary_key": ["i"]}
    columns = ["i INT NOT NULL", "s STRING", "b BYTES"]
    found = rows({NULLS: "DROP"}, "i INT NOT NULL, s STRING NOT NULL, b BYTES", str(tmp_path), schema=columns, **table)
    assert found == ["[2, b, null]", "[3, c, null]"]


def test_repeated_changes_count_once(tmp_path):
    changes = [("+I", (1, "a", None)), ("+I", (1, "a", None)), ("-U", (1, "a", None)), ("+U", (1, "b", None))]
    again = [*changes, ("-U", (1, "a", None)), ("+U", (1, "b", None)), ("+I", (2, "c", None)), ("-D", (2, "c", None))]
    table = {"rows": [*again, ("-D", (2, "c", None))], "changelog_mode": "I,UB,UA,D", "primary_key": ["i"]}
    columns = "i INT, s STRING, b BYTES"
    schema = ["i INT NOT NULL", "s STRING", "b BYTES"]
    assert rows({REPEATED: "true"}, columns, str(tmp_path), schema=schema, **table) == ["[1, b, null]"]
    with pytest.raises(SchemaError, match=r"table 't': 'table.exec.source.cdc-events-duplicate' needs"):
        rows({REPEATED: "true"}, columns, str(tmp_path), **(table | {"primary_key": None}))
