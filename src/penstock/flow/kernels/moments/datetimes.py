"""Dates, times and timestamps: their parts, arithmetic, and text."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from decimal import Decimal
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from penstock.columns.buffers import from_buffers
from penstock.flow.kernels.by_value import by_value
from penstock.flow.kernels.decimals import MOST
from penstock.flow.kernels.moments.calendar import (
    DAY_MICROS,
    Numbers,
    civil,
    day_and_time,
    days_of,
    iso_week,
    months_later,
)
from penstock.flow.kernels.moments.local import Convert, to_local
from penstock.flow.kernels.session import Session
from penstock.flow.kernels.vectors import (
    Failure,
    Kernel,
    Strict,
    Values,
    Vector,
    column,
    columns_of,
    find_known,
    numbers,
    valid_rows,
)
from penstock.plan.expressions import Call, Literal
from penstock.plan.flink_sql import flink_sql
from penstock.types import DataType, IntervalType, TimestampType, TimeType, arrow_type
from penstock.types.casts import is_numeric

UNIT_MICROS = {
    "SECOND": 1_000_000,
    "MINUTE": 60_000_000,
    "HOUR": 3_600_000_000,
    "DAY": DAY_MICROS,
    "WEEK": 7 * DAY_MICROS,
}
_UNIT_MONTHS = {"MONTH": 1, "QUARTER": 3, "YEAR": 12}
_MOST = 2**63 - 1
#: The last day within the range of timestamps.
_MOST_DAYS = _MOST // DAY_MICROS
#: The days of the years with four digits.
_FIRST_DAY, _LAST_DAY = -719_162, 2_932_896
#: The milliseconds of the years 0 to 9999.
_FIRST_MILLI, _LAST_MILLI = -62_167_219_200_000, 253_402_300_799_999


def localize(data_type: DataType, session: Session) -> Convert | None:
    """Makes local times of points in time, and leaves other values; None if the session's zone is not known."""
    if isinstance(data_type, TimestampType) and data_type.local_zone:
        return to_local(session)
    return lambda values: values


def micros_of(values: pa.Array) -> Numbers:
    """Timestamps in local time, or dates, in microseconds since 1970; times in microseconds of the day."""
    if pa.types.is_timestamp(values.type):
        return numbers(values.view(pa.int64()))  # type: ignore[no-any-return]
    if pa.types.is_time64(values.type):
        return numbers(values.view(pa.int64())) // 1000  # type: ignore[no-any-return]
    return numbers(values.view(pa.int32())).astype(np.int64) * DAY_MICROS  # type: ignore[no-any-return]


def days_in(values: pa.Array) -> Numbers:
    """Dates, or the days of timestamps, since 1970."""
    if pa.types.is_date32(values.type):
        return numbers(values.view(pa.int32())).astype(np.int64)  # type: ignore[no-any-return]
    return micros_of(values) // DAY_MICROS


# --- parts ---------------------------------------------------------------------------------------------------

_PARTS: dict[str, Callable[[Numbers], Numbers]] = {
    "YEAR": lambda days: civil(days)[0],
    "QUARTER": lambda days: (civil(days)[1] + 2) // 3,
    "MONTH": lambda days: civil(days)[1],
    "DAY": lambda days: civil(days)[2],
    "WEEK": iso_week,
    "DOY": lambda days: days - days_of(civil(days)[0], np.ones_like(days), 1) + 1,
    "DAYOFWEEK": lambda days: (days + 4) % 7 + 1,
    "ISODOW": lambda days: (days + 3) % 7 + 1,
    "ISOYEAR": lambda days: civil(days - (days + 3) % 7 + 3)[0],
    "DECADE": lambda days: civil(days)[0] // 10,
    "CENTURY": lambda days: (civil(days)[0] + 99) // 100,
    "MILLENNIUM": lambda days: (civil(days)[0] + 999) // 1000,
}
#: Parts of a second, in nanoseconds.
_FRACTIONS = {"MILLISECOND": 1_000_000, "MICROSECOND": 1000, "NANOSECOND": 1}
_TIME_PARTS = {"HOUR": (3_600_000_000, 24), "MINUTE": (60_000_000, 60), "SECOND": (1_000_000, 60)}


def extract(call: Call, session: Session) -> Kernel | None:
    """``EXTRACT``."""
    unit, moment = call.args
    if isinstance(moment.type, IntervalType) and isinstance(unit, Literal):
        return Strict(pa.int64(), partial(_compute_interval_part, moment.type.months, str(unit.value)))
    local = localize(moment.type, session)
    if not isinstance(unit, Literal) or local is None:
        return None
    part = _make_part(str(unit.value))
    return None if part is None else Strict(pa.int64(), lambda _, values: _make_column(part(local(values)), values))


