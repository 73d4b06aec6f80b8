"""Binds a select list to a schema: stars become columns, columns get names."""

from __future__ import annotations

from dataclasses import dataclass

from penstock.errors import DefinitionError
from penstock.plan.expressions import Expression, fields_of
from penstock.sql.bind.scope import Scope
from penstock.sql.parse.syntax import Member, Reference, SelectItem, Star


@dataclass(frozen=True)
class Selected:
    """A column of a query's result; ``at`` is the offset of its expression."""

    name: str
    value: Expression
    at: int


def select(items: tuple[SelectItem, ...], scope: Scope, errors: list[DefinitionError]) -> list[Selected | None]:
    """The columns of the result; None for those whose problem was added to ``errors``."""
    found: list[Selected | None] = []
    for item in items:
        try:
            found += _spread(item.tree, scope) if isinstance(item.tree, Star) else [_selected(item, scope, len(found))]
        except RecursionError:
            errors.append(scope.source.error(item.tree.at, "the expression is nested too deeply", "split it"))
            found.append(None)
        except DefinitionError as error:
            errors.append(error)
            found.append(None)
    return found


def unique(names: tuple[str, ...]) -> tuple[str, ...]:
    """The names with a number after those that repeat an earlier one: ``a, a0``, as Flink does."""
    taken: list[str] = []
    for name in names:
        fresh, count = name, 0
        while fresh in taken:
            fresh, count = f"{name}{count}", count + 1
        taken.append(fresh)
    return tuple(taken)


def _spread(star: Star, scope: Scope) -> list[Selected | None]:
    if star.qualifier is not None and star.qualifier.text != scope.qualifier:
        hint = f"did you mean '{scope.qualifier}.*'?" if scope.qualifier else "write '*'"
        raise scope.source.error(star.at, f"there is no table '{star.qualifier.text}' here", hint)
    return [Selected(each.name, each, star.at) for each in fields_of(scope.schema)]


def _selected(item: SelectItem, scope: Scope, index: int) -> Selected:
    value = scope.value(item.tree)
    match item.alias, item.tree:
        case None, Reference(parts=(*_, last)) | Member(name=last):
            name = last.text
        case None, _:
            name = f"EXPR${index}"
        case alias, _:
            name = alias.text
    return Selected(name, value, item.tree.at)
