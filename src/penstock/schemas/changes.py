"""The schema of a table, and the changes that turn one into the next.

The kinds of changes and their names are those of Flink CDC (``SchemaChangeEventType``).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import ClassVar

from penstock.errors import SchemaError
from penstock.types import DataType, Field, RowType


@dataclass(frozen=True)
class TableSchema:
    """The columns of a table. Those of the primary key are NOT NULL; ``options`` are sorted pairs for the table in a
    sink."""

    row: RowType
    primary_key: tuple[str, ...] = ()
    partition_keys: tuple[str, ...] = ()
    options: tuple[tuple[str, str], ...] = field(default=(), repr=False)  # may hold passwords
    comment: str = ""

    def with_fields(self, fields: Iterable[Field]) -> TableSchema:
        """The same table with these columns."""
        return replace(self, row=replace(self.row, fields=tuple(fields)))


@dataclass(frozen=True)
class SchemaChange:
    """A change of the schema of ``table``, a dotted id."""

    kind: ClassVar[str] = ""
    table: str


@dataclass(frozen=True)
class CreateTable(SchemaChange):
    """A table that was not known before."""

    kind: ClassVar[str] = "create.table"
    schema: TableSchema


@dataclass(frozen=True)
class NewColumn:
    """A column that is added behind the column ``after``: with "" as the first one, with None as the last."""

    field: Field
    after: str | None = None


@dataclass(frozen=True)
class AddColumns(SchemaChange):
    """New columns, in the order in which they are added."""

    kind: ClassVar[str] = "add.column"
    columns: tuple[NewColumn, ...]


@dataclass(frozen=True)
class AlterColumnTypes(SchemaChange):
    """The new types of columns, by name."""

    kind: ClassVar[str] = "alter.column.type"
    types: tuple[tuple[str, DataType], ...]


@dataclass(frozen=True)
class RenameColumns(SchemaChange):
    """The former and the new names of columns."""

    kind: ClassVar[str] = "rename.column"
    names: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class DropColumns(SchemaChange):
    """The names of columns that are gone."""

    kind: ClassVar[str] = "drop.column"
    names: tuple[str, ...]


@dataclass(frozen=True)
class DropTable(SchemaChange):
    """The table is gone."""

    kind: ClassVar[str] = "drop.table"


@dataclass(frozen=True)
class TruncateTable(SchemaChange):
    """All rows of the table are gone."""

    kind: ClassVar[str] = "truncate.table"


@dataclass(frozen=True)
class AlterTableComment(SchemaChange):
    """The new comment of the table."""

    kind: ClassVar[str] = "alter.table.comment"
    comment: str


#: The names of all kinds of changes.
KINDS = tuple(sorted(each.kind for each in SchemaChange.__subclasses__()))


def apply_change(schema: TableSchema | None, change: SchemaChange) -> TableSchema | None:
    """The schema after a change; None where there is no table.

    Raises SchemaError for a change that does not fit the schema: of a column or a table that does not exist, or of a
    column that exists already.
    """
    if isinstance(change, CreateTable):
        if schema is not None and schema != change.schema:
            raise SchemaError(f"table '{change.table}' exists already with other columns: {schema.row}")
        return change.schema
    if schema is None:
        raise SchemaError(f"{change.kind}: there is no table '{change.table}'")
    match change:
        case AddColumns(columns=columns):
            return schema.with_fields(_add(change.table, list(schema.row.fields), columns))
        case AlterColumnTypes(types=types):
            altered = dict(types)
            _check_columns(change, schema, altered)
            return schema.with_fields(
                replace(each, type=altered.get(each.name, each.type)) for each in schema.row.fields
            )
        case RenameColumns(names=names):
            return _rename(change, schema, dict(names))
        case DropColumns(names=dropped):
            _check_columns(change, schema, dropped)
            keyed = [name for name in dropped if name in schema.primary_key]
            if keyed:
                raise SchemaError(f"{change.kind}: column '{keyed[0]}' of '{change.table}' is in its primary key")
            return schema.with_fields(each for each in schema.row.fields if each.name not in dropped)
        case AlterTableComment(comment=comment):
            return replace(schema, comment=comment)
        case DropTable():
            return None
    return schema


def allow_null(field: Field) -> Field:
    """The same column, nullable."""
    return replace(field, type=field.type.with_nullability(True))


def _add(table: str, fields: list[Field], columns: Iterable[NewColumn]) -> list[Field]:
    for each in columns:
        names = [known.name for known in fields]
        if each.field.name in names:
            raise SchemaError(f"add.column: '{table}' has a column '{each.field.name}' already")
        if each.after is None:
            fields.append(each.field)
        elif not each.after:
            fields.insert(0, each.field)
        elif each.after in names:
            fields.insert(names.index(each.after) + 1, each.field)
        else:
            raise SchemaError(f"add.column: '{table}' has no column '{each.after}', behind which a column is added")
    return fields


def _rename(change: RenameColumns, schema: TableSchema, names: dict[str, str]) -> TableSchema:
    _check_columns(change, schema, names)
    renamed = schema.with_fields(replace(each, name=names.get(each.name, each.name)) for each in schema.row.fields)
    found = renamed.row.names
    if twice := [name for name in names.values() if found.count(name) > 1]:
        raise SchemaError(f"{change.kind}: '{change.table}' has a column '{twice[0]}' already")
    return replace(
        renamed,
        primary_key=tuple(names.get(each, each) for each in schema.primary_key),
        partition_keys=tuple(names.get(each, each) for each in schema.partition_keys),
    )


def _check_columns(change: SchemaChange, schema: TableSchema, names: Iterable[str]) -> None:
    """Raises SchemaError if the table lacks one of these columns."""
    for name in names:
        if schema.row.field(name) is None:
            columns = ", ".join(schema.row.names)
            raise SchemaError(f"{change.kind}: '{change.table}' has no column '{name}'; it has {columns}")
