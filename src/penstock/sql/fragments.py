"""Pieces of SQL in YAML, Python or a command: an expression, a select list, a condition, columns, tables."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import TypeVar

from penstock.errors import DefinitionError, Problem, UnsupportedError
from penstock.plan import Item
from penstock.plan.expressions import Expression
from penstock.spi import Column
from penstock.sql.bind.scope import Scope
from penstock.sql.bind.selection import select, unique
from penstock.sql.bind.tables import columns_of, declared
from penstock.sql.parse.cursor import Cursor
from penstock.sql.parse.grammar import Grammar
from penstock.sql.parse.source import Source, combined
from penstock.sql.parse.statements import column_declaration, parse_schema, statements_of
from penstock.sql.parse.tokens import scan
from penstock.types import Field, NullType, RowType

_T = TypeVar("_T")


@dataclass(frozen=True)
class TableSchema:
    """A table of CREATE TABLE: the parts of its id, its columns, and its primary key, whose columns are NOT NULL."""

    id: tuple[str, ...]
    columns: tuple[Column, ...]
    primary_key: tuple[str, ...] = ()


def expression(text: str, schema: RowType, *, origin: str = "") -> Expression:
    """One Flink SQL expression over the columns of ``schema``.

    ``origin`` precedes line and column in errors. Raises SqlError, SchemaError or UnsupportedError.
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
    """Columns as in CREATE TABLE, separated by commas: physical, metadata and computed ones.

    Raises as :func:`expression` does, with every problem that is not one of syntax.
    """
    source = Source(text, origin)
    declarations = _parsed(source, lambda cursor: cursor.listed(lambda: column_declaration(cursor)))
    errors: list[DefinitionError] = []
    found = _shallow(source, lambda: columns_of(declarations, source, errors))
    if errors:
        raise combined(errors)
    return tuple(
        replace(each, type=each.type.with_nullability(False)) if given.primary_key else each
        for given, each in zip(declarations, found, strict=True)
    )


def tables(text: str, *, origin: str = "") -> tuple[TableSchema, ...]:
    """The tables of ``CREATE TABLE db.t (id BIGINT, ...); ...``, which have no options of their own.

    Raises as :func:`expression` does, with every problem of the text.
    """
    source = Source(text, origin)
    errors: list[DefinitionError] = []
    found = []
    for tokens in statements_of(scan(source, {})):
        cursor = Cursor(source, tokens)
        try:
            found.append(_shallow(source, partial(_schema, cursor, errors)))
        except DefinitionError as error:
            errors.append(error)
    if errors:
        raise combined(errors)
    return tuple(found)


def _schema(cursor: Cursor, errors: list[DefinitionError]) -> TableSchema:
    parts, statement = parse_schema(cursor)
    source = cursor.source
    if statement.options:
        hint = "write its options as those of the source"
        errors.append(source.error(statement.options[0][0].at, "a table in a pipeline has no WITH clause", hint))
    for what, name in (
        ("WATERMARK FOR", statement.watermark and statement.watermark[0]),
        ("PARTITIONED BY", statement.partitioned_by and statement.partitioned_by[0]),
    ):
        if name:
            reason = f"{what} is not supported in a pipeline"
            errors.append(UnsupportedError((Problem(reason, where=source.place(name.at), hint="leave it out"),)))
    columns, key = declared(statement, source, errors)
    return TableSchema(tuple(part.text for part in parts), columns, key)


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
