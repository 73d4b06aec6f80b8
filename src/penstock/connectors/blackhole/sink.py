"""What writing to a blackhole means."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from penstock.types import RowType

__all__ = ["BlackholeSink"]


@dataclass(frozen=True, kw_only=True)
class BlackholeSink:
    """Takes rows of ``schema`` and drops them."""

    table: str
    schema: RowType

    #: Updates and deletions are dropped too.
    takes_changes: ClassVar[bool] = True

    def describe(self) -> str:
        """One line for people."""
        return f"blackhole sink '{self.table}'"
