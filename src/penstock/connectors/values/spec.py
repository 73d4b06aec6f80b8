"""How a ``values`` table is read and written."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from penstock.connectors.values.options import ValuesSinkOptions, ValuesSourceOptions
from penstock.spi import CHANGES, INSERTIONS, AnySettings, ScanCapabilities, SinkCapabilities, SinkSpec
from penstock.types import RowKind, RowType


@dataclass(frozen=True, kw_only=True)
class ValuesScanSpec(AnySettings):
    """Reads rows of ``schema``.

    ``data`` is an Arrow IPC stream of the rows, with their kinds in the column KIND: bytes can be hashed, compared by
    value and pickled, as specs must. Rows that are not ``counted`` are the query's own, not records of a table.
    """

    table: str
    options: ValuesSourceOptions
    schema: RowType
    data: bytes = field(repr=False)
    counted: bool = True
    primary_key: tuple[str, ...] = ()

    @property
    def rows(self) -> pa.RecordBatch:
        """The rows and their kinds."""
        with pa.ipc.open_stream(self.data) as stream:
            return stream.read_next_batch()

    @property
    def capabilities(self) -> ScanCapabilities:
        """What the options say: with rows after an update and without those before, a row replaces the one of its key.
        Spark computes the rows before a sink takes them (``staged`` is False)."""
        kinds = self.options.kinds
        upserts = RowKind.UPDATE_AFTER in kinds and RowKind.UPDATE_BEFORE not in kinds
        return ScanCapabilities(
            kinds=kinds, bounded=self.options.bounded, upsert_keys=self.primary_key if upserts else ()
        )

    def dead_letter_sink(self, others: Sequence[SinkSpec]) -> None:
        """None: rows are checked when the table is declared, so all of them can be read."""

    def describe(self) -> str:
        """A human-readable description."""
        end = "with the last row" if self.options.bounded else "never"
        return f"values scan '{self.table}'\n  rows: {self.rows.num_rows} of '{self.options.data_id}'\n  end: {end}"


@dataclass(frozen=True, kw_only=True)
class ValuesSinkSpec(AnySettings):
    """Adds rows of ``schema`` to those that the process keeps under :attr:`data_id`."""

    table: str
    options: ValuesSinkOptions
    schema: RowType

    @property
    def data_id(self) -> str:
        """The id of the rows."""
        return self.options.data_id or self.table

    @property
    def capabilities(self) -> SinkCapabilities:
        """No guarantee, unless the table agrees that the rows of a retried batch may be added again. Nothing is
        committed: the rows end with the process."""
        kinds = INSERTIONS if self.options.insert_only else CHANGES
        return SinkCapabilities(kinds=kinds, guarantee=self.options.guarantee)

    def describe(self) -> str:
        """A human-readable description, one line."""
        return f"values sink '{self.table}' to '{self.data_id}'"
