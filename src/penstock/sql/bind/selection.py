"""Binds a select list to a schema: stars become columns, columns get names."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from penstock.plan.expressions import Expression
from penstock.plan.nodes import Item
from penstock.sql.bind.scope import Scope
from penstock.sql.parse.source import Errors
from penstock.sql.parse.syntax import SelectItem, Star, UnboundField, UnboundName
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
        found += errors.attempt(partial(_columns, item, scope, len(found))) or [None]
    return found


def projected(columns: list[Selected]) -> tuple[Item, ...]:
    """The columns as those of a projection. A name that occurs again gets a number, as in Flink: ``a, a0``."""
    taken: list[str] = []
    for each in columns:
        name, count = each.name, 0
        while name in taken:
            name, count = f"{each.name}{count}", count + 1
        taken.append(name)
    return tuple(Item(name, each.value) for name, each in zip(taken, columns, strict=True))


def _columns(item: SelectItem, scope: Scope, index: int) -> list[Selected]:
    given = item.expression
    if isinstance(given, Star):
        return [Selected(name, value, given.at) for name, value in _star(given, scope)]
    with scope.source.limited_nesting(given.at):
        value = scope.value(given)
    match item.alias, given:
        case None, UnboundName(parts=(*_, last)) | UnboundField(name=last):
            name = last.text
        case None, _:
            name = f"EXPR${index}"
        case alias, _:
            name = alias.text
    return [Selected(name, value, given.at)]


def _star(given: Star, scope: Scope) -> list[tuple[str, Expression]]:
    """The columns that a star stands for."""
    if given.qualifier is None:
        columns = [each for table in scope.named for each in table.own.items()]
        if not columns:
            raise scope.source.error(given.at, "'*' stands for the columns of FROM", "name a table in FROM")
        return columns
    wanted = given.qualifier.text
    found = next((each for each in scope.named if each.qualifier == wanted), None)
    if found is None:
        if any(wanted in each.columns and isinstance(each.columns[wanted].type, RowType) for each in scope.named):
            raise scope.source.unsupported(given.at, "'*' of a row is not supported", "name its fields")
        known = [f"'{each.qualifier}.*'" for each in scope.named if each.qualifier]
        hint = f"did you mean {' or '.join(known)}?" if known else "write '*'"
        raise scope.source.error(given.at, f"there is no table '{wanted}' here", hint)
    return list(found.columns.items())
