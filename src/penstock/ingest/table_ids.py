"""Table ids, and the patterns that routes and transforms choose them by."""

from __future__ import annotations

import re

from penstock.errors import Problem
from penstock.options import Origin


def compile_patterns(patterns: str) -> tuple[re.Pattern[str], ...]:
    """The regular expressions of ``patterns``, as in :func:`match_table_id`. Raises ``re.error``."""
    dots = (
        re.sub(r"\\\.|\.", lambda dot: "." if dot[0] == "\\." else r"\.", each.strip()) for each in patterns.split(",")
    )
    return tuple(map(re.compile, dots))


def match_table_id(patterns: str, name: str) -> re.Match[str] | None:
    """The match of the first of ``patterns`` that fits the whole of ``name``, a dotted id, or None.

    Commas separate patterns. As in Flink CDC, ``.`` separates the parts of an id and ``\\.`` matches any character:
    ``db.\\.*`` matches every table of ``db``. Raises ``re.error``.
    """
    return next((found for each in compile_patterns(patterns) if (found := each.fullmatch(name))), None)


def explain_pattern(patterns: str, error: re.error, origin: Origin) -> Problem:
    """The problem that the ``source-table`` of a rule is not a pattern."""
    reason = f"'{patterns}' is not a valid pattern: {error}"
    return Problem(reason, "source-table", origin.locate("source-table"), "check its brackets")


def find_topic(mapping: str, name: str) -> str | None:
    """The topic of ``name`` by ``table[,table]:topic;...``; the first entry that fits. Raises ValueError with the
    reason when the mapping is malformed."""
    for entry in mapping.split(";"):
        if not entry.strip():
            continue
        tables, colon, topic = entry.rpartition(":")
        if not colon or not tables.strip() or not topic.strip():
            raise ValueError("expected 'table[,table]:topic', joined by ';'")
        try:
            if match_table_id(tables, name):
                return topic.strip()
        except re.error as error:
            raise ValueError(f"'{tables.strip()}' is not a valid pattern: {error}") from None
    return None
