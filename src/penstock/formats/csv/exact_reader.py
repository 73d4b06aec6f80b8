"""Reads one line at a time by all of Flink's rules. The compiled loop must agree with it.

The rules come from Flink's ``CsvToRowDataConverters``. An empty cell is NULL unless its column is a string, bytes,
an ARRAY or a ROW: a NULL that was written without ``null-literal`` is read as NULL.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from penstock.exact import numbers, timestamps
from penstock.exact.base64 import parse_base64
from penstock.exact.errors import FieldError, Malformed
from penstock.formats.csv.options import CsvOptions
from penstock.formats.csv.parser import parse_cells
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

_Convert = Callable[[str], Any]


@dataclass
class ExactCsvReader:
    """Reads messages one by one into Python values that Arrow accepts for the schema's types."""

    schema: RowType
    options: CsvOptions
    _converters: tuple[_Convert, ...] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        self._converters = tuple(self._nullable(each.type) for each in self.schema.fields)

    def row(self, message: bytes) -> dict[str, Any]:
        """The row of one message. Raises Malformed if it is not CSV, and FieldError if a value does not fit."""
        found = self._fit_cells(parse_cells(message, self.options))
        row: dict[str, Any] = dict.fromkeys(self.schema.names)
        for name, convert, text in zip(self.schema.names, self._converters, found, strict=False):
            try:
                row[name] = convert(text)
            except ValueError as error:
                raise FieldError(name, str(error)) from error
        return row

    def _fit_cells(self, found: list[str]) -> list[str]:
        """The cells, if there is one per column or the options allow a different number."""
        wanted, given = len(self._converters), len(found)
        if given == wanted + 1 and not numbers.trim_like_java(found[-1]) and self.options.allow_trailing_comma:
            return found[:wanted]
        if given > wanted:
            if self.options.ignore_trailing_unmappable:
                return found[:wanted]
            raise Malformed(f"expected {wanted} values, not {given}")
        if given < wanted and (self.options.fail_on_missing_columns or not self.options.ignore_parse_errors):
            raise Malformed(f"expected {wanted} values, not {given}")
        return found

    def _nullable(self, data_type: DataType) -> _Convert:
        convert, nested = self._build_converter(data_type), isinstance(data_type, ArrayType | RowType)
        literal, ignore = self.options.null_literal, self.options.ignore_parse_errors
        empty_is_null = not (nested or isinstance(data_type, StringType | BinaryType)) or (
            self.options.empty_string_as_null and not nested
        )

        def convert_cell(text: str) -> Any:
            if (not text and empty_is_null) or (text == literal and not nested):
                return None
            try:
                return convert(text)
            except ValueError:
                if ignore:
                    return None
                raise

        return convert_cell

    def _build_converter(self, data_type: DataType) -> _Convert:
        match data_type:
            case PrimitiveType(name=name):
                return _primitive(name)
            case StringType():
                return lambda text: text
            case BinaryType():
                return parse_base64
            case DecimalType():
                return lambda text: numbers.to_decimal(numbers.parse_decimal(text), data_type)
            case TimeType(precision=precision):
                unit = 10 ** (9 - precision)
                return lambda text: timestamps.parse_iso_time(text) // unit * unit
            case TimestampType(local_zone=zone):
                return lambda text: timestamps.parse_timestamp(numbers.trim_like_java(text), False, zone)
            case ArrayType(element=element):
                convert = self._nullable(element)
                return lambda text: [convert(each) for each in self._split_elements(text)]
            case RowType():
                return self._row(data_type)
        raise TypeError(f"no CSV form of {data_type}")

    def _split_elements(self, text: str) -> list[str]:
        if not text.strip():
            return []
        parts = text.split(self.options.array_element_delimiter)
        return [part.strip() for part in parts] if self.options.trim_spaces else parts

    def _row(self, data_type: RowType) -> _Convert:
        converters = [self._nullable(each.type) for each in data_type.fields]

        def convert_cell(text: str) -> dict[str, Any] | None:
            parts = self._split_elements(text)
            if not parts:
                return None
            if len(parts) < len(converters) and not self.options.ignore_parse_errors:
                raise ValueError(f"expected {len(converters)} elements, not {len(parts)}")
            row: dict[str, Any] = dict.fromkeys(data_type.names)
            for name, convert, part in zip(data_type.names, converters, parts, strict=False):
                row[name] = convert(part)
            return row

        return convert_cell


def _primitive(name: str) -> _Convert:
    match name:
        case "BOOLEAN":
            return lambda text: numbers.trim_like_java(text).lower() == "true"
        case "FLOAT":
            return numbers.parse_float
        case "DOUBLE":
            return numbers.parse_double
        case "DATE":
            return timestamps.parse_lenient_date
    return lambda text: numbers.parse_integer(text, name)
