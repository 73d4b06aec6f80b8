"""SHOW and DESCRIBE: what they print, in the form of Flink's SQL client."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from unicodedata import east_asian_width

from penstock.plan.flink_sql import flink_sql
from penstock.spi import Column, ColumnKind
from penstock.sql.altering import key_name
from penstock.sql.bind.expressions.aggregates import FUNCTIONS
from penstock.sql.bind.expressions.scope import known_functions
from penstock.sql.bind.tables.definitions import ComputedColumn, DeclaredTable, is_proctime
from penstock.sql.catalogs import Space, TableEntry, ViewEntry
from penstock.sql.ddl import Definitions
from penstock.sql.parse.statements import CreateTable, CreateView, Describe, Pattern, Show
from penstock.sql.parse.syntax import Name, TableName
from penstock.types import Field, RowType, quote_name

_HEADS = {
    "TABLES": "table name",
    "VIEWS": "view name",
    "DATABASES": "database name",
    "CATALOGS": "catalog name",
    "FUNCTIONS": "function name",
    "USER FUNCTIONS": "function name",
    "MODULES": "module name",
    "FULL MODULES": "module name",
    "CURRENT CATALOG": "current catalog name",
    "CURRENT DATABASE": "current database name",
}


def table_text(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table with lines around it, and the number of its rows."""
    if not rows:
        return "Empty set"
    widths = [max(map(_width, column)) for column in zip(heads, *rows, strict=True)]
    line = "+".join(["", *("-" * (width + 2) for width in widths), ""])
    body = [
        "|".join(
            ["", *(f" {' ' * (width - _width(cell))}{cell} " for cell, width in zip(row, widths, strict=True)), ""]
        )
        for row in (heads, *rows)
    ]
    count = "1 row in set" if len(rows) == 1 else f"{len(rows)} rows in set"
    return "\n".join([line, body[0], line, *body[1:], line, count])


def _width(text: str) -> int:
    return sum(2 if east_asian_width(each) in "WF" else 1 for each in text)


def _matches(pattern: Pattern | None, name: str) -> bool:
    if pattern is None:
        return True
    wanted = "".join({"%": ".*", "_": "."}.get(each, re.escape(each)) for each in pattern.text)
    flags = re.DOTALL | (re.IGNORECASE if pattern.any_case else re.NOFLAG)
    return (re.fullmatch(wanted, name, flags) is not None) is not pattern.negated


@dataclass(frozen=True)
class Showing:
    """Prints what the catalogs of a file have. ``settings`` are the keys and values that SET has given."""

    definitions: Definitions
    settings: Sequence[tuple[str, str]]

    def show(self, statement: Show) -> str:
        """What SHOW prints, nothing for a table that has problems. Raises SqlError for a name that is not there."""
        match statement.what:
            case "SET":
                return table_text(("key", "value"), self.settings)
            case "COLUMNS":
                return self._show_columns(_table(statement.parts), statement.pattern)
            case "CREATE TABLE":
                return self._show_create_table(_table(statement.parts))
            case "CREATE VIEW":
                return self._show_create_view(_table(statement.parts))
            case "CREATE CATALOG" | "CATALOG":
                return self._show_catalog(statement.parts[0], create=statement.what != "CATALOG")
        names = [each for each in self._names(statement) if _matches(statement.pattern, each)]
        return table_text((_HEADS[statement.what],), [(each,) for each in names])

    def describe(self, statement: Describe) -> str:
        """What DESCRIBE prints."""
        return self._show_columns(statement.table, None)

    def _function_space(self, statement: Show) -> Space:
        return self.definitions.spaces.space(statement.parts) if statement.parts else self.definitions.catalogs.current

    def _names(self, statement: Show) -> list[str]:
        catalogs = self.definitions.catalogs
        catalog, database = catalogs.current
        match statement.what:
            case "TABLES" | "VIEWS":
                space = self.definitions.spaces.space(statement.parts) if statement.parts else catalogs.current
                views = statement.what == "VIEWS"
                return [
                    name for name, each in catalogs.entries(space).items() if isinstance(each, ViewEntry) or not views
                ]
            case "DATABASES":
                if statement.parts:
                    catalog = self.definitions.spaces.catalog(statement.parts[0])
                return sorted(catalogs.catalogs[catalog].databases)
            case "CATALOGS":
                return sorted(catalogs.catalogs)
            case "FUNCTIONS":
                own = self.definitions.functions.names(self._function_space(statement))
                return sorted({*(each.lower() for each in {*known_functions(), *FUNCTIONS}), *own})
            case "USER FUNCTIONS":
                return self.definitions.functions.names(self._function_space(statement))
            case "CURRENT CATALOG":
                return [catalog]
            case "CURRENT DATABASE":
                return [database]
            case "MODULES" | "FULL MODULES":
                return ["core"]
        return []

    # --- tables -----------------------------------------------------------------------------------------------

    def _show_columns(self, table: TableName, pattern: Pattern | None) -> str:
        entry = self.definitions.entry(table)
        if isinstance(entry, ViewEntry):
            found = self.definitions.view(table)
            rows = [] if found is None else _describe_schema(found)
            comments: dict[str, str] = {}
        elif entry.found is None:
            return ""
        else:
            rows = [_describe_column(each, entry.found) for each in entry.found.definition.columns]
            comments = {each.name.text: each.comment for each in entry.statement.columns if each.comment}
        heads: tuple[str, ...] = ("name", "type", "null", "key", "extras", "watermark")
        if comments:
            heads = (*heads, "comment")
            rows = [(*row, comments.get(row[0], "")) for row in rows]
        return table_text(heads, [row for row in rows if _matches(pattern, row[0])])

    def _show_create_table(self, table: TableName) -> str:
        entry = self.definitions.entry(table)
        if isinstance(entry, ViewEntry):
            source = self.definitions.source
            raise source.error(table.at, f"'{table.text}' is a view", "write SHOW CREATE VIEW")
        if entry.found is None:
            return ""
        path = self.definitions.path(table)
        return _write_create(entry, entry.found, path)

    def _show_create_view(self, table: TableName) -> str:
        entry, source = self.definitions.entry(table), self.definitions.source
        if isinstance(entry, TableEntry):
            raise source.error(table.at, f"'{table.text}' is a table", "write SHOW CREATE TABLE")
        found = self.definitions.view(table)
        names = [] if found is None else [f"  {quote_name(each)}" for each in found.names]
        head = f"CREATE {_write_temporary(entry.statement)}VIEW {_quote_path(self.definitions.path(table))}"
        said = f"\nCOMMENT {_quote_string(entry.statement.comment)}" if entry.statement.comment else ""
        query = source.text[entry.statement.query.at : entry.statement.end].rstrip()
        return f"{head} (\n{_join_lines(names)}\n){said}\nAS {query}"

    def _show_catalog(self, name: Name, *, create: bool) -> str:
        catalog = self.definitions.catalogs.catalogs[self.definitions.spaces.catalog(name)]
        if not create:
            type_ = catalog.options["type"].strip("'")
            rows = [("name", name.text), ("type", type_), ("comment", catalog.comment)]
            return table_text(("info name", "info value"), rows)
        said = f"COMMENT {_quote_string(catalog.comment)}\n" if catalog.comment else ""
        options = _join_lines([f"  '{key}' = {value}" for key, value in catalog.options.items()])
        return f"CREATE CATALOG {quote_name(name.text)}\n{said}WITH (\n{options}\n)"


