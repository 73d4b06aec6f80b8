"""The databases of a trial: statements, and tables as texts."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from typing import Any

from adbc_driver_postgresql import dbapi

from penstock.connectors.postgres.address import parse_address
from penstock_testing.services.postgres import PostgresServer
from tests.capture.comparison import Content
from tests.capture.workload import SCHEMA, Transaction

__all__ = ["Database", "run", "run_transaction"]


@dataclass(frozen=True)
class Database:
    """A database of a server."""

    server: PostgresServer
    name: str

    @classmethod
    def create(cls, server: PostgresServer, name: str) -> Database:
        """A new, empty database."""
        with cls(server, "postgres").connect(autocommit=True) as connection:
            run(connection, f"CREATE DATABASE {name}")
        return cls(server, name)

    @property
    def url(self) -> str:
        """Its address."""
        return self.server.url.removesuffix("postgres") + self.name

    @contextmanager
    def connect(self, *, autocommit: bool = False) -> Iterator[Any]:
        """A connection that ends with the block."""
        address = parse_address(self.url, self.server.user, self.server.password)
        with closing(dbapi.connect(address.connection_string(), autocommit=autocommit)) as connection:
            yield connection

    def read_tables(self) -> dict[str, Content]:
        """The tables of the workload that there are."""
        with self.connect() as connection:
            sql = (
                "SELECT table_name::text, array_to_string(array_agg(column_name::text ORDER BY ordinal_position), ',') "
                f"FROM information_schema.columns WHERE table_schema = '{SCHEMA}' GROUP BY 1"
            )
            columns = {name: tuple(names.split(",")) for name, names in run(connection, sql)}
            return {
                name: Content(names, tuple(run(connection, _select_texts(name, names))))
                for name, names in sorted(columns.items())
            }


def _select_texts(table: str, names: tuple[str, ...]) -> str:
    columns = ", ".join(f'"{each}"::text' for each in names)
    return f"SELECT {columns} FROM {SCHEMA}.{table}"


def run(connection: Any, sql: str) -> list[tuple[Any, ...]]:
    """Run a statement; its rows."""
    with connection.cursor() as cursor:
        cursor.adbc_statement.set_options(**{"adbc.postgresql.use_copy": "false"})
        cursor.execute(sql)
        return [tuple(row) for row in cursor.fetchall()] if cursor.description else []


def run_transaction(connection: Any, transaction: Transaction) -> None:
    """Run all statements of a transaction at once."""
    body = ";\n".join(transaction.statements)
    run(connection, f"DO $workload$ BEGIN\n{body};\nEND $workload$")
    if transaction.commits:
        connection.commit()
    else:
        connection.rollback()
