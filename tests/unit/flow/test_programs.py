"""The programs of Flink's tests, where they are present, give the rows that Flink gives: in one run, with a stop and a
restart, and wherever their rows are cut into batches."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from penstock.errors import OptionsError, SqlError, UnsupportedError
from tests.corpora import flink_programs, needed
from tests.programs import MORE_WAYS, WAYS, Way, outcome

OPERATORS = (
    *("group-aggregate", "join", "multi-join", "deduplicate", "changelog-normalize", "union", "values"),
    *("rank", "sort", "limit", "correlate", "expand", "mini-batch"),
    *("sink-constraint", "sink", "deletes-by-key", "calc", "source-scan"),
)
PROGRAMS = [each for each in flink_programs() if each["operator"] in OPERATORS]
_LATERAL = (UnsupportedError, "LATERAL is not supported")
_NESTED = (OptionsError, "'table.exec.sink.nested-constraint-enforcer': NOT NULL and lengths")
_METADATA = (AssertionError, "sink_t: ")  # Flink's own connector puts metadata behind the other columns
_SORT = (SqlError, "Sort on a non-time-attribute field is not supported")
#: Programs that are not run, or give other rows: the error, and what its message has.
LISTED: dict[str, tuple[type[Exception], str]] = {
    "calc-udf-simple": (SqlError, "there is no function UDF1"),
    "calc-udf-complex": (SqlError, "there is no function UDF2"),
    "group-aggregate-udf-with-merge": (SqlError, "there is no function MY_AVG"),
    "group-aggregate-udf-with-merge-mini-batch": (SqlError, "there is no function MY_AVG"),
    "group-aggregate-udf-without-merge": (SqlError, "there is no function MY_SUM1"),
    "group-aggregate-udf-without-merge-mini-batch": (SqlError, "there is no function MY_SUM1"),
    "constraint-enforcer-drop-not-null-nested-rows": _NESTED,
    "constraint-enforcer-trim-pad-length-nested-rows": _NESTED,
    "constraint-enforcer-drop-not-null-nested-arrays": _NESTED,
    "constraint-enforcer-drop-not-null-nested-maps": _NESTED,
    "sink-partition": (UnsupportedError, "INSERT INTO .. PARTITION is not supported"),
    "sink-overwrite": (UnsupportedError, "INSERT OVERWRITE into a table of the connector"),
    "sink-ndf-primary-key": (SqlError, "there is no function NDF"),
    "sink-on-conflict-do-nothing-keeps-first": (UnsupportedError, "ON CONFLICT DO NOTHING is not supported"),
    "sink-on-conflict-do-error-no-conflict": (UnsupportedError, "ON CONFLICT DO ERROR is not supported"),
    "insert-into-upsert-with-sink-upsert-materializer-writable-metadata-v1": _METADATA,
    "insert-into-upsert-with-sink-upsert-materializer-writable-metadata": _METADATA,
    "correlate-catalog-func": _LATERAL,
    "correlate-system-func": _LATERAL,
    "correlate-join-filter": _LATERAL,
    "correlate-left-join": _LATERAL,
    "changelog-normalize-upsert-filter-watermark": (
        UnsupportedError,
        "CURRENT_WATERMARK in a condition on rows that are",
    ),
    "sort-asc": _SORT,
    "sort-desc": _SORT,
    "table-source-scan-source-watermark": (UnsupportedError, "function SOURCE_WATERMARK is not supported"),
}

#: Programs that tell each row's watermark apart, which is that of its batch here.
OF_ROWS = ("calc-current-watermark",)
BY_ROW = (Way(1), Way(1, 3, restart=True))

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
        check(program, BY_ROW if program["name"] in OF_ROWS else WAYS, tmp_path)
        return
    error, message = LISTED[program["name"]]
    with pytest.raises(error, match=re.escape(message)):
        check(program, WAYS[:1], tmp_path)


@pytest.mark.slow
@needed()
@programs
def test_a_program_of_flink_gives_its_rows_in_more_ways(program: dict[str, Any], tmp_path: Path):
    if program["name"] not in (*LISTED, *OF_ROWS):
        check(program, MORE_WAYS, tmp_path)


@needed()
def test_programs_that_are_listed_exist():
    assert LISTED.keys() <= {program["name"] for program in PROGRAMS}
