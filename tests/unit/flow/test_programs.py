"""The programs of Flink's tests, where they are present, give the rows that Flink gives: in one run, with a stop and a
restart, and wherever their rows are cut into batches."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from pyarrow import ArrowInvalid

from penstock.errors import DefinitionError
from tests.corpora import flink_programs, needed
from tests.programs import MORE_WAYS, WAYS, NeedsSpark, Way, outcome

OPERATORS = (
    *("group-aggregate", "join", "multi-join", "deduplicate", "changelog-normalize", "union", "values"),
    *("rank", "sort", "limit", "correlate", "expand", "mini-batch"),
    *("sink-constraint", "sink", "deletes-by-key"),
)
PROGRAMS = [each for each in flink_programs() if each["operator"] in OPERATORS]
#: Programs that are not run, or give other rows, and why.
LISTED = {
    "group-aggregate-udf-with-merge": "functions of users",
    "group-aggregate-udf-with-merge-mini-batch": "functions of users",
    "group-aggregate-udf-without-merge": "functions of users",
    "group-aggregate-udf-without-merge-mini-batch": "functions of users",
    **dict.fromkeys(
        (
            "constraint-enforcer-drop-not-null-nested-rows",
            "constraint-enforcer-trim-pad-length-nested-rows",
            "constraint-enforcer-drop-not-null-nested-arrays",
        ),
        "constraints inside of rows and collections",
    ),
    "constraint-enforcer-drop-not-null-nested-maps": "a map with a key that is NULL, which Arrow has not",
    "sink-partition": "partitions of a sink",
    "sink-overwrite": "INSERT OVERWRITE",
    "sink-ndf-primary-key": "functions of users",
    "sink-on-conflict-do-nothing-keeps-first": "ON CONFLICT DO NOTHING",
    "sink-on-conflict-do-error-no-conflict": "ON CONFLICT DO ERROR",
    **dict.fromkeys(
        (
            "insert-into-upsert-with-sink-upsert-materializer-writable-metadata-v1",
            "insert-into-upsert-with-sink-upsert-materializer-writable-metadata",
        ),
        "Flink's own connector puts metadata behind the other columns",
    ),
    "correlate-catalog-func": "functions of users",
    "correlate-system-func": "functions of users",
    "correlate-join-filter": "functions of users",
    "correlate-left-join": "functions of users",
    "changelog-normalize-upsert-filter-watermark": "the present watermark of a table of upserts",
    "sort-asc": "ORDER BY without LIMIT, which streams do not have",
    "sort-desc": "ORDER BY without LIMIT, which streams do not have",
}

programs = pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program["name"])


def check(program: Mapping[str, Any], ways: Sequence[Way], folder: Path) -> None:
    """Run a program in several ways; one that is for batch mode only in that."""
    if program["run"]["modes"] == ["batch"]:
        tables = [{**each, "bounded": True} for each in program["tables"]]
        program = {**program, "tables": tables, "sql": ["SET 'execution.runtime-mode' = 'BATCH'", *program["sql"]]}
        ways = (Way(batch=True), Way(owners=3, batch=True))
    for number, way in enumerate(ways):
        found = outcome(program, way, str(folder / str(number)))
        for sink in program["sinks"]:
            assert found[sink["name"]] == Counter(_expected(program, sink, way)), f"{sink['name']}: {way}"


def _expected(program: Mapping[str, Any], sink: Mapping[str, Any], way: Way) -> list[str]:
    """The rows of a sink. Where state is forgotten between two starts, one run has others."""
    together: Mapping[str, Any] = program.get("one_run", {})
    forgets = together.get("why", "").startswith("state expires")
    rows: list[str] = together["net"][sink["name"]] if forgets and not way.restart else sink["net"]
    return rows


@needed()
@programs
def test_a_program_of_flink_gives_its_rows(program: dict[str, Any], tmp_path: Path):
    if program["name"] not in LISTED:
        check(program, WAYS, tmp_path)
        return
    with pytest.raises((DefinitionError, NeedsSpark, AssertionError, ArrowInvalid)):
        check(program, WAYS[:1], tmp_path)


@pytest.mark.slow
@needed()
@programs
def test_a_program_of_flink_gives_its_rows_in_more_ways(program: dict[str, Any], tmp_path: Path):
    if program["name"] not in LISTED:
        check(program, MORE_WAYS, tmp_path)


@needed()
def test_programs_that_are_listed_exist():
    assert LISTED.keys() <= {program["name"] for program in PROGRAMS}