def _table(parts: tuple[Name, ...]) -> TableName:
    *spaces, last = parts
    return TableName(last.text, parts[0].at, tuple(each.text for each in spaces))


def _describe_schema(schema: RowType) -> list[tuple[str, ...]]:
    return [
        (each.name, each.type.with_nullability(True).text(), str(each.type.nullable).upper(), "", "", "")
        for each in schema.fields
    ]


def _describe_column(column: Column, table: DeclaredTable) -> tuple[str, ...]:
    """The row of DESCRIBE for a column."""
    name, type_, key, extras, watermark = column.name, column.type.with_nullability(True).text(), "", "", ""
    if isinstance(column, ComputedColumn):
        extras = f"AS {_write_expression(column)}"
        if is_proctime(column.expression):
            type_ += " *PROCTIME*"
    elif column.kind is ColumnKind.METADATA:
        extras = _write_metadata(column)
    if name in table.definition.primary_key:
        key = f"PRI({', '.join(table.definition.primary_key)})"
    if table.watermark is not None and name == table.event_time:
        type_ += " *ROWTIME*"
        watermark = flink_sql(table.watermark)
    return name, type_, str(column.type.nullable).upper(), key, extras, watermark


def _write_metadata(column: Column) -> str:
    source = "" if column.key == column.name else f" FROM {_quote_string(column.key)}"
    return f"METADATA{source}{' VIRTUAL' if column.virtual else ''}"


def _write_expression(column: ComputedColumn) -> str:
    return flink_sql(column.expression)


# --- CREATE TABLE -------------------------------------------------------------------------------------------------


def _write_create(entry: TableEntry, table: DeclaredTable, path: Sequence[str]) -> str:
    statement = entry.statement
    said = {each.name.text: each.comment for each in statement.columns if each.comment}
    body = [f"  {_write_column(each, said.get(each.name, ''))}" for each in table.definition.columns]
    if table.watermark is not None:
        body.append(f"  WATERMARK FOR {quote_name(table.event_time)} AS {flink_sql(table.watermark)}")
    if table.definition.primary_key:
        name = quote_name(key_name(statement))
        body.append(f"  CONSTRAINT {name} PRIMARY KEY ({_names(table.definition.primary_key)}) NOT ENFORCED")
    lines = [f"CREATE {_write_temporary(statement)}TABLE {_quote_path(path)} (", _join_lines(body), ")"]
    if statement.comment:
        lines.append(f"COMMENT {_quote_string(statement.comment)}")
    if statement.partitioned_by:
        lines.append(f"PARTITIONED BY ({_names([each.text for each in statement.partitioned_by])})")
    options = [f"  {key.shown} = {value.shown}" for key, value in statement.options]
    return "\n".join([*lines, *(("WITH (", _join_lines(options), ")") if options else ())])


def _write_column(column: Column, comment: str) -> str:
    said = f" COMMENT {_quote_string(comment)}" if comment else ""
    if isinstance(column, ComputedColumn):
        return f"{quote_name(column.name)} AS {_write_expression(column)}{said}"
    more = f" {_write_metadata(column)}" if column.kind is ColumnKind.METADATA else ""
    return f"{Field(column.name, column.type)}{more}{said}"


def _write_temporary(statement: CreateTable | CreateView) -> str:
    return "TEMPORARY " if statement.temporary else ""


def _join_lines(texts: Sequence[str]) -> str:
    return ",\n".join(texts)


def _names(names: Sequence[str]) -> str:
    return ", ".join(quote_name(each) for each in names)


def _quote_path(path: Sequence[str]) -> str:
    return ".".join(quote_name(each) for each in path)


def _quote_string(text: str) -> str:
    escaped = text.replace("'", "''")
    return f"'{escaped}'"
