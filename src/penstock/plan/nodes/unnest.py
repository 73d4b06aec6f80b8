"""Rows of the elements of a collection."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from penstock.plan.expressions import Call, Expression, Literal, fields_of
from penstock.plan.flink_sql import quote_names
from penstock.plan.lineage import Lineage
from penstock.plan.node import Names, Node, Step
from penstock.plan.nodes.project import narrow
from penstock.plan.row_traits import Traits
from penstock.types import BIGINT, RowType, quote_name


@dataclass(frozen=True)
class Unnest(Step):
    """Gives each row once for each element of its column ``collection``, which is dropped: of an ARRAY, a MAP or a
    MULTISET; with ``outer`` once without an element if there is none. ``schema`` has the other columns of the input,
    then ``columns``: the element or, of a row, its fields, or the key and the value, and with ``numbered`` its number,
    counted from 1."""

    collection: str
    columns: tuple[str, ...]
    outer: bool = False
    numbered: bool = False

    @property
    def flink_name(self) -> str:
        return "Correlate"

    @property
    def logical_name(self) -> str:
        return "Correlate"

    def explain_step(self) -> list[str]:
        every = ", of an empty one one row" if self.outer else ""
        return [f"rows of each element of {quote_name(self.collection)}{every}, as {quote_names(self.columns)}"]

    def columns_read(self, wanted: Names) -> tuple[Names, ...]:
        return ((wanted - set(self.columns)) | {self.collection},)

    def prune(self, inputs: Sequence[Node], wanted: Names) -> Node:
        below = narrow(inputs[0], *self.columns_read(wanted))
        kept = tuple(each for each in below.schema.names if each != self.collection)
        fields = (*below.schema.select(kept).fields, *self.schema.select(self.columns).fields)
        return replace(self, schema=RowType(fields, nullable=False), input=below)

    def find_origin(self, name: str, lineage: Lineage) -> Expression:
        if name not in self.columns:
            return lineage.column(self.input, name)
        whole = lineage.column(self.input, self.collection)
        number = Literal(self.columns.index(name), type=BIGINT)
        return Call("UNNEST", (whole, number), type=self._type_of(name))

    def own_traits(self, inputs: tuple[Traits, ...]) -> Traits:
        (below,) = inputs
        kept = {each.name: each for each in fields_of(self.schema) if each.name not in self.columns}
        return replace(below.rename_columns({}).with_times_of(below, kept), stateful=True)
