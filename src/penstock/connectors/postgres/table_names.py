"""The names in the database of tables that a pipeline finds, by their ids."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from penstock.connectors.postgres.columns import quote_identifier
from penstock.errors import Problem, SchemaError

#: The beginning of the names of penstock's own tables.
_OWN = ("penstock_progress", "penstock_stage_")
#: PostgreSQL cuts longer names, to this many bytes, and then two may become one.
_LONGEST = 63


@dataclass(frozen=True)
class TableName:
    """The name of a table. Without ``schema`` it is in the first schema of the user's search path."""

    schema: str
    name: str

    @classmethod
    def from_id(cls, table: str) -> TableName:
        """The last two parts of an id. The part before them is the name of a database, which the sink has of its
        own."""
        *_, schema, name = ("", *table.split("."))
        return cls(schema, name)

    def __str__(self) -> str:
        return ".".join(quote_identifier(each) for each in (self.schema, self.name) if each)

    def check(self, table: str, columns: Iterable[str] = ()) -> None:
        """Raises SchemaError for the name of the table of that id, or of a column, which it cannot have."""
        if problems := tuple(self._find_problems(f"table '{table}'", columns)):
            raise SchemaError(problems)

    def _find_problems(self, where: str, columns: Iterable[str]) -> Iterator[Problem]:
        hint = "give it another name in a 'route'"
        if not self.name:
            yield Problem("the last part of its id is empty", where=where, hint=hint)
        if self.schema.startswith("pg_") or self.schema == "information_schema":
            yield Problem(f"schema '{self.schema}' is the database's own", where=where, hint=hint)
        if self.name.startswith(_OWN):
            yield Problem("tables of this name are penstock's own", where=where, hint=hint)
        for each in (self.schema, self.name):
            if len(each.encode()) > _LONGEST:
                reason = f"'{each}' is longer than {_LONGEST} bytes, the most that a name may have in PostgreSQL"
                yield Problem(reason, where=where, hint=hint)
        for each in columns:
            if not 0 < len(each.encode()) <= _LONGEST:
                reason = f"a column's name has 1 to {_LONGEST} bytes in PostgreSQL"
                yield Problem(reason, each, where, "give the column another name in a 'transform'")
