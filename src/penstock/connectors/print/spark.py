"""The print connector on Spark. The driver prints the rows, where the user sees them."""

from __future__ import annotations

import base64
import datetime
import sys
from collections.abc import Hashable, Sequence
from typing import Any

from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as F

from penstock.connectors.print.factory import PrintSinkSpec
from penstock.spi import KIND, Batch, Committer, JobContext, Output, Published, Written
from penstock.types import RowKind


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
        self._outputs = outputs

    def publish(self, batch: Batch, frame: DataFrame) -> Published:
        """Print the batch's rows in the order of the tasks."""
        return Published(tuple(Written(self._print(output, frame)) for output in self._outputs))

    def _print(self, output: Output, frame: DataFrame) -> int:
        spec: PrintSinkSpec = output.spec
        kind = F.coalesce(F.col(KIND), F.lit(0)) if KIND in frame.columns else F.lit(0)
        rows, columns = output.select(frame)
        stream = sys.stderr if spec.options.standard_error else sys.stdout
        prefix = f"{spec.options.identifier}> " if spec.options.identifier else ""
        printed = 0
        for row_kind, *row in rows.select(kind, *columns).toLocalIterator():
            stream.write(f"{prefix}{RowKind(row_kind).short}[{', '.join(_text(value) for value in row)}]\n")
            printed += 1
        stream.flush()
        return printed


def _text(value: Any) -> str:
    """A value as Flink's print sink shows it."""
    match value:
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case datetime.datetime():
            return value.isoformat()
        case bytes() | bytearray():
            return base64.b64encode(value).decode("ascii")
        case Row():
            return f"+I[{', '.join(_text(each) for each in value)}]"
        case list():
            return f"[{', '.join(_text(each) for each in value)}]"
        case dict():
            return f"{{{', '.join(f'{_text(key)}={_text(each)}' for key, each in value.items())}}}"
    return str(value)
