"""Text to moments and numbers and back, as far as it needs no Spark to know what is right."""

from __future__ import annotations

import decimal
import random
import struct
from datetime import date, datetime, timedelta
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest

from penstock.exact.numbers import format_double, format_float
from penstock.flow.kernels.moments import readings
from penstock.flow.kernels.moments.calendar import civil, days_of, iso_week, months_later
from penstock.flow.kernels.moments.datetimes import text_of
from penstock.flow.kernels.moments.named_patterns import NamedPattern
from penstock.flow.kernels.moments.patterns import Pattern
from penstock.flow.kernels.numbers import reals
from penstock.types import DecimalType

DAYS = np.array([*range(-800_000, 3_000_000, 997), 0, 58, 59, 60, -1, 11_016])


def test_the_calendar_is_python_s():
    first = date(1970, 1, 1)
    within = [int(each) for each in DAYS if -719_162 <= each <= 2_932_896]
    dates = [first + timedelta(each) for each in within]
    year, month, day = civil(np.array(within))
    assert list(zip(year.tolist(), month.tolist(), day.tolist(), strict=True)) == [
        (d.year, d.month, d.day) for d in dates
    ]
    assert iso_week(np.array(within)).tolist() == [each.isocalendar().week for each in dates]
    assert days_of(*civil(DAYS)).tolist() == DAYS.tolist()


def test_months_end_at_their_last_day():
    given = [(date(2024, 1, 31), 1, date(2024, 2, 29)), (date(2023, 3, 31), -13, date(2022, 2, 28))]
    first = date(1970, 1, 1)
    days = np.array([(start - first).days for start, _, _ in given])
    assert months_later(days, np.array([count for _, count, _ in given])).tolist() == [
        (end - first).days for _, _, end in given
    ]


@pytest.mark.parametrize(
    ("kind", "pattern", "text"),
    [
        (Pattern, "yyyy-MM-dd HH:mm:ss", "2026-01-31 10:20:30"),
        (Pattern, "dd.MM.yy", "31.01.26"),
        (Pattern, "yyyyMMdd'T'HHmmss.SSS", "20260131T102030.123"),
        (Pattern, "'o''clock' HH", "o'clock 10"),
        (Pattern, "SSSSSS é", "123456 é"),
        (NamedPattern, "EEE, d MMM yyyy", "Sat, 31 Jan 2026"),
        (NamedPattern, "EEEE d/MMMM/yyyy h:mm a", "Saturday 31/January/2026 10:20 AM"),
        (NamedPattern, "yy-M-d H:m:s.SSS", "26-1-31 10:20:30.123"),
    ],
)
def test_a_pattern_writes_and_reads(kind, pattern, text):
    found = kind.from_text(pattern)
    assert found.readable
    moments = pa.array([datetime(2026, 1, 31, 10, 20, 30, 123456), None])
    assert found.write(np.array([1_769_854_830_123_456, 0]), moments).to_pylist() == [text, None]
    others = ["?" * len(text.encode()), text + " ", "Sun, 31 Jan 2026"]  # which is a Saturday
    read, good = found.read(pa.array([text, None, *others]), lambda _: None)
    assert good.tolist() == [True, False, False, False, False]
    assert found.write(read[:1], moments[:1]).to_pylist() == [text]


@pytest.mark.parametrize("pattern", ["EEE", "yyyyy", "MMM", "#", "[yyyy]", "", "'x", "a", "G"])
def test_a_pattern_with_other_parts_is_not_known(pattern):
    assert Pattern.from_text(pattern) is None


@pytest.mark.parametrize(
    ("pattern", "readable"), [("HH HH", False), ("ssSSSmm", False), ("yy yyyy", False), ("ss.SSS", True)]
)
def test_what_may_be_read_in_several_ways_is_not_read(pattern, readable):
    found = Pattern.from_text(pattern)
    assert found is not None
    assert found.readable == readable


