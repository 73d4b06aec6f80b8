"""The schema of a source, given as CREATE TABLE."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from penstock.errors import Problem, SchemaError
from penstock.ingest.tables import table_id
from penstock.types import RowType, parse_columns

__all__ = ["TableSchema", "parse_ddls"]

_CREATE = re.compile(
    r"\s*CREATE\s+(?:TEMPORARY\s+)?TABLE\s+(?:IF\s+NOT\s+EXISTS\s+)?(?P<name>[^\s(]+)\s*\((?P<columns>.*)\)\s*",
    re.IGNORECASE | re.DOTALL,
)
_KEY = re.compile(
    r"(?P<before>,?)\s*(?:CONSTRAINT\s+\S+\s+)?PRIMARY\s+KEY\s*\((?P<names>[^)]*)\)\s*(?:NOT\s+ENFORCED)?\s*(?P<after>,?)",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class TableSchema:
    """A table's id, its columns and its primary key, whose columns are NOT NULL."""

    id: tuple[str, ...]
    columns: RowType
    primary_key: tuple[str, ...] = ()


def parse_ddls(text: str) -> tuple[TableSchema, ...]:
    """The tables of ``CREATE TABLE db.t (id BIGINT, PRIMARY KEY (id) NOT ENFORCED); ...``. Raises SchemaError."""
    return tuple(_table(statement) for statement in text.split(";") if statement.strip())


def _table(statement: str) -> TableSchema:
    match = _CREATE.fullmatch(statement)
    if match is None:
        hint = "for example CREATE TABLE orders (id BIGINT, amount DOUBLE)"
        raise SchemaError((Problem(f"expected CREATE TABLE with columns only, not '{statement.strip()}'", hint=hint),))
    text, key = match["columns"], ()  # type: str, tuple[str, ...]
    found = _KEY.search(text)
    if found:
        key = tuple(name.strip().strip("`") for name in found["names"].split(","))
        between = "," if found["before"] and found["after"] else ""
        text = text[: found.start()] + between + text[found.end() :]
    columns = parse_columns(text)
    missing = [name for name in key if columns.field(name) is None]
    if missing:
        raise SchemaError((Problem(f"PRIMARY KEY names no column: {', '.join(missing)}"),))
    fields = tuple(
        replace(each, type=each.type.with_nullability(False)) if each.name in key else each for each in columns.fields
    )
    return TableSchema(table_id(match["name"]), replace(columns, fields=fields), key)
