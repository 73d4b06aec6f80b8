"""The statements by which a table of the database follows the changes of its schema.

Each of them may have been carried out before: a run that ended in between makes them again.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from penstock.connectors.postgres.column_types import choose_column_type, holds
from penstock.connectors.postgres.columns import TableColumn, find_column, quote_identifier
from penstock.connectors.postgres.database import Transaction
from penstock.connectors.postgres.spec import PostgresSinkSpec
from penstock.connectors.postgres.table_names import TableName
from penstock.connectors.postgres.tables import describe_place, list_columns
from penstock.errors import Problem, SchemaError
from penstock.schemas import (
    AddColumns,
    AlterColumnTypes,
    AlterTableComment,
    CreateTable,
    DropColumns,
    DropTable,
    RenameColumns,
    SchemaChange,
    TableSchema,
    TruncateTable,
)
from penstock.spi import Output
from penstock.types import DataType, Field


def create_schema(transaction: Transaction, schema: str) -> None:
    """Make a schema that is missing, for which the user needs the right."""
    sql = "SELECT 1 FROM pg_namespace WHERE nspname = $1"
    if transaction.rows(sql, (schema,)):
        return
    # Two transactions that create a schema at the same time fail in spite of IF NOT EXISTS.
    transaction.run("SELECT pg_advisory_xact_lock(hashtext($1))", (quote_identifier(schema),))
    transaction.run(f"CREATE SCHEMA IF NOT EXISTS {quote_identifier(schema)}", where=f"schema '{schema}'")


@dataclass(frozen=True)
class TableDefinitions:
    """Has one table follow its changes in a transaction. ``output`` has the quoted ``name`` and is how the table is
    written after the changes."""

    transaction: Transaction
    output: Output
    name: TableName

    def follow(self, changes: Sequence[SchemaChange]) -> None:
        """Carry out changes. Raises SchemaError for one that the table cannot follow, and DatabaseError."""
        for each in changes:
            self._follow(each)

    def _follow(self, change: SchemaChange) -> None:
        match change:
            case CreateTable(schema=schema):
                self._create(schema)
            case AddColumns(columns=columns):
                self._add(each.field for each in columns)
            case AlterColumnTypes(types=types):
                for name, logical in types:
                    self._alter(name, logical)
            case RenameColumns(names=names):
                for old, new in names:
                    self._rename(old, new)
            case DropColumns(names=dropped):
                for name in dropped:
                    self._run(f"ALTER TABLE IF EXISTS {self.name} DROP COLUMN IF EXISTS {quote_identifier(name)}")
            case AlterTableComment(comment=comment):
                self._comment("TABLE", str(self.name), comment)
            case DropTable():
                self._run(f"DROP TABLE IF EXISTS {self.name}")
            case TruncateTable():
                if self._find_columns() is not None:
                    self._run(f"TRUNCATE {self.name}")

    def _create(self, schema: TableSchema) -> None:
        """Make the table, or add what one that is there already lacks."""
        # Two transactions that create a table at the same time fail in spite of IF NOT EXISTS.
        self.transaction.run("SELECT pg_advisory_xact_lock(hashtext($1))", (str(self.name),))
        if self._find_columns() is not None:
            self._add(schema.row.fields)
            return
        parts = [
            f"{quote_identifier(each.name)} {self._choose_type(each)}{'' if each.type.nullable else ' NOT NULL'}"
            for each in schema.row.fields
        ]
        if schema.primary_key:
            parts.append(f"PRIMARY KEY ({', '.join(map(quote_identifier, schema.primary_key))})")
        self._run(f"CREATE TABLE IF NOT EXISTS {self.name} ({', '.join(parts)})")
        if schema.comment:
            self._comment("TABLE", str(self.name), schema.comment)
        for each in schema.row.fields:
            if each.comment:
                self._comment("COLUMN", f"{self.name}.{quote_identifier(each.name)}", each.comment)

    def _add(self, fields: Iterable[Field]) -> None:
        """Add columns that the table lacks. Its rows have no values for them, so they are nullable."""
        found = self._find_columns() or {}
        for each in fields:
            if self._find(each.name, found) is None:
                column = f"{quote_identifier(each.name)} {self._choose_type(each)}"
                self._run(f"ALTER TABLE {self.name} ADD COLUMN IF NOT EXISTS {column}")

    def _alter(self, name: str, logical: DataType) -> None:
        """Have a column hold the values of another type."""
        column = self._find(name, self._find_columns() or {})
        if column is None:  # told when the table is compared
            return
        alter = f"ALTER TABLE {self.name} ALTER COLUMN {quote_identifier(column.name)}"
        spec: PostgresSinkSpec = self.output.spec
        if column.required and logical.nullable and name not in spec.upsert_keys:
            self._run(f"{alter} DROP NOT NULL", column.name)
        if holds(column, logical):
            return
        wanted = self._choose_type(Field(name, logical))
        if not spec.alters:
            reason = (
                f"the column is {column.type}, which does not hold {logical}, and {spec.connector} changes no types"
            )
            hint = f"make a new column for it in a 'transform', or make the table again with a column of type {wanted}"
            if not spec.wide:
                hint += "; with 'sink.type-normalize-strategy: BROADEN' new tables get wider types"
            raise SchemaError((Problem(reason, name, describe_place(self.output), hint),))
        self._run(f"{alter} TYPE {wanted} USING {quote_identifier(column.name)}::{wanted}", column.name)

    def _rename(self, old: str, new: str) -> None:
        found = self._find_columns() or {}
        if old in found and new not in found:
            names = f"{quote_identifier(old)} TO {quote_identifier(new)}"
            self._run(f"ALTER TABLE {self.name} RENAME COLUMN {names}", old)

    def _comment(self, kind: str, name: str, comment: str) -> None:
        text = comment.replace("'", "''")
        self._run(f"COMMENT ON {kind} {name} IS E'{text.replace(chr(92), chr(92) * 2)}'")

    def _choose_type(self, field: Field) -> str:
        """The type of a new column. Raises SchemaError for a type that PostgreSQL does not have."""
        found = choose_column_type(field.type, wide=self.output.spec.wide)
        if found is None:
            reason = f"PostgreSQL has no type for {field.type} that can be written"
            hint = "convert it to text in a 'transform', or leave it out"
            raise SchemaError((Problem(reason, field.name, describe_place(self.output), hint),))
        return found

    def _find(self, name: str, found: dict[str, TableColumn]) -> TableColumn | None:
        """The column that a column of the schema is written to. One whose name is in lower case is another one, if the
        schema has that too."""
        if name.lower() != name and name.lower() in self.output.schema.names:
            return found.get(name)
        return find_column(name, found)

    def _find_columns(self) -> dict[str, TableColumn] | None:
        return list_columns(self.transaction, str(self.name))

    def _run(self, sql: str, column: str = "") -> None:
        self.transaction.run(sql, where=f"table '{self.output.table}'{column and f', column {column!r}'}")
