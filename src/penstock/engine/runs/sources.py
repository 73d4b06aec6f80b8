"""The sources of a job and their frames."""

from __future__ import annotations

import base64
import importlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from pyspark import cloudpickle
from pyspark.sql import DataFrame
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import BinaryType

from penstock.engine.runs.reports import observe_reports
from penstock.plan.nodes import Scan
from penstock.spi import REPORT, JobContext, SentStage, Source, Stage, connectors, keep_columns


def runtime(connector: str) -> Any:
    """The object that reads and writes a connector's tables on Spark."""
    module, _, name = connectors.get(connector).runtime.partition(":")
    return getattr(importlib.import_module(module), name)()


@dataclass(eq=False)
class SourceSet:
    """Makes the sources of a job and their frames. ``sources`` grows in the order of ``scans``, in which Spark logs
    positions."""

    sources: list[Source]
    context: JobContext
    scans: Sequence[Scan]

    def staged(self, scan: Scan, stage: Stage) -> DataFrame:
        """What ``stage`` makes of the rows of a scan where they are read."""
        ordinal = len(self.sources)
        source: Source = runtime(scan.connector).source(scan.spec, ordinal, self.context)
        self.sources.append(source)
        if scan.found is not None:
            keep_columns(self.context.checkpoint, ordinal, scan.table, scan.found)
        return observe_reports(source.frame(_sent(stage)), ordinal)


def _sent(stage: Stage) -> SentStage:
    """A stage on its way to tasks, with functions of the program's main module in it."""
    pickler: Any = cloudpickle
    text = base64.b64encode(pickler.dumps(stage)).decode("ascii")
    return SentStage(text, from_arrow_schema(stage.schema).add(REPORT, BinaryType()))
