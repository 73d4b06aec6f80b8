"""Event time in a dataflow: what reading tasks measure, and the watermarks that follow from it.

All times are in milliseconds since 1970.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from penstock.flow.rows.calls import BatchTransform
from penstock.spi import HIDDEN

#: The watermark before the first row, and that after the last one.
NEVER, END_OF_TIME = -(1 << 63), (1 << 63) - 1

#: The only column of the result of :attr:`ScanWatermarks.calc`.
TIMESTAMP = "moment"


@dataclass(frozen=True)
class Clock:
    """The times of a batch, as an operator sees them: the watermark at the end of the batch ``before``, by which rows
    are late, and that ``after`` this batch, which closes windows; and the processing time ``now``."""

    before: int
    after: int
    now: int = 0

    @property
    def moves(self) -> bool:
        """Whether the watermark moves."""
        return self.after > self.before


@dataclass(frozen=True)
class ScanWatermarks:
    """How the event time of a scan's rows is measured, or of those that the user's functions make of them: ``calc``
    computes a timestamp of each, from which ``lag`` microseconds are subtracted. ``name`` is that in manifests, where
    ``measure`` says what the timestamp is."""

    name: str
    scan: int
    calc: BatchTransform
    lag: int = 0
    measure: str = ""

    def generate(self, rows: pa.RecordBatch) -> dict[int, int]:
        """The watermark after ``rows`` that :attr:`calc` has made, by the number of the partition that they are of."""
        moments = rows.column(TIMESTAMP).view(pa.int64())
        partitions = rows.column(HIDDEN.names[0])
        found: Iterable[tuple[int, int | None]]
        bounds = pc.min_max(partitions)
        if bounds["min"].equals(bounds["max"]):
            found = [(bounds["min"].as_py(), pc.max(moments).as_py())]
        else:
            grouped = pa.table({"partition": partitions, "moment": moments}).group_by("partition")
            table = grouped.aggregate([("moment", "max")])
            found = zip(*(column.to_pylist() for column in table.columns), strict=True)
        return {number: (at - self.lag) // 1000 for number, at in found if at is not None and number is not None}


@dataclass(frozen=True)
class WatermarkProgress:
    """How far event time has come by the end of a batch: the ``watermark``, and that of each partition by its name."""

    watermark: int = NEVER
    partitions: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class OperatorTime:
    """What an operator has seen of event time by the end of a batch: the ``watermark``, and how many rows came ``late``
    since the job began."""

    watermark: int = NEVER
    late: int = 0

    @property
    def reached(self) -> int | None:
        """The watermark; None before the first row."""
        return None if self.watermark == NEVER else self.watermark


@dataclass(frozen=True)
class PendingPartitions:
    """What the driver knows of a scan's event time when a batch begins: the ``watermark`` at the end of the batch
    before, and the numbers of the partitions that the watermark waits for, those that are neither idle nor at their
    end, with how far each has come (None: it has given no row). ``ended``: all partitions end with this batch."""

    watermark: int = NEVER
    partitions: Mapping[int, int | None] = field(default_factory=dict)
    ended: bool = False

    def watermark_after(self, measured: Mapping[int, int]) -> int:
        """The watermark at the end of the batch, in which rows came so far: the smallest of the partitions. It never
        goes back, and stays while no partition is awaited, or one of them has given no row."""
        if self.ended:
            return END_OF_TIME
        found = [
            max(at, measured.get(number, at)) if at is not None else measured.get(number)
            for number, at in self.partitions.items()
        ]
        known = [each for each in found if each is not None]
        return max(self.watermark, min(known)) if known and len(known) == len(found) else self.watermark


class MeasuredWatermarks:
    """Watermarks that were measured in a batch, by generator and by the number of the partition."""

    def __init__(self) -> None:
        self.by_generator: dict[int, dict[int, int]] = {}

    @classmethod
    def from_reports(cls, data: Iterable[bytes]) -> MeasuredWatermarks:
        """What several tasks measured, each as :meth:`to_bytes` gives it."""
        found = cls()
        for each in data:
            found.add_report(each)
        return found

    def add_watermarks(self, generator: int, reached: Mapping[int, int]) -> None:
        """Take in watermarks of partitions."""
        known = self.by_generator.setdefault(generator, {})
        for number, at in reached.items():
            known[number] = max(at, known.get(number, at))

    def to_bytes(self) -> bytes:
        """As JSON."""
        return json.dumps(
            [[generator, list(reached.items())] for generator, reached in self.by_generator.items()]
        ).encode()

    def add_report(self, data: bytes) -> None:
        """Take in what :meth:`to_bytes` gave."""
        for generator, reached in json.loads(data):
            self.add_watermarks(generator, dict(reached))


def operator_clock(
    generators: Iterable[int], awaited: Mapping[int, PendingPartitions], measured: MeasuredWatermarks, now: int
) -> Clock:
    """The clock of an operator whose rows have the event times of these ``generators``: the smallest watermark
    counts."""
    found = [(awaited[each], measured.by_generator.get(each, {})) for each in generators]
    if not found:
        return Clock(NEVER, NEVER, now)
    return Clock(min(each.watermark for each, _ in found), min(each.watermark_after(new) for each, new in found), now)


def millis_of(column: pa.Array) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """The values of a column of timestamps in milliseconds since 1970, 0 for nulls, and which are not null."""
    numbers = column.view(pa.int64())
    valid = np.asarray(numbers.is_valid())
    values = np.asarray(pc.fill_null(numbers, 0))
    return values // 1000, valid
