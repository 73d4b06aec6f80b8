"""The postgres connector on Spark."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import TYPE_CHECKING

from penstock.connectors.postgres.spec import PostgresSinkSpec
from penstock.spi import Committer, Guarantee, JobContext, Output, StartContext

if TYPE_CHECKING:
    from penstock.connectors.postgres.address import Address


class PostgresRuntime:
    """Builds the committers of a job's postgres tables."""

    def check_sinks(self, outputs: Sequence[Output], context: StartContext) -> None:
        """Check the tables. Raises SchemaError with everything that is missing or does not fit, and DatabaseError."""
        from penstock.connectors.postgres.database import Database
        from penstock.connectors.postgres.tables import find_tables

        by_address: dict[Address, list[Output]] = {}
        for output in outputs:
            by_address.setdefault(output.spec.address, []).append(output)
        for address, tables in by_address.items():
            database = Database(address)
            try:
                with database.transaction() as transaction:
                    find_tables(transaction, tables)
            finally:
                database.close()

    def commit_group(self, spec: PostgresSinkSpec) -> Hashable:
        """Tables of a database that are written as one user and with one guarantee share a committer."""
        return spec.address, spec.guarantee

    def committer(self, outputs: Sequence[Output], context: JobContext) -> Committer:
        """The committer for ``outputs``, which share a database and a guarantee."""
        from penstock.connectors.postgres.at_least_once import AtLeastOnceCommitter
        from penstock.connectors.postgres.committer import PostgresCommitter
        from penstock.connectors.postgres.database import Database

        exactly_once = outputs[0].spec.guarantee is Guarantee.EXACTLY_ONCE
        committer = PostgresCommitter if exactly_once else AtLeastOnceCommitter
        return committer(outputs, context, Database(outputs[0].spec.address))
