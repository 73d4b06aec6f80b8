"""The sources of a job and their frames."""

from __future__ import annotations

import base64
import importlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from pyspark import cloudpickle
from pyspark.sql import Column, DataFrame
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import BinaryType, StructType

from penstock.engine.runs.reports import observed, watched
from penstock.plan.nodes import AssignWatermarks, Scan
from penstock.plan.walk import base
from penstock.spi import REPORT, JobContext, SentStage, Source, Stage, connectors


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
    _of: dict[Scan, int] = field(default_factory=dict, init=False)
    _watched: set[int] = field(default_factory=set, init=False)

    def position(self, scan: Scan) -> int:
        """The index of the scan's positions in Spark's log."""
        return self.scans.index(scan)

    def frame(self, scan: Scan) -> DataFrame:
        """The rows of a scan."""
        source = self._source(scan)
        return observed(source.frame(), self._of[scan], timed=source.timed)

    def staged(self, scan: Scan, stage: Stage, columns: StructType | None = None) -> DataFrame:
        """What ``stage`` makes of the rows of a scan where they are read, as Spark's ``columns``; without them as those
        of its schema."""
        return observed(self._source(scan).frame(_sent(stage, columns)), self._of[scan], timed=False)

    def watched(self, node: AssignWatermarks, frame: DataFrame, watermark: Column) -> DataFrame:
        """``frame`` with its ``watermark`` observed, if its source cannot measure them and no other frame does it."""
        scan = base(node)
        ordinal = self._of.get(scan) if isinstance(scan, Scan) else None
        if ordinal is None or self.sources[ordinal].measures or ordinal in self._watched:
            return frame
        self._watched.add(ordinal)
        return watched(frame, ordinal, watermark)

    def _source(self, scan: Scan) -> Source:
        self._of[scan] = len(self.sources)
        source: Source = runtime(scan.connector).source(scan.spec, len(self.sources), self.context)
        self.sources.append(source)
        return source


def _sent(stage: Stage, columns: StructType | None) -> SentStage:
    """A stage on its way to tasks, with functions of the program's main module in it."""
    pickler: Any = cloudpickle
    given = from_arrow_schema(stage.schema) if columns is None else StructType(list(columns.fields))
    text = base64.b64encode(pickler.dumps(stage)).decode("ascii")
    return SentStage(text, given.add(REPORT, BinaryType()))
