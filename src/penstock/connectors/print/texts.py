"""Values as Flink's print sink shows them: as Java's text of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from decimal import Decimal
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.types import ArrayType, DataType, MapType, RowType, TimestampType
from penstock.types.logical import root

_DAY = 86_400_000_000
#: Days from the first of March of the year 0 to 1970-01-01, and the days of 400 years.
_MARCH, _ERA = 719_468, 146_097


def format_values(values: pa.Array, data_type: DataType) -> list[str]:
    """The text of each value of a column."""
    if isinstance(data_type, RowType):
        fields = [
            format_values(each, field.type) for each, field in zip(values.flatten(), data_type.fields, strict=True)
        ]
        found = [f"+I[{', '.join(each)}]" for each in zip(*fields, strict=True)]
    elif isinstance(data_type, ArrayType):
        found = _join_values("[{}]", format_values(values.values, data_type.element), values)
    elif isinstance(data_type, MapType):
        pairs = zip(
            format_values(values.keys, data_type.key), format_values(values.items, data_type.value), strict=True
        )
        found = _join_values("{{{}}}", list(map("=".join, pairs)), values)
    else:
        plain, show = _choose_format(values, data_type)
        return ["null" if each is None else show(each) for each in plain.to_pylist()]
    return [text if valid else "null" for text, valid in zip(found, values.is_valid().to_pylist(), strict=True)]


def _join_values(form: str, parts: Sequence[str], values: pa.Array) -> list[str]:
    return [form.format(", ".join(parts[start:end])) for start, end in pairwise(values.offsets.to_pylist())]


def _choose_format(values: pa.Array, data_type: DataType) -> tuple[pa.Array, Callable[[Any], str]]:
    """A column, with dates and times as numbers, since Python cannot represent all of them, and the function that shows
    a value."""
    match root(data_type):
        case "BOOLEAN":
            return values, lambda value: str(value).lower()
        case "BYTES":
            return values, lambda value: str(np.frombuffer(value, np.int8).tolist())
        case "DECIMAL":
            return values, _format_decimal
        case "FLOAT" | "DOUBLE":
            return values, lambda value: _format_real(str(values.type.to_pandas_dtype()(value)))
        case "DATE":
            return values.cast(pa.int32()), _format_date
        case "TIME":
            return values.cast(pa.int64()), lambda nanos: _format_time(nanos // 1000, short=True)
        case "TIMESTAMP" | "TIMESTAMP_LTZ":
            zoned = isinstance(data_type, TimestampType) and data_type.local_zone
            return values.cast(pa.int64()), lambda micros: _format_timestamp(micros, zoned)
    return values, str


def _format_decimal(value: Decimal) -> str:
    return f"{value:f}"


def _format_real(text: str) -> str:
    """Java's form of a number whose shortest text in Python is ``text``."""
    if text in ("nan", "inf", "-inf"):
        return {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}[text]
    value = Decimal(text)
    if not value or -3 <= value.adjusted() < 7:
        found = f"{value:f}"
        return found if "." in found else f"{found}.0"
    sign, digits, _ = value.as_tuple()
    rest = "".join(map(str, digits[1:])).rstrip("0") or "0"
    return f"{'-' if sign else ''}{digits[0]}.{rest}E{value.adjusted()}"


def _format_date(days: int) -> str:
    era, of_era = divmod(days + _MARCH, _ERA)
    year = (of_era - of_era // 1460 + of_era // 36524 - of_era // 146096) // 365
    of_year = of_era - (365 * year + year // 4 - year // 100)
    month, day = (5 * of_year + 2) // 153, of_year - (153 * ((5 * of_year + 2) // 153) + 2) // 5 + 1
    month, year = (month + 2) % 12 + 1, year + era * 400 + (month >= 10)
    sign = "-" if year < 0 else "+" if year > 9999 else ""
    return f"{sign}{abs(year):04d}-{month:02d}-{day:02d}"


def _format_time(micros: int, *, short: bool) -> str:
    """A time of the day; a ``short`` one leaves seconds out that are 0."""
    seconds, fraction = divmod(micros, 1_000_000)
    text = f"{seconds // 3600:02d}:{seconds // 60 % 60:02d}"
    if short and not seconds % 60 and not fraction:
        return text
    text += f":{seconds % 60:02d}"
    if not fraction:
        return text
    return f"{text}.{fraction // 1000:03d}" if not fraction % 1000 else f"{text}.{fraction:06d}"


def _format_timestamp(micros: int, zoned: bool) -> str:
    days, time = divmod(micros, _DAY)
    return f"{_format_date(days)}T{_format_time(time, short=not zoned)}{'Z' if zoned else ''}"
