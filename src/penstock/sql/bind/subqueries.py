"""IN and EXISTS with a query, as joins: a row stays if it matches one of the query's rows, or none of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from penstock.errors import Problem, UnsupportedError
from penstock.plan.expressions import Call, Expression, Literal, call, columns_of, fields_of, renamed
from penstock.plan.nodes import Item, JoinKind, Node, SetKind, SetOperation, items_of, project
from penstock.plan.walk import repeatable
from penstock.sql.bind.grouping import distinct
from penstock.sql.bind.joins import JoinSource, as_compared
from penstock.sql.bind.names import NamedTable
from penstock.sql.bind.naming import free_name, name_of
from penstock.sql.bind.sources import NodeSource, filtered
from penstock.sql.parse.source import Errors, SourceText
from penstock.types import BOOLEAN

_TRUE = Literal(True, type=BOOLEAN.with_nullability(False))
#: Precedes the names of columns of the query around another one. No column's name begins with it.
_OUTER = "\0"


def outer_tables(tables: Sequence[NamedTable]) -> tuple[NamedTable, ...]:
    """The tables of a query, as a query in one of its conditions sees them."""
    return tuple(
        replace(table, columns={name: renamed(each, _OUTER.__add__) for name, each in table.columns.items()})
        for table in tables
    )


@dataclass(frozen=True)
class Subquery:
    """The rows of a query in a condition: those of ``node``, whose ``value`` IN looks at. For a row of the query around
    it, those count for which the ``pairs`` of an expression of that row and one of ``node`` are equal, if the ``outer``
    conditions are true for that row, and the ``others`` for both rows."""

    node: Node
    value: Expression | None = None
    pairs: tuple[tuple[Expression, Expression], ...] = ()
    outer: tuple[Expression, ...] = ()
    others: tuple[Expression, ...] = ()

    @classmethod
    def of(cls, node: Node, conditions: Sequence[Expression], value: Expression | None, source: SourceText) -> Subquery:
        """The rows of ``node`` for which ``conditions`` are true, which may read columns of the query around."""
        inner, outer, others = list[Expression](), list[Expression](), list[Expression]()
        pairs = list[tuple[Expression, Expression]]()
        for each in conditions:
            if not _reads_outer(each):
                inner.append(each)
            elif not _reads_inner(each):
                outer.append(_own(each))
            elif pair := _pair(each):
                pairs.append(pair)
            else:
                others.append(each)
        if value is not None and _reads_outer(value):
            at = value.place.offset if value.place else 0
            reason = "a query in IN that selects a column of the query around it is not supported"
            raise source.unsupported(at, reason, "compare that column in WHERE")
        return cls(filtered(node, inner), value, tuple(pairs), tuple(outer), tuple(others))

    def keeping(self, node: Node, operand: Expression | None, negated: bool, errors: Errors) -> Node | None:
        """The rows of ``node`` that have a row here, or none if ``negated``; with an ``operand``, one whose value is
        equal to it. Three-valued: NULL is neither in a query's values nor not, unless there are none."""
        if operand is None or self.value is None:
            return self._joined(node, self.pairs, (), (), negated, errors)
        found = self._joined(node, (*self.pairs, (operand, self.value)), (), (), negated, errors)
        if negated and found is not None and self.value.type.nullable:
            null = call("IS NULL", self.value, type=BOOLEAN.with_nullability(False))
            found = self._joined(found, self.pairs, (null,), (), negated, errors)
        if negated and found is not None and operand.type.nullable:
            null = call("IS NULL", operand, type=BOOLEAN.with_nullability(False))
            found = self._joined(found, self.pairs, (), (null,), negated, errors)
        return found

    def _joined(
        self,
        node: Node,
        pairs: Sequence[tuple[Expression, Expression]],
        inner: Sequence[Expression],
        outer: Sequence[Expression],
        negated: bool,
        errors: Errors,
    ) -> Node | None:
        """The rows of ``node`` that match, or do not match if ``negated``, where ``inner`` conditions are true here and
        ``outer`` ones there."""
        items: list[Item] = []
        for outside, own in pairs or ((_TRUE, _TRUE),):
            name = free_name(name_of(own), [each.name for each in items])
            items.append(Item(name, as_compared(own, outside)))
        if self.others:
            return self._compared(node, pairs, tuple(items), inner, outer, negated, errors)
        right = distinct(project(filtered(self.node, inner), tuple(items)))
        names = {each: free_name(each, node.schema.names) for each in right.schema.names}
        refs = [replace(each, name=names[each.name]) for each in fields_of(right.schema)]
        equal = [call("=", outside, ref) for (outside, _), ref in zip(pairs, refs, strict=False)]
        source = JoinSource(
            JoinKind.LEFT if negated else JoinKind.INNER,
            NodeSource(node, "", node.schema.names),
            NodeSource(right, "", right.schema.names),
            names,
            (),
            errors,
            (*equal, *self.outer, *outer),
        )
        joined = source.rows(())
        if joined is None:
            return None
        if negated:  # a key that matched is not null
            alone = Call("IS NULL", (replace(refs[0], type=refs[0].type.with_nullability(True)),), type=_TRUE.type)
            joined = filtered(joined, (alone,))
        return project(joined, items_of(node.schema))

    def _compared(
        self,
        node: Node,
        pairs: Sequence[tuple[Expression, Expression]],
        items: tuple[Item, ...],
        inner: Sequence[Expression],
        outer: Sequence[Expression],
        negated: bool,
        errors: Errors,
    ) -> Node | None:
        """The same with conditions on both rows: all pairs of rows for which they are true, and then the rows of
        ``node`` that are, or are not, in one of them."""
        if not repeatable(node):
            place = self.others[0].place
            reason = "a query in a condition that compares columns with more than '=' needs rows that stay the same"
            hint = "do not compute UUID() or the present time below it"
            errors.append(UnsupportedError((Problem(reason, where=str(place or ""), hint=hint),)))
            return None
        read = {name for each in self.others for name in columns_of(each) if not name.startswith(_OUTER)}
        taken = [each.name for each in items]
        own: dict[str, str] = {}
        for each in fields_of(self.node.schema):
            if each.name in read:
                own[each.name] = free_name(each.name, taken)
                taken.append(own[each.name])
                items = (*items, Item(own[each.name], each))
        right = project(filtered(self.node, inner), items)
        names: dict[str, str] = {}
        for name in right.schema.names:
            names[name] = free_name(name, [*node.schema.names, *names.values()])
        refs = [replace(each, name=names[each.name]) for each in fields_of(right.schema)]
        equal = [call("=", outside, ref) for (outside, _), ref in zip(pairs, refs, strict=False)]

        def joined_name(name: str) -> str:
            return name.removeprefix(_OUTER) if name.startswith(_OUTER) else names[own[name]]

        both = [renamed(each, joined_name) for each in self.others]
        source = JoinSource(
            JoinKind.INNER,
            NodeSource(node, "", node.schema.names),
            NodeSource(right, "", right.schema.names),
            names,
            (),
            errors,
            (*equal, *self.outer, *outer, *both),
        )
        matched = source.rows(())
        if matched is None:
            return None
        kind = SetKind.ANTI if negated else SetKind.SEMI
        return SetOperation(node.schema, node, project(matched, items_of(node.schema)), kind)


def _reads_outer(expression: Expression) -> bool:
    return any(each.startswith(_OUTER) for each in columns_of(expression))


def _reads_inner(expression: Expression) -> bool:
    return any(not each.startswith(_OUTER) for each in columns_of(expression))


def _own(expression: Expression) -> Expression:
    """An expression of the query around, as that one has it."""
    return renamed(expression, lambda name: name.removeprefix(_OUTER))


def _pair(condition: Expression) -> tuple[Expression, Expression] | None:
    """What a condition on both queries compares with '='; None for another one."""
    match condition:
        case Call(function="=", args=(first, second)):
            if _reads_outer(second) and not _reads_outer(first):
                first, second = second, first
            if _reads_outer(first) and not _reads_inner(first) and not _reads_outer(second):
                return _own(first), second
    return None
