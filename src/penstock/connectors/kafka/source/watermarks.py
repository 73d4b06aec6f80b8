"""Event time of a scan: what reading tasks measure of it, and how the planner makes one watermark of it.

Tasks measure the watermark of each partition that they read (:class:`Measure`); the driver gathers that, and passes it
to the process that plans, by a file (:class:`Notes`). With each batch the planner logs a watermark for each partition
(:class:`Watermarks`), and the smallest of them, without partitions that are idle, is that of the scan, as Flink
combines those of its splits.
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

from penstock.connectors.kafka.source.positions import Position, Positions
from penstock.kafka.session import TopicPartition
from penstock.spi import Watermark

#: The watermark of a partition that was read to its stop: later than any window, and with a millisecond to go to the
#: last that SQL can write.
END = 253_402_300_799_998

_PER_SECOND = {"s": 1, "ms": 1000, "us": 1_000_000, "ns": 1_000_000_000}


class Measure:
    """The watermarks that follow from rows, by place, as one task reads them."""

    def __init__(self, watermark: Watermark):
        self._watermark = watermark
        #: The largest so far, in ms since 1970.
        self.reached: dict[TopicPartition, int] = {}

    def note(self, place: TopicPartition, timestamps: NDArray[np.int64], rows: pa.RecordBatch) -> None:
        """Take rows of ``place`` in; ``timestamps`` are those of their records, in ms, negative for none."""
        if self._watermark.lag is None or not rows.num_rows:
            return
        if self._watermark.column:
            newest = _newest(rows.column(self._watermark.column), self._watermark.unit)
        else:
            newest = int(timestamps.max())
            newest = newest if newest >= 0 else None
        if newest is not None:
            reached = newest - self._watermark.lag
            self.reached[place] = max(reached, self.reached.get(place, reached))


def _newest(column: pa.Array, unit: int | None) -> int | None:
    """The largest value in ms since 1970, None when all are null."""
    newest = pc.max(column)
    if not newest.is_valid:
        return None
    if unit is not None:
        return int(newest.as_py()) * unit
    return int(newest.value * 1000 // _PER_SECOND[newest.type.unit])


class Notes:
    """What tasks have measured, in a file of this machine: written by the driver, read by the process that plans.

    It is no more than news: without it watermarks stay where they are until the next rows of each partition.
    """

    def __init__(self, path: str):
        self._path = Path(path)
        self._reached: dict[TopicPartition, int] = {}
        self._changed = -1

    def add(self, reached: Iterable[tuple[TopicPartition, int]]) -> None:
        """Write what is new in ``reached``."""
        newer = {place: at for place, at in reached if at > self._reached.get(place, at - 1)}
        if not newer:
            return
        self._reached |= newer
        fresh = self._path.with_name(f"{self._path.name}.new")
        fresh.write_text(json.dumps([[*place, at] for place, at in self._reached.items()]))
        fresh.replace(self._path)

    def read(self) -> Mapping[TopicPartition, int]:
        """All that was written."""
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
    """Advances the watermarks of a scan's positions. Lives in the process that plans; when that ends, only how long
    each partition has been silent is forgotten, as in Flink. ``clock`` gives seconds that never go back."""

    def __init__(self, idle_timeout: timedelta | None, notes: Notes, clock: Callable[[], float] = time.monotonic):
        self._idle_timeout = None if idle_timeout is None else idle_timeout.total_seconds()
        self._notes = notes
        self._clock = clock
        self._heard: dict[TopicPartition, float] = {}

    def advanced(
        self, start: Positions, end: Positions, waiting: Collection[TopicPartition], stop: Positions | None
    ) -> Positions:
        """``end``, that of the batch which begins at ``start``, with the watermarks known by now.

        Places in ``waiting`` have records to be read, whether or not this batch reads them. When nothing is read and
        the watermark of the whole stays the same, it is ``end`` with the watermarks of ``start``, so that there is no
        batch for nothing.
        """
        now, floor, reached = self._clock(), start.watermark, self._notes.read()
        at = {}
        for place, position in end.at.items():
            before = start.at.get(place)
            if before is None or place in waiting or place not in self._heard:
                self._heard[place] = now
            known = (before.watermark if before else None, reached.get(place), floor)
            watermark = max((each for each in known if each is not None), default=None)
            if stop is not None and position.offset >= stop.offset(place, position.offset):
                watermark = END
            idle = self._idle_timeout is not None and now - self._heard[place] >= self._idle_timeout
            at[place] = replace(position, watermark=watermark, idle=idle)
        found = Positions(at, end.topic_ids)
        same = at.keys() == start.at.keys() and all(
            at[place].offset == before.offset for place, before in start.at.items()
        )
        if same and found.watermark == floor:
            return Positions({place: _as_before(each, start.at[place]) for place, each in at.items()}, end.topic_ids)
        return found


def _as_before(position: Position, before: Position) -> Position:
    return replace(position, watermark=before.watermark, idle=before.idle)
