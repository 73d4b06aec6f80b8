"""Reads one record at a time by all of Flink's rules. The compiled loop must agree with it.

The rules come from Flink's ``JsonParserToRowDataConverters`` (the streaming parser) and from its tree parser. When
Flink's streaming parser ignores a value of the wrong shape, it may lose its position in the message. This reader reads
NULL and continues after the value.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

from penstock.exact import numbers, timestamps
from penstock.exact.base64 import parse_base64
from penstock.exact.errors import FieldError, Malformed, show_value
from penstock.formats.json.options import JsonOptions, TimestampStandard
from penstock.formats.json.parser import Document, Number, Object, parse_documents
from penstock.formats.json.quoting import quote
from penstock.loops.type_roots import time_digits
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

_Convert = Callable[[Document], Any]

_DATE = re.compile("[0-9]{4}-[0-9]{2}-[0-9]{2}")
_DAY_MICROS = 86_400_000_000
_NOT_ZERO = re.compile(r"[^eE]*[1-9]")


@dataclass
class ExactJsonReader:
    """Reads messages one by one into Python values that Arrow accepts for the schema's types."""

    schema: RowType
    options: JsonOptions
    _convert: _Convert = field(init=False, repr=False)
    _decimals: bool = field(init=False, repr=False)

    def __post_init__(self) -> None:
        self._decimals = _has_decimals(self.schema)
        self._convert = self._row(self.schema)

    def read_rows(self, message: bytes) -> list[dict[str, Any]]:
        """The rows in one message: one for an object, one for each object of a top-level array.

        Raises Malformed for text that is not JSON and FieldError for a value that does not fit. With
        ``ignore-parse-errors``, an array still gives rows for its objects if another element is not an object, and with
        the streaming parser for the objects before text that is not JSON.
        """
        rows: list[dict[str, Any]] = []
        refusal: Malformed | None = None
        found, ignore = parse_documents(message), self.options.ignore_parse_errors
        try:
            for each in found if self.options.json_parser else list(found):
                if isinstance(each, Object):
                    rows.append(self.row(each))
                else:
                    refusal = refusal or Malformed(
                        f"expected a JSON object, or an array of them, not {_describe_value(each)}"
                    )
                    if not ignore:
                        break
        except Malformed as error:
            refusal = refusal or error
        if refusal is not None:
            raise Malformed(str(refusal), rows if ignore else ())
        return rows

    def row(self, document: Object) -> dict[str, Any]:
        """The row of one object. Raises FieldError for a value that does not fit."""
        row: dict[str, Any] = self._convert(document)
        return row

    def _nullable(self, data_type: DataType) -> _Convert:
        convert = self._build_converter(data_type)
        ignore = self.options.ignore_parse_errors

        def convert_document(value: Document) -> Any:
            if value is None:
                return None
            try:
                return convert(value)
            except ValueError:
                if ignore:
                    return None
                raise

        return convert_document

    def _build_converter(self, data_type: DataType) -> _Convert:
        match data_type:
            case PrimitiveType(name=name):
                return self._primitive(name)
            case StringType():
                return self._read_text
            case BinaryType():
                return _decode_bytes
            case DecimalType():
                return lambda value: numbers.to_decimal(_decimal(value), data_type)
            case TimeType():
                unit = 10 ** (9 - time_digits(data_type))
                return lambda value: timestamps.parse_time(_scalar(value)) // unit * unit
            case TimestampType(local_zone=zone):
                return self._timestamp(zone)
            case ArrayType(element=element):
                return self._array(element)
            case MapType(key=key, value=value):
                return self._map(key, value)
            case RowType():
                return self._row(data_type)
        raise TypeError(f"no JSON form of {data_type}")

    def _timestamp(self, zone: bool) -> _Convert:
        standard = self.options.timestamp_standard
        iso, offset = standard is not TimestampStandard.SQL, standard is TimestampStandard.ISO_8601_WITH_OFFSET

        def convert_document(value: Document) -> int:
            text = _scalar(value)
            if self.options.lenient_times and not offset:
                if _DATE.fullmatch(text):
                    return timestamps.parse_date(text) * _DAY_MICROS
                return timestamps.parse_timestamp(text, iso, zone and text.endswith("Z"))
            return timestamps.parse_timestamp(text, iso, zone, offset)

        return convert_document

    def _primitive(self, name: str) -> _Convert:
        match name:
            case "BOOLEAN":
                read = _is_true if self.options.numeric_booleans else _same_as_true
                return lambda value: value if isinstance(value, bool) else read(_scalar(value))
            case "INT" | "BIGINT":
                exact = self._decimals and not self.options.json_parser
                return lambda value: _truncate(value, name, exact)
            case "TINYINT" | "SMALLINT":
                return lambda value: numbers.parse_integer(_scalar(value), name)
            case "FLOAT":
                return lambda value: numbers.parse_float(self._numeral(value))
            case "DOUBLE":
                return lambda value: numbers.parse_double(self._numeral(value))
        return lambda value: timestamps.parse_date(_scalar(value))

    def _numeral(self, value: Document) -> str:
        """The text of a FLOAT or DOUBLE. The tree parser normalizes numbers; only a double keeps the sign of zero."""
        if not isinstance(value, Number) or self.options.json_parser:
            return _scalar(value)
        if value.is_whole or self._decimals:
            return value.text if _NOT_ZERO.match(value.text) else "0"
        return str(Decimal(float(value.text)))

    def _read_text(self, value: Document) -> str:
        if isinstance(value, Object | list):
            return _serialize(value, self._decimals)
        if isinstance(value, Number) and not self.options.json_parser:
            return _format_number(value, self._decimals)
        return _scalar(value)

    def _array(self, element: DataType) -> _Convert:
        convert = self._nullable(element)

        def convert_document(value: Document) -> list[Any]:
            if not isinstance(value, list):
                raise _unfit_error("an array", value)
            return [convert(each) for each in value]

        return convert_document

    def _map(self, key: DataType, value: DataType) -> _Convert:
        convert_key, convert_value = self._nullable(key), self._nullable(value)

        def convert_document(given: Document) -> list[tuple[Any, Any]]:
            if not isinstance(given, Object):
                raise _unfit_error("an object for a map", given)
            return list({convert_key(name): convert_value(each) for name, each in given.pairs}.items())

        return convert_document

    def _row(self, data_type: RowType) -> _Convert:
        converters = {each.name: self._nullable(each.type) for each in data_type.fields}
        arity, required, streaming = len(converters), self.options.fail_on_missing_field, self.options.json_parser

        def convert_document(value: Document) -> dict[str, Any]:
            if not isinstance(value, Object):
                raise _unfit_error("an object for a row", value)
            pairs = value.pairs if streaming else tuple(dict(value.pairs).items())
            row: dict[str, Any] = dict.fromkeys(converters)
            found = 0
            for name, each in pairs:
                if found >= arity:
                    break
                if name in converters:
                    row[name] = _convert_field(name, converters[name], each)
                    found += 1
            if required and found < arity:
                given = {name for name, _ in pairs}
                missing = next((name for name in converters if name not in given), "")
                raise FieldError(missing, "the field is missing, and fail-on-missing-field is true")
            return row

        return convert_document


