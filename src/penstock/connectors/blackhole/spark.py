"""The blackhole connector on Spark."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from functools import partial

import pyarrow as pa
from pyspark.sql import DataFrame, Observation
from pyspark.sql import functions as F

from penstock.connectors.blackhole.factory import BlackholeSinkSpec
from penstock.spi import Batch, Committer, JobContext, OnDriver, Output, Published, Stage, Task, Written, outputs_in
from penstock.types import quoted_name

#: The records of each output, from one task.
_COUNTED = pa.schema([pa.field("records", pa.list_(pa.int64()))])


class BlackholeRuntime:
    """Builds the committer of a job's blackholes."""

    def commit_group(self, spec: BlackholeSinkSpec) -> Hashable:
        """All tables share a committer."""
        return None

    def committer(self, outputs: Sequence[Output], context: JobContext) -> Committer:
        """The committer that drops the rows of ``outputs``."""
        return BlackholeCommitter(outputs)


class BlackholeCommitter(Committer):
    """Computes every row, counts it and keeps none."""

    def __init__(self, outputs: Sequence[Output]):
        self._outputs = outputs
        self._staged = False

    def stage(self) -> Stage:
        """Drop rows in the tasks that read them."""
        self._staged = True
        return Stage(partial(_dropped, tuple(self._outputs)), _COUNTED)

    def publish(self, batch: Batch, frame: DataFrame | OnDriver) -> Published:
        """Compute the batch."""
        if self._staged or isinstance(frame, OnDriver):
            counts = [row["records"] for row in frame.collect()]
            return Published(tuple(Written(sum(each)) for each in zip(*counts, strict=True)))
        # A struct column is null in the rows of other outputs.
        counts = [
            F.count(F.lit(1) if each.column is None else F.col(quoted_name(each.column))).alias(str(number))
            for number, each in enumerate(self._outputs)
        ]
        counted = Observation()
        frame.observe(counted, *counts).write.format("noop").mode("overwrite").save()
        return Published(tuple(Written(counted.get[str(number)]) for number in range(len(self._outputs))))


def _dropped(outputs: Sequence[Output], _: Task, rows: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    counts = [0] * len(outputs)
    for batch in rows:
        for number, output in outputs_in(batch, outputs):
            counts[number] += output.rows(batch)[0].num_rows
    yield pa.RecordBatch.from_arrays([pa.array([counts], _COUNTED.field("records").type)], schema=_COUNTED)
