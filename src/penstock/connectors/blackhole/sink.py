"""What writing to a blackhole means."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from penstock.errors import Problem
from penstock.settings import Settings
from penstock.spi import CHANGES, Guarantee, SinkCapabilities
from penstock.types import RowType


@dataclass(frozen=True, kw_only=True)
class BlackholeSinkSpec:
    """Takes rows of ``schema`` and drops them."""

    table: str
    schema: RowType

    capabilities: ClassVar = SinkCapabilities(kinds=CHANGES, guarantee=Guarantee.NONE)

    def problems(self, settings: Settings) -> tuple[Problem, ...]:
        """None: any settings will do."""
        return ()

    def describe(self) -> str:
        """One line for people."""
        return f"blackhole sink '{self.table}'"
