"""Jobs of Spark with instructions for their tasks. PySpark is imported where they run."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from penstock.spi.plugin.tasks import INSTRUCTIONS
from penstock.spi.support.frames import failure_of


@contextmanager
def instructed(context: Any, instructions: str) -> Iterator[None]:
    """Tasks of the jobs that the block runs in this SparkContext get these instructions. Raises the error of a task,
    and BatchError when a worker or an executor was lost."""
    from py4j.protocol import Py4JJavaError
    from pyspark.errors import PySparkException

    context.setLocalProperty(INSTRUCTIONS, instructions or None)
    try:
        yield
    except (PySparkException, Py4JJavaError) as error:
        raise failure_of(error) from error
    finally:
        context.setLocalProperty(INSTRUCTIONS, None)


@dataclass(frozen=True, eq=False)
class SparkTasks:
    """The tasks of a DataFrame, in which writers take the rows (:class:`penstock.spi.WriteTasks`)."""

    frame: Any

    def collect(self, instructions: str = "") -> list[dict[str, Any]]:
        """Run them, and return what the writers yield. Raises as :func:`instructed`."""
        with instructed(self.frame.sparkSession.sparkContext, instructions):
            return [row.asDict() for row in self.frame.collect()]
