"""Nexmark's queries as programs of :mod:`tests.programs`: on given rows, or on those that Flink was asked about."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from bench.nexmark.events import SHARES, Events
from bench.nexmark.queries import TABLES, statements
from penstock.types import RowType
from tests.corpora import script

#: Forty seconds of event time.
EVENTS, COUNT = Events(per_second=500), 20_000
_CREATED = re.compile(r"CREATE TABLE (\w+) \((.*)\) WITH \(", re.DOTALL)
_KEY = re.compile(r"PRIMARY KEY \((.*)\) NOT ENFORCED")
#: A result that is only added to, and one whose rows replace one another.
_ADDED, _UPSERTS = "I", "I,UA,D"


def ordinals(table: str) -> np.ndarray:
    """Those of the rows of a table among the events."""
    return np.arange(COUNT * SHARES[table] // sum(SHARES.values()))


def events() -> dict[str, list[list[Any]]]:
    """The rows of all tables."""
    rows = {table: EVENTS.rows(table, ordinals(table)) for table in TABLES}
    return {
        table: list(map(list, zip(*(each.to_pylist() for each in batch), strict=True))) for table, batch in rows.items()
    }


def program(query: str, rows: Mapping[str, Sequence[Sequence[Any]]]) -> dict[str, Any]:
    """A query over rows of its tables."""
    *created, insert = statements(query, {name: {} for name in (*TABLES, "answer", "side_input")})
    tables, sinks, setup = [], [], []
    for text in created:
        found = _CREATED.search(text)
        if found is None:
            setup.append(text)
            continue
        name, columns = found[1], [each.strip() for each in found[2].split(",\n")]
        key = _KEY.search(found[2])
        plain = [each for each in columns if not each.startswith(("PRIMARY KEY", "WATERMARK FOR"))]
        watermarks = [each.removeprefix("WATERMARK FOR ") for each in columns if each.startswith("WATERMARK FOR")]
        table = {"name": name, "schema": plain, "primary_key": _names(key[1]) if key else None}
        if name == "answer":
            sinks.append({**table, "options": {"changelog-mode": _UPSERTS if key else _ADDED}})
        else:
            before = [["+I", row] for row in rows.get(name, ())]
            tables.append(
                {
                    **table,
                    "watermark": (watermarks or [None])[0],
                    "changelog_mode": _ADDED,
                    "before": before,
                    "after": [],
                }
            )
    run = {"end_of_input": "finite"}
    return {"name": query, "tables": tables, "sinks": sinks, "setup_sql": setup, "sql": [insert], "run": run}


def answer_schema(query: str) -> RowType:
    """The columns of a query's result."""
    (sink,) = program(query, {})["sinks"]
    same = {**sink, "changelog_mode": _ADDED, "primary_key": None}
    copy = {"tables": [{**same, "name": "rows"}], "sinks": [sink], "sql": ["INSERT INTO answer SELECT * FROM rows"]}
    (job,) = script(copy).jobs
    return job.sinks[0].schema


def _names(text: str) -> list[str]:
    return [each.strip(" `") for each in text.split(",")]
