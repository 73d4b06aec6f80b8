"""Tables that the definition of a pipeline declares: the columns that they begin with."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from penstock.ingest.transforms import DerivedColumns
from penstock.schemas import TableSchema
from penstock.types import RowType

_NO_COLUMNS = TableSchema(RowType((), nullable=False))


@dataclass(frozen=True)
class DeclaredTable:
    """The columns of messages that a table begins with, and the columns beside them, if there are any."""

    schema: TableSchema
    derived: DerivedColumns | None = None

    @property
    def metadata(self) -> tuple[str, ...]:
        """The names of the columns of metadata that derived ones read."""
        return () if self.derived is None else tuple(each.name for each in self.derived.metadata)


@dataclass(frozen=True)
class DeclaredTables:
    """The declared tables by their ids. ``by_topic``: messages do not name their table, so that one is for the topic of
    its name, with or without a database; if it is the only one, for all topics."""

    tables: Mapping[str, DeclaredTable] = field(default_factory=dict)
    by_topic: bool = False

    def find(self, table: str) -> DeclaredTable | None:
        """What is declared for a table."""
        found = self.find_id(table)
        return None if found is None else self.tables[found]

    def find_id(self, table: str) -> str | None:
        """The id under which a table is declared."""
        if table in self.tables or not self.by_topic:
            return table if table in self.tables else None
        name = table.rpartition(".")[2]
        same = [each for each in self.tables if each.rpartition(".")[2] == name]
        return next(iter(same or self.tables), None) if same or len(self.tables) == 1 else None

    def find_schema(self, table: str) -> TableSchema:
        """The columns of messages that a table begins with, which may be none."""
        found = self.find(table)
        return _NO_COLUMNS if found is None else found.schema

    def find_derived(self, table: str) -> DerivedColumns | None:
        """The columns of a table beside those of its messages."""
        found = self.find(table)
        return None if found is None else found.derived
