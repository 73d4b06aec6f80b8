"""``avro-confluent`` messages to rows."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property, lru_cache

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.columns.buffers import build_batch, validity
from penstock.errors import SchemaError
from penstock.formats.avro.datum import DatumReader, Read, Spans
from penstock.formats.avro.derived_schema import parse_or_derive_record
from penstock.formats.avro.schema import Record, Schema
from penstock.formats.avro_confluent.client import SchemaRegistry, UnknownSchema, registry_for
from penstock.formats.avro_confluent.options import AvroConfluentOptions
from penstock.formats.shared.codec import TableCodec
from penstock.loops.record_status import EXACT, NO_ROW, READ
from penstock.spi import BadRecord, Decoded
from penstock.types import RowType, arrow_schema

#: A magic byte, 0, and the id of a schema, big-endian.
_HEADER = 5
_READERS = 256


@lru_cache(_READERS)
def _compile_reader(writer: Schema, reader: Record, row: RowType) -> DatumReader:
    """A reader for each pair of schemas, compiled once in a process."""
    return DatumReader(writer, reader, row)


class AvroConfluentDecoder(TableCodec[AvroConfluentOptions]):
    """Decodes one record per message with the schema whose id precedes it. A null message gives no row.

    Raises SchemaError for columns that Avro cannot hold or that do not fit the given schema.
    """

    def _check(self) -> None:
        _ = _compile_reader(self._reader_schema, self._reader_schema, self.schema).program

    @cached_property
    def _reader_schema(self) -> Record:
        return parse_or_derive_record(self.schema, self.options.schema, self.options.legacy_timestamps)

    @property
    def _registry(self) -> SchemaRegistry:
        return registry_for(self.options.settings)

    def decode(self, messages: pa.BinaryArray) -> Decoded:
        """Decode a column of messages, which may have different schemas. ``bad`` lists the refused messages.

        Raises SchemaRegistryError if the registry refuses the request or cannot be reached, because the messages are
        not at fault.
        """
        status = np.where(validity(messages) == 0, NO_ROW, READ).astype(np.uint8)
        spans = Spans.from_messages(messages, status)
        bad = _refuse_headerless(spans, status)
        ids, indices = _read_schema_ids(spans, status)
        parts: list[tuple[npt.NDArray[np.int64], Read]] = []
        body = Spans(spans.text, spans.starts + _HEADER, spans.stops, status)
        for number, chosen in _group_by_id(ids, indices):
            try:
                reader = self._find_reader(number)
            except UnknownSchema as error:
                bad += [BadRecord(index, str(error)) for index in chosen.tolist()]
                status[chosen] = EXACT
                continue
            except SchemaError as error:
                problem = error.problems[0]
                reason = f"the schema with id {number} does not fit the table: {problem.reason}"
                bad += [BadRecord(index, reason, problem.key) for index in chosen.tolist()]
                status[chosen] = EXACT
                continue
            whole = len(chosen) == len(status)
            read = reader.read(body if whole else body.among(chosen))
            status[chosen] = read.status
            bad += _collect_refusals(reader, read, chosen)
            parts.append((chosen, read))
        return self._join_rows(parts, status, tuple(sorted(bad, key=lambda each: each.index)))

    def _find_reader(self, number: int) -> DatumReader:
        """The reader for the data of a schema. Raises UnknownSchema, SchemaError, SchemaRegistryError."""
        reader = _compile_reader(self._registry.schema(number), self._reader_schema, self.schema)
        _ = reader.program
        return reader

    def _join_rows(
        self, parts: list[tuple[npt.NDArray[np.int64], Read]], status: npt.NDArray[np.uint8], bad: tuple[BadRecord, ...]
    ) -> Decoded:
        """The rows of all schemas, in the order of their messages."""
        good = status == READ
        if len(parts) == 1 and good.all():
            return Decoded(parts[0][1].rows)
        taken = np.zeros(len(status), np.int64)
        first = 0
        for chosen, _ in parts:
            taken[chosen] = np.arange(first, first + len(chosen))
            first += len(chosen)
        wanted, columns = pa.array(taken[good]), []
        schema = arrow_schema(self.schema)
        for index, field in enumerate(schema):
            pieces = [read.rows.column(index) for _, read in parts]
            columns.append((pa.concat_arrays(pieces) if pieces else pa.array([], field.type)).take(wanted))
        rows = build_batch(columns, schema, int(good.sum()))
        return Decoded(rows, None if good.all() else np.flatnonzero(good), bad=bad)


def _refuse_headerless(spans: Spans, status: npt.NDArray[np.uint8]) -> list[BadRecord]:
    """The messages without the magic byte and the id of a schema; marks them EXACT in ``status``."""
    sizes, waiting = spans.stops - spans.starts, status == READ
    bad = [
        BadRecord(index, f"{sizes[index]} bytes are too few: the id of the schema takes the first {_HEADER}")
        for index in np.flatnonzero(waiting & (sizes < _HEADER)).tolist()
    ]
    whole = np.flatnonzero(waiting & (sizes >= _HEADER))
    first = spans.text[spans.starts[whole]]
    bad += [
        BadRecord(int(index), f"the first byte is 0x{byte:02x}, not the magic byte 0x00 of a schema id")
        for index, byte in zip(whole[first != 0], first[first != 0], strict=True)
    ]
    status[[each.index for each in bad]] = EXACT
    return bad


def _read_schema_ids(
    spans: Spans, status: npt.NDArray[np.uint8]
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """The id in each message that has one, and the index of the message."""
    indices = np.flatnonzero(status == READ)
    head = spans.text[spans.starts[indices][:, None] + np.arange(1, _HEADER)]
    return head.view(">i4")[:, 0].astype(np.int64), indices


def _group_by_id(
    ids: npt.NDArray[np.int64], indices: npt.NDArray[np.int64]
) -> Iterator[tuple[int, npt.NDArray[np.int64]]]:
    """Each id with the indices of its messages."""
    if len(ids) and (ids == ids[0]).all():
        yield int(ids[0]), indices
        return
    order = np.argsort(ids, kind="stable")
    found, begins = np.unique(ids[order], return_index=True)
    yield from zip(found.tolist(), np.split(indices[order], begins[1:]), strict=False)


def _collect_refusals(reader: DatumReader, read: Read, chosen: npt.NDArray[np.int64]) -> Iterator[BadRecord]:
    for index in np.flatnonzero(read.status == EXACT).tolist():
        error = reader.refusal(read, index)
        yield BadRecord(int(chosen[index]), str(error), getattr(error, "field", ""))
