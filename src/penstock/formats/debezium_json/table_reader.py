"""Tables of ``debezium-json`` messages whose columns are inferred."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import pyarrow as pa

from penstock.formats.changes.table_reader import ChangeTableReader
from penstock.formats.debezium_json.decode import DebeziumJsonDecoder
from penstock.formats.debezium_json.messages import ChangeMessages
from penstock.formats.debezium_json.options import DebeziumJsonOptions
from penstock.formats.json.decode import JsonDecoder
from penstock.formats.json.inference_options import InferenceOptions
from penstock.formats.json.spans import TextSpans
from penstock.formats.json.tables import TableFields
from penstock.formats.shared.codec import Picklable
from penstock.spi import Decoded, MessageTables, SeenColumns
from penstock.types import RowType

_OUTER = "payload"
_NAMES = "db", "schema", "table"


class DebeziumTableReader(ChangeTableReader[DebeziumJsonOptions, InferenceOptions, ChangeMessages]):
    """Tables are named by ``source``: its ``db``, its ``schema`` where the database has any, and its ``table``."""

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
        """The columns that messages of one table show."""
        others = np.flatnonzero(~messages.usual)
        rows = messages.rows().spans
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

    def decoder(self, row: RowType) -> DebeziumTableDecoder:
        """A decoder for messages of a table with these columns."""
        return DebeziumTableDecoder(DebeziumJsonDecoder(row, replace(self.options, lenient_times=True), ()))


@dataclass(frozen=True)
class DebeziumTableDecoder(Picklable):
    """Decodes messages of the usual form by reading the rows at their places, and the rest by ``others``."""

    others: DebeziumJsonDecoder

    @cached_property
    def _rows(self) -> JsonDecoder:
        return JsonDecoder(self.others.schema, self.others.options.json)

    def decode(self, messages: ChangeMessages) -> Decoded:
        """The rows of messages. ``bad`` lists the refused ones."""
        found = messages.rows()
        rows, read = self._rows.decode_spans(found.spans)
        message, kinds = found.spans.message, found.kinds
        left = ~messages.usual
        if not read.all():
            left[message[~read]] = True
            kept = ~left[message]
            rows, message, kinds = rows.filter(pa.array(kept)), message[kept], kinds[kept]
        others = np.flatnonzero(left)
        if not len(others):
            return Decoded(rows, message, kinds)
        more = self.others.decode(messages.values(others))
        assert more.origin is not None, "changes have an origin"  # noqa: S101
        assert more.kinds is not None, "changes have kinds"  # noqa: S101
        message = np.concatenate([message, others[more.origin]])
        order = np.argsort(message, kind="stable")
        rows = pa.concat_batches([rows, more.rows]).take(pa.array(order))
        bad = tuple(replace(each, index=int(others[each.index])) for each in more.bad)
        return Decoded(rows, message[order], np.concatenate([kinds, more.kinds])[order], bad)
