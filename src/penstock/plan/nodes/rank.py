"""The first rows of each key in an order (Top-N)."""

from __future__ import annotations

import enum
from collections.abc import Sequence
from dataclasses import dataclass, replace

from penstock.plan.expressions import Call, Expression
from penstock.plan.flink_sql import quote_names
from penstock.plan.kept_state import KeptState
from penstock.plan.lineage import Lineage
from penstock.plan.node import KeyOrder, Names, Node, Stateful, Step
from penstock.plan.nodes.project import narrow
from penstock.plan.row_traits import DELETIONS, UPDATES, Traits
from penstock.plan.sort_column import SortColumn
from penstock.plan.state_identifier import ADDED, TAKEN_BACK, StateIdentifier
from penstock.plan.step_identity import KIND_OF_ROWS, Fact, StepIdentity
from penstock.plan.traits import traits
from penstock.spi import INSERTIONS
from penstock.types import quote_name


class Ranking(enum.Enum):
    """How rows are numbered: each by its own number, or equal ones by the same, after which numbers are skipped, or
    not."""

    ROW_NUMBER = "row number"
    RANK = "rank"
    DENSE_RANK = "dense rank"


@dataclass(frozen=True)
class Rank(Stateful, Step):
    """Orders the rows of each key by the columns ``order``, and keeps those from the number ``first`` to ``last``, both
    counted from 1, by this ``ranking``. Rows that are equal there are in the order of arrival, with ``latest`` in
    reverse. ``schema`` has the input's columns, then, if it has a name, the ``number``."""

    keys: tuple[str, ...]
    order: tuple[SortColumn, ...]
    first: int
    last: int
    number: str = ""
    latest: bool = False
    ranking: Ranking = Ranking.ROW_NUMBER

    @property
    def step_name(self) -> str:
        return "rank"

    @property
    def shuffle_keys(self) -> tuple[tuple[str, ...], ...]:
        return (self.keys,)

    def describe_state(self) -> str:
        if traits(self.input).changing:
            return "all rows of each key"
        return f"the first {self.last} rows of each key"

    def explain_step(self) -> list[str]:
        which = f"row {self.last}" if self.first == self.last else f"rows {self.first} to {self.last}"
        which += f" by {self.ranking.value}" if self.ranking is not Ranking.ROW_NUMBER else ""
        order = ", ".join(each.describe() for each in self.order) or "arrival"
        order += ", the latest first" if self.latest else ""
        of = f" of each {quote_names(self.keys)}" if self.keys else ""
        return [f"{which}{of}, by {order}" + (f", numbered {quote_name(self.number)}" if self.number else "")]

    def columns_read(self, wanted: Names) -> tuple[Names, ...]:
        return (frozenset((*(wanted - {self.number}), *self.keys, *(each.name for each in self.order))),)

    def prune(self, inputs: Sequence[Node], wanted: Names) -> Node:
        below = narrow(inputs[0], *self.columns_read(wanted))
        own = [self.schema.fields[-1]] if self.number in wanted else []
        schema = replace(below.schema, fields=(*below.schema.fields, *own))
        return replace(self, schema=schema, input=below, number=self.number if own else "")

    def find_origin(self, name: str, lineage: Lineage) -> Expression:
        if name == self.number:
            return Call("ROW_NUMBER", (), type=self._type_of(name))
        return lineage.column(self.input, name)

    def identify_state(self, identifier: StateIdentifier, kept: KeptState) -> StepIdentity:
        changing = traits(self.input).changing
        facts = {
            "order": identifier.order(self.input, self.order),
            "range of numbers": Fact.from_text(f"{self.first} to {self.last}"),
            "numbering": Fact.from_text(self.ranking.value),
            KIND_OF_ROWS: TAKEN_BACK if changing else ADDED,
        }
        if not changing:
            facts["order of equal rows"] = Fact.from_text("the latest first" if self.latest else "as they came")
        return identifier.identify_rows("a ranking", self.input, self.keys, facts, growing=not changing)

    def arrange_keys(self, order: KeyOrder) -> Node:
        return replace(self, keys=tuple(self.keys[at] for at in order(self.input, self.keys, "")))

    @property
    def title(self) -> str:
        return "Top-N"

    def own_traits(self, inputs: tuple[Traits, ...]) -> Traits:
        """All rows of a key are in one task."""
        (below,) = inputs
        found = [key for key in below.upsert_keys if set(self.keys) <= set(key)]
        if self.ranking is not Ranking.ROW_NUMBER:  # several rows have one number
            pass
        elif self.first == self.last:
            found.insert(0, self.keys)
        elif self.number:
            found.append((*self.keys, self.number))
        keys = tuple(dict.fromkeys(found))
        if not (self.order or self.latest or below.changing):  # the first rows to arrive are never replaced
            return replace(below, upsert_keys=keys, stateful=True)
        # Without changes below, a number stays with its row, unless several rows have it.
        stays = self.number and self.ranking is Ranking.ROW_NUMBER and not below.changing
        gone = INSERTIONS if stays else DELETIONS
        return replace(below, kinds=INSERTIONS | UPDATES | gone, upsert_keys=keys, stateful=True)
