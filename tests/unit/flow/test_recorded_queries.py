"""Random queries over random changelogs end with the tables that Flink ends with, however their rows are cut into
batches; nothing is taken back that is not there."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from tests.programs import MORE_WAYS, WAYS, outcome
from tests.recorded.queries import program, recorded

DATABASES = recorded()
#: Two databases, and one with functions over rows, in small batches with a restart; with SEEDS in the environment
#: (tests/changelogs.py) all of them, in more ways.
TRIED = range(len(DATABASES)) if "SEEDS" in os.environ else (0, 1, 42)
TRIED_IN = (*WAYS, *MORE_WAYS) if "SEEDS" in os.environ else WAYS[1:]
#: Queries whose rows in Flink are not those of SQL (docs/sql.md), by the database and their place in it.
WRONG = {
    (15, 10): "NOT IN after all rows were deleted",
    (19, 4): "a condition on a row number",
    (20, 19): "a join of rows with numbers from the second on",
    (33, 0): "IN beside another condition after all rows were deleted",
    (34, 23): "IN of rows with numbers from the second on",
    (40, 24): "groups of rows with numbers from the second on",
}


def table(rows: Iterable[tuple[list[Any], int]]) -> Counter[str]:
    """Rows as they are shown."""
    return Counter({f"[{', '.join('null' if each is None else str(each) for each in row)}]": n for row, n in rows})


@pytest.mark.parametrize("number", TRIED)
def test_random_queries_end_with_the_rows_of_flink(number: int, tmp_path: Path) -> None:
    database = DATABASES[number]
    queries = [each for at, each in enumerate(database["queries"]) if "rows" in each and (number, at) not in WRONG]
    expected = [(each["sql"], table(each["rows"])) for each in queries]
    for at, way in enumerate(TRIED_IN):
        found = outcome(program(database, queries, number), way, str(tmp_path / str(at)))
        assert [(each["sql"], found[f"result_{n}"]) for n, each in enumerate(queries)] == expected, way