def test_years_beyond_four_digits_are_written_in_full():
    moments = pa.array([2_932_897, -719_163, -719_529], pa.date32())  # the days around the years 9999 and 1
    assert text_of(moments, 0).to_pylist() == ["10000-01-01", "0000-12-31", "-0001-12-31"]
    far = pa.array([253_433_923_199_500_000, 2**63 - 1, -(2**62)]).view(pa.timestamp("us"))
    assert [text_of(far, digits).to_pylist()[0] for digits in (0, 3, 6)] == [
        *("10000-12-31 23:59:59", "10000-12-31 23:59:59.500", "10000-12-31 23:59:59.500000"),
    ]
    assert text_of(far, 6).to_pylist()[1:] == ["294247-01-10 04:00:54.775807", "-144169-06-28 09:59:32.612096"]
    found = Pattern.from_text("yyyy/MM")
    assert found is not None
    micros = np.array([2_932_897, -719_163, -719_529]) * 86_400_000_000
    assert found.write(micros, moments).to_pylist() == ["+10000/01", "0001/12", "0002/12"]  # as Java does
    simple = Pattern.from_text("yyyy/MM", simple=True)
    assert simple is not None
    assert simple.write(micros, moments).to_pylist() == ["10000/01", "0001/12", "0002/12"]


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("2026-1-5", datetime(2026, 1, 5)),
        ("2026-02-30", datetime(2026, 2, 28)),
        ("2026-01-31 24:00:00", datetime(2026, 2, 1)),
        ("2026-01-31 1:2:3.5", datetime(2026, 1, 31, 1, 2, 3, 500_000)),
        *(
            (each, None)
            for each in ("2026", "2026-02-32", "2026-01-31T10:20:30", "2026-01-31 10:20:30Z", " 2026-01-31")
        ),
        *((each, None) for each in ("2026-01-31 10:20", "2026-01-31 10:20:60", "2026-01-31 24:00:01", "12026-01-31")),
    ],
)
def test_a_timestamp_is_read_as_flink_does(text, moment):
    found = readings.micros(text)
    assert found == (None if moment is None else (moment - datetime(1970, 1, 1)) // timedelta(microseconds=1))


def test_what_is_not_by_a_pattern_may_be_read_in_another_way():
    march = (datetime(2026, 3, 2) - datetime(1970, 1, 1)) // timedelta(microseconds=1)
    assert readings.sql_moment(" 2026-02-30 ") == march
    assert readings.sql_moment("2026-03-01 23:59:60") == march
    assert readings.lenient("2026-02-30 0:0:0 and more") == march
    assert [readings.sql_moment(each) for each in ("2026-13-01", "2026-01-31 10:20", "2026-01-31 10:20:30.")] == [
        None
    ] * 3
    assert readings.lenient("2026-02-30") is None


def test_weeks_of_patterns_begin_on_sunday():
    found = NamedPattern.from_text("w/D/Q/k/K/G")
    assert found is not None
    assert not found.readable
    days = [date(2026, 1, 1), date(2026, 1, 4), date(2026, 12, 27), date(2024, 12, 28), date(2024, 2, 29)]
    moments = pa.array(days)
    micros = np.array([(each - date(1970, 1, 1)).days for each in days]) * 86_400_000_000
    assert found.write(micros, moments).to_pylist() == [
        *("1/1/1/24/0/AD", "2/4/1/24/0/AD", "1/361/4/24/0/AD", "52/363/4/24/0/AD", "9/60/1/24/0/AD"),
    ]


def test_digits_of_floating_point_numbers_are_the_shortest():
    chance = random.Random(3)
    doubles = [struct.unpack("<d", chance.randbytes(8))[0] for _ in range(3000)] + [0.0, -0.0, 1e7, 1e-3, 123456.789]
    assert reals.to_text(pa.array(doubles)).to_pylist() == [format_double(each) for each in doubles]
    singles = [struct.unpack("<f", chance.randbytes(4))[0] for _ in range(3000)]
    assert reals.to_text(pa.array(singles, pa.float32())).to_pylist() == [format_float(each) for each in singles]


@pytest.mark.parametrize("places", [-3, 0, 2, 7, 17, 300])
def test_rounding_is_that_of_the_digits(places):
    chance = random.Random(places)
    given = [chance.uniform(-1, 1) * 10 ** chance.randint(-8, 18) for _ in range(3000)]
    given += [round(each, places + 1) for each in given[:500]] + [2.675, 0.5, 1.5, -2.5, 1e300, 5e-324, 0.1, 2.0**53]
    given += [each + 0.5 for each in range(-5, 5)] + [float(f"{each}e-{abs(places) + 1}5") for each in range(5)]
    wide = decimal.Context(prec=2000, rounding=decimal.ROUND_HALF_UP)
    wanted = [float(Decimal(repr(each)).quantize(Decimal(1).scaleb(-places), context=wide)) + 0.0 for each in given]
    assert reals.round_reals(places, pa.array(given)).to_pylist() == wanted


def test_zero_has_no_sign_when_it_is_rounded_and_nan_stays():
    found = reals.round_reals(0, pa.array([-0.0, -0.4, float("nan"), -float("inf"), None])).to_pylist()
    assert [repr(each) for each in found] == ["0.0", "0.0", "nan", "-inf", "None"]


def test_numbers_in_text_are_java_s():
    assert readings.double(" -1d ") == -1.0
    assert readings.double("+nan") is None
    assert readings.decimal("99.995", DecimalType(4, 2)) == "range"
    assert readings.decimal("x", DecimalType(4, 2)) == "malformed"
    assert readings.integer(" 7.9 ") == 7
    assert readings.integer("٧") is None
    assert readings.integer("\t7") is None
