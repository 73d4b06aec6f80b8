"""Transactions on a PostgreSQL database through ADBC, with its errors translated."""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from typing import Any

import pyarrow as pa
from adbc_driver_manager import AdbcStatusCode, Error
from adbc_driver_postgresql import StatementOptions
from adbc_driver_postgresql.dbapi import Connection, connect

from penstock.connectors.postgres.address import Address
from penstock.deadline import Deadline
from penstock.errors import DatabaseError, DatabaseUnavailableError, PenstockError
from penstock.notices import Notice
from penstock.options import MASK

#: Classes of SQLSTATE after which a retry may succeed: connection, rollback (deadlock, serialization), resources,
#: object in use (lock time-out), operator intervention (shutdown, time-out).
_PASSING = frozenset({"08", "40", "53", "55", "57"})

#: What to do about some errors, by SQLSTATE.
_HINTS = {
    "23502": "a column of the table does not accept NULL: filter these rows, or give them a value",
    "23505": "the table already has this row: find out what wrote it, or filter these rows",
    "28P01": "check user and password",
    "42501": "grant the user the missing right",
    "42P01": "check 'table-name', and the user's search path",
}

#: After this idle time of a transaction the server rolls it back, which releases its locks.
_IDLE_MS = 60_000
#: The time-out of waits for locks, longer than that.
_LOCK_MS = 2 * _IDLE_MS

_PAUSE_SECONDS = 0.2
#: What to do about a server that does not answer.
_NO_ANSWER = "check the address, that no firewall is in between, and that the server runs"


#: Settings of each transaction, whatever the defaults of the user or the server: each statement sees the commits of
#: others, and a confirmed commit is not lost.
_ISOLATION = "SET TRANSACTION ISOLATION LEVEL READ COMMITTED"
_SETTINGS = (
    "SELECT set_config('idle_in_transaction_session_timeout', $1, true), set_config('lock_timeout', $2, true), "
    "CASE WHEN current_setting('synchronous_commit') = 'off' THEN set_config('synchronous_commit', 'on', true) END"
)


class CommitOutcomeError(DatabaseUnavailableError):
    """A COMMIT had no definite answer; its cause is the error that came instead. Internal: the caller finds out how the
    transaction ended."""


class Transaction:
    """An open transaction."""

    def __init__(self, address: Address, connection: Connection, failing: Callable[[Error, str], DatabaseError]):
        self.address = address
        self._connection = connection
        self._failing = failing

    def run(self, sql: str, parameters: Sequence[Any] = (), where: str = "") -> None:
        """Run one statement; parameters are ``$1`` and so on. Raises DatabaseError, naming ``where``."""
        self.rows(sql, parameters, where)

    def rows(self, sql: str, parameters: Sequence[Any] = (), where: str = "") -> list[tuple[Any, ...]]:
        """The rows of one statement. Raises DatabaseError, naming ``where``."""
        try:
            with self._connection.cursor() as cursor:
                # COPY, the driver's default, cannot run every statement.
                cursor.adbc_statement.set_options(**{StatementOptions.USE_COPY.value: "false"})
                cursor.execute(sql, tuple(parameters) or None)
                return [] if cursor.description is None else [tuple(row) for row in cursor.fetchall()]
        except Error as error:
            raise self._failing(error, where) from error

    def copy(self, schema: str | None, table: str, rows: pa.RecordBatch, where: str) -> None:
        """Append rows to a table by COPY, by the names of its columns; without ``schema`` to a temporary table.

        Raises DatabaseError, naming ``where``.
        """
        options = {"temporary": True} if schema is None else {"db_schema_name": schema}
        try:
            with self._connection.cursor() as cursor:
                cursor.adbc_ingest(table, rows, mode="append", **options)
        except Error as error:
            raise self._failing(error, where) from error


