"""CREATE TABLE .. AS: a statement with the columns of its query, and the INSERT INTO that follows it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from penstock.sql.bind.expressions.scope import NO_INTERVAL, UNTYPED_NULL
from penstock.sql.bind.expressions.selection import Selected, number_names
from penstock.sql.parse.source import Errors, SourceText
from penstock.sql.parse.statements import ColumnDeclaration, CreateTable, CreateTableAs, Insert, PrimaryKey
from penstock.sql.parse.syntax import Name
from penstock.types import NullType
from penstock.types.casts import has_interval


def with_columns(
    statement: CreateTableAs, selected: Sequence[Selected], key: Sequence[str], source: SourceText
) -> tuple[CreateTable, Insert]:
    """The statement without its query, whose columns are ``selected``, and how they are written. Its own columns come
    first; those that the query has too give their types. ``key`` is the primary key if it declares none. Raises
    DefinitionError with every problem of the columns."""
    created, errors = statement.created, Errors()
    names = [each.name for each in number_names(list(selected))]
    columns = {
        name: errors.attempt(partial(_make_declaration, replace(each, name=name), source))
        for name, each in zip(names, selected, strict=True)
    }
    errors.check()
    given = {name: each for name, each in columns.items() if each is not None}
    own = (
        _order_columns(statement.names, given, source)
        if statement.names
        else _merge_columns(created.columns, given, source)
    )
    primary_key = created.primary_key
    if key and primary_key is None and not any(each.primary_key for each in own):
        primary_key = PrimaryKey(tuple(given[name].name for name in key), "", statement.query.at)
    written = tuple(each.name for each in given.values())
    insert = Insert(statement.at, created.table, written, statement.query)
    return replace(created, columns=own, primary_key=primary_key), insert


def _make_declaration(column: Selected, source: SourceText) -> ColumnDeclaration:
    if isinstance(column.value.type, NullType):
        raise source.error(column.at, *UNTYPED_NULL)
    if has_interval(column.value.type):
        raise source.error(column.at, *NO_INTERVAL)
    return ColumnDeclaration(Name(column.name, column.at), column.value.type)


def _order_columns(
    names: tuple[Name, ...], given: dict[str, ColumnDeclaration], source: SourceText
) -> tuple[ColumnDeclaration, ...]:
    """The columns of the query in the order of these ``names``."""
    texts = [each.text for each in names]
    hint = f"name each column of the query once, in any order: {', '.join(given)}"
    for index, each in enumerate(names):
        if each.text not in given:
            raise source.schema_error(each.at, f"the query has no column '{each.text}'", hint)
        if each.text in texts[:index]:
            raise source.schema_error(each.at, f"column '{each.text}' is named twice", hint)
    lacking = [each for each in given if each not in texts]
    if lacking:
        raise source.schema_error(names[0].at, f"column '{lacking[0]}' of the query is not named", hint)
    return tuple(replace(given[each.text], name=each) for each in names)


def _merge_columns(
    columns: tuple[ColumnDeclaration, ...], given: dict[str, ColumnDeclaration], source: SourceText
) -> tuple[ColumnDeclaration, ...]:
    """A table's own ``columns``, and the columns of the query, whose types the own columns may give."""
    for each in columns:
        name = each.name.text
        if name in given and not each.physical:
            reason = f"the query also has a column '{name}', and this one is not a column of records"
            raise source.schema_error(each.name.at, reason, "rename one of them")
        if name not in given and each.type is not None and each.physical and not each.type.nullable:
            reason = f"column '{name}' is NOT NULL, and the query gives it no value"
            raise source.schema_error(each.name.at, reason, "select it too, or leave NOT NULL out")
    own = {each.name.text: each for each in columns}
    first = (each for each in columns if each.name.text not in given)
    return (*first, *(own.get(name, each) for name, each in given.items()))
