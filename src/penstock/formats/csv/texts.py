"""Any column to one unquoted text per value: nested columns, and values that the compiled loop does not write."""

from __future__ import annotations

import base64
from collections.abc import Callable
from typing import Any

import pyarrow as pa

from penstock.formats import numbers, timestamps
from penstock.formats.csv.options import CsvOptions
from penstock.types import (
    ArrayType,
    BinaryType,
    DataType,
    DecimalType,
    PrimitiveType,
    RowType,
    StringType,
    TimestampType,
    TimeType,
)

__all__ = ["csv_texts"]


def csv_texts(array: pa.Array, kind: DataType, options: CsvOptions) -> list[str | None]:
    """One text per value, None for null."""
    match kind:
        case ArrayType(element=element):
            return _arrays(array, element, options)
        case RowType():
            return _rows(array, kind, options)
    show = _scalar(kind, options)
    if pa.types.is_date32(array.type):
        array = array.view(pa.int32())
    elif pa.types.is_timestamp(array.type) or pa.types.is_time64(array.type):
        array = array.view(pa.int64())
    return [None if value is None else show(value) for value in array.to_pylist()]


def _scalar(kind: DataType, options: CsvOptions) -> Callable[[Any], str]:
    match kind:
        case PrimitiveType(name="BOOLEAN"):
            return lambda value: "true" if value else "false"
        case PrimitiveType(name="DOUBLE"):
            return numbers.double_text
        case PrimitiveType(name="FLOAT"):
            return numbers.float_text
        case PrimitiveType(name="DATE"):
            return timestamps.date_text
        case PrimitiveType() | StringType():
            return str
        case DecimalType():
            return lambda value: numbers.decimal_text(value, True)
        case BinaryType():
            return lambda value: base64.b64encode(value).decode()
        case TimeType(precision=precision):
            unit = 10 ** (9 - precision)
            return lambda value: timestamps.time_text(value // unit * unit)
        case TimestampType(local_zone=zone):
            return lambda value: timestamps.timestamp_text(value, False, zone)
    raise TypeError(f"no CSV form of {kind}")


def _arrays(array: pa.Array, element: DataType, options: CsvOptions) -> list[str | None]:
    null = options.null_literal or ""
    elements = [null if each is None else each for each in csv_texts(array.values, element, options)]
    offsets, valid = array.offsets.to_pylist(), array.is_valid().to_pylist()
    return [
        options.array_element_delimiter.join(elements[offsets[index] : offsets[index + 1]]) if given else None
        for index, given in enumerate(valid)
    ]


def _rows(array: pa.Array, kind: RowType, options: CsvOptions) -> list[str | None]:
    null = options.null_literal or ""
    columns = [csv_texts(column, each.type, options) for column, each in zip(array.flatten(), kind.fields, strict=True)]
    return [
        options.array_element_delimiter.join(null if each is None else each for each in parts) if given else None
        for given, *parts in zip(array.is_valid().to_pylist(), *columns, strict=True)
    ]
