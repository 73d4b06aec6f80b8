"""Streams of rows that are in this process, and sinks that keep rows in it. PyFlink has no counterpart."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from penstock.common import Row, TypeInformation
from penstock.connectors import values
from penstock.datastream.connectors.base import Sink, Source
from penstock.datastream.tables import built_table
from penstock.datastream.values import rows_of
from penstock.spi import TableDefinition


class ValuesSource(Source):
    """A stream of these values, which ends with the last one. Values of rows may be tuples or Rows."""

    def __init__(self, elements: Iterable[Any], type_info: TypeInformation):
        self._type = type_info
        self._options = {"connector": "values", "data-id": values.register(rows_of(type_info, elements))}

    @property
    def type_info(self) -> TypeInformation:
        """The type of the values."""
        return self._type

    def table(self, name: str) -> TableDefinition:
        """The table that is read."""
        return built_table("source", name, self.type_info.row, self._options)


class ValuesSink(Sink):
    """Keeps the rows of a stream. :meth:`rows` returns them, during the job and after it. With ``repeats`` it may be
    used beside an exactly-once sink: rows of a batch that is retried are kept again."""

    def __init__(self, repeats: bool = False) -> None:
        self._data_id = values.register(())
        self._options = {"connector": "values", "data-id": self._data_id}
        if repeats:
            self._options["sink.delivery-guarantee"] = "at-least-once"

    def table(self, name: str, stream: TypeInformation, job_name: str) -> TableDefinition:
        """The table that is written."""
        return built_table("sink", name, stream.row, self._options)

    def rows(self) -> list[Row]:
        """The rows so far."""
        return values.rows(self._data_id)

    def forget(self) -> None:
        """Forget the rows."""
        values.forget(self._data_id)
