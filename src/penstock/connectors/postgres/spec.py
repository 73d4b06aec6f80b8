"""What writing to a table of a PostgreSQL database means."""

from __future__ import annotations

from dataclasses import dataclass

from penstock.connectors.postgres.address import Address
from penstock.errors import Problem
from penstock.settings import Settings
from penstock.spi import INSERTIONS, Guarantee, SinkCapabilities
from penstock.types import RowType


@dataclass(frozen=True, kw_only=True)
class PostgresSinkSpec:
    """Inserts rows of ``schema`` into the table that ``target`` names as SQL does (``shop.orders``)."""

    table: str
    target: str
    schema: RowType
    guarantee: Guarantee
    address: Address

    @property
    def capabilities(self) -> SinkCapabilities:
        """Insertions only. The tables of a database are committed together."""
        return SinkCapabilities(kinds=INSERTIONS, guarantee=self.guarantee, commits_to=f"postgres at {self.address}")

    def problems(self, settings: Settings) -> tuple[Problem, ...]:
        """None: any settings will do."""
        return ()

    def describe(self) -> str:
        """A few lines for people. Secrets are left out."""
        user = f" as '{self.address.username}'" if self.address.username else ""
        return "\n".join((
            f"postgres sink '{self.table}'",
            f"  table: {self.target}",
            f"  database: {self.address}{user}",
            f"  guarantee: {self.guarantee.value}",
        ))  # fmt: skip
