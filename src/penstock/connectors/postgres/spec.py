"""How a table of a PostgreSQL database is written."""

from __future__ import annotations

from dataclasses import dataclass

from penstock.connectors.postgres.address import Address
from penstock.spi import INSERTIONS, AnySettings, Guarantee, SinkCapabilities
from penstock.types import RowType


@dataclass(frozen=True, kw_only=True)
class PostgresSinkSpec(AnySettings):
    """Inserts rows of ``schema`` into the table that ``table_name`` names as in SQL (``shop.orders``)."""

    table: str
    table_name: str
    schema: RowType
    guarantee: Guarantee
    address: Address

    @property
    def capabilities(self) -> SinkCapabilities:
        """Insertions only. The tables of a database are committed together."""
        return SinkCapabilities(kinds=INSERTIONS, guarantee=self.guarantee, commits_to=f"postgres at {self.address}")

    def describe(self) -> str:
        """A few lines for people. Secrets are left out."""
        user = f" as '{self.address.username}'" if self.address.username else ""
        return "\n".join((
            f"postgres sink '{self.table}'",
            f"  table: {self.table_name}",
            f"  database: {self.address}{user}",
            f"  guarantee: {self.guarantee.value}",
        ))  # fmt: skip
