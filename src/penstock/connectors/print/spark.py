"""The print connector on Spark. The driver prints the rows, where the user sees them."""

from __future__ import annotations

import sys
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import TextIO

import pyarrow as pa

from penstock.connectors.print.factory import PrintSinkSpec
from penstock.connectors.print.texts import format_values
from penstock.schemas import SchemaChange, describe_change
from penstock.spi import (
    KIND,
    Batch,
    Committer,
    JobContext,
    Output,
    Published,
    Task,
    Writer,
    WriterFactory,
    WriteTasks,
    Written,
)
from penstock.types import RowKind

#: Lines of an output, by its number, and how many they are.
_PRINTED = pa.schema({"output": pa.int32(), "count": pa.int64(), "text": pa.string()})


class PrintRuntime:
    """Builds the committer of a job's print tables."""

    def commit_group(self, spec: PrintSinkSpec) -> Hashable:
        """Each table has a committer."""
        return spec.table

    def committer(self, outputs: Sequence[Output], context: JobContext) -> Committer:
        """The committer that prints the rows of ``outputs``: one for each INSERT INTO the table."""
        return PrintCommitter(outputs)


class PrintCommitter(Committer):
    """Prints rows; a batch that is retried is printed again."""

    def __init__(self, outputs: Sequence[Output]):
        self._outputs = tuple(outputs)

    def writers(self) -> WriterFactory:
        """Make the lines in tasks."""
        return WriterFactory(partial(_LineWriter, self._outputs), _PRINTED)

    def publish(self, batch: Batch, tasks: WriteTasks) -> Published:
        """Print the batch's rows in the order of the tasks."""
        found, counts = tasks.collect().rows, [0] * len(self._outputs)
        for number, output in enumerate(self._outputs):
            stream = _choose_stream(output)
            for row in found:
                if row["output"] == number or (output.spec.found and row["output"] >= len(self._outputs)):
                    stream.write(row["text"])
                    counts[number] += row["count"]
            stream.flush()
        return Published(tuple(map(Written, counts)))

    def apply_changes(self, changes: Sequence[SchemaChange], output: Output) -> None:
        """Print the changes of a table's schema, a line each."""
        stream = _choose_stream(output)
        stream.writelines(f"{output.table}: {describe_change(each)}\n" for each in changes)
        stream.flush()


def _choose_stream(output: Output) -> TextIO:
    return sys.stderr if output.spec.options.standard_error else sys.stdout


class _LineWriter(Writer):
    """Makes the lines of the rows of a task."""

    def __init__(self, outputs: Sequence[Output], _: Task):
        self._outputs = dict(enumerate(outputs))

    def add_output(self, number: int, output: Output) -> None:
        self._outputs[number] = replace(output, spec=replace(output.spec, found=True))

    def write(self, output: int, rows: pa.RecordBatch, hidden: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        text = "".join(_format_lines(self._outputs[output].spec, rows, hidden))
        row = {"output": output, "count": rows.num_rows, "text": text}
        yield pa.RecordBatch.from_pylist([row], schema=_PRINTED)


def _format_lines(spec: PrintSinkSpec, values: pa.RecordBatch, hidden: pa.RecordBatch) -> Iterator[str]:
    kinds = [0] * values.num_rows
    if KIND in hidden.schema.names:
        kinds = hidden.column(KIND).fill_null(0).to_pylist()
    shown = [format_values(each, field.type) for each, field in zip(values.columns, spec.schema.fields, strict=True)]
    for kind, *row in zip(kinds, *shown, strict=True):
        yield f"{spec.prefix}{RowKind(kind).short}[{', '.join(row)}]\n"
