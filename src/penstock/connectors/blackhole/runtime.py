"""The blackhole connector on Spark."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

from pyspark.sql import DataFrame

from penstock.connectors.blackhole.sink import BlackholeSink
from penstock.errors import UnsupportedError
from penstock.spi import Batch, JobContext, Output, Published, Source, Target

__all__ = ["BlackholeRuntime", "BlackholeTarget"]


class BlackholeRuntime:
    """Builds the target of a job's blackholes."""

    def source(self, spec: Any, ordinal: int, context: JobContext) -> Source:
        """Raises UnsupportedError."""
        raise UnsupportedError("connector 'blackhole' cannot be read")

    def target_key(self, spec: BlackholeSink) -> Hashable:
        """One target for all."""
        return None

    def target(self, outputs: Sequence[Output], context: JobContext) -> Target:
        """The target that drops the rows of ``outputs``."""
        return BlackholeTarget()


class BlackholeTarget:
    """Computes every row and keeps none."""

    def stage(self) -> None:
        """Rows are taken as they come."""

    def open(self) -> None:
        """Nothing to own."""

    def publish(self, batch: Batch, frame: DataFrame) -> Published:
        """Compute the batch."""
        frame.write.format("noop").mode("overwrite").save()
        return Published()

    def close(self) -> None:
        """Nothing to release."""
