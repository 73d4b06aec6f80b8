"""What the columns of a step are made of: expressions of the columns of tables, independent of the columns' names in
between."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

from penstock.plan.aggregate_call import AggregateCall
from penstock.plan.expressions import Expression, columns_of, rewrite, substitute
from penstock.plan.origins import Aggregated, WindowBound, mark_implied
from penstock.plan.windowing import Attached, Windowing
from penstock.types import RowType, TimestampType


class HasOrigins(Protocol):
    """A node: rows that can say what their columns are made of."""

    @property
    def schema(self) -> RowType:
        """The columns."""
        ...

    def find_origin(self, name: str, lineage: Lineage) -> Expression:
        """What a column is made of, from the origins of the columns below."""
        ...


@dataclass
class Lineage:
    """Finds what columns are made of. Each column of a node is visited once."""

    _known: dict[tuple[int, str], Expression] = field(default_factory=dict)
    #: Keeps the nodes alive whose ids are known.
    _nodes: list[HasOrigins] = field(default_factory=list)

    def column(self, node: HasOrigins, name: str) -> Expression:
        """What the column ``name`` of the rows of ``node`` is made of."""
        key = id(node), name
        if key not in self._known:
            self._nodes.append(node)
            self._known[key] = node.find_origin(name, self)
        return self._known[key]

    def expression(self, node: HasOrigins, expression: Expression) -> Expression:
        """An expression of the columns of ``node``, in terms of their origins."""
        found = rewrite(expression, mark_implied)
        return substitute(found, {name: self.column(node, name) for name in columns_of(found)})

    def join_condition(self, left: HasOrigins, right: HasOrigins, condition: Expression) -> Expression:
        """An expression of the columns of two inputs, in terms of their origins."""
        found = rewrite(condition, mark_implied)
        sides = {each: left if each in left.schema.names else right for each in columns_of(found)}
        return substitute(found, {each: self.column(side, each) for each, side in sides.items()})

    def aggregate(self, node: HasOrigins, call: AggregateCall) -> Aggregated:
        """The aggregate of the rows of ``node``."""
        argument, condition = (
            None if each is None else self.column(node, each) for each in (call.argument, call.filter)
        )
        return Aggregated(call, argument=argument, filter=condition, type=call.type)

    def group_column(
        self, node: HasOrigins, name: str, keys: Sequence[str], calls: Sequence[AggregateCall]
    ) -> Expression:
        """The column ``name`` of groups of the rows of ``node`` by ``keys``, with these ``calls``."""
        if name in keys:
            return self.column(node, name)
        (call,) = (each for each in calls if each.name == name)
        return self.aggregate(node, call)

    def window(self, node: HasOrigins, windowing: Windowing | Attached, part: str = "start") -> Expression:
        """The ``part`` of the windows of the rows of ``node``."""
        if isinstance(windowing, Attached):
            return self.column(node, windowing.end if part == "end" else windowing.start)
        time = None if windowing.processing else self.column(node, windowing.time)
        keys = tuple(self.column(node, each) for each in windowing.keys)
        return WindowBound(part, windowing, time, keys, type=TimestampType(3))
