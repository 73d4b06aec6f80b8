"""The print connector on Spark. The driver prints the rows, where the user sees them."""

from __future__ import annotations

import sys
from collections.abc import Hashable, Sequence

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from penstock.connectors.print.factory import PrintSinkSpec
from penstock.connectors.print.texts import texts
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
        table = rows.select(kind.cast("tinyint"), *columns).toArrow()
        for batch in table.to_batches():
            kinds, *values = batch.columns
            shown = [texts(each, field.type) for each, field in zip(values, spec.schema.fields, strict=True)]
            for row_kind, *row in zip(kinds.to_pylist(), *shown, strict=True):
                stream.write(f"{prefix}{RowKind(row_kind).short}[{', '.join(row)}]\n")
        stream.flush()
        return int(table.num_rows)
