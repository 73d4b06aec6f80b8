"""The order of values, against Python's."""

from __future__ import annotations

from datetime import date, datetime, time
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from penstock.columns.ordinals import ordinals

#: Values in their order, none twice.
ASCENDING: list[tuple[pa.DataType, list[Any]]] = [
    (pa.bool_(), [False, True]),
    (pa.int8(), [-128, -1, 0, 127]),
    (pa.int64(), [-(2**63), -1, 0, 2**63 - 1]),
    (pa.uint64(), [0, 1, 2**63, 2**64 - 1]),
    (pa.float32(), [float("-inf"), -1.5, -1e-40, 0.0, 1e-40, 1.5, float("inf"), float("nan")]),
    (pa.float64(), [float("-inf"), -1.5, -5e-324, 0.0, 5e-324, 1.5, float("inf"), float("nan")]),
    (pa.decimal128(38, 2), [Decimal("-123456789012345678901234567890.00"), Decimal("-0.01"), Decimal(0), Decimal(1)]),
    (pa.string(), ["", "a", "a\0", "ab", "b", "ä", "\uffff", "\U0001f600"]),
    (pa.binary(), [b"", b"\0", b"\x7f", b"\x80", b"\xff\0"]),
    (pa.date32(), [date(1900, 1, 1), date(1970, 1, 1), date(2026, 1, 1)]),
    (pa.time64("ns"), [time(0), time(0, 0, 0, 1), time(23, 59, 59)]),
    (pa.timestamp("us", "UTC"), [datetime(1900, 1, 1), datetime(1970, 1, 1), datetime(2026, 1, 1)]),
]


@pytest.mark.parametrize(("kind", "values"), ASCENDING, ids=[str(kind) for kind, _ in ASCENDING])
def test_numbers_order_values_as_the_values_are(kind: pa.DataType, values: list[Any]) -> None:
    shuffled = [*values[::2], None, *values[1::2], *values]
    found = ordinals(pa.array([values[0], *shuffled], kind).slice(1))
    places = [values.index(each) if each is not None else None for each in shuffled]
    by_place = {place: number for place, number in zip(places, found.tolist(), strict=True) if place is not None}
    assert [number for _, number in sorted(by_place.items())] == sorted(set(by_place.values()))
    assert len(by_place) == len(values)
    assert all(found[at] == by_place[place] for at, place in enumerate(places) if place is not None)


def test_zeros_are_equal_and_so_is_every_nan() -> None:
    nans = np.array([0x7FF8000000000000, 0xFFF8000000000000, 0x7FF8000000000001], np.uint64).view(np.float64)
    assert len(set(ordinals(pa.array([0.0, -0.0])).tolist())) == 1
    assert len(set(ordinals(pa.array(nans)).tolist())) == 1
