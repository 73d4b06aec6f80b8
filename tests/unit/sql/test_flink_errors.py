"""Programs that Flink refuses, where they are present, are refused for the same reason, or by the name of what is not
there."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.errors import DefinitionError
from penstock.plan.planning import plan_job
from penstock.sql import parse_script
from tests.corpora import flink_errors, needed, script

#: Refused by versions after Flink 2.2, which have this setting.
LATER = {"sink-append-only-with-pk-without-on-conflict", "sink-upsert-key-differs-from-pk-without-on-conflict"}
REQUIRED = {"table.exec.sink.require-on-conflict": "true"}
#: What the refusal of a program says, by the beginning of its name.
REASONS = {
    "constraint-enforcer-": "'table.exec.sink.nested-constraint-enforcer': NOT NULL and lengths",
    "from-changelog-": "the table function FROM_CHANGELOG is not supported",
    "to-changelog-": "the table function TO_CHANGELOG is not supported",
    "sink-on-conflict-not-allowed-for-append-only": "ON CONFLICT is for tables of upserts",
    "sink-on-conflict-not-allowed-for-retract": "ON CONFLICT is for tables of upserts, and 'sink_t' takes rows before",
    "sink-on-conflict-do-nothing": "ON CONFLICT DO NOTHING is not supported",
    "sink-on-conflict-do-error": "ON CONFLICT DO ERROR is not supported",
    **dict.fromkeys(LATER, "the query has an upsert key that differs from the primary key of the sink table"),
}


def _run(program: dict[str, Any]) -> None:
    for key, value in program["config"].items():
        parse_script(f"SET '{key}' = '{value}'; SHOW CATALOGS")
    queries = program["sql"]
    if not program["sinks"]:  # a query on its own is another mistake
        program = program | {"sql": [f"EXPLAIN {each}" for each in queries]}
    for job in script(program).jobs:
        plan_job(job)


@needed()
@pytest.mark.parametrize("program", flink_errors(), ids=lambda program: program["name"])
def test_a_program_that_flink_refuses_is_refused(program: dict[str, Any]):
    if program["name"] in LATER:
        _run(program)
        program = program | {"config": REQUIRED}
    with pytest.raises(DefinitionError) as caught:
        _run(program)

    (reason,) = (each for name, each in REASONS.items() if program["name"].startswith(name))
    assert reason in str(caught.value)
    assert all("line " in each.where or each.where.startswith("table ") for each in caught.value.problems)


@needed()
def test_there_are_eighteen():
    assert len(flink_errors()) == 18
