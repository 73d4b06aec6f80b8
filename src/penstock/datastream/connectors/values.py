"""Streams of rows that are in this process, and sinks that keep rows in it. PyFlink has no counterpart."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from penstock.common import Row, TypeInformation
from penstock.connectors import values
from penstock.datastream.tables import built_table
from penstock.spi import TableDefinition


class ValuesSource:
    """A stream of these values, which ends with the last one. Values of rows may be tuples or Rows."""

    def __init__(self, elements: Iterable[Any], type_info: TypeInformation):
        self.type_info = type_info
        rows = ((each,) for each in elements) if type_info.single else elements
        self._options = {"connector": "values", "data-id": values.register(rows)}

    def table(self, name: str) -> TableDefinition:
        """The table that is read."""
        return built_table("source", name, self.type_info.row, self._options)


class ValuesSink:
    """Keeps the rows of a stream. :meth:`rows` returns them, during the job and after it."""

    def __init__(self) -> None:
        self._data_id = values.register(())

    def table(self, name: str, stream: TypeInformation, job_name: str) -> TableDefinition:
        """The table that is written."""
        return built_table("sink", name, stream.row, {"connector": "values", "data-id": self._data_id})

    def rows(self) -> list[Row]:
        """The rows so far."""
        return values.rows(self._data_id)