def _convert_field(name: str, convert: _Convert, value: Document) -> Any:
    try:
        return convert(value)
    except FieldError as error:
        raise FieldError(f"{name}.{error.field}", str(error)) from error
    except ValueError as error:
        raise FieldError(name, str(error)) from error


def _unfit_error(wanted: str, value: Document) -> ValueError:
    return ValueError(f"expected {wanted}, not {_describe_value(value)}")


def _describe_value(value: Document) -> str:
    """A value in an error message."""
    if value is None:
        return "null"
    if isinstance(value, Object | list):
        return "an object" if isinstance(value, Object) else "an array"
    return show_value(_scalar(value))


def _scalar(value: Document) -> str:
    """The text of a scalar token. Raises ValueError for a container."""
    if isinstance(value, str):
        return value
    if isinstance(value, Number):
        return value.text
    if isinstance(value, bool):
        return "true" if value else "false"
    raise _unfit_error("a single value", value)


def _same_as_true(text: str) -> bool:
    return numbers.trim_like_java(text).lower() == "true"


def _is_true(text: str) -> bool:
    """Whether a text is true, or a number that is not 0. Raises ValueError for a text that is neither."""
    found = numbers.trim_like_java(text).lower()
    return found == "true" or (found != "false" and numbers.parse_decimal(found) != 0)


