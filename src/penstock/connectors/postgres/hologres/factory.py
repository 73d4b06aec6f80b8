"""The ``hologres`` connector: from a table definition to a sink."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from penstock.connectors.postgres.factory import build_sink, name_by_id, refuse_name
from penstock.connectors.postgres.hologres.options import HologresSinkOptions, TypeStrategy
from penstock.connectors.postgres.spec import PostgresSinkSpec
from penstock.options import OptionSet
from penstock.spi import TableDefinition

_TABLE_NAME = "tablename"


class HologresConnector:
    """The connector `postgres` with the options of Hologres, which speaks the same protocol. Types of columns are not
    changed; wider ones are chosen when a table is made. See [the guide](../postgres.md#hologres)."""

    identifier = "hologres"
    options: Mapping[str, type[OptionSet]] = {"Sink": HologresSinkOptions}
    runtime = "penstock.connectors.postgres.spark:PostgresRuntime"

    def sink(self, table: TableDefinition) -> PostgresSinkSpec:
        """How ``table`` is written. Raises OptionsError or UnsupportedError with every problem found."""
        options = name_by_id(table, _TABLE_NAME).bind_options(HologresSinkOptions)
        found = build_sink(table, options.table_name, options.guarantee, options.address, self.identifier)
        return replace(found, wide=options.strategy is TypeStrategy.BROADEN, alters=False)

    def tables_sink(self, table: TableDefinition) -> PostgresSinkSpec:
        """How tables with the options of ``table`` are written, which are found while the job runs. Raises OptionsError
        with every problem found."""
        refuse_name(table, _TABLE_NAME)
        return replace(self.sink(replace(table, columns=(), primary_key=())), tables=True)
