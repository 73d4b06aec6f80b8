"""The tasks of a DataFrame, for committers. PySpark is imported where they run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from penstock.spi.plugin.tasks import INSTRUCTIONS
from penstock.spi.support.frames import failure_of


@dataclass(frozen=True, eq=False)
class SparkTasks:
    """The tasks of a DataFrame, in which writers take the rows (:class:`penstock.spi.WriteTasks`)."""

    frame: Any

    def collect(self, instructions: str = "") -> list[dict[str, Any]]:
        """Run them, and return what the writers yield. Raises the error of a task, and BatchError when a worker or an
        executor was lost."""
        from py4j.protocol import Py4JJavaError
        from pyspark.errors import PySparkException

        context = self.frame.sparkSession.sparkContext
        context.setLocalProperty(INSTRUCTIONS, instructions or None)
        try:
            return [row.asDict() for row in self.frame.collect()]
        except (PySparkException, Py4JJavaError) as error:
            raise failure_of(error) from error
        finally:
            context.setLocalProperty(INSTRUCTIONS, None)
