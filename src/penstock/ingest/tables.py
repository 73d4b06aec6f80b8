"""Table ids, and the patterns that routes and transforms choose them by."""

from __future__ import annotations

import re
from dataclasses import dataclass


@dataclass(frozen=True)
class TablePattern:
    """Patterns separated by commas. As in Flink CDC, ``.`` separates the parts of an id and ``\\.`` matches any
    character: ``db.\\.*`` matches every table of ``db``. A pattern matches the whole id."""

    text: str

    def match(self, name: str) -> re.Match[str] | None:
        """The match of the first pattern that fits ``name``, a dotted id, or None. Raises ``re.error``."""
        for each in self.text.split(","):
            found = re.fullmatch(self._regex(each.strip()), name)
            if found:
                return found
        return None

    @staticmethod
    def _regex(pattern: str) -> str:
        # A plain dot separates the parts of an id; an escaped one is the dot of regular expressions.
        return re.sub(r"\\\.|\.", lambda dot: "." if dot[0] == "\\." else r"\.", pattern)


def topic_of(mapping: str, name: str) -> str | None:
    """The topic of ``name`` by ``table[,table]:topic;...``; the first entry that fits. Raises ValueError with the
    reason when the mapping is malformed."""
    for entry in mapping.split(";"):
        if not entry.strip():
            continue
        tables, colon, topic = entry.rpartition(":")
        if not colon or not tables.strip() or not topic.strip():
            raise ValueError("expected 'table[,table]:topic', joined by ';'")
        try:
            if TablePattern(tables).match(name):
                return topic.strip()
        except re.error as error:
            raise ValueError(f"'{tables.strip()}' is not a valid pattern: {error}") from None
    return None
