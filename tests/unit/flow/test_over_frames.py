"""The frames of OVER have the rows that a plain comparison finds, for every type of the column of the order, at the
ends of its range, and for offsets of any size."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from datetime import date, datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from penstock.columns.ordinals import sort_columns
from penstock.flow.operators.over_frames import Frames, OrderValues, Partitions, frames_of
from penstock.plan.nodes import Frame, SortColumn
from tests.changelogs import SEEDS

_EPOCH = datetime(1970, 1, 1)
_LONGEST = 2**63 - 1
_WIDEST = Decimal("9" * 36 + ".99")
#: Columns by their types: some values of them, and each as a number in the unit of offsets.
COLUMNS: dict[pa.DataType, tuple[list[Any], Callable[[Any], Any]]] = {
    pa.int32(): ([-(2**31), -1, 0, 1, 3, 2**31 - 1], Fraction),
    pa.int64(): ([-_LONGEST - 1, -_LONGEST, -1, 0, 2, 10**15, 2**53 + 1, _LONGEST - 1, _LONGEST], Fraction),
    pa.decimal128(10, 2): ([Decimal("-1.10"), Decimal("0.00"), Decimal("0.05"), Decimal("99999999.99")], Fraction),
    pa.decimal128(38, 2): (
        [
            Decimal(f"-{_WIDEST}"),
            Decimal("-12345678901234567890.12"),
            Decimal(0),
            Decimal(10) ** 20,
            Decimal(10) ** 20 + 1,
            _WIDEST,
        ],
        Fraction,
    ),
    pa.float64(): ([-math.inf, -1.5, -0.0, 0.0, 0.5, 1e300, math.inf, math.nan], float),
    pa.float32(): ([-math.inf, -1.5, 0.25, 0.5, math.inf, math.nan], float),
    pa.timestamp("ms"): ([datetime(1, 1, 1), _EPOCH, _EPOCH + timedelta(milliseconds=1), datetime(9999, 12, 31)], None),
    pa.timestamp("us"): ([_EPOCH, _EPOCH + timedelta(microseconds=999), _EPOCH + timedelta(milliseconds=1)], None),
    pa.date32(): ([date(1, 1, 1), date(2026, 1, 1), date(2026, 1, 2), date(9999, 12, 31)], None),
}
_SIZES = (1, 2, 10, 86_400_000, 2**31, 2**63 - 1, 2**63, 2**64, 10**40)
OFFSETS = (0, *_SIZES, Decimal("0.5"), Decimal("1E-7"), Decimal("2.05"), Decimal(10**20) + Decimal("0.01"))


def _millis(value: date) -> Fraction:
    moment = value if isinstance(value, datetime) else datetime(value.year, value.month, value.day)
    return Fraction((moment - _EPOCH) // timedelta(microseconds=1), 1000)


def _frames(values: list[Any], kind: pa.DataType, by: SortColumn, frame: Frame) -> tuple[list[Any], Frames]:
    """The values in their order, all in one partition, and the frame of each."""
    column = pa.array(values, kind)
    keys = sort_columns(pa.RecordBatch.from_arrays([column], names=[by.name]), (by,))
    order = np.lexsort(keys[::-1])
    ordered = column.take(pa.array(order))
    partitions = Partitions.from_rows(np.zeros(len(order), np.int64), [each[order] for each in keys])
    found = None if frame.rows else OrderValues.from_column(ordered, by)
    return [values[each] for each in order], frames_of(frame, partitions, found)


def _inside(own: Any, other: Any, frame: Frame, *, descending: bool) -> bool:
    """Whether a value is in the frame of a row's own one, neither being null."""
    low, high = (None if each is None else (-each if descending else each) for each in (frame.start, frame.end))
    if descending:
        low, high = high, low
    if isinstance(own, float) and (math.isnan(own) or math.isnan(other)):  # NaN is far from all others
        far = math.isnan(other) and not math.isnan(own)
        beyond = low if math.isnan(own) else high
        return math.isnan(own) == math.isnan(other) or (beyond is None and (math.isnan(own) or far))
    if isinstance(own, float):
        return (low is None or other >= own + float(low)) and (high is None or other <= own + float(high))
    return (low is None or other >= own + Fraction(low)) and (high is None or other <= own + Fraction(high))


@pytest.mark.parametrize("kind", COLUMNS, ids=str)
def test_a_range_has_the_values_between_its_bounds(kind: pa.DataType):
    known, number = COLUMNS[kind]
    number = number or _millis
    for seed in SEEDS:
        rng = random.Random(seed)
        values = [rng.choice([*known, *known, None]) for _ in range(rng.randrange(1, 20))]
        start, end = (rng.choice((None, rng.choice((-1, 1)) * rng.choice(OFFSETS))) for _ in range(2))
        by = SortColumn("by", rng.random() < 0.5, rng.random() < 0.5)
        frame = Frame(rows=False, start=start, end=end)
        ordered, frames = _frames(values, kind, by, frame)
        for at, own in enumerate(ordered):
            first, last = int(frames.starts[at]), int(frames.ends[at])
            if own is None:
                wanted = [
                    place
                    for place, other in enumerate(ordered)
                    if other is None or (start is None and not by.nulls_first) or (end is None and by.nulls_first)
                ]
            else:
                wanted = [
                    place
                    for place, other in enumerate(ordered)
                    if (
                        _inside(number(own), number(other), frame, descending=by.descending)
                        if other is not None
                        else (start is None if by.nulls_first else end is None)
                    )
                ]
            assert list(range(first, last)) == wanted, (frame, by, ordered, at)


@pytest.mark.parametrize("far", [2**31, 2**63 - 1, 2**63, 10**30])
def test_rows_may_be_counted_further_than_there_are_any(far: int):
    by = SortColumn("by")
    for start, end in ((-far, 0), (-far, far), (0, far), (far, None), (None, -far)):
        _, frames = _frames([1, 2, 3], pa.int64(), by, Frame(rows=True, start=start, end=end))
        found = list(zip(frames.starts.tolist(), frames.ends.tolist(), strict=True))
        sizes = [last - first for first, last in found]
        if start == far or end == -far:
            assert sizes == [0, 0, 0]
        else:
            assert found == [(0 if start else at, 3 if end else at + 1) for at in range(3)]
