"""Steps with state that give rows as they are."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace

from penstock.plan.expressions import Expression
from penstock.plan.lineage import Lineage
from penstock.plan.node import Names, Node, Stateful, Step
from penstock.plan.nodes.project import narrow


@dataclass(frozen=True)
class KeepsColumns(Stateful, Step):
    """A step with state whose schema is that of its input."""

    @property
    @abstractmethod
    def own_columns(self) -> Names:
        """The columns that it reads itself, beside those that pass."""

    def find_origin(self, name: str, lineage: Lineage) -> Expression:
        return lineage.column(self.input, name)

    def columns_read(self, wanted: Names) -> tuple[Names, ...]:
        return (wanted | self.own_columns,)

    def prune(self, inputs: Sequence[Node], wanted: Names) -> Node:
        below = narrow(inputs[0], *self.columns_read(wanted))
        return replace(self, schema=below.schema, input=below)
