"""Avro's JSON encoding to the binary one and back, record by record, as Avro's Java library has it.

After Java's ``JsonDecoder`` and ``JsonEncoder``: a value of a union is null or an object of one field, named by its
type; bytes are text of the characters 0 to 255; a number loses its fraction where a whole one is wanted; every field
has to be there. Numbers that JSON does not have are text.
"""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeAlias

from penstock.formats import numbers
from penstock.formats.avro.constants import varint
from penstock.formats.avro.schema import Array, Enum, Fixed, Map, Primitive, Record, Schema, Union, kind_name
from penstock.formats.quoting import quote_in_bytes
from penstock.formats.refusals import FieldError, Malformed

__all__ = ["JsonText"]

#: Appends the binary encoding of what JSON has, or raises FieldError.
_Parse: TypeAlias = Callable[[Any, bytearray], None]

#: Appends the JSON of the binary data at a place; where it ends.
_Show: TypeAlias = Callable[[bytes, int, list[str]], int]

_PACK_DOUBLE = struct.Struct("<d").pack
_LIMITS = {"int": 2**31, "long": 2**63}
_NO_NUMBERS = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}


def _refused(word: str) -> Any:
    raise ValueError(f"'{word}' is no JSON")


_DECODER = json.JSONDecoder(parse_constant=_refused)


@dataclass(frozen=True)
class JsonText:
    """Rewrites data of one schema."""

    schema: Schema

    @cached_property
    def _parse(self) -> _Parse:
        return _parser(self.schema, "")

    @cached_property
    def _show(self) -> _Show:
        return _shower(self.schema)

    def binary(self, text: bytes) -> bytes:
        """Data in the binary encoding. What follows the record is not looked at. Raises Malformed or FieldError."""
        try:
            document, _ = _DECODER.raw_decode(text.decode().lstrip(" \t\r\n"))
        except (ValueError, RecursionError) as error:
            raise Malformed(f"no JSON: {error}") from error
        out = bytearray()
        self._parse(document, out)
        return bytes(out)

    def text(self, data: bytes) -> bytes:
        """Well-formed data as JSON, on one line without spaces."""
        parts: list[str] = []
        self._show(data, 0, parts)
        return "".join(parts).encode()


def _told(value: Any) -> str:
    """A value for an error; not all of one that is long or deep."""
    if isinstance(value, dict | list):
        return "an object" if isinstance(value, dict) else "an array"
    return json.dumps(value)[:40]


def _label(schema: Schema) -> str:
    """What the JSON of a union calls one of its types."""
    return schema.name if isinstance(schema, Record | Enum | Fixed) else kind_name(schema)


def _parser(schema: Schema, path: str) -> _Parse:
    match schema:
        case Primitive(type=kind):
            return _primitive_parser(kind, path)
        case Record():
            return _record_parser(schema, path)
        case Union(branches=branches):
            return _union_parser(branches, path)
        case Array(items=items):
            return _array_parser(_parser(items, path), path)
        case Map(values=values):
            return _map_parser(_parser(values, path), path)
        case Enum(symbols=symbols):
            return _enum_parser(symbols, path)
        case Fixed(size=size):
            return _fixed_parser(size, path)


