"""Avro data to rows and back: the reusable part of every format of the family, whatever frames the data."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.errors import RecordError
from penstock.formats.avro import read_kernel, write_kernel
from penstock.formats.avro.program import NODE, Program
from penstock.formats.avro.reading import reading
from penstock.formats.avro.schema import Record, Schema
from penstock.formats.avro.writing import writing
from penstock.formats.columns import Bytes
from penstock.formats.nested import NestedColumns, NestedInputs, Shape
from penstock.formats.refusals import FieldError, Malformed
from penstock.types import RowType, arrow_schema

__all__ = ["DatumReader", "DatumWriter"]


@dataclass(frozen=True)
class Read:
    """What became of records: one row each, null where ``status`` is not READ."""

    rows: pa.RecordBatch
    status: npt.NDArray[np.uint8]
    reasons: npt.NDArray[np.int64]


@dataclass(frozen=True)
class DatumReader:
    """Reads data that was written with one schema into the columns of a table. Picklable.

    Raises SchemaError when it is first used, where the schemas and the columns do not fit.
    """

    writer: Schema
    reader: Record
    row: RowType

    def __getstate__(self) -> dict[str, Any]:
        return {"writer": self.writer, "reader": self.reader, "row": self.row}

    @cached_property
    def _shape(self) -> Shape:
        return Shape.of(self.row)

    @cached_property
    def program(self) -> Program:
        """The compiled pair of schemas."""
        return reading(self.writer, self.reader, self._shape)

    def read(
        self,
        text: Bytes,
        offsets: npt.NDArray[np.int64],
        status: npt.NDArray[np.uint8],
        *,
        compare_keys: bool = True,
    ) -> Read:
        """Read the data between the offsets whose ``status`` is READ.

        A record that is refused gets the status EXACT in the result; ``refusal`` says why. What follows the data in
        its span is not looked at, as in Flink. With ``compare_keys`` maps that may have a key twice are refused, with
        the reason REPEATS.
        """
        program, columns = self.program, NestedColumns(self._shape, len(status))
        constants_at = len(text)
        if len(program.constants):
            text = np.concatenate([text, program.constants])
        padded, starts = self._shape.padding
        status, reasons = status.copy(), np.zeros((len(status), 2), np.int64)
        row, full = 0, 0
        while row < len(status):
            row, full = read_kernel.read_records(
                text,
                offsets,
                constants_at,
                program.steps,
                program.table,
                padded,
                starts,
                columns.nodes,
                columns.words,
                columns.valid,
                columns.counts,
                status,
                reasons,
                row,
                compare_keys,
            )
            if full >= 0:
                columns.grow(full)
        return Read(columns.batch(text), status, reasons)

    def refusal(self, read: Read, index: int) -> ValueError:
        """Why record ``index`` was refused, as :func:`penstock.formats.rows.completed` wants it."""
        reason, step = read.reasons[index].tolist()
        path, text = self.program.paths[step], read_kernel.REASONS[reason]
        return FieldError(path, text) if path else Malformed(text)


@dataclass(frozen=True)
class DatumWriter:
    """Writes the columns of a table by a schema. Picklable.

    Raises SchemaError when it is first used, where the schema and the columns do not fit.
    """

    schema: Record
    row: RowType

    def __getstate__(self) -> dict[str, Any]:
        return {"schema": self.schema, "row": self.row}

    @cached_property
    def _shape(self) -> Shape:
        return Shape.of(self.row)

    @cached_property
    def program(self) -> Program:
        """The compiled schema."""
        return writing(self.schema, self._shape)

    def write(self, rows: pa.RecordBatch) -> tuple[Bytes, npt.NDArray[np.int64]]:
        """The data of all rows, one after the other, and their n + 1 offsets; more bytes may follow.

        Raises RecordError, with the row in ``offset``, for a row that the schema cannot hold.
        """
        program = self.program
        inputs = NestedInputs(self._shape, rows.cast(arrow_schema(self.row)) if self.row.fields else rows)
        size = int(inputs.counts.sum()) * write_kernel.WIDEST + len(inputs.text)
        size += int((program.written_sizes * inputs.counts[program.steps[:, NODE]]).sum())
        out, offsets = np.empty(size, np.uint8), np.zeros(rows.num_rows + 1, np.int64)
        row, reason, step = write_kernel.write_records(
            program.steps,
            program.table,
            program.constants,
            inputs.nodes,
            inputs.words,
            inputs.valid,
            inputs.text,
            out,
            offsets,
        )
        if reason:
            raise RecordError(write_kernel.REASONS[reason], offset=row, format="avro", field=program.paths[step])
        return out, offsets
