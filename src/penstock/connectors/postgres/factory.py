"""The ``postgres`` connector: from a table definition to a sink."""

from __future__ import annotations

from collections.abc import Mapping

from penstock.connectors.postgres.columns import choose_stage_type
from penstock.connectors.postgres.options import PostgresSinkOptions
from penstock.connectors.postgres.spec import PostgresSinkSpec
from penstock.errors import Problem, UnsupportedError
from penstock.options import OptionSet
from penstock.spi import ColumnKind, TableDefinition


class PostgresConnector:
    """A sink that writes to an existing table of a PostgreSQL database; it cannot be read. With a PRIMARY KEY it takes
    changes, and inserts, updates and deletes rows by key; without one it inserts. See [the guide](../postgres.md)."""

    identifier = "postgres"
    options: Mapping[str, type[OptionSet]] = {"Sink": PostgresSinkOptions}
    runtime = "penstock.connectors.postgres.spark:PostgresRuntime"

    def sink(self, table: TableDefinition) -> PostgresSinkSpec:
        """How ``table`` is written. Raises OptionsError or UnsupportedError with every problem found."""
        options = table.bind_options(PostgresSinkOptions)
        unsupported = tuple(_find_unsupported(table))
        if unsupported:
            raise UnsupportedError(unsupported)
        return PostgresSinkSpec(
            table=table.name,
            table_name=options.table_name.strip(),
            schema=table.written,
            guarantee=options.guarantee,
            address=options.address,
            upsert_keys=table.primary_key,
        )


def _find_unsupported(table: TableDefinition) -> list[Problem]:
    where = f"table '{table.name}'"
    problems = []
    for column in table.columns:
        if column.kind is ColumnKind.METADATA:
            reason = f"column '{column.name}': connector 'postgres' has no metadata columns"
            problems.append(Problem(reason, where=where, hint="declare it without METADATA"))
        elif column.kind is ColumnKind.PHYSICAL and choose_stage_type(column.type) is None:
            reason = f"column '{column.name}': PostgreSQL has no type for {column.type} that can be written"
            hint = "select the parts that you need, or convert it to text, for example with JSON functions"
            problems.append(Problem(reason, where=where, hint=hint))
    return problems
