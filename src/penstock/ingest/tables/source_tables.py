"""The tables of a pipeline's source: how their messages are read, and what is known of their columns from the start."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from penstock.ingest.tables.declared_reader import DeclaredReader
from penstock.ingest.tables.declared_tables import DeclaredTables
from penstock.ingest.tables.message_columns import VALUE, MessageColumns, SourceRows
from penstock.schemas import TableSchema
from penstock.spi import BuildsDeadLetters, MessageTables, SeenColumns, TableReader
from penstock.types import Field, RowType

#: A column of the scan that gives messages as they are, whose columns are metadata, named by their keys.
TOPIC = "topic"


@dataclass(frozen=True)
class SourceTables:
    """``identifier`` and ``prefix`` are those of the format, for messages of errors. Tables in ``declared`` begin with
    these columns. ``metadata`` follows the columns of each table. ``static``: schemas do not change once a table is
    known. ``looks_ahead`` is how many of the newest records of each partition are surveyed before the first batch of a
    job. ``letters`` makes dead letters of messages that cannot be read, if they are kept. ``names`` are the tables that
    there can be: the topics, where messages do not name their table; empty if that is not known."""

    columns: MessageColumns
    identifier: str
    prefix: str
    declared: DeclaredTables = field(default_factory=DeclaredTables)
    metadata: tuple[Field, ...] = ()
    static: bool = False
    looks_ahead: int = 0
    letters: BuildsDeadLetters | None = None
    names: tuple[str, ...] = ()
    #: The table of all messages, whatever they name.
    only: str = ""

    @property
    def reader(self) -> TableReader[Any]:
        """What reads the values of messages."""
        return self.columns.reader

    def survey(self, rows: SourceRows, known: RowType) -> SeenColumns:
        """The columns that messages of one table show, without fields that have the name of a metadata column."""
        return self.drop_metadata(self.columns.survey(rows, known))

    def find_misfit(self, rows: SourceRows, known: RowType) -> Field | None:
        """A known column that does not hold a value of messages: its type, if messages name it, is wider, and so is the
        value. None if there is none."""
        wider = [each for each in map(known.field, self.survey(rows, known).firsts) if each is not None]
        if not wider:
            return None
        by_values = self.columns.survey(rows, known, by_values=True).firsts
        return next((each for each in wider if each.name in by_values), None)

    def find_tables(self, rows: SourceRows) -> MessageTables:
        """The table of each message of a batch of the scan: by its topic, unless messages name it."""
        if self.only:
            return MessageTables((self.only,), np.where(rows.column(VALUE).is_null(), -1, 0))
        if self.reader.names_tables:
            return self.reader.find_tables(rows.values)
        topics = rows.column(TOPIC).dictionary_encode()
        at = topics.indices.to_numpy(zero_copy_only=False).astype(np.int64)
        if not isinstance(self.reader, DeclaredReader):  # whose format may make a row of no value
            at[np.asarray(rows.column(VALUE).is_null())] = -1
        return MessageTables(tuple(topics.dictionary.to_pylist()), at)

    def initial_schema(self, table: str) -> TableSchema:
        """The columns of messages that a table begins with, without metadata."""
        return self.declared.find_schema(table)

    @property
    def settled(self) -> tuple[str, ...]:
        """The known tables whose columns never change."""
        known = self.declared.tables if self.reader.names_tables else self.names
        return tuple(each for each in known if self.static and self.initial_schema(each).row.fields)

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
