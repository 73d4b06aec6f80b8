"""Queries in expressions, as joins: their rows beside each row of the outer query."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial, reduce

from penstock.errors import DefinitionError, Problem, UnsupportedError
from penstock.plan.expressions import (
    FALSE,
    TRUE,
    Call,
    ColumnRef,
    Expression,
    Place,
    Unrepeatable,
    call,
    columns_of,
    disjunction,
    fields_of,
    is_not_null,
    is_null,
    substitute,
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
from penstock.plan.pruning import prune_rows, repeatable_columns
from penstock.plan.traits import traits
from penstock.plan.walk import repeatable
from penstock.sql.bind.correlation import OUTER, find_equal_pair, reads_inner, reads_outer, strip_outer, with_rows
from penstock.sql.bind.expressions.generated_names import find_free_name, generate_name
from penstock.sql.bind.groups.grouping import keep_distinct
from penstock.sql.bind.joins.conditions import (
    Conditions,
    cast_for_comparison,
    find_present_times,
    join_nodes,
    match_in_windows,
)
from penstock.sql.bind.results import Result
from penstock.sql.bind.tables.sources import filter_rows
from penstock.sql.parse.source import Errors
from penstock.types import Field

_UNSTABLE = "a query in a condition that compares columns with more than '=' needs deterministic rows"


@dataclass(frozen=True)
class Subquery:
    """The rows of a query in an expression: those of ``node``, with these ``values``. A row of the outer query
    has those of them for which the ``pairs`` of an expression of the outer row and one of ``node`` are equal, the
    ``outer`` conditions are true for the outer row, and the ``others`` for both rows. ``others`` and ``values`` read
    expressions of the outer row by the names of ``given``; ``node`` computes with those of the ``domain``. ``empty``
    has the values of an aggregate of all rows for an outer row that has none of them."""

    node: Node
    values: tuple[Expression, ...] = ()
    pairs: tuple[tuple[Expression, Expression], ...] = ()
    outer: tuple[Expression, ...] = ()
    others: tuple[Expression, ...] = ()
    given: tuple[tuple[str, Expression], ...] = ()
    domain: tuple[tuple[str, Expression], ...] = ()
    empty: tuple[Expression, ...] | None = None

    @classmethod
    def from_result(cls, node: Node, values: Sequence[Expression], result: Result) -> Subquery:
        """The rows of ``node``, that of the ``result``, with these ``values``."""
        outer, others = list[Expression](), list[Expression]()
        pairs = list[tuple[Expression, Expression]]()
        for each in result.conditions:
            pair = find_equal_pair(each)
            if pair is not None:
                pairs.append((strip_outer(pair[0]), pair[1]))
            elif reads_inner(each):
                others.append(each)
            else:
                outer.append(strip_outer(each))
        parts = (part for each in (*others, *values) for part in walk(each))
        columns = {each.name: strip_outer(each) for each in parts if isinstance(each, ColumnRef) and reads_outer(each)}
        given, every = tuple(columns.items()), result.domain.union(result.below)
        domain = zip(every.names, map(strip_outer, every.columns), strict=True)
        parts_of = tuple(pairs), tuple(outer), tuple(others)
        return cls(node, tuple(values), *parts_of, given, tuple(domain), result.empty)

    @property
    def operands(self) -> tuple[Expression, ...]:
        """The expressions of the outer row."""
        pairs = (each for each, _ in self.pairs)
        return (*pairs, *self.outer, *(each for _, each in self.given), *(each for _, each in self.domain))

    def with_operands(self, operands: Sequence[Expression]) -> Subquery:
        """The same rows with other expressions of the outer row as the :attr:`operands`."""
        rest = list(operands)
        pairs = tuple((rest.pop(0), inner) for _, inner in self.pairs)
        outer = tuple(rest.pop(0) for _ in self.outer)
        given = tuple((name, rest.pop(0)) for name, _ in self.given)
        domain = tuple((name, rest.pop(0)) for name, _ in self.domain)
        return replace(self, pairs=pairs, outer=outer, given=given, domain=domain)

    # --- conditions on the values ---------------------------------------------------------------------------------

    def match_operands(self, operands: Sequence[Expression]) -> Subquery:
        """The rows whose values are equal to the ``operands``."""
        return reduce(Subquery._match_pair, zip(operands, self.values, strict=True), self)

    def match_unknown(self, operands: Sequence[Expression]) -> tuple[Subquery, ...]:
        """The rows for which equality with ``operands`` is unknown because a side is NULL; equal rows may be among
        them."""
        pairs = list(zip(operands, self.values, strict=True))
        found = self if len(pairs) == 1 else reduce(Subquery._match_perhaps, pairs, self)
        nulls = [is_null(each) for each in self.values if each.type.nullable]
        parts = []
        if any(map(reads_outer, nulls)):
            parts.append(replace(found, others=(*found.others, disjunction(nulls))))
        elif nulls:
            parts.append(replace(found, node=filter_rows(found.node, (disjunction(nulls),))))
        nulls = [is_null(each) for each in operands if each.type.nullable]
        if nulls:
            parts.append(replace(found, outer=(*found.outer, disjunction(nulls))))
        return tuple(parts)

    def _match_pair(self, pair: tuple[Expression, Expression]) -> Subquery:
        operand, value = pair
        return self._add_comparison(operand, value) if reads_outer(value) else replace(self, pairs=(*self.pairs, pair))

    def _match_perhaps(self, pair: tuple[Expression, Expression]) -> Subquery:
        nullable = any(each.type.nullable for each in pair)
        return self._add_comparison(*pair, perhaps=True) if nullable else self._match_pair(pair)

    def _add_comparison(self, operand: Expression, value: Expression, *, perhaps: bool = False) -> Subquery:
        """The rows whose value is equal to the operand; ``perhaps`` also those for which that is unknown, because a
        side is NULL."""
        ref = ColumnRef(f"{OUTER}{len(self.given)}{OUTER}", type=operand.type)  # no name of a column
        condition: Expression = call(
            "=", cast_for_comparison(ref, value), cast_for_comparison(value, ref), place=operand.place
        )
        if perhaps:
            condition = disjunction([condition, *(is_null(each) for each in (ref, value) if each.type.nullable)])
        given = (*self.given, (ref.name, operand))
        if reads_inner(value):
            return replace(self, others=(*self.others, condition), given=given)
        return replace(self, outer=(*self.outer, substitute(condition, dict(given))))

    # --- joins ----------------------------------------------------------------------------------------------------

    def keep_rows(self, node: Node, operands: Sequence[Expression], negated: bool, errors: Errors) -> Node | None:
        """The rows of ``node`` that have a row here, or none if ``negated``; with ``operands``, one whose values are
        equal to them. By three-valued logic, whether NULL is among a query's values is unknown, unless it has none."""
        whole = self._replace_domain(node, errors)
        if whole is None:
            return None
        if not operands:
            return whole._keep_matching(node, negated, errors)
        found = whole.match_operands(operands)._keep_matching(node, negated, errors)
        for each in whole.match_unknown(operands) if negated else ():
            found = None if found is None else each._keep_matching(found, negated, errors)
        return found

    def join_exists(self, node: Node, errors: Errors) -> tuple[Node | None, Expression]:
        """``node`` with more columns, and whether its rows have a row here."""
        whole = self._replace_domain(node, errors)
        if whole is None:
            return None, TRUE
        if whole.others:
            return whole._flag_matches(node, errors)
        items = whole._make_keys()
        joined, (found, *_) = whole._join_with(node, keep_distinct(project(whole.node, items)), len(items), errors)
        return joined, is_not_null(found)

    def join_only_row(
        self, node: Node, place: Place | None, errors: Errors
    ) -> tuple[Node | None, tuple[Expression, ...]]:
        """``node`` with more columns, and the values of the only row that each of its rows has here; NULL without one.
        The query is at ``place``."""
        whole = self._replace_domain(node, errors)
        if whole is None:
            return None, self.values
        keys = self._make_keys() if self.pairs or self.outer else ()
        taken = [each.name for each in keys]
        values: list[Item] = []
        for each in self.values:
            values.append(Item(find_free_name(generate_name(each), taken), each))
            taken.append(values[-1].name)
        right = _keep_single_row(project(whole.node, (*keys, *values)), tuple(each.name for each in keys), place)
        joined, columns = self._join_with(node, right, len(keys), errors)
        if self.empty is None:
            return joined, columns[len(keys) :]
        there = is_not_null(columns[0])
        pairs = zip(columns[len(keys) :], self.empty, strict=True)
        return joined, tuple(choose(there, each, none) for each, none in pairs)

    def _replace_domain(self, node: Node, errors: Errors) -> Subquery | None:
        """The rows with the domain replaced by the distinct values in ``node``; None after a problem."""
        if not self.domain:
            return self
        items = tuple(Item(name, value) for name, value in self.domain)
        place = next((each.place for _, each in self.domain), None)
        given = errors.attempt(partial(repeatable_values, node, items, place))
        return None if given is None else replace(self, node=with_rows(self.node, given), domain=())

    def _make_keys(self) -> tuple[Item, ...]:
        """The columns that are compared with outer rows, in the types in which they are compared."""
        items: list[Item] = []
        for outside, value in self.pairs or ((TRUE, TRUE),):
            items.append(
                Item(
                    find_free_name(generate_name(value), [each.name for each in items]),
                    cast_for_comparison(value, outside),
                )
            )
        return tuple(items)

    def _keep_matching(self, node: Node, negated: bool, errors: Errors) -> Node | None:
        """The rows of ``node`` that have a row here, or none if ``negated``."""
        if self.others:
            in_windows = self._keep_in_windows(node, negated, errors)
            if in_windows is not None:
                return in_windows
            rows, matched = self._match_rows(node, errors)
            kind = SetKind.ANTI if negated else SetKind.SEMI
            return (
                None
                if matched is None
                else self._join_all_columns(SetOperation(rows.schema, rows, matched, kind), node)
            )
        right = keep_distinct(project(self.node, self._make_keys()))
        kind_of_join = JoinKind.LEFT if negated else JoinKind.INNER
        joined, (key, *_) = self._join_with(node, right, len(right.schema.names), errors, kind_of_join)
        if joined is None:
            return None
        if negated:  # a key that matched is not null
            joined = filter_rows(joined, (is_null(key),))
        return project(joined, items_of(node.schema))

    def _join_with(
        self, node: Node, right: Node, keys: int, errors: Errors, kind: JoinKind = JoinKind.LEFT
    ) -> tuple[Node | None, tuple[Expression, ...]]:
        """The join of ``node`` with ``right``, whose first columns are the ``keys``; and the columns of ``right``
        there."""

        def conditions(rights: Mapping[str, ColumnRef]) -> Sequence[Expression]:
            return (*self._match_keys(list(rights.values())[:keys]), *self.outer)

        joined, rights = join_nodes(kind, node, right, conditions, errors)
        return joined, tuple(replace(each, type=each.type.with_nullability(True)) for each in rights.values())

    def _match_keys(self, keys: Sequence[ColumnRef]) -> list[Expression]:
        """The conditions that outer rows have these ``keys``."""
        return [call("=", outside, key) for (outside, _), key in zip(self.pairs, keys, strict=False)]

    def _keep_in_windows(self, node: Node, negated: bool, errors: Errors) -> Node | None:
        """The same in each window separately, where the ``pairs`` have the windows of both; None elsewhere."""
        items, conditions = self._find_compared_columns()
        return match_in_windows(node, project(self.node, items), conditions, errors, negated=negated)

    def _find_compared_columns(self) -> tuple[tuple[Item, ...], Conditions]:
        """The columns that are compared with an outer row, and the conditions."""
        items = self._make_keys()
        count = len(items)
        read = {name for each in self.others for name in columns_of(each)}
        taken = [each.name for each in items]
        inner: dict[str, str] = {}
        for each in fields_of(self.node.schema):
            if each.name in read:
                inner[each.name] = find_free_name(each.name, taken)
                taken.append(inner[each.name])
                items = (*items, Item(inner[each.name], each))

        def conditions(rights: Mapping[str, ColumnRef]) -> Sequence[Expression]:
            both = {**{name: rights[there] for name, there in inner.items()}, **dict(self.given)}
            others = (substitute(each, both) for each in self.others)
            return (*self._match_keys(list(rights.values())[:count]), *self.outer, *others)

        return items, conditions

    def _match_rows(self, node: Node, errors: Errors) -> tuple[Node, Node | None]:
        """The rows of ``node``, and the same rows once for each row here that they match; both without the columns that
        are not repeatable. None after a problem."""
        same = repeatable_columns(node)
        if not same or not {name for each in self.operands for name in columns_of(each)} <= same:
            errors.append(_unstable_error(self.others[0].place))
            return node, None
        node = project(node, tuple(each for each in items_of(node.schema) if each.name in same))
        items, conditions = self._find_compared_columns()
        matched, _ = join_nodes(JoinKind.INNER, node, project(self.node, items), conditions, errors)
        return node, None if matched is None else project(matched, items_of(node.schema))

    def _join_all_columns(self, rows: Node, node: Node) -> Node:
        """The ``rows`` of :meth:`_match_rows` with all columns of ``node``. Columns that are not repeatable cannot be
        read in them."""
        place = self.others[0].place
        lost: dict[str, Expression] = {
            each.name: Unrepeatable(each.name, _UNSTABLE, type=each.type, place=place) for each in node.schema.fields
        }
        lost |= find_present_times(node)
        items = (
            each if each.name in rows.schema.names else Item(each.name, lost[each.name])
            for each in items_of(node.schema)
        )
        return project(rows, tuple(items))

    def _flag_matches(self, node: Node, errors: Errors) -> tuple[Node | None, Expression]:
        """The rows of ``node`` with a column for whether they have a row here."""
        name = find_free_name("$EXISTS", node.schema.names)
        members = []
        for negated, value in ((False, TRUE), (True, FALSE)):
            found = self._keep_matching(node, negated, errors)
            if found is None:
                return None, TRUE
            members.append(project(found, (*items_of(node.schema), Item(name, value))))
        return Union(members[0].schema, tuple(members)), ColumnRef(name, type=TRUE.type)


