"""Columns that rows are ordered by."""

from __future__ import annotations

from dataclasses import dataclass

from penstock.types import quote_name


@dataclass(frozen=True)
class SortColumn:
    """A column that rows are ordered by."""

    name: str
    descending: bool = False
    nulls_first: bool = True

    def describe(self) -> str:
        """The column as SQL has it."""
        return f"{quote_name(self.name)}{self.direction}"

    @property
    def direction(self) -> str:
        """What follows the column in SQL."""
        return f"{' DESC' if self.descending else ''}{self._nulls}"

    def flink_text(self) -> str:
        """The column as Flink's plans have it."""
        return f"{self.name} {'DESC' if self.descending else 'ASC'}{self._nulls}"

    @property
    def _nulls(self) -> str:
        """Where NULL is sorted, if that is not where the direction puts it."""
        return "" if self.nulls_first != self.descending else f" NULLS {'FIRST' if self.nulls_first else 'LAST'}"
