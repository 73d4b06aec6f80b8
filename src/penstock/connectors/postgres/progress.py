"""The progress table: which batch of a job was committed last, and which run of the job may commit.

There is one row for each job and set of tables. The transaction that inserts a batch locks the row and writes it, so
that only one run at a time can be about to commit, and reads under the lock are definite. The row names the tables that
the batch was inserted into. By these a query finds its rows again when tables are added or removed, or are written as
another user.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass

from penstock.connectors.postgres.columns import quote_identifier
from penstock.connectors.postgres.database import Transaction
from penstock.delivery import Claim, Progress
from penstock.errors import CheckpointError

TABLE = "penstock_progress"

_COLUMNS = "job, run_id, owner, query_id, batch_id, start_position, end_position, tables, state"


def list_progress_schemas(transaction: Transaction) -> list[str]:
    """The schemas of the database that have a progress table."""
    sql = (
        "SELECT n.nspname::text FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace "
        "WHERE c.relname = $1 AND c.relkind IN ('r', 'p')"
    )
    return [namespace for (namespace,) in transaction.rows(sql, (TABLE,))]


@dataclass(frozen=True)
class ProgressRow:
    """A row: the run that owns it, and the last commit and its ``tables``. Without progress these are the tables that
    the first owner is going to write."""

    key: str
    owner: Claim
    progress: Progress | None
    tables: tuple[str, ...]


@dataclass(frozen=True)
class ProgressTable:
    """The progress table in the schema ``namespace``. A row has the key of a job and its tables."""

    namespace: str

    @property
    def _name(self) -> str:
        return f"{quote_identifier(self.namespace)}.{TABLE}"

    def create(self, transaction: Transaction) -> None:
        """Create the table if it is missing, for which the user needs the right."""
        ((exists,),) = transaction.rows("SELECT to_regclass($1) IS NOT NULL", (self._name,))
        if exists:
            # Tables of earlier versions lack a column.
            sql = "SELECT 1 FROM pg_attribute WHERE attrelid = to_regclass($1) AND attname = $2"
            for column in ("tables", "state"):
                if not transaction.rows(sql, (self._name, column)):
                    transaction.run(f"ALTER TABLE {self._name} ADD COLUMN IF NOT EXISTS {column} text")
            return
        # Two transactions that create a table at the same time fail in spite of IF NOT EXISTS.
        transaction.run("SELECT pg_advisory_xact_lock(hashtext($1))", (self._name,))
        transaction.run(
            f"CREATE TABLE IF NOT EXISTS {self._name} ("
            "job text PRIMARY KEY, run_id text NOT NULL, owner text NOT NULL, query_id text, batch_id bigint, "
            "start_position text, end_position text, tables text, state text, "
            "updated_at timestamptz NOT NULL DEFAULT now())"
        )

    def lock(self, transaction: Transaction, key: str) -> ProgressRow | None:
        """The row of ``key``, locked until the transaction ends. Waits for a former owner that is about to commit."""
        sql = f"SELECT {_COLUMNS} FROM {self._name} WHERE job = $1 FOR UPDATE"  # noqa: S608 - a quoted name
        return next(self._read(transaction, sql, key), None)

    def rows_of_query(self, transaction: Transaction, query_id: str) -> list[ProgressRow]:
        """All rows that a query has written."""
        sql = f"SELECT {_COLUMNS} FROM {self._name} WHERE query_id = $1 ORDER BY job"  # noqa: S608 - a quoted name
        return list(self._read(transaction, sql, query_id))

    def _read(self, transaction: Transaction, sql: str, parameter: str) -> Iterator[ProgressRow]:
        for key, run_id, owner, query_id, batch_id, start, end, tables, state in transaction.rows(sql, (parameter,)):
            try:
                claim = Claim(run_id, **json.loads(owner))
                committed = None
                if batch_id is not None:
                    committed = Progress(query_id, batch_id, json.loads(start), json.loads(end), state=state or "")
                yield ProgressRow(key, claim, committed, tuple(json.loads(tables or "[]")))
            except (ValueError, TypeError):
                reason = "was not written by penstock; check that nothing else writes to this table"
                raise CheckpointError(f"the row '{key}' of table {self._name} {reason}") from None

    def claim(self, transaction: Transaction, key: str, claim: Claim, query_id: str, tables: Sequence[str]) -> None:
        """Make ``claim`` the owner of a row. A new row is of this query and these tables."""
        owner = {name: value for name, value in asdict(claim).items() if name != "run_id"}
        transaction.run(
            f"INSERT INTO {self._name} (job, run_id, owner, query_id, tables) VALUES ($1, $2, $3, $4, $5) "  # noqa: S608
            "ON CONFLICT (job) DO UPDATE SET run_id = excluded.run_id, owner = excluded.owner, updated_at = now()",
            (key, claim.run_id, json.dumps(owner), query_id, json.dumps(list(tables))),
        )

    def record(self, transaction: Transaction, key: str, progress: Progress) -> None:
        """Write the batch that this transaction commits."""
        positions = [json.dumps(each, sort_keys=True, separators=(",", ":")) for each in (progress.start, progress.end)]
        transaction.run(
            f"UPDATE {self._name} SET query_id = $2, batch_id = $3, start_position = $4, end_position = $5, "  # noqa: S608
            "tables = $6, state = $7, updated_at = now() WHERE job = $1",
            (key, progress.query_id, progress.batch_id, *positions, json.dumps(list(progress.tables)), progress.state),
        )
