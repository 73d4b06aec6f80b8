"""How a ``values`` table is written."""

from __future__ import annotations

from dataclasses import dataclass

from penstock.connectors.values.options import ValuesSinkOptions
from penstock.errors import Problem
from penstock.settings import Settings
from penstock.spi import CHANGES, INSERTIONS, SinkCapabilities
from penstock.types import RowType


@dataclass(frozen=True, kw_only=True)
class ValuesSinkSpec:
    """Adds rows of ``schema`` to those that the process keeps under :attr:`data_id`."""

    table: str
    options: ValuesSinkOptions
    schema: RowType

    @property
    def data_id(self) -> str:
        """The id of the rows."""
        return self.options.data_id or self.table

    @property
    def capabilities(self) -> SinkCapabilities:
        """No guarantee, unless the table says that the rows of a retried batch may be added again. Nothing is
        committed: the rows end with the process."""
        kinds = INSERTIONS if self.options.insert_only else CHANGES
        return SinkCapabilities(kinds=kinds, guarantee=self.options.guarantee)

    def problems(self, settings: Settings) -> tuple[Problem, ...]:
        """None: the table can be written with any settings."""
        return ()

    def describe(self) -> str:
        """A line for people."""
        return f"values sink '{self.table}' to '{self.data_id}'"