def _truncate(value: Document, name: str, exact: bool) -> int:
    """INT and BIGINT: a number loses its fraction, text must be a whole number. ``exact``: the number is not rounded to
    a double first."""
    if not isinstance(value, Number) or value.is_whole:
        return numbers.parse_integer(_scalar(value), name)
    least, most = numbers.INTEGER_RANGES[name]
    if exact:
        return int(numbers.check_range(numbers.parse_decimal(value.text), name, value.text))
    real = float(value.text)
    if not float(least) <= real <= float(most):
        raise numbers.range_error(value.text, name)
    return min(int(real), most)


def _decimal(value: Document) -> Decimal:
    if isinstance(value, bool | Object | list):
        raise _unfit_error("a number", value)
    return numbers.parse_decimal(numbers.trim_like_java(_scalar(value)))


def _decode_bytes(value: Document) -> bytes:
    if not isinstance(value, str):
        raise _unfit_error("base64 text", value)
    return parse_base64(value)


def _format_number(value: Number, decimals: bool) -> str:
    """A number as the tree parser writes it: an integer unchanged, others as Java prints the double or, with a DECIMAL
    column, the BigDecimal without trailing zeros. Raises ValueError for a number beyond BigDecimal."""
    if value.is_whole:
        return str(int(value.text))
    if decimals:
        return numbers.format_decimal(numbers.parse_decimal(value.text), False)
    return numbers.format_double(float(value.text))


def _has_decimals(data_type: DataType) -> bool:
    match data_type:
        case ArrayType(element=element):
            return _has_decimals(element)
        case MapType(key=key, value=value):
            return _has_decimals(key) or _has_decimals(value)
        case RowType(fields=fields):
            return any(_has_decimals(each.type) for each in fields)
    return isinstance(data_type, DecimalType)


def _serialize(value: Document, decimals: bool) -> str:
    """A container as compact JSON, as Jackson prints it: a repeated key has its last value at its first position."""
    parts: list[str] = []
    todo: list[Document | _Literal] = [value]
    while todo:
        each = todo.pop()
        if isinstance(each, _Literal):
            parts.append(each.text)
        elif isinstance(each, list | Object):
            todo.extend(reversed(_split_container(each)))
        elif each is None:
            parts.append("null")
        elif isinstance(each, str):
            parts.append(quote(each))
        elif isinstance(each, Number):
            text = _format_number(each, decimals)
            parts.append(quote(text) if text.endswith("Infinity") else text)
        else:
            parts.append(_scalar(each))
    return "".join(parts)


@dataclass(frozen=True)
class _Literal:
    text: str


def _split_container(container: list[Document] | Object) -> list[Document | _Literal]:
    pieces: list[Document | _Literal] = []
    if isinstance(container, Object):
        for name, each in dict(container.pairs).items():
            pieces += [_Literal(("," if pieces else "{") + quote(name) + ":"), each]
        return [*pieces, _Literal("}" if pieces else "{}")]
    for each in container:
        pieces += [_Literal("," if pieces else "["), each]
    return [*pieces, _Literal("]" if pieces else "[]")]
