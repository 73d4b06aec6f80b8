"""What printing a table means."""

from __future__ import annotations

from dataclasses import dataclass

from penstock.connectors.print.options import PrintOptions
from penstock.errors import Problem
from penstock.settings import Settings
from penstock.spi import CHANGES, SinkCapabilities
from penstock.types import RowType


@dataclass(frozen=True, kw_only=True)
class PrintSinkSpec:
    """Prints rows of ``schema``, one line each, as Flink does: ``orders> +I[1, apple]``."""

    table: str
    options: PrintOptions
    schema: RowType

    @property
    def capabilities(self) -> SinkCapabilities:
        """No guarantee, unless the table says that a batch that is retried may be printed again."""
        return SinkCapabilities(kinds=CHANGES, guarantee=self.options.guarantee)

    def problems(self, settings: Settings) -> tuple[Problem, ...]:
        """None: any settings will do."""
        return ()

    def describe(self) -> str:
        """One line for people."""
        return f"print sink '{self.table}' to standard {'error' if self.options.standard_error else 'output'}"
