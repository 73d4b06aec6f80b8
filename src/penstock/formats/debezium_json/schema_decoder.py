"""Decodes messages that contain their schema, each by its own."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import pyarrow as pa

from penstock.columns.buffers import build_batch
from penstock.formats.changes.envelopes import Mask
from penstock.formats.debezium_json.connect_types import ConnectColumn
from penstock.formats.debezium_json.connect_values import convert_values
from penstock.formats.debezium_json.decode import DebeziumJsonDecoder
from penstock.formats.debezium_json.messages import ChangeMessages
from penstock.formats.debezium_json.options import DebeziumJsonOptions
from penstock.formats.debezium_json.table_decoder import DebeziumTableDecoder
from penstock.formats.json.schema import check_schema
from penstock.formats.shared.codec import TableCodec
from penstock.spi import BadRecord, Decoded
from penstock.types import Field, RowKind, RowType, arrow_schema


class SchemaDecoder(TableCodec[DebeziumJsonOptions]):
    """Decodes messages of Debezium into columns that hold the values of all their schemas. A column that a schema lacks
    is NULL. Values of messages without a schema are read as they are."""

    def _check(self) -> None:
        check_schema(self.schema)

    @property
    def ignores_errors(self) -> bool:
        return self.options.ignore_parse_errors

    @cached_property
    def _opened(self) -> dict[tuple[ConnectColumn, ...], _GroupDecoder]:
        return {}

    def decode(self, messages: ChangeMessages) -> Decoded:
        """The rows of messages. ``bad`` lists the refused ones, even if errors are ignored."""
        parts: list[Decoded] = []
        for columns, index in messages.by_schema():
            decoder = self._open(columns)
            if len(index) == len(messages):
                return decoder.decode(messages)
            found = decoder.decode(messages.take(index))
            bad = tuple(replace(each, index=int(index[each.index])) for each in found.bad)
            origin = index if found.origin is None else index[found.origin]
            parts.append(replace(found, origin=origin, bad=bad))
        return _join(parts) if parts else self._open(()).decode(messages)

    def _open(self, columns: tuple[ConnectColumn, ...]) -> _GroupDecoder:
        if columns not in self._opened:
            # A message with a value that is not of its type is refused as a whole, also where that is ignored.
            options = replace(self.options, ignore_parse_errors=False)
            self._opened[columns] = _GroupDecoder.from_columns(self.schema, columns, options)
        return self._opened[columns]


@dataclass(frozen=True)
class _GroupDecoder:
    """Decodes messages of one schema into ``row``. ``converted`` are the columns, by their numbers, whose values JSON
    does not have as they are."""

    row: RowType
    converted: dict[int, ConnectColumn]
    reader: DebeziumTableDecoder

    @classmethod
    def from_columns(
        cls, row: RowType, columns: Sequence[ConnectColumn], options: DebeziumJsonOptions
    ) -> _GroupDecoder:
        """For messages with these columns."""
        known = {each.name: each for each in columns if each.type.convert is not None}
        converted = {at: known[each.name] for at, each in enumerate(row.fields) if each.name in known}
        wire = tuple(
            Field(each.name, converted[at].type.wire or each.type) if at in converted else each
            for at, each in enumerate(row.fields)
        )
        reader = DebeziumJsonDecoder(replace(row, fields=wire), options)
        return cls(row, converted, DebeziumTableDecoder(reader))

    def decode(self, messages: ChangeMessages) -> Decoded:
        """Decode messages with this schema."""
        found = self.reader.decode(messages)
        given, columns = found.rows.columns, list(found.rows.columns)
        bad: list[BadRecord] = []
        for at, column in self.converted.items():
            wanted, convert = self.row.fields[at].type, column.type.convert
            assert convert is not None  # noqa: S101
            read = convert(given[at], column.type.type)
            bad += _explain(found, read.wrong, column.name, f"expected {column.type.expects}", given[at])
            made = convert_values(read.values, column.type.type, wanted)
            reason = f"the value does not fit its column, which is {wanted}"
            bad += _explain(found, made.wrong, column.name, reason, given[at])
            columns[at] = made.values
        rows = build_batch(columns, arrow_schema(self.row), found.rows.num_rows)
        if not bad:
            return replace(found, rows=rows)
        firsts: dict[int, BadRecord] = {}
        for each in bad:
            firsts.setdefault(each.index, each)
        origin = np.arange(rows.num_rows) if found.origin is None else found.origin
        kept = ~np.isin(origin, list(firsts))
        kinds = None if found.kinds is None else found.kinds[kept]
        refused = tuple(sorted((*found.bad, *firsts.values()), key=lambda each: each.index))
        return Decoded(rows.filter(pa.array(kept)), origin[kept], kinds, refused)


#: The most characters that errors show of a value.
_LONGEST = 100
_BEFORE = (RowKind.UPDATE_BEFORE, RowKind.DELETE)


def _explain(found: Decoded, wrong: Mask | None, name: str, reason: str, given: pa.Array) -> list[BadRecord]:
    """The messages with a wrong value. ``given`` are the values as JSON has them."""
    bad = []
    for row in np.flatnonzero(wrong).tolist() if wrong is not None else ():
        message = row if found.origin is None else int(found.origin[row])
        image = "before" if found.kinds is not None and found.kinds[row] in _BEFORE else "after"
        value = given[row].as_py()
        shown = base64.b64encode(value).decode() if isinstance(value, bytes) else str(value)
        bad.append(BadRecord(message, f"{reason}, not {shown[:_LONGEST]}", f"payload.{image}.{name}"))
    return bad


def _join(parts: Sequence[Decoded]) -> Decoded:
    """The rows of all parts, in the order of the messages."""
    origin = np.concatenate([each.origin for each in parts if each.origin is not None])
    kinds = np.concatenate([each.kinds for each in parts if each.kinds is not None])
    order = np.argsort(origin, kind="stable")
    rows = pa.concat_batches([each.rows for each in parts]).take(pa.array(order))
    bad = sorted((each for part in parts for each in part.bad), key=lambda each: each.index)
    return Decoded(rows, origin[order], kinds[order], tuple(bad))
