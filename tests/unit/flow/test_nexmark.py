"""Nexmark's queries give what Flink gives."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from typing import Any

import pytest

from bench.nexmark.queries import QUERIES
from penstock.errors import UnsupportedError
from tests.corpora import needed, nexmark
from tests.nexmark.answers import answer, recorded
from tests.nexmark.programs import answer_schema, events, program
from tests.programs import Way, _value, outcome, shown

ANSWERS = recorded()
#: Queries that may be refused: they are not done yet.
LATER = {"q11"}
SMALL = nexmark()


def _rows(program: dict[str, Any], way: Way, folder: str) -> Iterable[str]:
    """The rows of the result."""
    try:
        return outcome(program, way, folder)["answer"].elements()
    except UnsupportedError as error:
        if program["name"] not in LATER:
            raise
        pytest.skip(f"{program['name']} has no plan: {error}")


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
