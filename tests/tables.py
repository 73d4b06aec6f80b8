"""The smallest specs that a plan takes, for tests that read and write nothing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from penstock.plan.nodes import Scan
from penstock.spi import CHANGES, INSERTIONS, AnySettings, Guarantee, ScanCapabilities, SinkCapabilities, SinkSpec
from penstock.types import RowType

FINITE = ScanCapabilities(kinds=INSERTIONS, bounded=True)
TAKES_ALL = SinkCapabilities(kinds=CHANGES, guarantee=Guarantee.NONE)


@dataclass(frozen=True)
class Read(AnySettings):
    """Reading a table of this name."""

    name: str
    capabilities: ScanCapabilities = FINITE

    def dead_letter_sink(self, others: Sequence[SinkSpec]) -> None:
        """None are kept."""

    def describe(self) -> str:
        """The name."""
        return f"scan '{self.name}'"


def given_rows(schema: RowType) -> Scan:
    """Rows of ``schema``, wherever they come from."""
    return Scan(schema, "given", "values", Read("given"))


@dataclass(frozen=True)
class Written(AnySettings):
    """Writing to a table of this name."""

    table: str
    schema: RowType
    capabilities: SinkCapabilities = TAKES_ALL

    def describe(self) -> str:
        """The name."""
        return f"sink '{self.table}'"
