"""Dates and times as text: the compiled loops and the whole rule."""

from __future__ import annotations

import datetime as dt

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.exact import timestamps
from penstock.loops import timestamps as calendar

EPOCH = dt.datetime(1970, 1, 1)


def micros(at: dt.datetime) -> int:
    return (at - EPOCH) // dt.timedelta(microseconds=1)


@given(st.datetimes(), st.booleans(), st.booleans())
def test_timestamps_there_and_back(at: dt.datetime, iso: bool, zone: bool) -> None:
    text = timestamps.format_timestamp(micros(at), iso, zone)
    assert timestamps.parse_timestamp(text, iso, zone) == micros(at)
    assert text.startswith(f"{at.year:04d}-{at:%m-%d}")
    out = np.zeros(40, np.uint8)
    separator = ord("T") if iso else ord(" ")
    end = calendar.write_timestamp(out, 0, micros(at), separator, zone)
    assert bytes(out[:end]).decode() == text
    assert calendar.parse_timestamp(out, 0, end, separator, zone) == micros(at)


@given(st.integers(-(2**31), 2**31 - 1))
def test_every_day_has_a_text(days: int) -> None:
    assert timestamps.parse_date(timestamps.format_date(days)) == days


@pytest.mark.parametrize(
    ("text", "smart", "expected"),
    [("2021-02-30", True, "2021-02-28"), ("2024-02-31", True, "2024-02-29"), ("2021-04-31", True, "2021-04-30")],
)
def test_smart_days_end_with_the_month(text: str, smart: bool, expected: str) -> None:
    assert timestamps.format_date(timestamps.parse_date(text, smart)) == expected


@pytest.mark.parametrize(
    "text", ["2021-02-30", "2021-13-01", "2021-00-01", "2021-1-1", "12021-01-01", "+2021-01-01", "2021-01-32", "x"]
)
def test_invalid_dates(text: str) -> None:
    with pytest.raises(ValueError, match=r"date|day|year"):
        timestamps.parse_date(text)


def test_times() -> None:
    assert timestamps.parse_time("23:59:59.123456789") == 86_399_123_456_789
    assert timestamps.parse_time("01:02:03.") == 3_723_000_000_000
    assert timestamps.parse_time("24:00:00") == 0
    assert timestamps.parse_iso_time("01:02") == 3_720_000_000_000
    assert timestamps.format_time(3_723_000_000_100) == "01:02:03.0000001"
    for text in ("24:00:01", "1:00:00", "01:02", "01:60:00", "01:02:03.1234567890"):
        with pytest.raises(ValueError, match="time"):
            timestamps.parse_time(text)
    with pytest.raises(ValueError, match="no such time"):
        timestamps.parse_iso_time("24:00:00")


def test_offsets() -> None:
    utc = timestamps.parse_timestamp("2021-01-01T00:00:00Z", True, True, True)
    assert timestamps.parse_timestamp("2021-01-01T02:00+02:00", True, True, True) == utc
    assert timestamps.parse_timestamp("2020-12-31T23:29:30-00:30:30", True, False, True) == utc
    for text in ("2021-01-01T00:00:00", "2021-01-01T00:00:00+19:00"):
        with pytest.raises(ValueError, match=r"timestamp|offset"):
            timestamps.parse_timestamp(text, True, True, True)
