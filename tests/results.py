"""Cases of tests/specs/sql/results.yaml as programs that run through the dataflow without Spark."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tests.programs import Way

#: All rows in one batch; each row in a batch of its own, divided among two owners.
WAYS = (Way(), Way(1, 2))


def program(tables: Mapping[str, Mapping[str, Any]], case: Mapping[str, Any]) -> dict[str, Any]:
    """The program of a case: its query writes the table ``into``; statements may precede it."""
    *statements, query = case["sql"].split("; ")
    return {
        "name": case["sql"],
        "tables": [_table(name, each) for name, each in tables.items()],
        "sinks": [{"name": "into", "schema": [case["into"]], "primary_key": case.get("key"), "options": {}}],
        "sql": [*statements, f"INSERT INTO `into` {query}"],
    }


def _table(name: str, given: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "name": name,
        "schema": given["columns"],
        "primary_key": given.get("key"),
        "watermark": given.get("watermark"),
        "changelog_mode": given.get("changes", "I"),
        "before": [(kind, values) for kind, *values in given["rows"]],
        "after": [],
    }
