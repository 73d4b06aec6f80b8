"""Formats of change data as the registry knows them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from penstock.formats.changes.decode import ChangeDecoder
from penstock.formats.changes.encode import ChangeJsonEncoder, RowFrame
from penstock.formats.changes.metadata import check_keys
from penstock.formats.changes.options import ChangeOptions
from penstock.formats.changes.table_encode import ChangeFrames, TableChangeEncoder
from penstock.formats.changes.table_reader import ChangeTableReader
from penstock.formats.json.inference_options import InferenceOptions
from penstock.options import OptionSet
from penstock.spi import ChangeEncoder
from penstock.types import DataType, RowType


@dataclass(frozen=True)
class ChangeJsonFormat:
    """A format of change data: its name and options, its decoder, and the frames of inserted and of deleted rows."""

    identifier: str
    options: type[ChangeOptions]
    reads: type[ChangeDecoder[Any]]
    frames: Callable[[Any], tuple[RowFrame, RowFrame]]
    doc: str | None

    by_name: ClassVar[bool] = True

    def __post_init__(self) -> None:
        object.__setattr__(self, "__doc__", self.doc)

    @property
    def metadata(self) -> Mapping[str, DataType]:
        """The types of the metadata columns, by key."""
        return {key: each.type for key, each in self.reads.known.items()}

    def decoder(self, schema: RowType, options: OptionSet, metadata: Sequence[str] = ()) -> ChangeDecoder[Any]:
        """A decoder for rows of ``schema``. Raises SchemaError for maps with keys that are not strings, and for unknown
        metadata."""
        known = check_keys(metadata, self.reads.known, self.identifier)
        return self.reads(schema, self.options.expect(options), known)

    def encoder(self, schema: RowType, options: OptionSet) -> ChangeEncoder:
        """An encoder for changes of rows of ``schema``. Raises SchemaError for maps with keys that are not strings, and
        OptionsError for options that are only for reading."""
        given = self.options.expect(options)
        return ChangeJsonEncoder(schema, given, self.identifier, *self.frames(given))


@dataclass(frozen=True)
class TableChangeFormat(ChangeJsonFormat):
    """A format of change data whose messages name their table. ``table_frames`` are what is around its rows."""

    table_keys: tuple[str, str]
    table_frames: Callable[[Any, RowType], ChangeFrames]

    def encoder(self, schema: RowType, options: OptionSet) -> ChangeEncoder:
        """An encoder for changes of rows of ``schema``: of a table that the options name, with one message for an
        update. Raises as the encoder of other formats does."""
        given = self.options.expect(options)
        if not given.table:
            return super().encoder(schema, options)
        return TableChangeEncoder(schema, given, self.identifier, self.table_frames)

    def with_table(
        self, options: OptionSet, table: tuple[str, ...], primary_key: tuple[str, ...], *, with_schema: bool = False
    ) -> OptionSet:
        """``options`` for messages that name the table, its database and, if the format has them, its primary key and
        its columns."""
        given = self.options.expect(options)
        return replace(given, table=table, primary_key=primary_key, with_schema=with_schema)


@dataclass(frozen=True)
class InferringChangeFormat(TableChangeFormat):
    """A format of change data from whose messages the columns of tables can be inferred."""

    inference: type[InferenceOptions]
    infers: type[ChangeTableReader[Any, Any, Any]]

    def table_reader(self, options: OptionSet, inference: OptionSet) -> ChangeTableReader[Any, Any, Any]:
        """The reader for messages of tables whose columns are inferred."""
        return self.infers(self.options.expect(options), self.inference.expect(inference))
