"""GROUPING SETS, ROLLUP and CUBE: each row is grouped once for each set of keys, in which the other keys are null."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from penstock.plan.expressions import Call, ColumnRef, Expression, Literal, Place, call, fields_of, offset_of
from penstock.plan.nodes import Item, Node, Union, project, row_of
from penstock.sql.bind.expressions.aggregates import Aggregate, GroupId, GroupingBits
from penstock.sql.bind.expressions.generated_names import find_free_name, generate_name
from penstock.sql.parse.source import SourceText
from penstock.types import BIGINT

_ID = BIGINT.with_nullability(False)


@dataclass
class GroupingSets:
    """The rows of ``node``, once for each of the ``sets`` of keys. :meth:`rewrite` turns expressions over ``node`` into
    expressions over these rows."""

    node: Node
    sets: Sequence[Sequence[Expression]]
    source: SourceText
    _columns: dict[Expression, ColumnRef] = field(default_factory=dict, init=False)

    def __post_init__(self) -> None:
        taken = list(self.node.schema.names)
        every = dict.fromkeys(key for each in self.sets for key in each)
        self._always = tuple(key for key in every if all(key in each for each in self.sets))
        for key in every:
            if key in self._always:
                continue
            name = find_free_name(f"${generate_name(key).removeprefix('$')}", taken)
            taken.append(name)
            self._columns[key] = ColumnRef(name, type=key.type.with_nullability(True), place=key.place)
        self._id = ColumnRef(find_free_name("$SET", taken), type=_ID)

    @property
    def keys(self) -> tuple[Expression, ...]:
        """What the rows are grouped by: all keys, and the number of the set."""
        return (*self._always, *self._columns.values(), self._id)

    def plan_rows(self) -> Node:
        """The rows, with the :attr:`keys`."""
        members = []
        for number, keys in enumerate(self.sets):
            items = [Item(each.name, each) for each in fields_of(self.node.schema)]
            for key, column in self._columns.items():
                items.append(Item(column.name, key if key in keys else Literal(None, type=column.type)))
            items.append(Item(self._id.name, Literal(number, type=_ID)))
            members.append(project(self.node, tuple(items)))
        schema = row_of((*(Item(each.name, each) for each in fields_of(self.node.schema)), *self._make_key_items()))
        return members[0] if len(members) == 1 else Union(schema, tuple(members))

    def rewrite(self, expression: Expression) -> Expression:
        """``expression`` over :meth:`plan_rows`. Raises SqlError for GROUPING of something that is not a key."""
        if expression in self._columns:
            return self._columns[expression]
        if expression in self._always or isinstance(expression, Aggregate):
            return expression
        if isinstance(expression, GroupingBits):
            return self._replace_bits(expression)
        if isinstance(expression, GroupId):
            keys = [frozenset(each) for each in self.sets]
            return self._choose_by_set([keys[:at].count(each) for at, each in enumerate(keys)], expression.place)
        operands = tuple(self.rewrite(each) for each in expression.operands)
        return expression.with_operands(operands) if operands != expression.operands else expression

    def _replace_bits(self, given: GroupingBits) -> Expression:
        """The value of GROUPING, which depends on the set alone."""
        for each in given.args:
            if each not in self._columns and each not in self._always:
                at = offset_of(each)
                raise self.source.error(at, "GROUPING takes expressions of GROUP BY", "name one of them")
        return self._choose_by_set([given.number(keys) for keys in self.sets], given.place)

    def _choose_by_set(self, numbers: Sequence[int], place: Place | None) -> Expression:
        """The number that belongs to the set of a row, of the ``numbers`` of all sets."""
        values = [Literal(each, type=_ID) for each in numbers]
        cases: list[Expression] = []
        for number, value in enumerate(values[:-1]):
            cases += [call("=", self._id, Literal(number, type=_ID)), value]
        return Call("CASE", (*cases, values[-1]), type=_ID, place=place) if cases else values[-1]

    def _make_key_items(self) -> list[Item]:
        return [Item(each.name, each) for each in (*self._columns.values(), self._id)]
