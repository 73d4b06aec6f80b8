"""The ``blackhole`` connector."""

from __future__ import annotations

from collections.abc import Mapping

from penstock.connectors.blackhole.options import BlackholeOptions
from penstock.connectors.blackhole.sink import BlackholeSinkSpec
from penstock.errors import OptionsError
from penstock.options import OptionSet, unknown_keys
from penstock.spi import TableDefinition


class BlackholeConnector:
    """A sink for measuring: every row is computed and none is kept."""

    identifier = "blackhole"
    options: Mapping[str, type[OptionSet]] = {"Sink": BlackholeOptions}
    runtime = "penstock.connectors.blackhole.spark:BlackholeRuntime"

    def sink(self, table: TableDefinition) -> BlackholeSinkSpec:
        """What writing ``table`` means. Raises OptionsError for an unknown option."""
        problems = unknown_keys(table.options, {"connector", *BlackholeOptions.keys()}, (), table.origin)
        if problems:
            raise OptionsError(problems)
        return BlackholeSinkSpec(table=table.name, schema=table.written)
