"""The ``blackhole`` connector: its options, its sink spec, and its factory."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from penstock.options import OptionSet
from penstock.spi import CHANGES, AnySettings, Guarantee, SinkCapabilities, TableDefinition
from penstock.types import RowType


@dataclass(frozen=True, kw_only=True)
class BlackholeOptions(OptionSet):
    """The connector has no options."""


@dataclass(frozen=True, kw_only=True)
class BlackholeSinkSpec(AnySettings):
    """Takes rows of ``schema`` and drops them."""

    table: str
    schema: RowType

    capabilities: ClassVar = SinkCapabilities(kinds=CHANGES, guarantee=Guarantee.NONE)

    def describe(self) -> str:
        """A human-readable description, one line."""
        return f"blackhole sink '{self.table}'"


class BlackholeConnector:
    """A sink for measurements: every row is computed and none is kept."""

    identifier = "blackhole"
    options: Mapping[str, type[OptionSet]] = {"Sink": BlackholeOptions}
    runtime = "penstock.connectors.blackhole.spark:BlackholeRuntime"

    def sink(self, table: TableDefinition) -> BlackholeSinkSpec:
        """How ``table`` is written. Raises OptionsError for an unknown option."""
        table.bind_options(BlackholeOptions)
        return BlackholeSinkSpec(table=table.name, schema=table.written)

    def tables_sink(self, table: TableDefinition) -> BlackholeSinkSpec:
        """How tables are written that are found while the job runs. Raises OptionsError for an unknown option."""
        return self.sink(table)
