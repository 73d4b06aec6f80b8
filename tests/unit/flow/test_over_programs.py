"""The programs of Flink's tests about functions with OVER, where they are present. Each row is a batch where Flink's
late rows depend on it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.corpora import flink_programs, needed
from tests.programs import MORE_WAYS, WAYS, Way
from tests.unit.flow.test_programs import check

#: Flink's tests have a function in Java that counts larger values.
_FUNCTION, _SAME = "LTCNT(a, CAST('4' AS BIGINT)) OVER w", "COUNT(CASE WHEN a > 4 THEN 1 END) OVER w"
PROGRAMS = [
    {**each, "sql": [text.replace(_FUNCTION, _SAME) for text in each["sql"]]}
    for each in flink_programs()
    if each["operator"] == "over"
]


programs = pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program["name"])


def by_key_of_the_sink(program: dict[str, Any]) -> bool:
    """Whether of several rows with the sink's key the last to change stays."""
    return bool(program["name"].endswith("mode-sink-primary-key"))


@needed()
@programs
def test_a_program_of_flink_gives_its_rows(program: dict[str, Any], tmp_path: Path):
    if by_key_of_the_sink(program):
        check(program, WAYS[:1], tmp_path)
        return
    if "late-rows" not in program["needs"]:
        check(program, WAYS, tmp_path)
        return
    together = program["one_run"].get("net", {})
    sinks = [{**each, "net": together.get(each["name"], each["net"])} for each in program["sinks"]]
    check({**program, "sinks": sinks}, (Way(1), Way(1, 3)), tmp_path)


@pytest.mark.slow
@needed()
@programs
def test_a_program_of_flink_gives_its_rows_in_more_ways(program: dict[str, Any], tmp_path: Path):
    """As the programs of test_programs.py: by other numbers of rows and owners."""
    if not by_key_of_the_sink(program) and "late-rows" not in program["needs"]:
        check(program, MORE_WAYS, tmp_path)


@needed()
def test_there_are_programs():
    assert len(PROGRAMS) > 20
