"""The progress table: which batch of a job was committed last, and which run of the job may commit.

One row for each job and set of tables. It is written in the transaction that inserts a batch, which first locks it, so
that only one run at a time can be about to commit, and so that a look at it under the lock is definite.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import Any

from penstock.connectors.postgres.columns import quoted
from penstock.connectors.postgres.database import Transaction
from penstock.errors import CheckpointError
from penstock.kafka.progress import Claim, Progress

__all__ = ["TABLE", "ProgressTable", "Row"]

TABLE = "penstock_progress"

_COLUMNS = "run_id, owner, query_id, batch_id, start_position, end_position"


@dataclass(frozen=True)
class Row:
    """The row of a job: the run that owns it, and what was committed last."""

    owner: Claim
    progress: Progress | None


@dataclass(frozen=True)
class ProgressTable:
    """The progress table in the schema ``namespace``, as the job with ``key`` sees it."""

    namespace: str
    key: str

    @property
    def _name(self) -> str:
        return f"{quoted(self.namespace)}.{TABLE}"

    def create(self, transaction: Transaction) -> None:
        """Create the table where it is missing. The right to do so is needed only then."""
        ((there,),) = transaction.rows("SELECT to_regclass($1) IS NOT NULL", (self._name,))
        if there:
            return
        # Two that create a table at the same time get in each other's way, in spite of IF NOT EXISTS.
        transaction.run("SELECT pg_advisory_xact_lock(hashtext($1))", (self._name,))
        transaction.run(
            f"CREATE TABLE IF NOT EXISTS {self._name} ("
            "job text PRIMARY KEY, run_id text NOT NULL, owner text NOT NULL, query_id text, batch_id bigint, "
            "start_position text, end_position text, updated_at timestamptz NOT NULL DEFAULT now())"
        )

    def locked(self, transaction: Transaction) -> Row | None:
        """The job's row, locked until the transaction ends. A former owner that is about to commit is waited for."""
        sql = f"SELECT {_COLUMNS} FROM {self._name} WHERE job = $1 FOR UPDATE"  # noqa: S608 - a quoted name
        for run_id, owner, query_id, batch_id, start, end in transaction.rows(sql, (self.key,)):
            try:
                claim = Claim(run_id, **json.loads(owner))
                read = None if query_id is None else Progress(query_id, batch_id, json.loads(start), json.loads(end))
            except (ValueError, TypeError):
                reason = "is none of penstock's; check that nothing else writes to this table"
                raise CheckpointError(f"the row of '{self.key}' in table {self._name} {reason}") from None
            return Row(claim, read)
        return None

    def own(self, transaction: Transaction, claim: Claim) -> None:
        """Make ``claim`` the owner, whoever was it before."""
        owner = {name: value for name, value in asdict(claim).items() if name != "run_id"}
        transaction.run(
            f"INSERT INTO {self._name} (job, run_id, owner) VALUES ($1, $2, $3) ON CONFLICT (job) DO UPDATE "  # noqa: S608
            "SET run_id = excluded.run_id, owner = excluded.owner, updated_at = now()",
            (self.key, claim.run_id, json.dumps(owner)),
        )

    def record(self, transaction: Transaction, progress: Progress) -> None:
        """Write what is committed with this transaction."""
        transaction.run(
            f"UPDATE {self._name} SET query_id = $2, batch_id = $3, start_position = $4, end_position = $5, "  # noqa: S608
            "updated_at = now() WHERE job = $1",
            (self.key, progress.query_id, progress.batch_id, _text(progress.start), _text(progress.end)),
        )


def _text(position: Any) -> str:
    return json.dumps(position, sort_keys=True, separators=(",", ":"))
