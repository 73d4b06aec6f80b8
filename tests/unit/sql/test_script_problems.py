"""What is wrong with a SQL file, said with line and column: the cases of tests/specs/sql/errors.yaml."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from penstock import errors
from penstock.errors import DefinitionError, PluginError, SqlError
from penstock.spi import Connector, Registry
from penstock.sql import parse_script

SPEC = yaml.safe_load((Path(__file__).parents[2] / "specs/sql/errors.yaml").read_text("utf-8"))
CASES = SPEC["cases"]


def test_no_case_is_lost():
    assert len(CASES) == SPEC["count"]
    assert len({case["sql"] for case in CASES}) == len(CASES)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["sql"])
def test_every_problem_is_named_with_its_place(case: dict[str, Any]):
    with pytest.raises(DefinitionError) as caught:
        parse_script(SPEC["tables"] + case["sql"], file="f.sql", variables={"SECRET": "hunter2"})

    assert [str(problem) for problem in caught.value.problems] == [f"f.sql, {text}" for text in case["problems"]]
    assert type(caught.value) is getattr(errors, case["error"])
    assert "hunter2" not in str(caught.value).lower()


def test_all_problems_of_a_file_come_at_once_and_in_order():
    text = """
SET 'parallelism.default' = 'many';
CREATE TABLE t (a INT, b STRNG) WITH ('connector' = 'print');
CREATE TABLE s (a INT) WITH ('connector' = 'prnt');
INSERT INTO s SELECT a FROM t;
INSERT INTO nowhere SELECT b FROM s JOIN t ON TRUE;
SELECT 1;
"""
    with pytest.raises(SqlError) as caught:
        parse_script(text, file="dir/f.sql")

    assert [problem.where for problem in caught.value.problems] == [
        "dir/f.sql, line 2, column 29",
        "dir/f.sql, line 3, column 26",
        "dir/f.sql, line 4, column 30",
        "dir/f.sql, line 6, column 13",
        "dir/f.sql, line 7, column 1",
    ]


def test_undefined_variables_come_all_at_once():
    with pytest.raises(SqlError) as caught:
        parse_script("SET 'pipeline.name' = '${a}-${b}';\nSET 'x' = ${ c };", variables={"ab": "x"})

    assert str(caught.value).splitlines() == [
        "line 1, column 24: variable 'a' is not defined (did you mean 'ab'?)",
        "line 1, column 29: variable 'b' is not defined (did you mean 'ab'?)",
        "line 2, column 11: variable ' c ' is not defined (define it with --var  c =VALUE, or in a file given by "
        "--var-file)",
    ]


def test_a_variable_cannot_end_a_string():
    """Nor add a statement: a value inside quotes is data."""
    value = "x'); DROP TABLE t; --"
    text = (
        "CREATE TABLE t (a INT) WITH ('connector' = 'print', 'standard-error' = '${v}'); INSERT INTO t SELECT 1 FROM t"
    )
    with pytest.raises(DefinitionError) as caught:
        parse_script(text, variables={"v": value})

    assert "DROP" not in str(caught.value)
    assert any("not '${v}'" in str(problem) for problem in caught.value.problems)


@pytest.mark.parametrize("text", ["", "  -- nothing\n", ";;", "SET 'pipeline.name' = 'x';"])
def test_a_file_that_starts_nothing_is_a_mistake(text: str):
    with pytest.raises(
        SqlError, match=r"f.sql, line \d, column \d+: there is no INSERT INTO, so there is nothing to run"
    ):
        parse_script(text, file="f.sql")


def test_a_connector_that_does_not_load_is_no_mistake_of_the_file():
    broken: Registry[Connector] = Registry("connector", "none", Connector, (("bad", "penstock.nowhere:Bad"),))  # type: ignore[type-abstract]
    text = "CREATE TABLE t (a INT) WITH ('connector' = 'bad'); INSERT INTO t SELECT a FROM t"

    with pytest.raises(PluginError, match="connector 'bad' of penstock failed to load"):
        parse_script(text, connectors=broken)
