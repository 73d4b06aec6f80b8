"""Times in JSON rows: the row schemas of Flink write them by RFC 3339, unlike the format ``json`` of its SQL.

Where a row holds times, the table has texts in their places, and a function changes one into the other.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, time
from typing import Any

from penstock.common import Row, TypeInformation
from penstock.common.typeinfo import from_logical
from penstock.datastream.functions import MapFunction
from penstock.errors import RecordError
from penstock.types import STRING, ArrayType, DataType, MapType, RowKind, RowType, TimestampType, TimeType

_Convert = Callable[[Any], Any]
_TIME = re.compile(r"\d\d:\d\d:\d\d(?:\.(\d{1,9}))?Z")
_STAMP = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.(\d{1,9}))?Z")


def with_texts(info: TypeInformation) -> TypeInformation | None:
    """The type with texts for times; None if it has no times."""
    found = _texts(info.logical)
    return None if found == info.logical else from_logical(found)


class ReadTimes(MapFunction):
    """Makes times of the texts of a row. Raises RecordError for a text that is not a time."""

    def __init__(self, info: TypeInformation):
        self._logical = info.logical

    def open(self, runtime_context: Any) -> None:
        """Choose what is done to each column."""
        self._convert = _through(self._logical, _read)

    def map(self, value: Any) -> Any:
        """The row with times."""
        return self._convert(value)


class WriteTimes(MapFunction):
    """Makes texts of the times of a row."""

    def __init__(self, info: TypeInformation):
        self._logical = info.logical

    def open(self, runtime_context: Any) -> None:
        """Choose what is done to each column."""
        self._convert = _through(self._logical, _written)

    def map(self, value: Any) -> Any:
        """The row with texts."""
        return self._convert(value)


def _texts(logical: DataType) -> DataType:
    match logical:
        case TimeType() | TimestampType(local_zone=False):
            return STRING.with_nullability(logical.nullable)
        case RowType(fields=fields):
            return replace(logical, fields=tuple(replace(each, type=_texts(each.type)) for each in fields))
        case ArrayType(element=element):
            return replace(logical, element=_texts(element))
        case MapType(value=value):
            return replace(logical, value=_texts(value))
    return logical


def _through(logical: DataType, change: Callable[[DataType], _Convert]) -> _Convert:
    """The function that changes the times in a value of this type; nulls stay."""
    if _texts(logical) == logical:
        return lambda value: value
    match logical:
        case RowType(fields=fields):
            inner = [_through(each.type, change) for each in fields]
            names = logical.names

            def row(value: Any) -> Any:
                if value is None:
                    return None
                values = [value.get(name) for name in names] if isinstance(value, dict) else value
                kind = value.get_row_kind() if isinstance(value, Row) else RowKind.INSERT
                return Row.named(names, [convert(each) for convert, each in zip(inner, values, strict=True)], kind)

            return row
        case ArrayType(element=element):
            of_element = _through(element, change)
            return lambda value: None if value is None else [of_element(each) for each in value]
        case MapType(value=item):
            of_item = _through(item, change)
            return lambda value: None if value is None else {key: of_item(each) for key, each in value.items()}
    convert = change(logical)
    return lambda value: None if value is None else convert(value)


def _read(logical: DataType) -> _Convert:
    timed = isinstance(logical, TimeType)
    pattern = _TIME if timed else _STAMP

    def read(text: str) -> Any:
        match = pattern.fullmatch(text)
        if match is None or (timed and match[1] and match[1].strip("0")):
            wanted = "a time such as 12:00:00Z" if timed else "a timestamp such as 2026-01-01T12:00:00Z"
            raise RecordError(f"expected {wanted}, not '{text[:60]}'", hint="these schemas read times by RFC 3339")
        digits = f"{match[1] or '0':0<6}"[:6]
        plain = f"{text.partition('.')[0].rstrip('Z')}.{digits}"
        return time.fromisoformat(plain) if timed else datetime.fromisoformat(plain)

    return read


def _written(logical: DataType) -> _Convert:
    def write(value: Any) -> str:
        text = value.isoformat(timespec="microseconds")
        return f"{text.rstrip('0').rstrip('.')}Z"

    return write
