"""What is the same for all parts of a query while it is bound."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from penstock.sql.bind.names import NamedTable
from penstock.sql.bind.scope import Scope
from penstock.sql.parse.source import Errors, SourceText
from penstock.types import RowType


@dataclass(frozen=True)
class Context:
    """The text of a query, the errors that its problems are added to, the current ``database``, and the tables of the
    queries ``around`` it."""

    source: SourceText
    errors: Errors
    database: str
    around: tuple[NamedTable, ...] = ()

    def scope(self, schema: RowType, tables: Sequence[NamedTable], clause: str) -> Scope:
        """Binds the expressions of a ``clause`` to the columns of ``schema``, by the names that the ``tables`` give;
        the columns of the queries around may not be used."""
        return Scope(
            schema, self.source, tables=tuple(tables), clause=clause, database=self.database, around=self.around
        )
