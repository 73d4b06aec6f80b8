"""Pieces of SQL that stand in YAML, Python or a command: an expression, a select list, a condition, columns."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TypeVar

from penstock.errors import DefinitionError
from penstock.plan import Item
from penstock.plan.expressions import Expression
from penstock.spi import Column
from penstock.sql.bind.scope import Scope
from penstock.sql.bind.selection import select, unique
from penstock.sql.bind.tables import columns_of
from penstock.sql.parse.cursor import Cursor
from penstock.sql.parse.grammar import Grammar
from penstock.sql.parse.source import Source, combined
from penstock.sql.parse.statements import column_declaration
from penstock.sql.parse.tokens import scan
from penstock.types import Field, NullType, RowType

__all__ = ["columns", "condition", "expression", "projection"]

_T = TypeVar("_T")


def expression(text: str, schema: RowType, *, origin: str = "") -> Expression:
    """One Flink SQL expression over the columns of ``schema``.

    ``origin`` stands before line and column in errors. Raises SqlError, SchemaError or UnsupportedError.
    """
    source = Source(text, origin)
    tree = _parsed(source, lambda cursor: Grammar(cursor).expression())
    return _shallow(source, lambda: _typed(source, tree.at, Scope(schema, source).value(tree)))


def condition(text: str, schema: RowType, *, origin: str = "") -> Expression:
    """A condition over the columns of ``schema``. Raises as :func:`expression` does."""
    source = Source(text, origin)
    tree = _parsed(source, lambda cursor: Grammar(cursor).expression())
    return _shallow(source, lambda: Scope(schema, source).condition(tree, "a condition"))


def projection(text: str, schema: RowType, *, origin: str = "") -> tuple[tuple[Item, ...], RowType]:
    """A select list such as ``a, b AS c, *``: the columns of a projection and their row type.

    Raises as :func:`expression` does, with every problem of the list.
    """
    source = Source(text, origin)
    items = _parsed(source, lambda cursor: Grammar(cursor).items())
    errors: list[DefinitionError] = []
    found = [item for item in select(items, Scope(schema, source), errors) if item is not None]
    for item in found:
        try:
            _typed(source, item.at, item.value)
        except DefinitionError as error:
            errors.append(error)
    if errors:
        raise combined(errors)
    names = unique(tuple(item.name for item in found))
    pairs = tuple(zip(names, found, strict=True))
    row = RowType(tuple(Field(name, item.value.type) for name, item in pairs), nullable=False)
    return tuple(Item(name, item.value) for name, item in pairs), row


def columns(text: str, *, origin: str = "") -> tuple[Column, ...]:
    """Columns as they stand in CREATE TABLE, with commas between them: physical, metadata and computed ones.

    Raises as :func:`expression` does, with every problem that is not one of syntax.
    """
    source = Source(text, origin)
    declared = _parsed(source, lambda cursor: cursor.listed(lambda: column_declaration(cursor)))
    errors: list[DefinitionError] = []
    found = _shallow(source, lambda: columns_of(declared, source, errors))
    if errors:
        raise combined(errors)
    return tuple(
        replace(each, type=each.type.with_nullability(False)) if given.primary_key else each
        for given, each in zip(declared, found, strict=True)
    )


def _parsed(source: Source, parse: Callable[[Cursor], _T]) -> _T:
    cursor = Cursor(source, scan(source, {}))

    def whole() -> _T:
        found = parse(cursor)
        cursor.expect_end()
        return found

    return _shallow(source, whole)


def _shallow(source: Source, work: Callable[[], _T]) -> _T:
    try:
        return work()
    except RecursionError:
        raise source.error(0, "the expression is nested too deeply", "split it") from None


def _typed(source: Source, at: int, value: Expression) -> Expression:
    if isinstance(value.type, NullType):
        raise source.error(at, "the type of NULL is not known here", "write CAST(NULL AS STRING)")
    return value
