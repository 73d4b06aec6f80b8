"""Writes one JSON text per value in Python, for columns with a value that the loop cannot write."""

from __future__ import annotations

import base64
import math
from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa

from penstock.formats.exact import numbers, timestamps
from penstock.formats.json.options import JsonOptions, TimestampStandard
from penstock.formats.json.quoting import quote, quote_in_bytes
from penstock.formats.loops.type_roots import time_digits
from penstock.types import (
    ArrayType,
    BinaryType,
    DataType,
    DecimalType,
    MapType,
    PrimitiveType,
    RowType,
    StringType,
    TimestampType,
    TimeType,
)


def json_texts(array: pa.Array, data_type: DataType, options: JsonOptions) -> list[str | None]:
    """One JSON text per value, None for null."""
    match data_type:
        case ArrayType(element=element):
            return _arrays(array, element, options)
        case MapType(value=value):
            return _maps(array, value, options)
        case RowType():
            return _rows(array, data_type, options)
    show, plain = _scalar(data_type, options), _plain(array)
    return [None if value is None else show(value) for value in plain.to_pylist()]


def _plain(array: pa.Array) -> pa.Array:
    """Dates and times as their numbers, which have a wider range than Python's."""
    if pa.types.is_date32(array.type):
        return array.view(pa.int32())
    if pa.types.is_timestamp(array.type) or pa.types.is_time64(array.type):
        return array.view(pa.int64())
    return array


def _scalar(data_type: DataType, options: JsonOptions) -> Callable[[Any], str]:
    match data_type:
        case PrimitiveType(name="BOOLEAN"):
            return lambda value: "true" if value else "false"
        case PrimitiveType(name="DOUBLE" | "FLOAT" as name):
            show = numbers.double_text if name == "DOUBLE" else numbers.float_text
            return lambda value: show(value) if math.isfinite(value) else quote(show(value))
        case PrimitiveType(name="DATE"):
            return lambda value: quote(timestamps.date_text(value))
        case PrimitiveType():
            return str
        case DecimalType():
            return lambda value: numbers.decimal_text(value, options.decimal_as_plain_number)
        case StringType():
            return quote_in_bytes
        case BinaryType():
            return lambda value: quote(base64.b64encode(value).decode())
        case TimeType():
            unit = 10 ** (9 - time_digits(data_type))
            return lambda value: quote(timestamps.time_text(value // unit * unit))
        case TimestampType(local_zone=local):
            iso = options.timestamp_standard is not TimestampStandard.SQL
            zone = local or options.timestamp_standard is TimestampStandard.ISO_8601_WITH_OFFSET
            return lambda value: quote(timestamps.timestamp_text(value, iso, zone))
    raise TypeError(f"no JSON form of {data_type}")


def _slices(array: pa.Array) -> Iterator[tuple[int, int] | None]:
    """Where each list's elements are among all elements, None for null."""
    offsets = array.offsets.to_pylist()
    valid = array.is_valid().to_pylist()
    for index, given in enumerate(valid):
        yield (offsets[index], offsets[index + 1]) if given else None


def _arrays(array: pa.Array, element: DataType, options: JsonOptions) -> list[str | None]:
    elements = [each or "null" for each in json_texts(array.values, element, options)]
    return [None if part is None else f"[{','.join(elements[slice(*part)])}]" for part in _slices(array)]


def _maps(array: pa.Array, value: DataType, options: JsonOptions) -> list[str | None]:
    keys, values = array.keys.to_pylist(), json_texts(array.items, value, options)
    shown: list[str | None] = []
    for part in _slices(array):
        if part is None:
            shown.append(None)
            continue
        pairs: dict[str, str] = {}
        for at in range(*part):
            pairs[keys[at]] = values[at] or "null"
        shown.append("{" + ",".join(f"{quote_in_bytes(key)}:{text}" for key, text in pairs.items()) + "}")
    return shown


def _rows(array: pa.Array, data_type: RowType, options: JsonOptions) -> list[str | None]:
    names = [quote_in_bytes(each.name) for each in data_type.fields]
    columns = [
        json_texts(column, each.type, options) for column, each in zip(array.flatten(), data_type.fields, strict=True)
    ]
    shown: list[str | None] = []
    for index, valid in enumerate(array.is_valid().to_pylist()):
        pairs = [
            f"{name}:{column[index] or 'null'}"
            for name, column in zip(names, columns, strict=True)
            if not (options.omits_nulls and column[index] is None)
        ]
        shown.append("{" + ",".join(pairs) + "}" if valid else None)
    return shown
