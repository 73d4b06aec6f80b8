"""The sources of a job and their frames."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from typing import Any

from pyspark.sql import DataFrame

from penstock.engine.runs.reports import observed, watched
from penstock.engine.translate import millis
from penstock.plan import AssignWatermarks, Scan, base
from penstock.spi import JobContext, Source, Stage, connectors


def runtime(connector: str) -> Any:
    """The object that reads and writes a connector's tables on Spark."""
    module, _, name = connectors.get(connector).runtime.partition(":")
    return getattr(importlib.import_module(module), name)()


class Readings:
    """Makes the sources of a job and their frames. ``sources`` grows in the order of ``scans``, in which Spark logs
    positions."""

    def __init__(self, sources: list[Source], context: JobContext, scans: Sequence[Scan]):
        self._sources = sources
        self._context = context
        self._scans = scans
        self._of: dict[Scan, int] = {}
        self._watched: set[int] = set()

    def position(self, scan: Scan) -> int:
        """The index of the scan's positions in Spark's log."""
        return self._scans.index(scan)

    def frame(self, scan: Scan) -> DataFrame:
        """The rows of a scan."""
        source = self._source(scan)
        return observed(source.frame(), self._of[scan], timed=source.timed)

    def staged(self, scan: Scan, stage: Stage) -> DataFrame:
        """The batches that ``stage`` makes of the rows of a scan."""
        return observed(self._source(scan).frame(stage), self._of[scan], timed=False)

    def watched(self, node: AssignWatermarks, frame: DataFrame) -> DataFrame:
        """``frame`` with its watermarks observed, if its source cannot measure them and no other frame does it."""
        scan = base(node)
        ordinal = self._of.get(scan) if isinstance(scan, Scan) else None
        if ordinal is None or self._sources[ordinal].measures or ordinal in self._watched:
            return frame
        self._watched.add(ordinal)
        return watched(frame, ordinal, millis(node.watermark))

    def _source(self, scan: Scan) -> Source:
        self._of[scan] = len(self._sources)
        source: Source = runtime(scan.connector).source(scan.spec, len(self._sources), self._context)
        self._sources.append(source)
        return source
