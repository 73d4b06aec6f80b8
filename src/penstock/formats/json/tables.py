"""Which table each message belongs to, by fields of the message."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.formats.json.decode import JsonDecoder
from penstock.formats.json.options import JsonOptions
from penstock.formats.json.spans import TextSpans
from penstock.spi import BadRecord, MessageTables
from penstock.types import STRING, Field, RowType


@dataclass(frozen=True)
class TableFields:
    """The fields that name the table of a message: each a path of names. Those that a message lacks, or that are null
    or empty, are left out of the id, but for the last one, the table's own name."""

    paths: tuple[tuple[str, ...], ...]

    @cached_property
    def _reader(self) -> JsonDecoder:
        return JsonDecoder(_make_row(self.paths), JsonOptions())

    def find_tables(self, messages: pa.BinaryArray) -> MessageTables:
        """The tables of messages, each a JSON object or an array of one. Refuses those that do not name a table."""
        decoded = self._reader.decode(messages)
        origin, named = decoded.origin, self._name_tables(decoded.rows)
        found = named.indices.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int64)
        message = np.arange(len(found)) if origin is None else origin
        at = np.full(len(messages), -1, np.int64)
        at[message] = found
        bad = list(decoded.bad)
        field = ".".join(self.paths[-1])
        for index in message[found < 0].tolist():
            reason = "the field is missing, null or empty; expected the name of the message's table"
            bad.append(BadRecord(index, reason, field))
        at[[each.index for each in bad]] = -1
        bad.sort(key=lambda each: each.index)
        return MessageTables(tuple(named.dictionary.to_pylist()), at, tuple(bad))

    def name_spans(self, spans: TextSpans) -> pa.DictionaryArray:
        """The table that each object names; null for one that names none, or that the compiled loop cannot read."""
        rows, read = self._reader.decode_spans(spans)
        named = self._name_tables(rows)
        return named if read.all() else pc.if_else(pa.array(read), named.dictionary_decode(), None).dictionary_encode()

    def _name_tables(self, rows: pa.RecordBatch) -> pa.DictionaryArray:
        parts = [_take_text(rows, path) for path in self.paths]
        before = [pc.binary_join_element_wise(each, ".", "").fill_null("") for each in parts[:-1]]
        return pc.binary_join_element_wise(*before, parts[-1], "").dictionary_encode()


def _make_row(paths: Sequence[tuple[str, ...]]) -> RowType:
    """The row with a STRING at each path."""
    children: dict[str, list[tuple[str, ...]]] = {}
    for name, *rest in paths:
        children.setdefault(name, []).append(tuple(rest))
    return RowType(tuple(Field(name, _make_row(below) if any(below) else STRING) for name, below in children.items()))


def _take_text(rows: pa.RecordBatch, path: tuple[str, ...]) -> pa.Array:
    """The texts at a path, null where one on the way is null, or the text is empty."""
    found = rows.column(path[0])
    for name in path[1:]:
        found = pc.struct_field(found, name)
    return pc.if_else(pc.equal(found, ""), pa.scalar(None, pa.string()), found)
