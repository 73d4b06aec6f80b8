"""What is wrong with tables of Kafka: the cases of tests/specs/sql/kafka-tables.yaml."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from penstock.errors import OptionsError
from penstock.sql import parse_script

SPEC = yaml.safe_load((Path(__file__).parents[2] / "specs/sql/kafka-tables.yaml").read_text("utf-8"))
REFUSED, ACCEPTED = SPEC["refused"], SPEC["accepted"]
#: A table that is written where the table of the case is read, and the other way round.
READ = "CREATE TABLE other (n INT) WITH ('connector' = 'blackhole');\nINSERT INTO other SELECT 1 FROM k"
WRITTEN = (
    "CREATE TABLE other (n INT) WITH ('connector' = 'kafka', 'topic' = 'o', 'properties.bootstrap.servers' = 'b:9092', "
    "'format' = 'json');\nINSERT INTO k (`{}`) SELECT n FROM other"
)


def scripts(case: dict[str, Any]) -> Iterator[str]:
    """The table with an option on each line, read and written."""
    options = SPEC["connectors"][case["connector"]] | case["with"]
    lines = ",\n".join(f"'{key}' = '{value}'" for key, value in options.items() if value is not None)
    table = f"CREATE TABLE k ({case['columns']}) WITH (\n{lines}\n);\n"
    (first,) = re.findall(r"^`?(\w+)", case["columns"])
    yield from (table + (READ if side == "r" else WRITTEN.format(first)) for side in case["sides"])


def test_no_case_is_lost():
    assert len(REFUSED) + len(ACCEPTED) == SPEC["count"]
    assert len({(case["connector"], case["about"]) for case in (*REFUSED, *ACCEPTED)}) == SPEC["count"]


@pytest.mark.parametrize("case", REFUSED, ids=lambda case: f"{case['connector']}: {case['about']}")
def test_a_table_is_refused_with_the_place_and_what_to_do(case: dict[str, Any]):
    for text in scripts(case):
        with pytest.raises(OptionsError) as caught:
            parse_script(text, file="f.sql")
        assert [str(problem) for problem in caught.value.problems] == [f"f.sql, {each}" for each in case["problems"]]


@pytest.mark.parametrize("case", ACCEPTED, ids=lambda case: f"{case['connector']}: {case['about']}")
def test_a_table_is_accepted(case: dict[str, Any]):
    for text in scripts(case):
        assert parse_script(text, file="f.sql").jobs


@pytest.mark.parametrize("connector", ["kafka", "upsert-kafka"])
def test_a_table_is_named_once_where_there_is_no_file(connector: str):
    columns = "id INT, name STRING, PRIMARY KEY (id) NOT ENFORCED"
    case = {"connector": connector, "sides": "r", "columns": columns, "with": {"format": None, "value.format": None}}
    for text in scripts(case):
        with pytest.raises(OptionsError) as caught:
            parse_script(text)
        (problem,) = (each for each in caught.value.problems if each.key == "value.format")
        assert problem.where == "line 1, column 14, table 'k'"
