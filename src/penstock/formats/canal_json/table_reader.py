"""Tables of ``canal-json`` messages whose columns are inferred."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import ClassVar

import numpy as np
import pyarrow as pa

from penstock.exact.errors import Malformed
from penstock.formats.canal_json.column_types import MySqlTypes, find_jdbc_type
from penstock.formats.canal_json.decode import CanalJsonDecoder
from penstock.formats.canal_json.filters import Include, make_filters
from penstock.formats.canal_json.inference_options import CanalInferenceOptions, TypeStrategy
from penstock.formats.canal_json.options import CanalJsonOptions
from penstock.formats.changes.decode import NO_CHANGE
from penstock.formats.changes.table_reader import ChangeTableReader
from penstock.formats.json.parser import Document, Number, Object, parse
from penstock.formats.json.rewriting import find_spans
from penstock.formats.json.spans import TextSpans
from penstock.formats.json.table_reader import unfold_arrays
from penstock.schemas import widen_type
from penstock.spi import MessageTables, SeenColumns
from penstock.types import STRING, DataType, Field, RowType, arrow_schema
from penstock.types.casts import is_numeric

#: The types of messages that tell of a change of a table's definition, but not of its rows: TRUNCATE is not among them.
_DEFINITIONS = ("ALTER", "RENAME", "CINDEX", "DINDEX", "QUERY", "ERASE")


class CanalTableDecoder(CanalJsonDecoder):
    """Decodes messages of tables whose columns follow them. Changes of definitions give no rows: a column shows when a
    row has it, and a table that is dropped stays."""

    operations: ClassVar[Mapping[str, int]] = {**CanalJsonDecoder.operations, **dict.fromkeys(_DEFINITIONS, NO_CHANGE)}


class CanalTableReader(ChangeTableReader[CanalJsonOptions, CanalInferenceOptions, pa.BinaryArray]):
    """Tables are named by ``database`` and ``table``, and their primary keys by ``pkNames``."""

    names_keys: ClassVar[bool] = True

    def open(self, values: pa.BinaryArray) -> pa.BinaryArray:
        """The messages of a batch, as they are."""
        return values

    @property
    def table_paths(self) -> tuple[tuple[str, ...], ...]:
        """The paths of the fields that name a message's table."""
        return ("database",), ("table",)

    @cached_property
    def _filters(self) -> tuple[Include, ...]:
        return make_filters(self.options)

    def find_tables(self, messages: pa.BinaryArray) -> MessageTables:
        """The tables of messages, without those that the filters leave out: they are not known, nor followed."""
        found = self._find_tables(messages)
        for each in self._filters:
            chosen, refused = each.select(messages)
            left = np.ones(len(messages), bool)
            left[chosen] = False
            left[[one.index for one in refused]] = False
            bad = tuple(one for one in found.bad if not left[one.index])
            found = replace(found, at=np.where(left, -1, found.at), bad=bad)
        # Statements about a database, such as CREATE DATABASE, have no table.
        bad = tuple(each for each in found.bad if not _is_query(messages[each.index].as_py()))
        return replace(found, bad=bad)

    def find_rows(self, envelopes: TextSpans) -> TextSpans:
        """The rows before and after the changes of messages."""
        return envelopes.members("data").elements().join(envelopes.members("old").elements())

    def survey(self, messages: pa.BinaryArray, known: RowType) -> SeenColumns:
        """The columns that messages of one table show, by the strategy, and its primary key."""
        strategy = self.inference.strategy
        if strategy is TypeStrategy.AUTO:
            found = self._survey_messages(messages, known)
        else:
            member = "sqlType" if strategy is TypeStrategy.SQL_TYPE else "mysqlType"
            types = [(at, each) for at, each in _distinct(_find_members(messages, member)) if isinstance(each, Object)]
            found = _widen_columns(known, types, self._find_type)
            typed = {name for _, each in types for name, _ in each.pairs}
            found = _add_untyped(found, typed, self._survey_messages(messages, found.row))
        keys = (_texts(each) for _, each in _distinct(_find_members(messages, "pkNames")))
        return replace(found, primary_key=next(filter(None, keys), ()))

    def survey_values(self, messages: pa.BinaryArray, known: RowType) -> SeenColumns:
        """The columns that the values of messages show, whatever the messages say of their types. Canal writes numbers
        as texts: such a text fits a column of numbers."""
        found = self._survey_messages(messages, known)
        numbers = [each for each in known.fields if each.name in found.firsts and is_numeric(each.type)]
        if not numbers:
            return found
        texts = RowType(tuple(Field(each.name, STRING) for each in numbers), nullable=False)
        rows, wanted = self.decoder(texts).decode(messages).rows, arrow_schema(RowType(tuple(numbers), nullable=False))
        kept = zip(wanted, numbers, strict=True)
        fitting = {each.name: each for field, each in kept if _holds_texts(field.type, rows.column(each.name))}
        fields = tuple(fitting.get(each.name, each) for each in found.row.fields)
        firsts = {name: at for name, at in found.firsts.items() if name not in fitting}
        return replace(found, row=replace(found.row, fields=fields), firsts=firsts)

    def decoder(self, row: RowType, metadata: Sequence[str] = ()) -> CanalTableDecoder:
        """A decoder for messages of a table with these columns, which the filters let through already, followed by
        ``metadata``."""
        options = replace(self.options, lenient_times=True, numeric_booleans=True)
        return CanalTableDecoder(row, replace(options, database_include=None, table_include=None), tuple(metadata))

    def _find_type(self, written: Document) -> DataType:
        """The type of a column from what a message says of it."""
        if self.inference.as_string:
            return STRING
        if self.inference.strategy is TypeStrategy.SQL_TYPE:
            return find_jdbc_type(int(written.text)) if isinstance(written, Number) and written.is_whole else STRING
        types = MySqlTypes(self.inference.tinyint1_as_boolean, self.inference.timestamp_as_datetime)
        return types.find_type(written) if isinstance(written, str) else STRING


