"""Writes one JSON text per value in Python, for columns with a value that the loop cannot write."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any

import pyarrow as pa

from penstock.exact.texts import slices, text_writer, write_texts
from penstock.formats.json.options import JsonOptions, TimestampStandard
from penstock.formats.json.quoting import quote, quote_in_bytes
from penstock.types import ArrayType, DataType, DecimalType, MapType, PrimitiveType, RowType, StringType


def write_json_texts(array: pa.Array, data_type: DataType, options: JsonOptions) -> list[str | None]:
    """One JSON text per value, None for null."""
    match data_type:
        case ArrayType(element=element):
            return _write_arrays(array, element, options)
        case MapType(value=value):
            return _write_maps(array, value, options)
        case RowType():
            return _row_texts(array, data_type, options)
    return write_texts(array, _scalar(data_type, options))


def _scalar(data_type: DataType, options: JsonOptions) -> Callable[[Any], str]:
    standard = options.timestamp_standard
    iso, zone = standard is not TimestampStandard.SQL, standard is TimestampStandard.ISO_8601_WITH_OFFSET
    text = text_writer(data_type, plain=options.decimal_as_plain_number, iso=iso, zone=zone)
    match data_type:
        case StringType():
            return quote_in_bytes
        case PrimitiveType(name="DOUBLE" | "FLOAT"):
            return lambda value: text(value) if math.isfinite(value) else quote(text(value))
        case PrimitiveType(name="DATE"):
            return lambda value: quote(text(value))
        case DecimalType() | PrimitiveType():
            return text
    return lambda value: quote(text(value))


def _write_arrays(array: pa.Array, element: DataType, options: JsonOptions) -> list[str | None]:
    elements = [each or "null" for each in write_json_texts(array.values, element, options)]
    return [None if part is None else f"[{','.join(elements[part])}]" for part in slices(array)]


def _write_maps(array: pa.Array, value: DataType, options: JsonOptions) -> list[str | None]:
    keys, values = array.keys.to_pylist(), write_json_texts(array.items, value, options)
    shown: list[str | None] = []
    for part in slices(array):
        pairs = None if part is None else dict(zip(keys[part], values[part], strict=True))
        shown.append(
            None if pairs is None else _write_object((quote_in_bytes(key), text) for key, text in pairs.items())
        )
    return shown


def _write_object(pairs: Iterable[tuple[str, str | None]]) -> str:
    return "{" + ",".join(f"{name}:{text or 'null'}" for name, text in pairs) + "}"


def _row_texts(array: pa.Array, data_type: RowType, options: JsonOptions) -> list[str | None]:
    names = [quote_in_bytes(each.name) for each in data_type.fields]
    columns = [
        write_json_texts(column, each.type, options)
        for column, each in zip(array.flatten(), data_type.fields, strict=True)
    ]
    return [
        _write_object(pair for pair in zip(names, texts, strict=True) if not (options.omits_nulls and pair[1] is None))
        if valid
        else None
        for valid, *texts in zip(array.is_valid().to_pylist(), *columns, strict=True)
    ]
