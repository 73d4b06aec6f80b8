"""The SQL of Flink's own tests and of Nexmark, where it is present: what is supported has a plan, the rest is refused
with its place."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.errors import DefinitionError
from tests.corpora import flink_programs, needed, nexmark, parsed, script
from tests.plans import check_job

PROGRAMS = flink_programs()
NEXMARK = nexmark()
#: Nexmark's queries without windows, functions of users and ranks.
QUERIES = ("q0", "q1", "q2", "q3", "q4", "q10", "q15", "q16", "q17", "q18", "q20", "q21", "q22")


@needed()
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program["name"])
def test_a_program_of_flink_is_planned_or_refused(program: dict[str, Any]):
    refusal = None
    try:
        for job in script(program).jobs:
            check_job(job)
    except DefinitionError as error:
        refusal = error

    for problem in refusal.problems if refusal else ():
        assert "line" in problem.where or problem.where.startswith("table ")


@needed()
@pytest.mark.parametrize("query", QUERIES)
def test_a_query_of_nexmark_is_planned(query: str):
    text = ""
    for name, table in NEXMARK["tables"].items():
        columns = ", ".join(f"`{column}` {type_}" for column, type_ in table["columns"])
        watermark = ", WATERMARK FOR `dateTime` AS `dateTime` - INTERVAL '4' SECOND"
        text += f"CREATE TABLE {name} ({columns}{watermark}) WITH ('connector' = 'any', 'mode' = 'I');\n"
    found = NEXMARK["queries"][query]
    sink = ", ".join(found["flink_sink"])
    text += f"CREATE TABLE nexmark_{query} ({sink}) WITH ('connector' = 'any', 'mode' = '');\n"
    (job,) = parsed(text + found["flink_sql"]).jobs

    check_job(job)
