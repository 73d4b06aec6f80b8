"""Queries in expressions, as joins: the rows beside each row of the query around them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce

from penstock.errors import DefinitionError, Problem, UnsupportedError
from penstock.plan.expressions import (
    Call,
    ColumnRef,
    Expression,
    Literal,
    Place,
    Unrepeatable,
    call,
    columns_of,
    fields_of,
    substituted,
    walk,
)
from penstock.plan.nodes import (
    AggregateCall,
    GroupAggregate,
    Item,
    JoinKind,
    Node,
    SetKind,
    SetOperation,
    Union,
    items_of,
    project,
)
from penstock.plan.pruning import pruned_rows, repeatable_columns
from penstock.plan.traits import traits
from penstock.plan.walk import repeatable
from penstock.sql.bind.correlation import OUTER, equal_pair, own, reads_inner, reads_outer, with_rows
from penstock.sql.bind.grouping import distinct
from penstock.sql.bind.joins import as_compared, beside
from penstock.sql.bind.naming import free_name, name_of
from penstock.sql.bind.results import Result
from penstock.sql.bind.sources import filtered
from penstock.sql.parse.source import Errors
from penstock.types import BOOLEAN, Field

_NOT_NULL = BOOLEAN.with_nullability(False)
_TRUE = Literal(True, type=_NOT_NULL)
_FALSE = Literal(False, type=_NOT_NULL)
_UNSTABLE = "a query in a condition that compares columns with more than '=' needs rows that stay the same"


@dataclass(frozen=True)
class Subquery:
    """The rows of a query in an expression: those of ``node``, with these ``values``. For a row of the query around it,
    those count for which the ``pairs`` of an expression of that row and one of ``node`` are equal, if the ``outer``
    conditions are true for that row, and the ``others`` for both rows; ``others`` and ``values`` call expressions of
    that row by the names of ``given``, and ``node`` computes with those of the ``domain``. ``empty`` has the values of
    the one row where none count, if there is one."""

    node: Node
    values: tuple[Expression, ...] = ()
    pairs: tuple[tuple[Expression, Expression], ...] = ()
    outer: tuple[Expression, ...] = ()
    others: tuple[Expression, ...] = ()
    given: tuple[tuple[str, Expression], ...] = ()
    domain: tuple[tuple[str, Expression], ...] = ()
    empty: tuple[Expression, ...] | None = None

    @classmethod
    def of(cls, node: Node, values: Sequence[Expression], result: Result) -> Subquery:
        """The rows of ``node``, that of the ``result``, with these ``values``."""
        outer, others = list[Expression](), list[Expression]()
        pairs = list[tuple[Expression, Expression]]()
        for each in result.conditions:
            pair = equal_pair(each)
            if pair is not None:
                pairs.append((own(pair[0]), pair[1]))
            elif reads_inner(each):
                others.append(each)
            else:
                outer.append(own(each))
        parts = (part for each in (*others, *values) for part in walk(each))
        columns = {each.name: own(each) for each in parts if isinstance(each, ColumnRef) and reads_outer(each)}
        given, domain = tuple(columns.items()), zip(result.domain.names, map(own, result.domain.columns), strict=True)
        parts_of = tuple(pairs), tuple(outer), tuple(others)
        return cls(node, tuple(values), *parts_of, given, tuple(domain), result.empty)

    @property
    def operands(self) -> tuple[Expression, ...]:
        """The expressions of the row of the query around."""
        pairs = (each for each, _ in self.pairs)
        return (*pairs, *self.outer, *(each for _, each in self.given), *(each for _, each in self.domain))

    def with_operands(self, operands: Sequence[Expression]) -> Subquery:
        """The same rows beside those of which other expressions are the :attr:`operands`."""
        rest = list(operands)
        pairs = tuple((rest.pop(0), inner) for _, inner in self.pairs)
        outer = tuple(rest.pop(0) for _ in self.outer)
        given = tuple((name, rest.pop(0)) for name, _ in self.given)
        domain = tuple((name, rest.pop(0)) for name, _ in self.domain)
        return replace(self, pairs=pairs, outer=outer, given=given, domain=domain)

    # --- conditions on the values ---------------------------------------------------------------------------------

    def equal(self, operands: Sequence[Expression]) -> Subquery:
        """The rows whose values are equal to the ``operands``."""
        return reduce(Subquery._equal, zip(operands, self.values, strict=True), self)

    def unknown(self, operands: Sequence[Expression]) -> tuple[Subquery, ...]:
        """The rows of which it is not known whether they are equal, as they or the ``operands`` have NULL: those that
        do, and those beside operands that do. Equal ones may be among them."""
        pairs = list(zip(operands, self.values, strict=True))
        found = self if len(pairs) == 1 else reduce(Subquery._perhaps_equal, pairs, self)
        nulls = [is_null(each) for each in self.values if each.type.nullable]
        parts = []
        if any(map(reads_outer, nulls)):
            parts.append(replace(found, others=(*found.others, _any(nulls))))
        elif nulls:
            parts.append(replace(found, node=filtered(found.node, (_any(nulls),))))
        nulls = [is_null(each) for each in operands if each.type.nullable]
        if nulls:
            parts.append(replace(found, outer=(*found.outer, _any(nulls))))
        return tuple(parts)

    def _equal(self, pair: tuple[Expression, Expression]) -> Subquery:
        operand, value = pair
        return self._where(operand, value) if reads_outer(value) else replace(self, pairs=(*self.pairs, pair))

    def _perhaps_equal(self, pair: tuple[Expression, Expression]) -> Subquery:
        nullable = any(each.type.nullable for each in pair)
        return self._where(*pair, perhaps=True) if nullable else self._equal(pair)

    def _where(self, operand: Expression, value: Expression, *, perhaps: bool = False) -> Subquery:
        """The rows whose value is equal to the operand, or ``perhaps``, as one of them is NULL."""
        ref = ColumnRef(f"{OUTER}{len(self.given)}{OUTER}", type=operand.type)  # no name of a column
        condition: Expression = call("=", as_compared(ref, value), as_compared(value, ref), place=operand.place)
        if perhaps:
            condition = _any([condition, *(is_null(each) for each in (ref, value) if each.type.nullable)])
        given = (*self.given, (ref.name, operand))
        if reads_inner(value):
            return replace(self, others=(*self.others, condition), given=given)
        return replace(self, outer=(*self.outer, substituted(condition, dict(given))))

    # --- joins ----------------------------------------------------------------------------------------------------

    def keeping(self, node: Node, operands: Sequence[Expression], negated: bool, errors: Errors) -> Node | None:
        """The rows of ``node`` that have a row here, or none if ``negated``; with ``operands``, one whose values are
        equal to them. Three-valued: NULL is neither in a query's values nor not, unless there are none."""
        whole = self._beside_rows(node, errors)
        if whole is None:
            return None
        if not operands:
            return whole._kept(node, negated, errors)
        found = whole.equal(operands)._kept(node, negated, errors)
        for each in whole.unknown(operands) if negated else ():
            found = None if found is None else each._kept(found, negated, errors)
        return found

    def exists(self, node: Node, errors: Errors) -> tuple[Node | None, Expression]:
        """``node`` with more columns, and whether its rows have a row here."""
        whole = self._beside_rows(node, errors)
        if whole is None:
            return None, _TRUE
        if whole.others:
            return whole._flagged(node, errors)
        items = whole._keys()
        joined, (found, *_) = whole._beside(node, distinct(project(whole.node, items)), len(items), errors)
        return joined, call("NOT", is_null(found))

    def only(self, node: Node, place: Place | None, errors: Errors) -> tuple[Node | None, tuple[Expression, ...]]:
        """``node`` with more columns, and the values of the only row that its rows have here; NULL without one. The
        query is at ``place``."""
        whole = self._beside_rows(node, errors)
        if whole is None:
            return None, self.values
        keys = self._keys() if self.pairs or self.outer else ()
        taken = [each.name for each in keys]
        values: list[Item] = []
        for each in self.values:
            values.append(Item(free_name(name_of(each), taken), each))
            taken.append(values[-1].name)
        right = _single(project(whole.node, (*keys, *values)), tuple(each.name for each in keys), place)
        joined, columns = self._beside(node, right, len(keys), errors)
        if self.empty is None:
            return joined, columns[len(keys) :]
        there = call("NOT", is_null(columns[0]))
        pairs = zip(columns[len(keys) :], self.empty, strict=True)
        return joined, tuple(_or_else(there, each, none) for each, none in pairs)

    def _beside_rows(self, node: Node, errors: Errors) -> Subquery | None:
        """The rows where those of ``node`` are known; None after a problem."""
        if not self.domain:
            return self
        given = project(node, tuple(Item(name, value) for name, value in self.domain))
        if not repeatable(pruned_rows(given)):
            errors.append(_unstable(next((each.place for _, each in self.domain), None)))
            return None
        return replace(self, node=with_rows(self.node, distinct(given)), domain=())

    def _keys(self) -> tuple[Item, ...]:
        """The columns that are compared with the rows of the query around, as they are compared."""
        items: list[Item] = []
        for outside, value in self.pairs or ((_TRUE, _TRUE),):
            items.append(Item(free_name(name_of(value), [each.name for each in items]), as_compared(value, outside)))
        return tuple(items)

    def _kept(self, node: Node, negated: bool, errors: Errors) -> Node | None:
        """The rows of ``node`` that have a row here, or none if ``negated``."""
        if self.others:
            rows, matched = self._matched(node, errors)
            kind = SetKind.ANTI if negated else SetKind.SEMI
            return None if matched is None else self._whole(SetOperation(rows.schema, rows, matched, kind), node)
        right = distinct(project(self.node, self._keys()))
        kind_of_join = JoinKind.LEFT if negated else JoinKind.INNER
        joined, (key, *_) = self._beside(node, right, len(right.schema.names), errors, kind_of_join)
        if joined is None:
            return None
        if negated:  # a key that matched is not null
            joined = filtered(joined, (Call("IS NULL", (key,), type=_NOT_NULL),))
        return project(joined, items_of(node.schema))

    def _beside(
        self, node: Node, right: Node, keys: int, errors: Errors, kind: JoinKind = JoinKind.LEFT
    ) -> tuple[Node | None, tuple[Expression, ...]]:
        """The join of ``node`` with ``right``, whose first columns are the ``keys``; and the columns of ``right``
        there."""

        def conditions(rights: Mapping[str, ColumnRef]) -> Sequence[Expression]:
            return (*self._equal_keys(list(rights.values())[:keys]), *self.outer)

        joined, rights = beside(kind, node, right, conditions, errors)
        return joined, tuple(replace(each, type=each.type.with_nullability(True)) for each in rights.values())

    def _equal_keys(self, keys: Sequence[ColumnRef]) -> list[Expression]:
        """That the rows of the query around have these ``keys``."""
        return [call("=", outside, key) for (outside, _), key in zip(self.pairs, keys, strict=False)]

    def _matched(self, node: Node, errors: Errors) -> tuple[Node, Node | None]:
        """The rows of ``node``, and those of them that are in a pair of rows for which the conditions are true, once
        for each; without the columns that have other values each time. None after a problem."""
        same = repeatable_columns(node)
        if not same or not {name for each in self.operands for name in columns_of(each)} <= same:
            errors.append(_unstable(self.others[0].place))
            return node, None
        node = project(node, tuple(each for each in items_of(node.schema) if each.name in same))
        items = self._keys()
        count = len(items)
        read = {name for each in self.others for name in columns_of(each)}
        taken = [each.name for each in items]
        inner: dict[str, str] = {}
        for each in fields_of(self.node.schema):
            if each.name in read:
                inner[each.name] = free_name(each.name, taken)
                taken.append(inner[each.name])
                items = (*items, Item(inner[each.name], each))

        def conditions(rights: Mapping[str, ColumnRef]) -> Sequence[Expression]:
            both = {**{name: rights[there] for name, there in inner.items()}, **dict(self.given)}
            others = (substituted(each, both) for each in self.others)
            return (*self._equal_keys(list(rights.values())[:count]), *self.outer, *others)

        matched, _ = beside(JoinKind.INNER, node, project(self.node, items), conditions, errors)
        return node, None if matched is None else project(matched, items_of(node.schema))

    def _whole(self, rows: Node, node: Node) -> Node:
        """The ``rows`` of :meth:`_matched` with all columns of ``node``, of which those that it leaves out cannot be
        read."""
        place = self.others[0].place
        lost = {
            each.name: Unrepeatable(each.name, _UNSTABLE, type=each.type, place=place) for each in node.schema.fields
        }
        items = (
            each if each.name in rows.schema.names else Item(each.name, lost[each.name])
            for each in items_of(node.schema)
        )
        return project(rows, tuple(items))

    def _flagged(self, node: Node, errors: Errors) -> tuple[Node | None, Expression]:
        """The rows of ``node`` with a column for whether they have a row here."""
        name = free_name("$EXISTS", node.schema.names)
        rows, matched = self._matched(node, errors)
        if matched is None:
            return None, _TRUE
        members = []
        for kind, value in ((SetKind.SEMI, _TRUE), (SetKind.ANTI, _FALSE)):
            found = self._whole(SetOperation(rows.schema, rows, matched, kind), node)
            members.append(project(found, (*items_of(node.schema), Item(name, value))))
        return Union(members[0].schema, tuple(members)), ColumnRef(name, type=_NOT_NULL)