def _primitive_parser(kind: str, path: str) -> _Parse:
    limit = _LIMITS.get(kind, 0)

    def wrong(value: Any) -> FieldError:
        return FieldError(path, f"expected {kind}, not {_told(value)}")

    def null(value: Any, out: bytearray) -> None:
        if value is not None:
            raise wrong(value)

    def boolean(value: Any, out: bytearray) -> None:
        if value is not True and value is not False:
            raise wrong(value)
        out.append(value)

    def whole(value: Any, out: bytearray) -> None:
        if type(value) is not int:
            if type(value) is not float or not math.isfinite(value):
                raise wrong(value)
            value = int(value)
        if not -limit <= value < limit:
            raise wrong(value)
        rest = value << 1 if value >= 0 else ~value << 1 | 1
        while rest > 127:
            out.append(rest & 127 | 128)
            rest >>= 7
        out.append(rest)

    def number(value: Any) -> float:
        if type(value) is str and value in _NO_NUMBERS:
            return _NO_NUMBERS[value]
        if type(value) not in (int, float):
            raise wrong(value)
        try:
            return float(value)
        except OverflowError:
            return math.copysign(math.inf, value)

    def double(value: Any, out: bytearray) -> None:
        out += _PACK_DOUBLE(value if type(value) is float else number(value))

    def single(value: Any, out: bytearray) -> None:
        found = number(value)
        try:
            out += struct.pack("<f", found)
        except OverflowError:
            out += struct.pack("<f", math.copysign(math.inf, found))

    def string(value: Any, out: bytearray) -> None:
        if type(value) is not str:
            raise wrong(value)
        try:
            data = value.encode()
        except UnicodeEncodeError as error:
            raise FieldError(path, "half of a surrogate pair") from error
        out += varint(len(data)) + data

    def binary(value: Any, out: bytearray) -> None:
        if type(value) is not str:
            raise wrong(value)
        data = value.encode("latin-1", "replace")
        out += varint(len(data)) + data

    parsers = {"null": null, "boolean": boolean, "int": whole, "long": whole, "double": double, "float": single}
    return {**parsers, "string": string, "bytes": binary}[kind]


def _record_parser(schema: Record, path: str) -> _Parse:
    paths = [f"{path}.{field.name}" if path else field.name for field in schema.fields]
    fields = [
        (field.name, inner, _parser(field.type, inner)) for field, inner in zip(schema.fields, paths, strict=True)
    ]

    def parse(value: Any, out: bytearray) -> None:
        if type(value) is not dict:
            raise FieldError(path, "expected an object, as the JSON of a record")
        for name, inner, parse_field in fields:
            if name not in value:
                raise FieldError(inner, "the field is not in the JSON of its record")
            parse_field(value[name], out)

    return parse


def _union_parser(branches: tuple[Schema, ...], path: str) -> _Parse:
    known = {_label(each): (varint(index), _parser(each, path)) for index, each in enumerate(branches)}
    null, labels = known.get("null"), ", ".join(known)

    def parse(value: Any, out: bytearray) -> None:
        if value is None and null is not None:
            out += null[0]
            return
        if type(value) is dict and len(value) == 1:
            for label, inner in value.items():
                if label in known:
                    prefix, parse_branch = known[label]
                    out += prefix
                    parse_branch(inner, out)
                    return
        raise FieldError(path, f"expected null or an object of one field, named by a type of the union ({labels})")

    return parse


def _array_parser(parse_item: _Parse, path: str) -> _Parse:
    def parse(value: Any, out: bytearray) -> None:
        if type(value) is not list:
            raise FieldError(path, "expected an array")
        if value:
            out += varint(len(value))
            for each in value:
                parse_item(each, out)
        out.append(0)

    return parse


def _map_parser(parse_value: _Parse, path: str) -> _Parse:
    put_key = _primitive_parser("string", path)

    def parse(value: Any, out: bytearray) -> None:
        if type(value) is not dict:
            raise FieldError(path, "expected an object, as the JSON of a map")
        if value:
            out += varint(len(value))
            for key, each in value.items():
                put_key(key, out)
                parse_value(each, out)
        out.append(0)

    return parse


def _enum_parser(symbols: tuple[str, ...], path: str) -> _Parse:
    known = {symbol: varint(index) for index, symbol in enumerate(symbols)}

    def parse(value: Any, out: bytearray) -> None:
        if type(value) is not str or value not in known:
            raise FieldError(path, f"expected a symbol of the enum, not {_told(value)}")
        out += known[value]

    return parse


def _fixed_parser(size: int, path: str) -> _Parse:
    def parse(value: Any, out: bytearray) -> None:
        if type(value) is not str or len(value) != size:
            raise FieldError(path, f"expected text of {size} characters")
        out += value.encode("latin-1", "replace")

    return parse


