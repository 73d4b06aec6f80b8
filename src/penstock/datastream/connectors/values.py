"""Streams of rows that are in this process, and sinks that keep rows in it. PyFlink has no counterpart."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from penstock.common import Row, TypeInformation
from penstock.connectors import values
from penstock.options import Origin
from penstock.spi import Column, Surface, TableDefinition


class ValuesSource:
    """A stream of these values, which ends with the last one. Values of rows may be tuples or Rows."""

    def __init__(self, elements: Iterable[Any], type_info: TypeInformation):
        self.type_info = type_info
        rows = ((each,) for each in elements) if type_info.single else elements
        self._data_id = values.register(rows)

    def table(self, name: str) -> TableDefinition:
        """The table that is read."""
        options = {"connector": "values", "data-id": self._data_id}
        return TableDefinition(name, _columns(self.type_info), options, Origin(f"source '{name}'"), Surface.BUILDER)


class ValuesSink:
    """Keeps what a stream gives. :meth:`rows` gives it back, during the job and after it."""

    def __init__(self) -> None:
        self._data_id = values.register(())

    def table(self, name: str, stream: TypeInformation, job_name: str) -> TableDefinition:
        """The table that is written."""
        options = {"connector": "values", "data-id": self._data_id}
        return TableDefinition(name, _columns(stream), options, Origin(f"sink '{name}'"), Surface.BUILDER)

    def rows(self) -> list[Row]:
        """The rows so far."""
        return values.rows(self._data_id)


def _columns(type_info: TypeInformation) -> tuple[Column, ...]:
    return tuple(Column(each.name, each.type) for each in type_info.row.fields)