def _make_part(unit: str) -> Callable[[pa.Array], Any] | None:
    """Computes the part from local times."""
    if unit in _FRACTIONS:
        return lambda values: micros_of(values) % 1_000_000 * 1000 // _FRACTIONS[unit]
    if unit == "EPOCH":
        return lambda values: micros_of(values) // 1_000_000
    if unit in _TIME_PARTS:
        size, count = _TIME_PARTS[unit]
        return lambda values: micros_of(values) // size % count
    part = _PARTS.get(unit)
    return None if part is None else lambda values: part(days_in(values))


#: The microseconds of parts of intervals, and how many of them the next larger part has, if there is one.
_SPANS = {
    "DAY": (DAY_MICROS, None),
    **_TIME_PARTS,
    "MILLISECOND": (1000, 1000),
}
#: The same in months.
_MONTH_SPANS = {
    "MILLENNIUM": (12_000, None),
    "CENTURY": (1200, None),
    "YEAR": (12, None),
    "MONTH": (1, 12),
}


def _compute_interval_part(months: bool, unit: str, _: Values, values: pa.Array) -> pa.Array:
    """Parts have the sign of the interval. Quarters are counted from 1, as in Flink."""
    size, count = (_MONTH_SPANS if months else _SPANS)["MONTH" if unit == "QUARTER" else unit]
    given = np.asarray(numbers(values), np.int64)
    whole = (given - np.fmod(given, size)) // size
    found = whole if count is None else np.fmod(whole, count)
    if unit == "QUARTER":
        found = (found - 1 - np.fmod(found - 1, 3)) // 3 + 1
    return _make_column(found, values)


