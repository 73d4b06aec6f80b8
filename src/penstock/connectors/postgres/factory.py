"""The ``postgres`` connector: from a table definition to a sink."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from penstock.connectors.postgres.address import Address
from penstock.connectors.postgres.columns import choose_stage_type
from penstock.connectors.postgres.options import PostgresSinkOptions
from penstock.connectors.postgres.spec import PostgresSinkSpec
from penstock.connectors.postgres.table_names import TableName
from penstock.errors import OptionsError, Problem, UnsupportedError
from penstock.options import OptionSet
from penstock.spi import ColumnKind, Guarantee, Surface, TableDefinition


class PostgresConnector:
    """A sink that writes to an existing table of a PostgreSQL database; it cannot be read. With a PRIMARY KEY it takes
    changes, and inserts, updates and deletes rows by key; without one it inserts. Pipelines make their tables, and
    change them. See [the guide](../postgres.md)."""

    identifier = "postgres"
    options: Mapping[str, type[OptionSet]] = {"Sink": PostgresSinkOptions}
    runtime = "penstock.connectors.postgres.spark:PostgresRuntime"

    def sink(self, table: TableDefinition) -> PostgresSinkSpec:
        """How ``table`` is written. Raises OptionsError or UnsupportedError with every problem found."""
        options = name_by_id(table, TABLE_NAME).bind_options(PostgresSinkOptions)
        return build_sink(table, options.table_name, options.guarantee, options.address)

    def tables_sink(self, table: TableDefinition) -> PostgresSinkSpec:
        """How tables with the options of ``table`` are written, which are found while the job runs. Raises OptionsError
        with every problem found."""
        refuse_name(table, TABLE_NAME)
        return replace(self.sink(replace(table, columns=(), primary_key=())), tables=True)


#: The option that names the table of the database.
TABLE_NAME = "table-name"


def name_by_id(table: TableDefinition, option: str) -> TableDefinition:
    """The definition with the ``option`` that names the table in the database. In YAML it may be left out: then the id
    of the table is its name."""
    if table.surface is not Surface.YAML:
        return table
    return replace(table, options={option: str(TableName.from_id(table.name)), **table.options})


def refuse_name(table: TableDefinition, option: str) -> None:
    """Raises OptionsError for the name of one table, where the job finds its tables."""
    if option in table.options:
        reason = "names one table, and each table of this pipeline is written to the one of its id"
        hint = "leave it out; a 'route' gives tables other names"
        raise OptionsError((Problem(reason, option, table.origin.locate(option), hint),))


def build_sink(
    table: TableDefinition, table_name: str, guarantee: Guarantee, address: Address, connector: str = "postgres"
) -> PostgresSinkSpec:
    """How ``table`` is written to the one that ``table_name`` names. Raises UnsupportedError with every problem
    found."""
    unsupported = tuple(_find_unsupported(table, connector))
    if unsupported:
        raise UnsupportedError(unsupported)
    return PostgresSinkSpec(
        table=table.name,
        table_name=table_name.strip(),
        schema=table.written,
        guarantee=guarantee,
        address=address,
        upsert_keys=table.primary_key,
        connector=connector,
    )


def _find_unsupported(table: TableDefinition, connector: str) -> list[Problem]:
    where = f"table '{table.name}'"
    problems = []
    for column in table.columns:
        if column.kind is ColumnKind.METADATA:
            reason = f"column '{column.name}': connector '{connector}' has no metadata columns"
            problems.append(Problem(reason, where=where, hint="declare it without METADATA"))
        elif column.kind is ColumnKind.PHYSICAL and choose_stage_type(column.type) is None:
            reason = f"column '{column.name}': PostgreSQL has no type for {column.type} that can be written"
            hint = "select the parts that you need, or convert it to text, for example with JSON functions"
            problems.append(Problem(reason, where=where, hint=hint))
    return problems
