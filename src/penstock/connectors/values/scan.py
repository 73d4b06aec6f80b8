"""How a ``values`` table is read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from penstock.connectors.values.options import ValuesSourceOptions
from penstock.errors import Problem
from penstock.settings import Settings
from penstock.spi import ScanCapabilities, SinkSpec
from penstock.types import RowType


@dataclass(frozen=True, kw_only=True)
class ValuesScanSpec:
    """Reads rows of ``schema``.

    ``data`` is an Arrow IPC stream of the rows, with their kinds in the column KIND: bytes are hashable, compared by
    value and pickled, as specs have to be.
    """

    table: str
    options: ValuesSourceOptions
    schema: RowType
    data: bytes = field(repr=False)

    @property
    def rows(self) -> pa.RecordBatch:
        """The rows and their kinds."""
        with pa.ipc.open_stream(self.data) as stream:
            return stream.read_next_batch()

    @property
    def capabilities(self) -> ScanCapabilities:
        """What the options say. Spark computes the rows before a sink takes them (``staged`` is False)."""
        return ScanCapabilities(kinds=self.options.kinds, bounded=self.options.bounded)

    def dead_letter_sink(self, others: Sequence[SinkSpec]) -> None:
        """None: rows are checked when the table is declared, so all of them can be read."""

    def problems(self, settings: Settings) -> tuple[Problem, ...]:
        """None: the table can be read with any settings."""
        return ()

    def describe(self) -> str:
        """A few lines for people."""
        end = "with the last row" if self.options.bounded else "never"
        return f"values scan '{self.table}'\n  rows: {self.rows.num_rows} of '{self.options.data_id}'\n  end: {end}"