def text_of_interval(values: pa.Array, months: bool) -> pa.Array:
    """Years and months, or days and milliseconds, with their sign, as CAST writes them."""
    given = np.asarray(numbers(values), np.int64)
    size = np.abs(given if months else (given - np.fmod(given, 1000)))
    sign = np.where(size == 0, "+", np.where(given < 0, "-", "+"))
    large = pa.array(size // (12 if months else DAY_MICROS)).cast(pa.string())
    rest: list[Field] = [b"-", (size % 12, 2)] if months else [b" ", *time_fields(size % DAY_MICROS, 3)]
    return pc.binary_join_element_wise(pa.array(sign), large, compose_text(rest, values), "")


def _make_column(found: Any, *values: Values, arrow: pa.DataType | None = None) -> pa.Array:
    return column(np.ascontiguousarray(found), find_known(*values), arrow or pa.int64())


# --- arithmetic ----------------------------------------------------------------------------------------------


def shift(call: Call, session: Session) -> Kernel | None:
    """A date, time or timestamp plus or minus an interval, whose value is a number of months or of microseconds. Points
    in time are moved in UTC, as in Flink, so a day has 24 hours where clocks change."""
    _, interval = call.args
    if not isinstance(interval.type, IntervalType):
        return None
    size, months = (-1 if call.function == "-" else 1), interval.type.months
    return Strict(arrow_type(call.type), lambda values, count: _move_moments(call, values, count, size, months))


def timestampadd(call: Call, session: Session) -> Kernel | None:
    """``TIMESTAMPADD``: of points in time in UTC, as in Flink."""
    unit = call.args[0]
    if not isinstance(unit, Literal):
        return None
    word = str(unit.value)
    months = word in _UNIT_MONTHS
    size = _UNIT_MONTHS[word] if months else UNIT_MICROS[word]
    return Strict(arrow_type(call.type), lambda _, count, values: _move_moments(call, values, count, size, months))


def _move_moments(call: Call, moments: Values, count: Values, size: int, months: bool) -> pa.Array | Vector:
    """Moments ``count * size`` months or microseconds later."""
    many, counts = columns_of(moments, count)
    micros, steps = micros_of(many), np.asarray(numbers(counts), np.int64)
    most = (_MOST_DAYS * 12 // 365 if months else _MOST) // abs(size)
    beyond = (steps > most) | (steps < -most)
    steps = np.where(beyond, 0, steps) * size
    arrow = arrow_type(call.type)
    if pa.types.is_time64(arrow):
        return _turn_times(call, micros, np.zeros_like(steps) if months else steps, moments, count)
    if pa.types.is_date32(arrow) and not months:
        steps = steps - np.fmod(steps, DAY_MICROS)  # whole days, towards zero
    if months:
        days, rest = day_and_time(micros)
        days = months_later(days, steps)
        beyond |= (days >= _MOST_DAYS) | (days < -_MOST_DAYS)
        found = np.where(beyond, 0, days) * DAY_MICROS + rest
    else:
        found = micros + steps
        beyond |= ((micros ^ found) & (steps ^ found)) < 0
    if pa.types.is_date32(arrow):
        found = (found // DAY_MICROS).astype(np.int32)
    made = _make_column(found, moments, count, arrow=arrow)
    return Vector(made, (Failure(beyond, overflow_reason(call)),)) if beyond.any() else made


def _turn_times(call: Call, micros: Numbers, steps: Numbers, *given: Values) -> pa.Array:
    """Times of the day plus or minus microseconds, wrapped around at midnight."""
    assert isinstance(call.type, TimeType)  # noqa: S101
    found = (micros + steps) % DAY_MICROS
    found -= found % 10 ** (6 - min(call.type.precision, 6))
    return _make_column(found * 1000, *given, arrow=arrow_type(call.type))


def overflow_reason(call: Call) -> Callable[[int], str]:
    """The reason of rows whose moment is out of range."""
    return lambda _: f"[DATETIME_OVERFLOW] {flink_sql(call)} exceeds the range of {call.type.text()}"


def timestampdiff(call: Call, session: Session) -> Kernel | None:
    """``TIMESTAMPDIFF``: whole units, towards zero; of points in time in UTC, as in Flink."""
    unit = call.args[0]
    if not isinstance(unit, Literal):
        return None
    word = str(unit.value)
    if word in _UNIT_MONTHS:
        return Strict(pa.int32(), partial(_count_months_between, _UNIT_MONTHS[word]))
    return Strict(pa.int32(), partial(_count_between, call, session.strict, UNIT_MICROS[word]))


def _count_months_between(size: int, _: Values, first: Values, last: Values) -> pa.Array:
    """Flink counts the months from the earlier day to the later one, and then looks at the time of the day."""
    start, end = (day_and_time(micros_of(each)) for each in columns_of(first, last))
    forwards = end[0] >= start[0]
    early, late = np.where(forwards, start[0], end[0]), np.where(forwards, end[0], start[0])
    (year, month, _day), (later, last_month, _other) = civil(early), civil(late)
    months = (later - year) * 12 + last_month - month
    months -= months_later(early, months) > late
    months = np.where(forwards, months, -months)
    months -= (months_later(start[0], months) == end[0]) & (end[1] < start[1])
    whole = (months - np.fmod(months, size)) // size
    return _make_column(whole.astype(np.int32), first, last, arrow=pa.int32())


def _count_between(call: Call, strict: bool, size: int, _: Values, first: Values, last: Values) -> pa.Array | Vector:
    start, end = map(micros_of, columns_of(first, last))
    lapse = end - start
    wraps = ((end ^ start) & (end ^ lapse)) < 0
    whole = (lapse - np.fmod(lapse, size)) // size
    beyond = wraps | (strict & ((whole >= 2**31) | (whole < -(2**31))))
    made = _make_column(np.where(beyond, 0, whole).astype(np.int32), first, last, arrow=pa.int32())
    return Vector(made, (Failure(beyond, overflow_reason(call)),)) if beyond.any() else made


def to_timestamp_ltz(call: Call, session: Session) -> Kernel | None:
    """``TO_TIMESTAMP_LTZ`` of a number of seconds or milliseconds; null beyond the years 0 to 9999. A precision other
    than 0 and 3 fails."""
    return _BY_PRECISION(call, session) if is_numeric(call.args[0].type) else None


def _make_precision_kernel(call: Call, session: Session) -> Kernel | None:
    precision = call.args[1] if len(call.args) == 2 else None
    if isinstance(precision, Literal) and precision.value not in (0, 3, None):
        return None
    seconds = isinstance(precision, Literal) and precision.value == 0
    return Strict(arrow_type(call.type), lambda values, *_: _make_instants(1000 if seconds else 1, values))


_BY_PRECISION = by_value(_make_precision_kernel, 1)


def _make_instants(size: int, values: pa.Array) -> pa.Array:
    """Points in time by numbers of milliseconds, times ``size``. Digits after the point of a decimal do not count."""
    least, most = -(-_FIRST_MILLI // size), _LAST_MILLI // size
    if pa.types.is_floating(values.type):
        given = numbers(values).astype(np.float64)
        if size == 1:
            given = np.where(np.isnan(given), 0, given)  # so does Java
        valid = (np.trunc(given) >= least) & (np.trunc(given * size) <= _LAST_MILLI)
        millis = (np.where(valid, given, 0) * size).astype(np.int64)
    else:
        whole = _truncate_decimals(values, least, most) if pa.types.is_decimal(values.type) else values
        given = numbers(whole).astype(np.int64)
        valid = (given >= least) & (given <= most)
        millis = np.where(valid, given, 0) * size
    valid &= valid_rows(values)
    return column(np.where(valid, millis, 0) * 1000, valid, pa.timestamp("us", "UTC"))


def _truncate_decimals(values: pa.Array, least: int, most: int) -> pa.Array:
    """The whole numbers of decimals; one more than ``most`` for those that are not between the limits."""
    cut = pc.trunc(pc.cast(values, pa.decimal256(MOST + 1, values.type.scale)))
    low, high, beyond = (pa.scalar(Decimal(each), pa.decimal256(MOST, 0)) for each in (least, most, most + 1))
    inside = pc.and_(pc.greater_equal(cut, low), pc.less_equal(cut, high))
    return pc.cast(pc.if_else(inside, cut, beyond.cast(cut.type)), pa.int64())


# --- text ----------------------------------------------------------------------------------------------------

#: Builds a column of text from numbers with a fixed number of digits, and characters between them.
Field = tuple[Numbers, int] | bytes


def compose_text(fields: Sequence[Field], values: pa.Array) -> pa.Array:
    """Text of the same length in all rows; null where ``values`` are."""
    width = sum(len(each) if isinstance(each, bytes) else each[1] for each in fields)
    out = np.empty((len(values), width), np.uint8)
    at = 0
    for each in fields:
        if isinstance(each, bytes):
            out[:, at : at + len(each)] = np.frombuffer(each, np.uint8)
            at += len(each)
            continue
        rest, digits = each
        for place in range(at + digits - 1, at - 1, -1):
            rest, digit = rest // 10, rest % 10
            out[:, place] = digit + ord("0")
        at += digits
    offsets = np.arange(len(values) + 1, dtype=np.int64) * width
    return from_buffers(pa.string(), valid_rows(values).view(np.uint8), offsets.astype(np.int32), out.reshape(-1))


def day_fields(days: Numbers) -> list[Field]:
    """``yyyy-MM-dd``."""
    year, month, day = civil(days)
    return [(year, 4), b"-", (month, 2), b"-", (day, 2)]


def time_fields(micros: Numbers, digits: int) -> list[Field]:
    """``HH:mm:ss``, and as many digits of a second."""
    seconds, fraction = micros // 1_000_000, micros % 1_000_000
    fields: list[Field] = [(seconds // 3600, 2), b":", (seconds // 60 % 60, 2), b":", (seconds % 60, 2)]
    return [*fields, b".", (fraction // 10 ** (6 - digits), digits)] if digits else fields


def four_digits(days: Numbers, valid: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Which of the days are in the years 1 to 9999; also those that are not ``valid``."""
    return ~valid | ((days >= _FIRST_DAY) & (days <= _LAST_DAY))


def text_of(values: pa.Array, digits: int) -> pa.Array:
    """Dates, times and timestamps in local time, as CAST writes them."""
    if pa.types.is_time64(values.type):
        return compose_text(time_fields(micros_of(values), digits), values)
    dated = pa.types.is_date32(values.type)
    days, time = (days_in(values), None) if dated else day_and_time(micros_of(values))
    plain = four_digits(days, valid_rows(values))
    fields = day_fields(np.where(plain, days, 0))
    found = compose_text(fields if time is None else [*fields, b" ", *time_fields(time, digits)], values)
    if plain.all():
        return found
    texts: list[str | None] = [None] * len(values)
    for row in np.flatnonzero(~plain).tolist():
        texts[row] = _write_far(int(days[row]), None if time is None else int(time[row]), digits)
    return pc.coalesce(pa.array(texts, pa.string()), found)


def _write_far(days: int, time: int | None, digits: int) -> str:
    """The text of a day in a year of other than four digits."""
    year, month, day = (int(each[0]) for each in civil(np.array([days])))
    text = f"{'-' if year < 0 else ''}{abs(year):04d}-{month:02d}-{day:02d}"
    if time is None:
        return text
    seconds, micros = divmod(time, 1_000_000)
    text += f" {seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}"
    return f"{text}.{micros // 10 ** (6 - digits):0{digits}d}" if digits else text


def watermark(call: Call, session: Session) -> Kernel:
    """``CURRENT_WATERMARK``, from its milliseconds since 1970: a local time where the column has local times."""
    arrow = arrow_type(call.type)
    return Strict(arrow, lambda millis: pc.multiply(millis, 1000).view(arrow))
