"""Queries that read columns of the query around them, in conditions on their rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TypeGuard

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
    renamed,
    walk,
)
from penstock.plan.nodes import Item, Node, Scan, project
from penstock.plan.walk import rewrite
from penstock.spi import CHANGES, AnySettings, ScanCapabilities, SinkSpec
from penstock.sql.bind.generated_names import free_name
from penstock.sql.bind.resolution import NamedTable
from penstock.types import INT, STRING, DataType, Field, RowType
from penstock.types.casts import is_numeric, is_point
from penstock.types.logical import root

#: Precedes the names of columns of the query around another one, and twice those of the query around that one. No
#: column's name begins with it.
OUTER = "\0"


def outer_tables(tables: Sequence[NamedTable]) -> tuple[NamedTable, ...]:
    """The tables of a query, as a query in one of its expressions sees them."""
    return tuple(
        replace(table, columns={name: renamed(each, OUTER.__add__) for name, each in table.columns.items()})
        for table in tables
    )


def reads_outer(expression: Expression) -> bool:
    """Whether an expression reads columns of the query around."""
    return any(each.startswith(OUTER) for each in columns_of(expression))


def reads_inner(expression: Expression) -> bool:
    """Whether an expression reads columns of its own query."""
    return any(not each.startswith(OUTER) for each in columns_of(expression))


def place_of_outer(expression: Expression) -> int:
    """The offset of the first column of a query around that an expression reads."""
    column = next(each for each in walk(expression) if _is_outer(each))
    return offset_of(column)


def own(expression: Expression) -> Expression:
    """An expression of the query around, as that one has it."""
    return renamed(expression, lambda name: name.removeprefix(OUTER))


def equal_pair(condition: Expression) -> tuple[Expression, Expression] | None:
    """The expressions of the query around and of its own that a condition compares with '='; None for another one."""
    match condition:
        case Call(function="=", args=(first, second)):
            if reads_outer(second) and not reads_outer(first):
                first, second = second, first
            if reads_outer(first) and not reads_inner(first) and not reads_outer(second):
                return first, second
    return None


@dataclass(frozen=True)
class Dependent:
    """The rows of a query that reads columns of the query around: those of ``node`` for which the ``conditions`` are
    true. The first columns of ``node`` are those of the query; the conditions read others, too."""

    node: Node
    schema: RowType
    conditions: tuple[Expression, ...]

    @classmethod
    def of(cls, node: Node, items: Sequence[Item], conditions: Sequence[Expression]) -> Dependent:
        """The columns ``items`` of the rows of ``node`` for which the ``conditions`` on these rows are true."""
        read = {name for each in conditions for name in columns_of(each)}
        every, names = list(items), dict[str, str]()
        for each in fields_of(node.schema):
            if each.name in read:
                names[each.name] = free_name(each.name, [item.name for item in every])
                every.append(Item(names[each.name], each))
        rows = project(node, tuple(every))
        schema = RowType(rows.schema.fields[: len(items)], nullable=False)
        return cls(rows, schema, tuple(renamed(each, lambda name: names.get(name, name)) for each in conditions))


# --- the different rows of the query around ------------------------------------------------------------------------


@dataclass(frozen=True)
class Domain:
    """The different values of some ``columns`` of the query around, which a query has beside its own rows under the
    ``names``, where it computes with them before they can be compared."""

    columns: tuple[ColumnRef, ...] = ()
    names: tuple[str, ...] = ()

    @classmethod
    def of(cls, expressions: Sequence[Expression], taken: Sequence[str]) -> Domain:
        """What the ``expressions`` read of the query around, under names that are not ``taken``."""
        found = {part.name: part for each in expressions for part in walk(each) if _is_outer(part)}
        names: list[str] = []
        for name in found:
            names.append(free_name(f"$outer {name.lstrip(OUTER)}", [*taken, *names]))
        return cls(tuple(found.values()), tuple(names))

    @property
    def values(self) -> dict[str, Expression]:
        """The columns beside the rows, by the names of those of the query around."""
        pairs = zip(self.columns, self.names, strict=True)
        return {each.name: replace(each, name=name) for each, name in pairs}

    def rows(self) -> Scan:
        """What stands for the values until :func:`with_rows` has them."""
        fields = (Field(name, each.type) for name, each in zip(self.names, self.columns, strict=True))
        schema = RowType(tuple(fields), nullable=False)
        return Scan(schema, "", "", _OuterRows())

    def unmatched(self, conditions: Sequence[Expression]) -> ColumnRef | None:
        """A column of which :meth:`equal` knows no value that could stand for NULL; None if there is none."""
        return next((each for each in self._with_null(conditions) if _any_value(each.type) is None), None)

    def equal(self, conditions: Sequence[Expression]) -> list[Expression]:
        """That the values are those of the row of the query around, where NULL is one of them, unless it can fulfil no
        condition. No column is :meth:`unmatched`."""
        with_null = self._with_null(conditions)
        found: list[Expression] = []
        for each in self.columns:
            value = self.values[each.name]
            other = _any_value(each.type) if each in with_null else None
            if other is None:
                found.append(call("=", each, value, place=each.place))
                continue
            for one in (is_null, lambda part, other=other: _coalesce(part, other)):
                found.append(call("=", one(each), one(value), place=each.place))
        return found

    def _with_null(self, conditions: Sequence[Expression]) -> list[ColumnRef]:
        """The columns that may be NULL where the conditions are true."""
        strict = {
            arg for each in conditions if isinstance(each, Call) and each.function in _STRICT for arg in each.args
        }
        return [each for each in self.columns if each.type.nullable and each not in strict]


#: What a query that only compares has.
NOTHING = Domain()


@dataclass(frozen=True)
class _OuterRows(AnySettings):
    """The rows of a query around that is not known yet."""

    @property
    def capabilities(self) -> ScanCapabilities:
        return ScanCapabilities(kinds=CHANGES, bounded=False)

    def dead_letter_sink(self, others: Sequence[SinkSpec]) -> None:
        """None."""

    def describe(self) -> str:
        return "the rows of the query around"


def with_rows(node: Node, rows: Node) -> Node:
    """``node`` with the ``rows`` of the query around in place of :meth:`Domain.rows`."""
    (found,) = rewrite((node,), lambda each: rows if isinstance(each, Scan) and each.spec == _OuterRows() else each)
    return found


#: Conditions that are not true where one of the two sides is NULL.
_STRICT = ("=", "<>", "<", "<=", ">", ">=")


def _is_outer(expression: Expression) -> TypeGuard[ColumnRef]:
    return isinstance(expression, ColumnRef) and expression.name.startswith(OUTER)


def _coalesce(value: Expression, other: Expression) -> Expression:
    return Call("COALESCE", (value, other), type=value.type.with_nullability(False))


def _any_value(data_type: DataType) -> Expression | None:
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
