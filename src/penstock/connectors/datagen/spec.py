"""How a ``datagen`` table is read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from penstock.connectors.datagen.generators import Generator
from penstock.connectors.datagen.options import DatagenOptions
from penstock.spi import INSERTIONS, AnySettings, ScanCapabilities, SinkSpec
from penstock.types import RowType


@dataclass(frozen=True, kw_only=True)
class DatagenScanSpec(AnySettings):
    """Makes rows of ``schema``, each column by one of the ``generators``. ``rows`` is their number; None: no end."""

    table: str
    options: DatagenOptions
    schema: RowType
    generators: tuple[Generator, ...]
    rows: int | None

    @property
    def capabilities(self) -> ScanCapabilities:
        """Rows are added only."""
        return ScanCapabilities(kinds=INSERTIONS, bounded=self.rows is not None)

    def dead_letter_sink(self, others: Sequence[SinkSpec]) -> None:
        """None: there is no record that could not be decoded."""

    def describe(self) -> str:
        """A human-readable description."""
        end = "never" if self.rows is None else f"with row {self.rows}"
        return f"datagen scan '{self.table}'\n  rate: {self.options.rows_per_second} rows a second\n  end: {end}"