def repeatable_values(node: Node, items: tuple[Item, ...], place: Place | None) -> Node:
    """These columns of the rows of ``node``. Raises UnsupportedError, with the ``place``, for those that have another
    value each time."""
    given = project(node, items)
    if not repeatable(prune_rows(given)):
        raise _unstable_error(place)
    return given


def _keep_single_row(rows: Node, keys: tuple[str, ...], place: Place | None) -> Node:
    """The only row of each key. A key with several rows fails the job, with an error that names the ``place``."""
    if any(set(each) <= set(keys) for each in traits(rows).upsert_keys):
        return rows
    calls = []
    for each in rows.schema.fields[len(keys) :]:
        type_ = each.type.with_nullability(True)
        name = f"$SINGLE_VALUE({each.name})"
        calls.append(AggregateCall(name, "SINGLE_VALUE", type_, each.name, nulls=True, place=place))
    fields = (*rows.schema.select(keys).fields, *(Field(each.name, each.type) for each in calls))
    return GroupAggregate(replace(rows.schema, fields=fields), rows, keys, tuple(calls))


def choose(condition: Expression, value: Expression, other: Expression) -> Expression:
    """One value where the condition is true, else the other one."""
    return Call(
        "CASE", (condition, value, other), type=value.type.with_nullability(other.type.nullable), place=value.place
    )


def _unstable_error(place: Place | None) -> DefinitionError:
    hint = "do not compare UUID(), RAND() or the current time with it"
    return UnsupportedError((Problem(_UNSTABLE, where=str(place or ""), hint=hint),))