def _number(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        each = data[at]
        at += 1
        value |= (each & 127) << shift
        if each < 128:
            return value >> 1 ^ -(value & 1), at
        shift += 7


def _shower(schema: Schema) -> _Show:
    match schema:
        case Primitive(type=kind):
            return _SHOWN[kind]
        case Record():
            return _record_shower(schema)
        case Union(branches=branches):
            return _union_shower(branches)
        case Array(items=items):
            return _list_shower(_shower(items), None, "[]")
        case Map(values=values):
            return _list_shower(_shower(values), _show_string, "{}")
        case Enum(symbols=symbols):
            return _enum_shower([quote_in_bytes(symbol) for symbol in symbols])
        case Fixed(size=size):
            return _fixed_shower(size)


def _show_null(data: bytes, at: int, parts: list[str]) -> int:
    parts.append("null")
    return at


def _show_boolean(data: bytes, at: int, parts: list[str]) -> int:
    parts.append("true" if data[at] else "false")
    return at + 1


def _show_whole(data: bytes, at: int, parts: list[str]) -> int:
    value, at = _number(data, at)
    parts.append(str(value))
    return at


def _show_float(data: bytes, at: int, parts: list[str]) -> int:
    parts.append(_number_text(struct.unpack_from("<f", data, at)[0], numbers.float_text))
    return at + 4


def _show_double(data: bytes, at: int, parts: list[str]) -> int:
    parts.append(_number_text(struct.unpack_from("<d", data, at)[0], numbers.double_text))
    return at + 8


def _number_text(value: float, show: Callable[[float], str]) -> str:
    text = show(value)
    return text if math.isfinite(value) else f'"{text}"'


def _show_string(data: bytes, at: int, parts: list[str]) -> int:
    size, at = _number(data, at)
    parts.append(quote_in_bytes(data[at : at + size].decode()))
    return at + size


def _show_bytes(data: bytes, at: int, parts: list[str]) -> int:
    size, at = _number(data, at)
    parts.append(quote_in_bytes(data[at : at + size].decode("latin-1")))
    return at + size


_SHOWN: dict[str, _Show] = {
    "null": _show_null,
    "boolean": _show_boolean,
    "int": _show_whole,
    "long": _show_whole,
    "float": _show_float,
    "double": _show_double,
    "string": _show_string,
    "bytes": _show_bytes,
}


def _record_shower(schema: Record) -> _Show:
    fields = [
        (f"{',' if index else ''}{quote_in_bytes(field.name)}:", _shower(field.type))
        for index, field in enumerate(schema.fields)
    ]

    def show(data: bytes, at: int, parts: list[str]) -> int:
        parts.append("{")
        for name, show_field in fields:
            parts.append(name)
            at = show_field(data, at, parts)
        parts.append("}")
        return at

    return show


def _union_shower(branches: tuple[Schema, ...]) -> _Show:
    known = [(f"{{{quote_in_bytes(_label(each))}:", _shower(each)) for each in branches]
    null = next((index for index, each in enumerate(branches) if each == Primitive("null")), -1)

    def show(data: bytes, at: int, parts: list[str]) -> int:
        if data[at] < 128:
            index, at = data[at] >> 1, at + 1
        else:
            index, at = _number(data, at)
        if index == null:
            parts.append("null")
            return at
        name, show_branch = known[index]
        parts.append(name)
        at = show_branch(data, at, parts)
        parts.append("}")
        return at

    return show


def _list_shower(show_item: _Show, show_key: _Show | None, marks: str) -> _Show:
    def show(data: bytes, at: int, parts: list[str]) -> int:
        parts.append(marks[0])
        first = True
        while True:
            count, at = _number(data, at)
            if count == 0:
                break
            for _ in range(count):
                if not first:
                    parts.append(",")
                first = False
                if show_key is not None:
                    at = show_key(data, at, parts)
                    parts.append(":")
                at = show_item(data, at, parts)
        parts.append(marks[1])
        return at

    return show


def _enum_shower(symbols: list[str]) -> _Show:
    def show(data: bytes, at: int, parts: list[str]) -> int:
        index, at = _number(data, at)
        parts.append(symbols[index])
        return at

    return show


def _fixed_shower(size: int) -> _Show:
    def show(data: bytes, at: int, parts: list[str]) -> int:
        parts.append(quote_in_bytes(data[at : at + size].decode("latin-1")))
        return at + size

    return show
