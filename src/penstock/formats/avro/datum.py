"""Avro data to rows and back. All formats of the Avro family share this module, whatever frames their data."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.columns.buffers import Bytes, binary_parts, slice_messages
from penstock.columns.nested import NestedColumns, NestedInputs, Shape
from penstock.errors import RecordError
from penstock.exact.errors import FieldError, Malformed
from penstock.formats.avro import read_kernel, write_kernel
from penstock.formats.avro.normal_form import Normalizer
from penstock.formats.avro.program import CONSTANT, NODE, STEP, VALUE, WIRE, WIRE_FIXED, B
from penstock.formats.avro.read_compiler import compile_reading
from penstock.formats.avro.read_reasons import READ_REASONS, REPEATS
from penstock.formats.avro.schema import Record, Schema
from penstock.formats.avro.write_compiler import compile_writing
from penstock.formats.shared.codec import Picklable
from penstock.loops.program import Program
from penstock.loops.record_status import EXACT, READ
from penstock.types import RowType


@dataclass(frozen=True)
class Read:
    """The result of reading records: one row for each, null where ``status`` is not READ. A refused record is EXACT and
    has its (reason, step) in ``reasons``."""

    rows: pa.RecordBatch
    status: npt.NDArray[np.uint8]
    reasons: npt.NDArray[np.int64]


@dataclass(frozen=True)
class Spans:
    """Data in a buffer: record ``i`` is ``text[starts[i]:stops[i]]`` if ``status[i]`` is READ."""

    text: Bytes
    starts: npt.NDArray[np.int64]
    stops: npt.NDArray[np.int64]
    status: npt.NDArray[np.uint8]

    @classmethod
    def from_messages(cls, messages: pa.BinaryArray, status: npt.NDArray[np.uint8]) -> Spans:
        """The spans of messages that have nothing but data."""
        text, offsets = binary_parts(messages)
        return cls(text, offsets[:-1], offsets[1:], status)

    def among(self, records: npt.NDArray[np.int64]) -> Spans:
        """Only these records."""
        return Spans(self.text, self.starts[records], self.stops[records], self.status[records])

    def replace_records(self, data: dict[int, bytes]) -> Spans:
        """A copy with other data for some records."""
        records = np.array(list(data), np.int64)
        ends = len(self.text) + np.cumsum([len(each) for each in data.values()])
        starts, stops = self.starts.copy(), self.stops.copy()
        starts[records], stops[records] = ends - [len(each) for each in data.values()], ends
        text = np.concatenate([self.text, np.frombuffer(b"".join(data.values()), np.uint8)])
        return Spans(text, starts, stops, self.status)


@dataclass(frozen=True)
class DatumReader(Picklable):
    """Reads data that was written with one schema into the columns of a table. Picklable.

    Raises SchemaError on first use if the schemas do not fit each other or the columns.
    """

    writer: Schema
    reader: Record
    row: RowType

    @cached_property
    def _shape(self) -> Shape:
        return Shape.from_row_type(self.row)

    @cached_property
    def program(self) -> Program:
        """The compiled pair of schemas."""
        return compile_reading(self.writer, self.reader, self._shape)

    @cached_property
    def _normalizer(self) -> Normalizer:
        return Normalizer(self.writer)

    def read(self, data: Spans) -> Read:
        """Read every record. Bytes after the record in its span are ignored, as in Flink.

        The loop leaves a record in which a map may have a key twice. This method normalizes such a record and runs the
        loop again.
        """
        read = self._run(data, compare_keys=True)
        repeating = np.flatnonzero(read.reasons[:, 0] == REPEATS)
        if not len(repeating):
            return read
        whole = self._run(data.among(repeating), compare_keys=False).status == READ
        normal, failed = {}, []
        for record in repeating[whole].tolist():
            try:
                normal[record] = self._normalizer.normal(data.text[data.starts[record] : data.stops[record]].tobytes())
            except Malformed:
                failed.append(record)
        again = self._run(data.replace_records(normal) if normal else data, compare_keys=False)
        again.status[failed] = EXACT
        again.reasons[failed] = read.reasons[failed]
        return again

    def _run(self, data: Spans, *, compare_keys: bool) -> Read:
        program, columns = self.program, NestedColumns(self._shape, len(data.status))
        text, constants_at = data.text, len(data.text)
        if len(program.constants):
            text = np.concatenate([text, program.constants])
        status, reasons = data.status.copy(), np.zeros((len(data.status), 2), np.int64)
        spans, steps, padding = (data.starts, data.stops), program.vectors, self._shape.padding
        columns.fill(
            lambda vectors, row: read_kernel.read_records(
                text, spans, constants_at, steps, padding, vectors, status, reasons, row, compare_keys
            )
        )
        return Read(columns.batch(text), status, reasons)

    def refusal(self, read: Read, index: int) -> ValueError:
        """The error of the refused record ``index``, as :func:`penstock.exact.merge.merge_exact_rows` expects it."""
        reason, step = read.reasons[index].tolist()
        path, text = self.program.paths[step], READ_REASONS[reason]
        return FieldError(path, text) if path else Malformed(text)


@dataclass(frozen=True)
class DatumWriter(Picklable):
    """Writes the columns of a table by a schema, with ``prefix`` before each record. Picklable.

    Raises SchemaError on first use if the schema does not fit the columns.
    """

    schema: Record
    row: RowType
    prefix: bytes = b""
    #: The format that errors name.
    format: str = "avro"

    @cached_property
    def _shape(self) -> Shape:
        return Shape.from_row_type(self.row)

    @cached_property
    def program(self) -> Program:
        """The compiled schema."""
        return compile_writing(self.schema, self._shape, self.prefix)

    def write(self, rows: pa.RecordBatch) -> tuple[Bytes, npt.NDArray[np.int64]]:
        """The data of all rows, one after the other, and their n + 1 offsets. The buffer may be longer than the data.

        Raises RecordError, with the row in ``offset``, for a row that the schema cannot hold.
        """
        program = self.program
        inputs = NestedInputs(self._shape, rows)
        steps = program.steps
        fixed = (steps[:, STEP] == VALUE) & (steps[:, WIRE] == WIRE_FIXED) | (steps[:, STEP] == CONSTANT)
        size = int(inputs.counts.sum()) * write_kernel.WIDEST + len(inputs.text)
        size += int((steps[fixed, B] * inputs.counts[steps[fixed, NODE]]).sum())
        out, offsets = np.empty(size, np.uint8), np.zeros(rows.num_rows + 1, np.int64)
        row, reason, step = write_kernel.write_records(program.vectors, inputs.vectors, out, offsets)
        if reason:
            raise RecordError(
                write_kernel.WRITE_REASONS[reason], offset=row, format=self.format, field=program.paths[step]
            )
        return out, offsets

    def messages(self, rows: pa.RecordBatch) -> pa.BinaryArray:
        """One message per row. Raises RecordError for a row that the schema cannot hold, with its index."""
        return slice_messages(*self.write(rows), self.format)
