"""The tables of a pipeline's source: how their messages are read, and what is known of their columns from the start."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from penstock.ingest.tables.message_columns import VALUE, MessageColumns, SourceRows
from penstock.schemas import TableSchema
from penstock.spi import BuildsDeadLetters, MessageTables, SeenColumns, TableReader
from penstock.types import Field, RowType

#: A column of the scan that gives messages as they are, whose columns are metadata, named by their keys.
TOPIC = "topic"
_NONE = TableSchema(RowType((), nullable=False))


@dataclass(frozen=True)
class SourceTables:
    """``identifier`` and ``prefix`` are those of the format, for messages of errors. Tables in ``declared`` begin with
    these columns; ``fallback`` is the only one of them where messages do not name their table. ``metadata`` follows the
    columns of each table. ``static``: schemas do not change once a table is known. ``looks_ahead`` is how many of the
    newest records of each partition are surveyed before the first batch of a job. ``letters`` makes dead letters of
    messages that cannot be read, if they are kept."""

    columns: MessageColumns
    identifier: str
    prefix: str
    declared: Mapping[str, TableSchema] = field(default_factory=dict)
    metadata: tuple[Field, ...] = ()
    static: bool = False
    looks_ahead: int = 0
    letters: BuildsDeadLetters | None = None
    #: The table of all messages, whatever they name.
    only: str = ""

    @property
    def reader(self) -> TableReader[Any]:
        """What reads the values of messages."""
        return self.columns.reader

    def survey(self, rows: SourceRows, known: RowType) -> SeenColumns:
        """The columns that messages of one table show, without fields that have the name of a metadata column."""
        return self.drop_metadata(self.columns.survey(rows, known))

    def find_tables(self, rows: SourceRows) -> MessageTables:
        """The table of each message of a batch of the scan: by its topic, unless messages name it."""
        if self.only:
            return MessageTables((self.only,), np.where(rows.column(VALUE).is_null(), -1, 0))
        if self.reader.names_tables:
            return self.reader.find_tables(rows.values)
        topics = rows.column(TOPIC).dictionary_encode()
        at = topics.indices.to_numpy(zero_copy_only=False).astype(np.int64)
        at[np.asarray(rows.column(VALUE).is_null())] = -1
        return MessageTables(tuple(topics.dictionary.to_pylist()), at)

    def initial_schema(self, table: str) -> TableSchema:
        """The columns of messages that a table begins with, without metadata."""
        found = self.declared.get(table)
        if found is None and not self.reader.names_tables:
            name = table.rpartition(".")[2]
            same = [each for known, each in self.declared.items() if known.rpartition(".")[2] == name]
            found = same[0] if same else next(iter(self.declared.values())) if len(self.declared) == 1 else None
        return found or _NONE

    def read_columns(self, row: RowType) -> RowType:
        """The columns of a table that come from messages."""
        names = {each.name for each in self.metadata}
        return RowType(tuple(each for each in row.fields if each.name not in names), nullable=False)

    def drop_metadata(self, seen: SeenColumns) -> SeenColumns:
        """What was seen, without fields that have the name of a metadata column, which goes before them."""
        names = {each.name for each in self.metadata}
        if names.isdisjoint(seen.row.names):
            return seen
        firsts = {name: at for name, at in seen.firsts.items() if name not in names}
        return replace(seen, row=self.read_columns(seen.row), firsts=firsts)

    def add_metadata(self, row: RowType) -> RowType:
        """The columns of a table, from those of its messages. A metadata column goes before one of the same name."""
        names = {each.name for each in self.metadata}
        own = tuple(each for each in row.fields if each.name not in names)
        return RowType((*own, *self.metadata), nullable=False)
