"""Tables of ``debezium-json`` messages whose columns are inferred."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import cached_property

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.formats.changes.table_reader import ChangeTableReader
from penstock.formats.debezium_json.connect_types import ConnectColumn
from penstock.formats.debezium_json.decode import DebeziumJsonDecoder
from penstock.formats.debezium_json.messages import ChangeMessages
from penstock.formats.debezium_json.options import DebeziumJsonOptions
from penstock.formats.debezium_json.schema_decoder import SchemaDecoder
from penstock.formats.debezium_json.table_decoder import DebeziumTableDecoder
from penstock.formats.json.inference_options import InferenceOptions
from penstock.formats.json.spans import TextSpans
from penstock.formats.json.tables import TableFields
from penstock.schemas import widen_type
from penstock.spi import MessageDecoder, MessageTables, SeenColumns
from penstock.types import STRING, DataType, Field, RowType, StringType
from penstock.types.logical import MAX_LENGTH

_OUTER = "payload"
_NAMES = "db", "schema", "table"


class DebeziumTableReader(ChangeTableReader[DebeziumJsonOptions, InferenceOptions, ChangeMessages]):
    """Tables are named by ``source``: its ``db``, its ``schema`` where the database has any, and its ``table``. Where
    messages contain their schema, it gives the types of columns, and their values otherwise."""

    @property
    def _outer(self) -> tuple[str, ...]:
        return (_OUTER,) if self.options.schema_include else ()

    @property
    def table_paths(self) -> tuple[tuple[str, ...], ...]:
        """The paths of the fields that name a message's table."""
        return tuple((*self._outer, "source", name) for name in _NAMES)

    @cached_property
    def _sources(self) -> TableFields:
        return TableFields(tuple((name,) for name in _NAMES))

    def open(self, values: pa.BinaryArray) -> ChangeMessages:
        """The messages of a batch."""
        return ChangeMessages.from_values(values, *self._outer)

    def find_tables(self, messages: ChangeMessages) -> MessageTables:
        """The tables of messages, by the fields that name them."""
        sources = messages.sources()
        named = self._sources.name_spans(sources)
        at = np.full(len(messages), -1, np.int64)
        at[sources.message] = named.indices.fill_null(-1).to_numpy(zero_copy_only=False)
        names = tuple(named.dictionary.to_pylist())
        others = np.flatnonzero(at < 0)
        if not len(others):
            return MessageTables(names, at)
        found = self._find_tables(messages.values(others))
        numbers = {name: number for number, name in enumerate(dict.fromkeys((*names, *found.names)))}
        at[others] = np.array([*(numbers[name] for name in found.names), -1])[found.at]
        bad = tuple(replace(each, index=int(others[each.index])) for each in found.bad)
        return MessageTables(tuple(numbers), at, bad)

    def survey(self, messages: ChangeMessages, known: RowType) -> SeenColumns:
        """The columns that messages of one table show: by their schemas, and by the values of those without one."""
        if not messages.schema.any():
            return self.survey_values(messages, known)
        return _merge(known, self._survey_groups(messages, known))

    def _survey_groups(self, messages: ChangeMessages, known: RowType) -> Iterator[SeenColumns]:
        """What messages of each schema show."""
        limited = tuple(each.name for each in known.fields if _is_limited(each.type))
        for columns, index in messages.by_schema():
            if columns:
                yield self._find_columns(columns, known, int(index[0]))
            else:
                yield _renumber(self.survey_values(messages.take(index), known), index)
        if limited:  # schemas do not tell how long texts are
            index = np.flatnonzero(messages.schema)
            found = _renumber(self.survey_values(messages.take(index), known.select(limited)), index)
            firsts = {name: at for name, at in found.firsts.items() if name in limited}
            yield SeenColumns(found.row.select(limited), firsts)

    def _find_columns(self, columns: Iterable[ConnectColumn], known: RowType, first: int) -> SeenColumns:
        """What a schema shows, which the message ``first`` has."""
        fields: list[Field] = []
        firsts: dict[str, int] = {}
        for each in columns:
            before, found = known.field(each.name), each.type.type
            if before is None:
                fields.append(Field(each.name, STRING if self.inference.as_string else found))
                firsts[each.name] = first
            elif not (_is_limited(before.type) and isinstance(found, StringType)):
                widened = widen_type(before.type, found.with_nullability(before.type.nullable))
                if widened != before.type and self.inference.as_string:
                    widened = STRING.with_nullability(before.type.nullable)
                if widened != before.type:
                    firsts[each.name] = first
                fields.append(replace(before, type=widened))
        return SeenColumns(RowType(tuple(fields), nullable=False), firsts)

    def survey_values(self, messages: ChangeMessages, known: RowType) -> SeenColumns:
        """The columns that the values of messages show, whatever their schemas say."""
        others = np.flatnonzero(~messages.usual)
        rows = messages.rows.spans
        if not len(others):
            return self._survey_rows(rows, known)
        found = self._survey_rows(rows, known)
        more = self._survey_messages(messages.values(others), found.row)
        firsts = dict(found.firsts)
        for name, at in more.firsts.items():
            firsts[name] = min(int(others[at]), firsts.get(name, len(messages)))
        return replace(more, firsts=firsts)

    def find_rows(self, envelopes: TextSpans) -> TextSpans:
        """The rows ``before`` and ``after`` the changes of messages."""
        return envelopes.members(*self._outer, "before").join(envelopes.members(*self._outer, "after"))

    def decoder(self, row: RowType, metadata: Sequence[str] = ()) -> MessageDecoder[ChangeMessages]:
        """A decoder for messages of a table with these columns, followed by ``metadata``."""
        options = replace(self.options, lenient_times=True)
        if self.options.schema_include and not metadata:
            return SchemaDecoder(row, options)
        return DebeziumTableDecoder(DebeziumJsonDecoder(row, options, tuple(metadata)))


def _is_limited(data_type: DataType) -> bool:
    return isinstance(data_type, StringType) and data_type.length < MAX_LENGTH


def _renumber(seen: SeenColumns, index: npt.NDArray[np.int64]) -> SeenColumns:
    """What the messages ``index`` have shown, by the numbers of these."""
    return replace(seen, firsts={name: int(index[at]) for name, at in seen.firsts.items()})


def _merge(known: RowType, groups: Iterable[SeenColumns]) -> SeenColumns:
    """The columns with what all groups show, the new ones in the order of their messages."""
    columns = {each.name: each for each in known.fields}
    firsts: dict[str, int] = {}
    for group in groups:
        for each in group.row.fields:
            before = columns.get(each.name)
            columns[each.name] = each if before is None else replace(before, type=widen_type(before.type, each.type))
        for name, at in group.firsts.items():
            firsts[name] = min(at, firsts.get(name, at))
    new = [each for name, each in columns.items() if known.field(name) is None]
    new.sort(key=lambda each: firsts[each.name])
    kept = (columns[each.name] for each in known.fields)
    return SeenColumns(replace(known, fields=(*kept, *new)), firsts)
