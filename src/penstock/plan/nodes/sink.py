"""Writing a table."""

from __future__ import annotations

from dataclasses import dataclass, field

from penstock.plan.node import Step
from penstock.plan.row_traits import Traits
from penstock.spi import SinkSpec


@dataclass(frozen=True)
class Sink(Step):
    """Writes the input's rows to a table; columns are matched by position and cast to ``schema``. ``deduplicates``: the
    statement has ON CONFLICT DO DEDUPLICATE. ``at`` is the place of the statement in its file."""

    table: str
    connector: str
    spec: SinkSpec
    deduplicates: bool = False
    at: str = field(default="", compare=False)

    @property
    def place(self) -> str:
        """The statement and the table, for errors."""
        return f"{self.at}: table '{self.table}'" if self.at else f"table '{self.table}'"

    def own_traits(self, inputs: tuple[Traits, ...]) -> Traits:
        (below,) = inputs
        return below.renamed(dict(zip(self.input.schema.names, self.schema.names, strict=False)))
