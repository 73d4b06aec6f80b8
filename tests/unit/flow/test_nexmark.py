"""Nexmark's queries give what Flink gives."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from typing import Any

import pytest

from bench.nexmark.queries import QUERIES
from penstock.flow.graph.planner import Planner
from penstock.flow.kernels.session import Session
from penstock.plan.nodes import scans
from penstock.plan.planning import plan_job
from tests.corpora import needed, nexmark, script
from tests.nexmark.answers import answer, recorded
from tests.nexmark.programs import answer_schema, events, program
from tests.programs import Way, _value, outcome, shown

ANSWERS = recorded()
SMALL = nexmark()


def _rows(program: dict[str, Any], way: Way, folder: str) -> Iterable[str]:
    """The rows of the result."""
    return outcome(program, way, folder)["answer"].elements()


@cache
def _events() -> dict[str, list[list[Any]]]:
    return events()


@pytest.mark.parametrize("query", ANSWERS)
def test_a_query_gives_what_flink_gives(query: str, tmp_path):
    found = answer(_rows(program(query, _events()), Way(3000, 2), str(tmp_path)))

    assert found == ANSWERS[query]


@pytest.mark.parametrize("query", [each for each in QUERIES if each in SMALL.get("expected_flink", {})])
@needed()
def test_a_query_gives_the_rows_of_the_corpus(query: str, tmp_path):
    rows = {table: SMALL[table] for table in ("person", "auction", "bid")}
    types = [each.type for each in answer_schema(query).fields]
    expected = [
        f"[{', '.join(shown(_value(each, type_), type_) for each, type_ in zip(row, types, strict=True))}]"
        for row in SMALL["expected_flink"][query]
    ]

    assert answer(_rows(program(query, rows), Way(20, 2), str(tmp_path))) == answer(expected)


def test_a_query_whose_result_depends_on_the_clock_has_a_plan():
    (job,) = script(program("q12", _events())).jobs
    planner = Planner(scans(*job.sinks), Session("UTC"))
    planner.add(plan_job(job).sinks[0], 0)
    assert [each.operator.processing for each in planner.vertices if each.operator.timed] == [True]
