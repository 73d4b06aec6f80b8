"""What printing a table means."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from penstock.connectors.print.options import PrintOptions
from penstock.plan import Guarantee
from penstock.types import RowType

__all__ = ["PrintSink"]


@dataclass(frozen=True, kw_only=True)
class PrintSink:
    """Prints rows of ``schema``, one line each, as Flink does: ``orders> +I[1, apple]``."""

    table: str
    options: PrintOptions
    schema: RowType

    #: Updates and deletions are printed too.
    takes_changes: ClassVar[bool] = True

    @property
    def guarantee(self) -> Guarantee | None:
        """None unless the table says that a batch that is done again may be printed again."""
        return self.options.guarantee

    def describe(self) -> str:
        """One line for people."""
        return f"print sink '{self.table}' to standard {'error' if self.options.standard_error else 'output'}"
