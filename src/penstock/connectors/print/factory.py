"""The ``print`` connector."""

from __future__ import annotations

from collections.abc import Mapping

from penstock.connectors.print.options import PrintOptions
from penstock.connectors.print.sink import PrintSinkSpec
from penstock.errors import OptionsError
from penstock.options import OptionSet, unknown_keys
from penstock.spi import TableDefinition


class PrintConnector:
    """A sink for looking at rows."""

    identifier = "print"
    options: Mapping[str, type[OptionSet]] = {"Sink": PrintOptions}
    runtime = "penstock.connectors.print.spark:PrintRuntime"

    def sink(self, table: TableDefinition) -> PrintSinkSpec:
        """What writing ``table`` means. Raises OptionsError with every problem found."""
        problems = unknown_keys(table.options, {"connector", *PrintOptions.keys()}, (), table.origin)
        try:
            options = PrintOptions.from_text(table.options, table.origin)
        except OptionsError as error:
            raise OptionsError((*problems, *error.problems)) from None
        if problems:
            raise OptionsError(problems)
        return PrintSinkSpec(table=table.name, options=options, schema=table.written)
