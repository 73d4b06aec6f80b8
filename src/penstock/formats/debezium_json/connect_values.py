"""Values as Kafka Connect has them in JSON, such as days and unscaled decimals, as values of columns."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from penstock.columns.buffers import binary_parts, decimal_pairs, fixed_values, from_buffers, validity
from penstock.exact.timestamps import format_date, format_timestamp, parse_timestamp
from penstock.formats.debezium_json.connect_kernel import read_unscaled, write_decimals
from penstock.types import DataType, DecimalType, StringType, TimestampType, arrow_type

Mask = npt.NDArray[np.bool_]

_DAY_MILLIS = 86_400_000
_DAY_MICROS = _DAY_MILLIS * 1000
#: 0001-01-01 and 9999-12-31 as days: what Arrow writes as text.
_FIRST_DAY, _LAST_DAY = -719162, 2932896
#: The largest scale that the loop writes, and the most bytes of a number without it.
_MOST_SCALE, _ROOM = 100, 50


@dataclass(frozen=True)
class Converted:
    """Values of a column. ``wrong``: those that it cannot have, which are NULL."""

    values: pa.Array
    wrong: Mask | None = None


#: Makes values of a type from those that were read.
Convert = Callable[[pa.Array, DataType], Converted]


def read_days(values: pa.Array, wanted: DataType) -> Converted:
    """Days since 1970-01-01 as dates."""
    return Converted(values.view(pa.date32()))


def read_millis_of_day(values: pa.Array, wanted: DataType) -> Converted:
    """Milliseconds of the day as times."""
    outside = pc.or_(pc.less(values, 0), pc.greater_equal(values, _DAY_MILLIS)).fill_null(False)
    kept = pc.if_else(outside, None, values).cast(pa.int64())
    return Converted(pc.multiply(kept, 1_000_000).view(pa.time64("ns")), _to_mask(outside))


def read_millis(values: pa.Array, wanted: DataType) -> Converted:
    """Milliseconds since 1970 as timestamps."""
    return _cast(values.view(pa.timestamp("ms")), arrow_type(wanted))


def read_micros(values: pa.Array, wanted: DataType) -> Converted:
    """Microseconds since 1970 as timestamps."""
    return Converted(values.view(arrow_type(wanted)))


def read_nanos(values: pa.Array, wanted: DataType) -> Converted:
    """Nanoseconds since 1970 as timestamps, which have microseconds: further digits are cut off."""
    micros = fixed_values(values, np.int64) // 1000
    return Converted(from_buffers(arrow_type(wanted), validity(values), micros))


def read_zoned(values: pa.Array, wanted: DataType) -> Converted:
    """Texts such as 2026-01-02T03:04:05.6Z, with any offset, as points in time."""
    try:
        return Converted(values.cast(arrow_type(wanted)))
    except pa.ArrowInvalid:  # one by one: years of five digits, more than six digits after the second
        return _convert_each(values, arrow_type(wanted), lambda text: parse_timestamp(text, True, True, True))


def write_micros_of_day(values: pa.Array, wanted: DataType) -> Converted:
    """Microseconds of the day, or any duration, as texts: 10:11:12.5."""
    return Converted(_write_times(values, 6))


def write_nanos_of_day(values: pa.Array, wanted: DataType) -> Converted:
    """Nanoseconds of the day, or any duration, as texts."""
    return Converted(_write_times(values, 9))


def _write_times(values: pa.Array, digits: int) -> pa.Array:
    unit = 10**digits
    outside = pc.or_(pc.less(values, 0), pc.greater_equal(values, 86_400 * unit)).fill_null(False)
    times = pc.if_else(outside, None, values).view(pa.time64("us" if digits == 6 else "ns"))
    return _replace(_trim(times.cast(pa.string())), outside, values, lambda value: _format_duration(value, unit))


def _format_duration(value: int, unit: int) -> str:
    seconds, fraction = divmod(abs(value), unit)
    shown = f"{'-' if value < 0 else ''}{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}"
    return f"{shown}.{fraction:0{len(str(unit)) - 1}d}".rstrip("0") if fraction else shown


def read_decimals(values: pa.Array, wanted: DataType) -> Converted:
    """Bytes of unscaled numbers as decimals."""
    assert isinstance(wanted, DecimalType)  # noqa: S101
    pairs, valid, outside = _read_unscaled(values, wanted.precision)
    return Converted(from_buffers(arrow_type(wanted), valid & (outside == 0), pairs), outside.astype(np.bool_))


def decimal_writer(scale: int) -> Convert:
    """What makes texts of the bytes of unscaled numbers with this scale."""

    def convert(values: pa.Array, wanted: DataType) -> Converted:
        return _write_unscaled(values, np.full(len(values), scale, np.int64))

    return convert


def write_scaled(values: pa.Array, wanted: DataType) -> Converted:
    """Rows of a scale and the bytes of an unscaled number as texts."""
    scales, numbers = pc.struct_field(values, "scale"), pc.struct_field(values, "value")
    kept = pc.if_else(scales.is_valid(), numbers, None)
    found = _write_unscaled(kept, fixed_values(scales, np.int32).astype(np.int64))
    wrong = np.asarray(values.is_valid()) & ~np.asarray(kept.is_valid())
    return Converted(found.values, wrong if found.wrong is None else wrong | found.wrong)


def _read_unscaled(
    values: pa.Array, precision: int
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.uint8], npt.NDArray[np.uint8]]:
    """The low and high 64 bits of numbers, which are valid, and which are outside of ``precision`` digits (0: of 128
    bits)."""
    data, offsets = binary_parts(values)
    valid = validity(values)
    pairs, outside = np.empty((len(values), 2), np.int64), np.empty(len(values), np.uint8)
    read_unscaled(data, offsets, valid, precision, pairs, outside)
    return pairs, valid, outside


def _write_unscaled(values: pa.Array, scales: npt.NDArray[np.int64]) -> Converted:
    pairs, valid, outside = _read_unscaled(values, 0)
    large = outside.astype(np.bool_) | ((np.abs(scales) > _MOST_SCALE) & (valid != 0))
    texts = _write_pairs(pairs, scales, valid & ~large)
    if not large.any():
        return Converted(texts)
    data, wrong = values.to_pylist(), np.zeros(len(values), np.bool_)
    written = texts.to_pylist()
    for row in np.flatnonzero(large).tolist():
        wrong[row] = not data[row] or abs(int(scales[row])) > 10**5
        written[row] = None if wrong[row] else _format_unscaled(data[row], int(scales[row]))
    return Converted(pa.array(written, pa.string()), wrong)


def _format_unscaled(data: bytes, scale: int) -> str:
    number = int.from_bytes(data, "big", signed=True)
    digits = str(abs(number)) + "0" * (-scale if number else 0)
    if scale > 0:
        digits = digits.rjust(scale + 1, "0")
        digits = f"{digits[:-scale]}.{digits[-scale:]}"
    return f"-{digits}" if number < 0 else digits


def _write_pairs(pairs: npt.NDArray[np.int64], scales: npt.NDArray[np.int64], valid: npt.NDArray[np.uint8]) -> pa.Array:
    """The texts of decimals by their low and high 64 bits."""
    widest = int(np.abs(scales * valid).max(initial=0))
    out, offsets = np.empty(len(pairs) * (_ROOM + widest), np.uint8), np.empty(len(pairs) + 1, np.int64)
    write_decimals(pairs, scales, valid, out, offsets)
    return from_buffers(pa.large_string(), valid, offsets, out[: offsets[-1]]).cast(pa.string())


def convert_values(values: pa.Array, given: DataType, wanted: DataType) -> Converted:
    """Values of a type as those of a column that holds them. Texts are those of JSON."""
    if isinstance(wanted, StringType):
        return Converted(values if isinstance(given, StringType) else _write_texts(values, given))
    arrow = arrow_type(wanted)
    if isinstance(given, TimestampType) and isinstance(wanted, TimestampType):
        return Converted(values.view(arrow))
    return Converted(values) if values.type == arrow else _cast(values, arrow)


def _write_texts(values: pa.Array, given: DataType) -> pa.Array:
    if isinstance(given, DecimalType):
        return _write_pairs(decimal_pairs(values), np.full(len(values), given.scale, np.int64), validity(values))
    if isinstance(given, TimestampType):
        zone = given.local_zone
        micros = values.view(pa.int64())
        first, last = _FIRST_DAY * _DAY_MICROS, (_LAST_DAY + 1) * _DAY_MICROS
        outside = pc.or_(pc.less(micros, first), pc.greater_equal(micros, last)).fill_null(False)
        texts = _trim(pc.if_else(outside, None, micros).view(pa.timestamp("us")).cast(pa.string()))
        texts = pc.binary_join_element_wise(texts, "Z", "") if zone else texts
        return _replace(texts, outside, micros, lambda value: format_timestamp(value, zone=zone))
    if pa.types.is_date32(values.type):
        days = values.view(pa.int32())
        outside = pc.or_(pc.less(days, _FIRST_DAY), pc.greater(days, _LAST_DAY)).fill_null(False)
        texts = pc.if_else(outside, None, days).view(pa.date32()).cast(pa.string())
        return _replace(texts, outside, days, format_date)
    return _trim(values.cast(pa.string()))


def _trim(texts: pa.Array) -> pa.Array:
    """Texts without the zeros at the end of a fraction."""
    return pc.replace_substring_regex(pc.replace_substring_regex(texts, r"(\.\d*?)0+$", r"\1"), r"\.$", "")


def _replace(texts: pa.Array, which: pa.BooleanArray, values: pa.Array, write: Callable[[Any], str]) -> pa.Array:
    """The texts, some of them written one by one."""
    if not pc.any(which).as_py():
        return texts
    pairs = zip(which.to_pylist(), texts.to_pylist(), values.to_pylist(), strict=True)
    return pa.array([write(value) if other else text for other, text, value in pairs], pa.string())


def _cast(values: pa.Array, arrow: pa.DataType) -> Converted:
    """Values in another type, and which of them it does not hold."""
    try:
        return Converted(values.cast(arrow))
    except pa.ArrowInvalid:
        return _convert_each(values, arrow, lambda scalar: scalar.cast(arrow), scalars=True)


def _convert_each(
    values: pa.Array, arrow: pa.DataType, convert: Callable[[Any], Any], *, scalars: bool = False
) -> Converted:
    """Values one by one, where some cannot be converted."""
    made: list[Any] = [None] * len(values)
    wrong = np.zeros(len(values), np.bool_)
    for row in np.flatnonzero(validity(values)).tolist():
        try:
            made[row] = convert(values[row] if scalars else values[row].as_py())
        except ValueError:  # Arrow's errors are
            wrong[row] = True
    return Converted(pa.array(made, arrow), wrong)


def _to_mask(column: pa.BooleanArray) -> Mask:
    found: Mask = column.to_numpy(zero_copy_only=False)
    return found
