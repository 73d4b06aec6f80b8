"""Queries that read columns of the query around them, in conditions on their rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from penstock.plan.expressions import Call, Expression, columns_of, fields_of, renamed
from penstock.plan.nodes import Item, Node, project
from penstock.sql.bind.names import NamedTable
from penstock.sql.bind.naming import free_name
from penstock.types import RowType

#: Precedes the names of columns of the query around another one. No column's name begins with it.
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
