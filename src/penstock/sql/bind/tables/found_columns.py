"""Tables that declare no columns, and have those that their records show."""

from __future__ import annotations

from dataclasses import replace
from typing import Protocol

from penstock.schemas import FoundColumns
from penstock.settings import Settings
from penstock.spi import Column, TableDefinition
from penstock.sql.bind.tables.definitions import DeclaredTable
from penstock.sql.parse.syntax import TableName

#: Options that say how columns are found, which a table with columns does not have.
_OF_FINDING = ("json.infer-schema.", "max.fetch.records")


class FindsColumns(Protocol):
    """Finds the columns of tables that declare none."""

    def __call__(self, table: TableDefinition, job: str, settings: Settings) -> FoundColumns | None:
        """The columns of a table that the job of this name reads; None for a table whose columns cannot be found.
        Raises DefinitionError for a table whose records cannot be read, or show no columns."""


class FoundTables(Protocol):
    """The tables of a file whose columns are found."""

    def of_catalog(self, table: TableName) -> DeclaredTable | None:
        """The table of a catalog that is not declared, without its columns; None if there is none."""

    def complete(self, table: DeclaredTable, name: TableName) -> DeclaredTable:
        """The table with the columns that its records have, if it declares none. Raises DefinitionError."""


def with_found_columns(table: DeclaredTable, found: FoundColumns) -> DeclaredTable:
    """The table with the columns of its records after those that it declares."""
    definition = table.definition
    columns = tuple(Column(each.name, each.type) for each in found.row.fields)
    options = {key: each for key, each in definition.options.items() if not key.startswith(_OF_FINDING)}
    if found.keys:
        options |= {"key.fields": ";".join(found.keys), "value.fields-include": "EXCEPT_KEY"}
    elif "key.fields" not in options:
        options = {key: each for key, each in options.items() if not key.startswith("key.")}
    made = replace(definition, columns=(*definition.columns, *columns), options=options)
    return replace(table, definition=made, found=found)
