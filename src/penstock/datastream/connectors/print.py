"""The sink of ``DataStream.print``."""

from __future__ import annotations

from penstock.common import TypeInformation
from penstock.datastream.connectors.base import Sink
from penstock.datastream.tables import built_table
from penstock.spi import TableDefinition


class PrintTo(Sink):
    """Prints each value as a line, after an identifier if there is one."""

    def __init__(self, sink_identifier: str | None):
        self._identifier = sink_identifier

    def table(self, name: str, stream: TypeInformation, job_name: str) -> TableDefinition:
        """A ``print`` table of the stream's columns."""
        options = {"connector": "print"} | ({"print-identifier": self._identifier} if self._identifier else {})
        return built_table("sink", name, stream.row, options)
