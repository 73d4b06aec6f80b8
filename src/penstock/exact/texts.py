"""Values of columns as text, one at a time, for the exact writers."""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa

from penstock.exact import numbers, timestamps
from penstock.loops.type_roots import time_digits
from penstock.types import BinaryType, DataType, DecimalType, PrimitiveType, StringType, TimestampType, TimeType


def write_texts(array: pa.Array, text: Callable[[Any], str]) -> list[str | None]:
    """One text per value, None for null. ``text`` gets dates and times as their numbers, which have a wider range than
    Python's."""
    if pa.types.is_date32(array.type):
        array = array.view(pa.int32())
    elif pa.types.is_timestamp(array.type) or pa.types.is_time64(array.type):
        array = array.view(pa.int64())
    return [None if value is None else text(value) for value in array.to_pylist()]


def text_writer(data_type: DataType, *, plain: bool, iso: bool = False, zone: bool = False) -> Callable[[Any], str]:
    """The function that writes a single value of a type.

    ``plain``: decimals have no exponent. ``iso``: timestamps have a ``T``. ``zone``: all timestamps have a ``Z``.
    """
    match data_type:
        case PrimitiveType(name="BOOLEAN"):
            return lambda value: "true" if value else "false"
        case PrimitiveType(name="DOUBLE"):
            return numbers.format_double
        case PrimitiveType(name="FLOAT"):
            return numbers.format_float
        case PrimitiveType(name="DATE"):
            return timestamps.format_date
        case PrimitiveType() | StringType():
            return str
        case DecimalType():
            return lambda value: numbers.format_decimal(value, plain)
        case BinaryType():
            return lambda value: base64.b64encode(value).decode()
        case TimeType():
            unit = 10 ** (9 - time_digits(data_type))
            return lambda value: timestamps.format_time(value // unit * unit)
        case TimestampType(local_zone=local):
            return lambda value: timestamps.format_timestamp(value, iso, zone or local)
    raise TypeError(f"no text form of {data_type}")


def slices(array: pa.Array) -> Iterator[slice | None]:
    """Where the elements of each array or map are among all elements, None for null."""
    offsets = array.offsets.to_pylist()
    for index, given in enumerate(array.is_valid().to_pylist()):
        yield slice(offsets[index], offsets[index + 1]) if given else None