def _single(rows: Node, keys: tuple[str, ...], place: Place | None) -> Node:
    """The only row of each key; several of them fail the job, which names the ``place``."""
    if any(set(each) <= set(keys) for each in traits(rows).upsert_keys):
        return rows
    calls = []
    for each in rows.schema.fields[len(keys) :]:
        type_ = each.type.with_nullability(True)
        name = f"$SINGLE_VALUE({each.name})"
        calls.append(AggregateCall(name, "SINGLE_VALUE", type_, each.name, nulls=True, place=place))
    fields = (*rows.schema.select(keys).fields, *(Field(each.name, each.type) for each in calls))
    return GroupAggregate(replace(rows.schema, fields=fields), rows, keys, tuple(calls))


def _or_else(there: Expression, value: Expression, other: Expression) -> Expression:
    """A value where it is ``there``, else the other one."""
    return Call("CASE", (there, value, other), type=value.type.with_nullability(other.type.nullable), place=value.place)


def _unstable(place: Place | None) -> DefinitionError:
    hint = "compare no UUID(), RAND() or present time with it"
    return UnsupportedError((Problem(_UNSTABLE, where=str(place or ""), hint=hint),))


def is_null(value: Expression) -> Expression:
    """Whether a value is NULL."""
    return call("IS NULL", value, type=_NOT_NULL)


def _any(conditions: Sequence[Expression]) -> Expression:
    return conditions[0] if len(conditions) == 1 else call("OR", *conditions, place=conditions[0].place)