class Database:
    """A database at an address. Keeps connections for the next transactions of this process."""

    def __init__(self, address: Address):
        self.address = address
        self._idle: list[Connection] = []

    @contextmanager
    def transaction(
        self, *, patience: float = 0, giving_up: Callable[[], bool] = lambda: False, lock_ms: int = _LOCK_MS
    ) -> Iterator[Transaction]:
        """A transaction that is committed at the end of the block, and rolled back when the block raises.

        Tries to connect for ``patience`` seconds, unless ``giving_up`` returns true. Raises DatabaseError, and
        CommitOutcomeError when it is not known whether the transaction was committed.
        """
        connection = self._begin(patience, giving_up, lock_ms)
        try:
            yield Transaction(self.address, connection, self._translate_error)
            try:
                connection.commit()
            except Error as error:
                failure = self._translate_error(error, "committing")
                raise CommitOutcomeError(str(failure)) from failure
        except BaseException:
            _close(connection)
            raise
        self._idle.append(connection)

    def close(self) -> None:
        """Close the idle connections."""
        while self._idle:
            _close(self._idle.pop())

    def _begin(self, patience: float, giving_up: Callable[[], bool], lock_ms: int) -> Connection:
        """A connection with an open transaction. A kept connection may be dead, and is replaced."""
        while self._idle:
            with contextlib.suppress(IndexError, DatabaseUnavailableError):
                return self._set_up(self._idle.pop(), lock_ms)
        until = time.monotonic() + patience
        # The last attempt may begin at the end of the patience.
        deadline = Deadline.until(until + self.address.connect_seconds)
        failures: list[DatabaseUnavailableError] = []

        def news() -> str:
            reason = (
                str(failures[-1]).rstrip("?.")
                if failures
                else f"database {self.address}, connecting: no answer; {_NO_ANSWER}"
            )
            return f"{reason}. Trying {'on' if math.isinf(deadline.at) else f'for another {round(deadline.left)} s'}"

        with Notice(news, deadline):
            while True:
                try:
                    return self._set_up(self._connect(), lock_ms)
                except DatabaseUnavailableError as failure:
                    if time.monotonic() >= until or giving_up():
                        raise
                    failures.append(failure)
                time.sleep(_PAUSE_SECONDS)

    def _connect(self) -> Connection:
        """A new connection. Waits for an answer as long as the address says."""
        try:
            return connect(self.address.connection_string())
        except Error as error:
            raise self._translate_error(error, "connecting") from error

    def _set_up(self, connection: Connection, lock_ms: int) -> Connection:
        transaction = Transaction(self.address, connection, self._translate_error)
        try:
            transaction.run(_ISOLATION)
            transaction.run(_SETTINGS, (str(_IDLE_MS), str(lock_ms)))
        except PenstockError:
            _close(connection)
            raise
        return connection

    def _translate_error(self, error: Error, where: str) -> DatabaseError:
        """The driver's error as a DatabaseError."""
        state = error.sqlstate or ""
        details = {name: value.decode("utf-8", "replace") for name, value in error.details or ()}
        primary = details.get("PG_DIAG_MESSAGE_PRIMARY") or str(error).partition(": ")[2].removeprefix("[libpq] ")
        parts = [primary.strip(), details.get("PG_DIAG_MESSAGE_DETAIL", ""), state and f"SQLSTATE {state}"]
        text = "; ".join(" ".join(part.split()) for part in parts if part)
        text = f"database {self.address}{where and f', {where}'}: {text}"
        if state in _HINTS:
            text = f"{text} ({_HINTS[state]})"
        if self.address.password:
            text = text.replace(self.address.password, MASK)
        passing = state[:2] in _PASSING if state else error.status_code == AdbcStatusCode.IO
        return DatabaseUnavailableError(text) if passing else DatabaseError(text)


def _close(connection: Connection) -> None:
    with contextlib.suppress(Error):
        connection.close()


@cache
def database_at(address: Address) -> Database:
    """The database at ``address``, one object per process, so that connections are reused."""
    return Database(address)
