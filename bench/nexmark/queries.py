"""Nexmark's queries as SQL that Flink and penstock share."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from string import Template

from bench.nexmark.events import SHARES

_FOLDER = Path(__file__).parent / "queries"
QUERIES = tuple(f"q{number}" for number in range(23))
TABLES = tuple(SHARES)


def statements(query: str, options: Mapping[str, Mapping[str, str]]) -> list[str]:
    """The statements of a query, the INSERT last. ``options`` has those of the tables of :data:`TABLES` and of
    ``answer``, and with q13 those of ``side_input``."""
    clauses = {table: ", ".join(f"'{key}' = '{text}'" for key, text in each.items()) for table, each in options.items()}
    text = "\n".join(Template(_text(name)).substitute(clauses) for name in ("tables", query))
    return [each.strip() for each in text.split(";") if each.strip()]


def is_upsert(query: str) -> bool:
    """Whether the rows of a query's result replace one another by a key."""
    return "PRIMARY KEY" in _text(query)


def _text(name: str) -> str:
    return (_FOLDER / f"{name}.sql").read_text("utf-8")
