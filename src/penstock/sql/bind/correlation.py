"""Correlated subqueries: queries that read columns of an outer query, in conditions on their rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TypeGuard

from penstock.errors import Problem, UnsupportedError
from penstock.plan.expressions import (
    Call,
    ColumnRef,
    Expression,
    Literal,
    call,
    cast,
    columns_of,
    fields_of,
    is_null,
    offset_of,
    rename_columns,
    walk,
)
from penstock.plan.nodes import Item, Node, Scan, items_of, project
from penstock.plan.walk import rewrite
from penstock.spi import CHANGES, AnySettings, ScanCapabilities, SinkSpec
from penstock.sql.bind.expressions.generated_names import find_free_name
from penstock.sql.bind.expressions.resolution import NamedTable
from penstock.sql.bind.groups.grouping import keep_distinct
from penstock.types import INT, STRING, DataType, Field, RowType
from penstock.types.casts import find_key_type, is_numeric, is_point
from penstock.types.logical import root

#: The prefix of names of columns of an outer query: once for the nearest, twice for the next. No column's name begins
#: with it.
OUTER = "\0"


def make_outer_tables(tables: Sequence[NamedTable]) -> tuple[NamedTable, ...]:
    """The tables of a query under the names that a query in one of its expressions uses for them."""
    return tuple(
        replace(table, columns={name: rename_columns(each, OUTER.__add__) for name, each in table.columns.items()})
        for table in tables
    )


def reads_outer(expression: Expression) -> bool:
    """Whether an expression reads columns of an outer query."""
    return any(each.startswith(OUTER) for each in columns_of(expression))


def reads_inner(expression: Expression) -> bool:
    """Whether an expression reads columns of its own query."""
    return any(not each.startswith(OUTER) for each in columns_of(expression))


def offset_of_outer(expression: Expression) -> int:
    """The offset of the first column of an outer query that an expression reads."""
    column = next(each for each in walk(expression) if _is_outer(each))
    return offset_of(column)


def strip_outer(expression: Expression) -> Expression:
    """An expression of columns of the outer query, by the names that they have there."""
    return rename_columns(expression, lambda name: name.removeprefix(OUTER))


def find_equal_pair(condition: Expression) -> tuple[Expression, Expression] | None:
    """The expressions of the outer and of the inner query that a condition compares with '='; None for another
    condition."""
    match condition:
        case Call(function="=", args=(first, second)) if find_key_type(first.type, second.type) is not None:
            if reads_outer(second) and not reads_outer(first):
                first, second = second, first
            if reads_outer(first) and not reads_inner(first) and not reads_outer(second):
                return first, second
    return None


# --- the distinct values of the outer query's columns -----------------------------------------------------------------


@dataclass(frozen=True)
class Domain:
    """The distinct values of the outer query's ``columns``. A query that computes with them, instead of only comparing
    them, has them beside its own rows, under the ``names``."""

    columns: tuple[ColumnRef, ...] = ()
    names: tuple[str, ...] = ()

    @classmethod
    def from_expressions(cls, expressions: Sequence[Expression], taken: Sequence[str]) -> Domain:
        """The outer columns that the ``expressions`` read, under names that are not ``taken``."""
        found = {part.name: part for each in expressions for part in walk(each) if _is_outer(part)}
        names: list[str] = []
        for name in found:
            names.append(find_free_name(f"$outer {name.lstrip(OUTER)}", [*taken, *names]))
        return cls(tuple(found.values()), tuple(names))

    @property
    def values(self) -> dict[str, Expression]:
        """The columns beside the rows, by the names of the outer columns."""
        pairs = zip(self.columns, self.names, strict=True)
        return {each.name: replace(each, name=name) for each, name in pairs}

    def placeholder(self) -> Scan:
        """A placeholder for the distinct values, which :func:`with_rows` replaces."""
        fields = (Field(name, each.type) for name, each in zip(self.names, self.columns, strict=True))
        schema = RowType(tuple(fields), nullable=False)
        return Scan(schema, "", "", _OuterRows())

    def find_unmatchable(self, conditions: Sequence[Expression]) -> ColumnRef | None:
        """A column that may be NULL and cannot be matched, because :meth:`match_conditions` knows no value of its type
        that could replace NULL. None if there is no such column."""
        return next((each for each in self._find_nullable(conditions) if _find_any_value(each.type) is None), None)

    def match_conditions(self, conditions: Sequence[Expression]) -> list[Expression]:
        """Conditions that match the domain's values with the outer row, NULL included where a condition allows it. No
        column may be one that :meth:`find_unmatchable` finds."""
        with_null = self._find_nullable(conditions)
        pairs = ((each, self.values[each.name], each in with_null) for each in self.columns)
        return [part for one, other, null in pairs for part in match_values(one, other, null=null)]

    def union(self, other: Domain) -> Domain:
        """The columns of both. Raises UnsupportedError for two columns of one name."""
        found = dict(zip(self.names, self.columns, strict=True))
        for name, column in zip(other.names, other.columns, strict=True):
            if found.setdefault(name, column) != column:
                reason = f"two columns '{column.name.lstrip(OUTER)}' of outer queries are not supported here"
                where = str(column.place or "")
                raise UnsupportedError((Problem(reason, where=where, hint="give one of them another name"),))
        return Domain(tuple(found.values()), tuple(found))

    def _find_nullable(self, conditions: Sequence[Expression]) -> list[ColumnRef]:
        """The columns that may be NULL where the conditions are true."""
        strict = {
            arg for each in conditions if isinstance(each, Call) and each.function in _STRICT for arg in each.args
        }
        return [each for each in self.columns if each.type.nullable and each not in strict]


#: The domain of a query that only compares outer columns.
NOTHING = Domain()


@dataclass(frozen=True)
class Dependent:
    """The rows of a correlated subquery: those of ``node`` for which the ``conditions``, which read outer columns too,
    are true. The first columns of ``node`` are those of the query; the conditions read others, too. ``node`` computes
    with the values of the ``domain``."""

    node: Node
    schema: RowType
    conditions: tuple[Expression, ...]
    domain: Domain = NOTHING

    @classmethod
    def from_rows(
        cls, node: Node, items: Sequence[Item], conditions: Sequence[Expression], domain: Domain = NOTHING
    ) -> Dependent:
        """The columns ``items`` of the rows of ``node`` for which the ``conditions`` on these rows are true."""
        read = {name for each in conditions for name in columns_of(each)}
        every, names = list(items), dict[str, str]()
        for each in fields_of(node.schema):
            if each.name in read:
                names[each.name] = find_free_name(each.name, [item.name for item in every])
                every.append(Item(names[each.name], each))
        rows = project(node, tuple(every))
        schema = RowType(rows.schema.fields[: len(items)], nullable=False)
        found = tuple(rename_columns(each, lambda name: names.get(name, name)) for each in conditions)
        return cls(rows, schema, found, domain)


@dataclass(frozen=True)
class _OuterRows(AnySettings):
    """The rows of an outer query that is not bound yet."""

    @property
    def capabilities(self) -> ScanCapabilities:
        return ScanCapabilities(kinds=CHANGES, bounded=False)

    def dead_letter_sink(self, others: Sequence[SinkSpec]) -> None:
        """None."""

    def describe(self) -> str:
        return "the rows of the outer query"


def with_rows(node: Node, rows: Node) -> Node:
    """``node`` with each :meth:`Domain.placeholder` replaced by the distinct values of the columns of ``rows``, the
    rows of the outer query."""

    def change(each: Node) -> Node:
        if not isinstance(each, Scan) or each.spec != _OuterRows():
            return each
        return keep_distinct(project(rows, items_of(rows.schema.select(each.schema.names))))

    (found,) = rewrite((node,), change)
    return found


#: Conditions that are not true where one of the two sides is NULL.
_STRICT = ("=", "<>", "<", "<=", ">", ">=")


def _is_outer(expression: Expression) -> TypeGuard[ColumnRef]:
    return isinstance(expression, ColumnRef) and expression.name.startswith(OUTER)


def match_values(one: Expression, other: Expression, *, null: bool) -> list[Expression]:
    """Conditions that two values are equal; with ``null``, NULL equals NULL, if a value of the type is known."""
    default = _find_any_value(one.type) if null else None
    if default is None:
        return [call("=", one, other, place=one.place)]
    parts = ((is_null(one), is_null(other)), (_coalesce(one, default), _coalesce(other, default)))
    return [call("=", *pair, place=one.place) for pair in parts]


def _coalesce(value: Expression, other: Expression) -> Expression:
    return Call("COALESCE", (value, other), type=value.type.with_nullability(False))


def _find_any_value(data_type: DataType) -> Expression | None:
    """A value of a type; None if none is known."""
    to = data_type.with_nullability(False)
    if is_numeric(data_type):
        return cast(Literal(0, type=INT.with_nullability(False)), to)
    if root(data_type) == "STRING":
        return Literal("", type=to)
    if root(data_type) == "BOOLEAN":
        return Literal(False, type=to)
    if is_point(data_type):
        text = "00:00:00" if root(data_type) == "TIME" else "1970-01-01 00:00:00"
        return cast(Literal(text, type=STRING.with_nullability(False)), to)
    return None
