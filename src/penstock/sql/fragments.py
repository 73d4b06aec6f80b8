"""Pieces of SQL in YAML, Python or a command: an expression, a select list, a condition, columns, tables."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import TypeVar

from penstock.plan.expressions import Expression
from penstock.plan.nodes import Item
from penstock.spi import Column
from penstock.sql.bind.expressions.dialect import FLINK_SQL, Dialect
from penstock.sql.bind.expressions.resolution import make_named_table
from penstock.sql.bind.expressions.scope import Scope
from penstock.sql.bind.expressions.selection import number_names, override_names, select
from penstock.sql.bind.expressions.visible_functions import NO_FUNCTIONS, UserFunctions
from penstock.sql.bind.tables.definitions import Declaration, bind_columns, check_storable, check_typed, make_not_null
from penstock.sql.parse.commands import split_statements
from penstock.sql.parse.definitions import column_declaration, parse_schema
from penstock.sql.parse.queries import QueryGrammar
from penstock.sql.parse.source import Errors, SourceText
from penstock.sql.parse.syntax import SelectItem, Unbound
from penstock.sql.parse.tokens import scan
from penstock.types import RowType

_T = TypeVar("_T")


@dataclass(frozen=True)
class TableSchema:
    """A table of CREATE TABLE: the parts of its id, its columns, and its primary key, whose columns are NOT NULL."""

    id: tuple[str, ...]
    columns: tuple[Column, ...]
    primary_key: tuple[str, ...] = ()


def parse_expression(text: str, schema: RowType, *, origin: str = "") -> Expression:
    """One Flink SQL expression over the columns of ``schema``.

    ``origin`` precedes line and column in errors. Raises SqlError, SchemaError or UnsupportedError.
    """
    scope = Scope(schema, SourceText(text, origin))
    given = _parse_whole(scope.source, QueryGrammar.expression)
    with scope.source.limit_nesting(0):
        return check_typed(scope.value(given), scope, given.at)


def parse_condition(
    text: str,
    schema: RowType,
    *,
    origin: str = "",
    user_functions: UserFunctions = NO_FUNCTIONS,
    dialect: Dialect = FLINK_SQL,
    metadata: RowType | None = None,
) -> Expression:
    """A condition over the columns of ``schema``, and of ``metadata`` beside them. Raises as :func:`parse_expression`
    does."""
    scope = _make_scope(SourceText(text, origin), schema, metadata, user_functions, dialect)
    given = _parse_condition(scope.source)
    with scope.source.limit_nesting(0):
        return scope.condition(given, "a condition")


def parse_projection(
    text: str,
    schema: RowType,
    *,
    origin: str = "",
    user_functions: UserFunctions = NO_FUNCTIONS,
    dialect: Dialect = FLINK_SQL,
    metadata: RowType | None = None,
) -> tuple[Item, ...]:
    """A select list such as ``a, b AS c, *``: the columns of a projection. A star leaves out the columns of
    ``metadata``.

    Raises as :func:`parse_expression` does, with every problem of the list.
    """
    scope = _make_scope(SourceText(text, origin), schema, metadata, user_functions, dialect)
    errors = Errors()
    items = _parse_items(scope.source)
    found = [each for each in select(items, scope, errors) if each is not None]
    for each in found:
        errors.attempt(partial(check_storable, each.value, scope, each.at))
    errors.check()
    return override_names(found) if dialect.transforms else number_names(found)


def _make_scope(
    source: SourceText, schema: RowType, metadata: RowType | None, user_functions: UserFunctions, dialect: Dialect
) -> Scope:
    tables = (make_named_table("", schema),)
    hidden = ((make_named_table("", metadata),),) if metadata is not None else ()
    return Scope(schema, source, tables=tables, outer=hidden, user_functions=user_functions, dialect=dialect)


def parse_table_columns(text: str, *, origin: str = "") -> tuple[Column, ...]:
    """Columns as in CREATE TABLE, separated by commas: physical, metadata and computed ones.

    Raises as :func:`parse_expression` does, with every problem that is not one of syntax.
    """
    source, errors = SourceText(text, origin), Errors()
    declarations = _parse_whole(source, lambda grammar: grammar.parse_list(partial(column_declaration, grammar)))
    with source.limit_nesting(0):
        found = bind_columns(declarations, source, errors)
    errors.check()
    return tuple(
        make_not_null(each) if given.primary_key else each for given, each in zip(declarations, found, strict=True)
    )


def parse_tables(text: str, *, origin: str = "") -> tuple[TableSchema, ...]:
    """The tables of ``CREATE TABLE db.t (id BIGINT, ...); ...``, which have no options.

    Raises as :func:`parse_expression` does, with every problem of the text.
    """
    source, errors = SourceText(text, origin), Errors()
    statements = split_statements(scan(source, {}))
    found = [errors.attempt(partial(_schema, QueryGrammar(source, tokens), errors)) for tokens in statements]
    errors.check()
    return tuple(each for each in found if each is not None)


def _schema(grammar: QueryGrammar, errors: Errors) -> TableSchema:
    source = grammar.source
    with source.limit_nesting(0):
        parts, statement = parse_schema(grammar)
        if statement.options:
            hint = "give its options to the source"
            errors.append(source.error(statement.options[0][0].at, "a table in a pipeline has no WITH clause", hint))
        for clause, names in (
            ("WATERMARK FOR", statement.watermark and statement.watermark[:1]),
            ("PARTITIONED BY", statement.partitioned_by),
        ):
            if names:
                reason = f"{clause} is not supported in a pipeline"
                errors.append(source.unsupported_feature(names[0].at, reason, "leave it out"))
        found, key = Declaration(statement, source, errors).bind_columns_and_key()
    return TableSchema(tuple(part.text for part in parts), found, key)


@lru_cache(maxsize=256)  # a rule of a pipeline is bound to each of its tables
def _parse_items(source: SourceText) -> tuple[SelectItem, ...]:
    return _parse_whole(source, QueryGrammar.items)


@lru_cache(maxsize=256)
def _parse_condition(source: SourceText) -> Unbound:
    return _parse_whole(source, QueryGrammar.expression)


def _parse_whole(source: SourceText, parse: Callable[[QueryGrammar], _T]) -> _T:
    """The result of ``parse``, which must read the whole text."""
    grammar = QueryGrammar(source, scan(source, {}))
    with source.limit_nesting(0):
        found = parse(grammar)
        grammar.expect_end()
        return found
