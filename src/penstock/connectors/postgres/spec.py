"""How a table of a PostgreSQL database is written."""

from __future__ import annotations

from dataclasses import dataclass

from penstock.connectors.postgres.address import Address
from penstock.spi import CHANGES, INSERTIONS, AnySettings, Guarantee, SinkCapabilities
from penstock.types import RowType


@dataclass(frozen=True, kw_only=True)
class PostgresSinkSpec(AnySettings):
    """Inserts rows of ``schema`` into the table that ``table_name`` names as in SQL (``shop.orders``). With
    ``upsert_keys``, the columns of PRIMARY KEY, a change replaces or deletes the row of its key.

    One with ``tables`` has no columns and no name: it stands for the tables that are found while the job runs. Such a
    table is made with ``wide`` types, or with those of its columns, and ``alters`` says whether a column may get
    another type later. ``connector`` is the name of the connector.
    """

    table: str
    table_name: str
    schema: RowType
    guarantee: Guarantee
    address: Address
    upsert_keys: tuple[str, ...] = ()
    tables: bool = False
    wide: bool = False
    alters: bool = True
    connector: str = "postgres"

    @property
    def capabilities(self) -> SinkCapabilities:
        """Insertions only without a key; tables that are found may have one. The tables of a database are committed
        together."""
        return SinkCapabilities(
            kinds=CHANGES if self.upsert_keys or self.tables else INSERTIONS,
            guarantee=self.guarantee,
            commits_to=f"{self.connector} at {self.address}",
            upsert_keys=self.upsert_keys,
            remedy="declare a PRIMARY KEY for the table, so that its rows can be updated and deleted",
        )

    def describe(self) -> str:
        """A human-readable description. Secrets are left out."""
        user = f" as '{self.address.username}'" if self.address.username else ""
        return "\n".join((
            f"{self.connector} sink '{self.table}'",
            f"  table: {'by their ids' if self.tables else self.table_name}",
            f"  database: {self.address}{user}",
            *([f"  key: {', '.join(self.upsert_keys)}"] if self.upsert_keys else []),
            f"  guarantee: {self.guarantee.value}",
        ))  # fmt: skip
