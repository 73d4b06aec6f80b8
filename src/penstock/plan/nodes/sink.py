"""Writing a table."""

from __future__ import annotations

from dataclasses import dataclass, field

from penstock.plan.expressions import Expression
from penstock.plan.lineage import Lineage
from penstock.plan.node import Attributes, Step
from penstock.plan.nodes.dead_letters import DeadLetters
from penstock.plan.nodes.scan import explain_table
from penstock.plan.row_traits import Traits
from penstock.spi import SinkSpec


@dataclass(frozen=True)
class Sink(Step):
    """Writes the input's rows to a table; columns are matched by position and cast to ``schema``. ``at`` is the
    place of the statement in its file. ``on_conflict_deduplicate``: the statement has ON CONFLICT DO DEDUPLICATE, which
    permits several rows with one key, of which the last stays."""

    table: str
    connector: str
    spec: SinkSpec
    on_conflict_deduplicate: bool = False
    at: str = field(default="", compare=False)

    @property
    def place(self) -> str:
        """The statement and the table, for errors."""
        return f"{self.at}: table '{self.table}'" if self.at else f"table '{self.table}'"

    def explain_step(self) -> list[str]:
        return explain_table(self.spec, self.schema)

    def flink_attributes(self) -> Attributes:
        return ("table", self.table), ("fields", ", ".join(self.schema.names))

    def find_origin(self, name: str, lineage: Lineage) -> Expression:
        return lineage.column(self.input, name)

    @property
    def takes_dead_letters(self) -> bool:
        """Whether it writes records that cannot be decoded."""
        return isinstance(self.input, DeadLetters)

    def own_traits(self, inputs: tuple[Traits, ...]) -> Traits:
        (below,) = inputs
        return below.rename_columns(dict(zip(self.input.schema.names, self.schema.names, strict=False)))