def _holds_texts(numbers: pa.DataType, texts: pa.Array) -> bool:
    """Whether all texts are numbers of this type."""
    try:
        texts.cast(numbers)
    except pa.ArrowInvalid:
        return False
    return True


def _find_members(messages: pa.BinaryArray, name: str) -> TextSpans:
    """The values of a member of messages."""
    return find_spans(messages, lambda spans: unfold_arrays(spans).objects().members(name))


def _widen_columns(
    known: RowType, types: Iterable[tuple[int, Object]], find_type: Callable[[Document], DataType]
) -> SeenColumns:
    """The columns with the types that objects in messages have by name."""
    columns = {each.name: each for each in known.fields}
    firsts: dict[str, int] = {}
    for message, document in types:
        for name, written in document.pairs:
            before = columns.get(name)
            found = find_type(written)
            if before is None:
                columns[name] = Field(name, found)
            else:
                columns[name] = replace(before, type=widen_type(before.type, found.with_nullability(False)))
            if columns[name] != before:
                firsts.setdefault(name, message)
    return SeenColumns(replace(known, fields=tuple(columns.values())), firsts)


def _add_untyped(found: SeenColumns, typed: Collection[str], inferred: SeenColumns) -> SeenColumns:
    """The columns with those of which messages say no type as they are inferred from the values."""
    before = {each.name: each for each in found.row.fields}
    fields = tuple(before.get(each.name, each) if each.name in typed else each for each in inferred.row.fields)
    firsts = {name: at for name, at in inferred.firsts.items() if name not in typed}
    return replace(found, row=replace(found.row, fields=fields), firsts={**firsts, **found.firsts})


def _distinct(spans: TextSpans) -> Iterator[tuple[int, Document]]:
    """The different JSON values, each with the number of its first message: most messages of a table have the same."""
    codes = spans.texts().dictionary_encode()
    _, firsts = np.unique(codes.indices.to_numpy(zero_copy_only=False), return_index=True)
    for code, first in enumerate(firsts.tolist()):
        try:
            yield int(spans.message[first]), parse(codes.dictionary[code].as_py())
        except Malformed:
            continue  # the decoder refuses the message


def _is_query(message: bytes) -> bool:
    try:
        document = parse(message)
    except Malformed:
        return False
    return isinstance(document, Object) and ("type", "QUERY") in document.pairs


def _texts(document: Document) -> tuple[str, ...]:
    return tuple(each for each in document if isinstance(each, str)) if isinstance(document, list) else ()
