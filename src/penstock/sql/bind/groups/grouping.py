"""GROUP BY, HAVING and DISTINCT: aggregates in expressions become the columns of a node."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta

from penstock.plan.expressions import TRUE, ColumnRef, Expression, Literal, offset_of
from penstock.plan.flink_sql import flink_sql
from penstock.plan.nodes import AggregateCall, GroupAggregate, Item, Node, project
from penstock.plan.windows import plan_groups
from penstock.sql.bind.expressions.aggregates import Aggregate
from penstock.sql.bind.expressions.generated_names import find_free_name, generate_name, shorten
from penstock.sql.parse.source import SourceText
from penstock.types import BIGINT, Field, RowType


@dataclass
class Groups:
    """The groups of rows with equal ``keys``: the aggregates that the query reads, and the node that computes them.

    Expressions of rows become expressions of groups with :meth:`rewrite`; after that, :meth:`group_rows` has them all.
    """

    keys: Sequence[Expression]
    source: SourceText
    #: How long a group is kept; None where no hint says so.
    lifetime: timedelta | None = None
    #: The columns of the node's input, by name, and their names.
    _items: dict[str, Expression] = field(default_factory=dict, init=False)
    _names: dict[Expression, str] = field(default_factory=dict, init=False)
    _calls: dict[Aggregate, AggregateCall] = field(default_factory=dict, init=False)

    def __post_init__(self) -> None:
        for key in self.keys:
            self._add_input(key)

    def rewrite(self, expression: Expression) -> Expression:
        """``expression``, computed from the columns of a group. Raises SqlError for a column that is neither grouped by
        nor aggregated."""
        if expression in self.keys:
            return ColumnRef(self._names[expression], type=expression.type, place=expression.place)
        if isinstance(expression, Aggregate):
            call = self._add_call(expression)
            return ColumnRef(call.name, type=call.type, place=expression.place)
        if isinstance(expression, ColumnRef):
            reason = f"column '{expression.name}' is neither in GROUP BY nor in an aggregate"
            at = offset_of(expression)
            number = next((each for each in self.keys if isinstance(each, Literal)), None)
            hint = "add it to GROUP BY, or aggregate it, as in MAX(..)"
            if number is not None:
                hint = f"GROUP BY {flink_sql(number)} is a constant, not a column: name the column"
            raise self.source.error(at, reason, hint)
        operands = tuple(self.rewrite(each) for each in expression.operands)
        return expression.with_operands(operands) if operands != expression.operands else expression

    def group_rows(self, node: Node) -> Node:
        """One row for each group of the rows of ``node``."""
        items = tuple(Item(name, value) for name, value in self._items.items())
        # A row needs a column, even an unread one.
        below = project(node, items or (Item("$TRUE", TRUE),))
        keys = tuple(dict.fromkeys(self._names[key] for key in self.keys))
        if not keys and not self._calls:  # the result of which has a column too
            self._add_call(Aggregate("COUNT", False, argument=None, filter=None, type=BIGINT.with_nullability(False)))
        fields = [*below.schema.select(keys).fields, *(Field(each.name, each.type) for each in self._calls.values())]
        schema = RowType(tuple(fields), nullable=False)
        return plan_groups(GroupAggregate(schema, below, keys, tuple(self._calls.values()), ttl=self.lifetime))

    def _add_input(self, value: Expression) -> str:
        """The name of the input's column with this value."""
        if value not in self._names:
            name = find_free_name(generate_name(value), self._items)
            self._names[value], self._items[name] = name, value
        return self._names[value]

    def _add_call(self, given: Aggregate) -> AggregateCall:
        if given not in self._calls:
            argument = None if given.argument is None else self._add_input(given.argument)
            condition = None if given.filter is None else self._add_input(given.filter)
            options = given.distinct, condition, given.nulls, given.separator, given.place
            call = AggregateCall("", given.function, given.type, argument, *options)
            taken = {*self._items, *(each.name for each in self._calls.values())}
            self._calls[given] = replace(call, name=find_free_name(_make_name(call), taken))
        return self._calls[given]


def _make_name(call: AggregateCall) -> str:
    """The name of an aggregate's column, as in ``$SUM(amount)``."""
    argument = "*" if call.argument is None else call.argument.removeprefix("$")
    condition = "" if call.filter is None else f" FILTER {call.filter.removeprefix('$')}"
    return shorten(f"${call.function}({'DISTINCT ' if call.distinct else ''}{argument}){condition}")


def keep_distinct(node: Node, lifetime: timedelta | None = None) -> Node:
    """The distinct rows of ``node``, each of which is kept for its ``lifetime``; None where no hint sets it."""
    return plan_groups(GroupAggregate(node.schema, node, node.schema.names, (), ttl=lifetime))
