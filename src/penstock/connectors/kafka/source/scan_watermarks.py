"""Event time of a scan: the measurements of reading tasks, and the watermark that the enumerator derives from them.

Tasks measure the watermark of each partition that they read (:class:`Measure`). The driver collects the measurements
and passes them to the planning process in a file (:class:`Notes`). With each batch the enumerator logs a watermark for
each partition (:class:`Watermarks`). The watermark of the scan is the smallest, without partitions that are idle, as
Flink combines the watermarks of splits.
"""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from penstock.connectors.kafka.source.positions import Positions
from penstock.kafka.partitions import TopicPartition
from penstock.spi import Watermark

#: The watermark of a partition that was read to its stop: later than any window, and one millisecond before the last
#: time that SQL can write.
END = 253_402_300_799_998

_PER_SECOND = {"s": 1, "ms": 1000, "us": 1_000_000, "ns": 1_000_000_000}


class Measure:
    """The watermarks of the rows that one task reads, by partition."""

    def __init__(self, watermark: Watermark):
        self._watermark = watermark
        #: The largest so far, in ms since 1970.
        self.reached: dict[TopicPartition, int] = {}

    def note(self, tp: TopicPartition, timestamps: NDArray[np.int64], rows: pa.RecordBatch) -> None:
        """Take rows of ``tp`` into account. ``timestamps`` are the timestamps of their records, in ms, negative for
        none."""
        if self._watermark.lag is None or not rows.num_rows:
            return
        if self._watermark.column:
            newest = _find_newest(rows.column(self._watermark.column), self._watermark.unit)
        else:
            newest = int(timestamps.max())
            newest = newest if newest >= 0 else None
        if newest is not None:
            reached = newest - self._watermark.lag
            self.reached[tp] = max(reached, self.reached.get(tp, reached))


def _find_newest(column: pa.Array, unit: int | None) -> int | None:
    """The largest value in ms since 1970, None when all are null."""
    newest = pc.max(column)
    if not newest.is_valid:
        return None
    if unit is not None:
        return int(newest.as_py()) * unit
    return int(newest.value * 1000 // _PER_SECOND[newest.type.unit])


class Notes:
    """The measurements of tasks, in a file on this machine: written by the driver, read by the planning process.

    The file may be lost: watermarks then stay the same until the next rows of each partition.
    """

    def __init__(self, path: str):
        self._path = Path(path)
        self._reached: dict[TopicPartition, int] = {}
        self._changed = -1

    def add(self, reached: Iterable[tuple[TopicPartition, int]]) -> None:
        """Write the watermarks of ``reached`` that are larger than the known ones."""
        newer = {tp: at for tp, at in reached if at > self._reached.get(tp, at - 1)}
        if not newer:
            return
        self._reached |= newer
        draft = self._path.with_name(f"{self._path.name}.new")
        draft.write_text(json.dumps([[*tp, at] for tp, at in self._reached.items()]))
        draft.replace(self._path)

    def read(self) -> Mapping[TopicPartition, int]:
        """All watermarks in the file."""
        with contextlib.suppress(FileNotFoundError):
            changed = self._path.stat().st_mtime_ns
            if changed != self._changed:
                listed = json.loads(self._path.read_text())
                self._reached = {(topic, partition): at for topic, partition, at in listed}
                self._changed = changed
        return self._reached

    def close(self) -> None:
        """Delete the file."""
        self._path.unlink(missing_ok=True)


class Watermarks:
    """Advances the watermarks of a scan's positions, in the planning process. When that ends, only the idle time of
    each partition is forgotten, as in Flink. ``clock`` is monotonic, in seconds."""

    def __init__(self, idle_timeout: timedelta | None, notes: Notes, clock: Callable[[], float] = time.monotonic):
        self._idle_timeout = None if idle_timeout is None else idle_timeout.total_seconds()
        self._notes = notes
        self._clock = clock
        self._heard: dict[TopicPartition, float] = {}

    def advance(
        self, start: Positions, end: Positions, waiting: Collection[TopicPartition], stop: Positions | None
    ) -> Positions:
        """``end`` of the batch that begins at ``start``, with the watermarks known by now.

        Partitions in ``waiting`` have unread records, whether or not this batch reads them. When nothing is read and
        the watermark of the scan stays the same, ``end`` has the watermarks of ``start``, so that there is no batch.
        """
        now, floor, reached = self._clock(), start.watermark, self._notes.read()
        at = {}
        for tp, position in end.at.items():
            before = start.at.get(tp)
            if before is None or tp in waiting or tp not in self._heard:
                self._heard[tp] = now
            known = (before.watermark if before else None, reached.get(tp), floor)
            watermark = max((each for each in known if each is not None), default=None)
            if stop is not None and position.offset >= stop.offset(tp, position.offset):
                watermark = END
            idle = self._idle_timeout is not None and now - self._heard[tp] >= self._idle_timeout
            at[tp] = replace(position, watermark=watermark, idle=idle)
        found = Positions(at, end.topic_ids)
        same = {tp: each.offset for tp, each in at.items()} == {tp: each.offset for tp, each in start.at.items()}
        if same and found.watermark == floor:
            at = {
                tp: replace(each, watermark=start.at[tp].watermark, idle=start.at[tp].idle) for tp, each in at.items()
            }
            return Positions(at, end.topic_ids)
        return found
