"""Binds a select list to a schema: stars become columns, columns get names."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from penstock.plan.expressions import Expression
from penstock.plan.nodes import Item
from penstock.sql.bind.expressions.scope import Scope
from penstock.sql.bind.expressions.transform_functions import limit_column
from penstock.sql.parse.source import Errors
from penstock.sql.parse.syntax import Name, SelectItem, Star, UnboundField, UnboundName
from penstock.types import RowType


@dataclass(frozen=True)
class Selected:
    """A column of a query's result; ``at`` is the offset of its expression."""

    name: str
    value: Expression
    at: int


def select(items: tuple[SelectItem, ...], scope: Scope, errors: Errors) -> list[Selected | None]:
    """The columns of the result; None for those whose problem was added to ``errors``."""
    found: list[Selected | None] = []
    for item in items:
        found += errors.attempt(partial(_bind_item, item, scope, len(found))) or [None]
    return found


def number_names(columns: list[Selected]) -> tuple[Item, ...]:
    """The columns as items of a projection. A name that occurs again gets a number, as in Flink: ``a, a0``."""
    taken: list[str] = []
    for each in columns:
        name, count = each.name, 0
        while name in taken:
            name, count = f"{each.name}{count}", count + 1
        taken.append(name)
    return tuple(Item(name, each.value) for name, each in zip(taken, columns, strict=True))


def override_names(columns: list[Selected]) -> tuple[Item, ...]:
    """The columns as items of a projection of a transform. A column takes the place of an earlier one of its name, as
    in Flink CDC."""
    return tuple(Item(name, value) for name, value in {each.name: each.value for each in columns}.items())


def _bind_item(item: SelectItem, scope: Scope, index: int) -> list[Selected]:
    given = item.expression
    if isinstance(given, Star):
        return [Selected(name, value, given.at) for name, value in _expand_star(given, scope)]
    with scope.source.limit_nesting(given.at):
        value = scope.bind(given)
        value = limit_column(scope, value) if scope.dialect.transforms else value
    match item.alias, given:
        case None, UnboundName(parts=(*_, last)) | UnboundField(name=last):
            name = last.text
        case None, _:
            if scope.dialect.transforms:
                raise scope.source.error(given.at, "a computed column has no name", "write AS and a name behind it")
            name = f"EXPR${index}"
        case alias, _:
            name = alias.text
    return [Selected(name, value, given.at)]


def _expand_star(given: Star, scope: Scope) -> list[tuple[str, Expression]]:
    """The columns that a star means."""
    if not given.parts:
        columns = [each for table in scope.named_tables for each in table.unqualified_columns.items()]
        if not columns:
            raise scope.source.error(given.at, "'*' means the columns of FROM", "name a table in FROM")
        return columns
    wanted = given.parts[0].text
    if len(given.parts) == 1:
        found = next((each for each in scope.named_tables if each.qualifier == wanted), None)
        if found is not None:
            return list(found.columns.items())
        if not any(wanted in each.columns for each in scope.named_tables):
            known = [f"'{each.qualifier}.*'" for each in scope.named_tables if each.qualifier]
            hint = f"did you mean {' or '.join(known)}?" if known else "write '*'"
            raise scope.source.error(given.at, f"there is no table '{wanted}' here", hint)
    row = scope.name(UnboundName(given.at, given.parts))
    if not isinstance(row.type, RowType):
        reason = f"'*' means the columns of a table or the fields of a row, not {row.type.text()}"
        raise scope.source.error(given.at, reason, "leave '.*' out")
    return [(each.name, scope.field(row, Name(each.name, given.at))) for each in row.type.fields]
