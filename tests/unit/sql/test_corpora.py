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
#: What may be refused of Flink's programs, by a part of the reason.
ALLOWED = (
    # operators and functions that are not there
    *("FOR SYSTEM_TIME AS OF is not supported", "LATERAL is not supported"),
    *("MATCH_RECOGNIZE is not supported", "there is no function "),
    # of later versions of Flink
    *("the table function TO_CHANGELOG is not", "the table function FROM_CHANGELOG is not", "ON CONFLICT DO "),
    # as Flink refuses it, except in batch mode or with a setting of its own tests
    *("streaming tables do not support the rank function RANK", "Sort on a non-time-attribute field", "unknown key"),
    "HOP needs a time attribute, and 'event_time'",
    # as docs/sql.md says
    *("INSERT OVERWRITE into a table of the connector", "INSERT INTO .. PARTITION is not supported"),
    *(
        "NOT NULL and lengths inside rows, arrays and maps are not checked",
        "CURRENT_WATERMARK in a condition on rows that",
    ),
    "function SOURCE_WATERMARK is not supported",
)
#: Operators with whose programs nothing may be refused.
WHOLE = (
    *("join", "multi-join", "deduplicate", "union", "values", "limit", "expand", "mini-batch", "deletes-by-key"),
    *("window-aggregate", "window-join", "window-deduplicate", "window-rank", "group-window-aggregate", "delta-join"),
    *("watermark", "temporal-sort", "interval-join"),
)
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
        assert any(each in problem.reason for each in ALLOWED), str(problem)
        assert program["operator"] not in WHOLE


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
