"""JSON values, of messages and of a schema's defaults, in Avro's binary encoding.

The rules for messages come from Java's ``JsonDecoder``. A value of a union is null or an object with one field,
which is named after the value's type. Bytes are a string of the characters 0 to 255. A fraction is cut off where a
whole number is expected. Every field must be present. NaN and the infinities are strings.
"""

from __future__ import annotations

import json
import math
import struct
from typing import Any

from penstock.exact.errors import FieldError
from penstock.formats.avro.schema import (
    Array,
    Enum,
    Fixed,
    Map,
    Primitive,
    Record,
    Schema,
    Union,
    field_path,
    type_name,
)

_LIMITS = {"int": 2**31, "long": 2**63}
_NON_FINITE = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}


def default_data(schema: Schema, default: str) -> bytes:
    """The encoding of a field's default, which is JSON text. Raises ValueError, which says that it is wrong.

    The default of a union is encoded as the first type that it fits. A default of a numeric type is a number of it, and
    bytes have no other characters.
    """
    out = bytearray()
    try:
        encode_value(schema, json.loads(default), "", out, is_default=True)
    except ValueError as error:
        raise ValueError(f"the default {default} is wrong: {error}") from error
    return bytes(out)


def label(schema: Schema) -> str:
    """The name of a type in the JSON of a union."""
    return schema.name if isinstance(schema, Record | Enum | Fixed) else type_name(schema)


def encode_value(schema: Schema, value: Any, path: str, out: bytearray, *, is_default: bool = False) -> None:
    """Append the encoding of a JSON value. Raises FieldError."""
    match schema:
        case Primitive(type=name):
            out += _encode_primitive(name, value, path, is_default)
        case Record(fields=fields):
            _check(value, dict, path, "an object for a record")
            for field in fields:
                inner = field_path(path, field.name)
                if field.name not in value:
                    raise FieldError(inner, "the JSON of its record lacks this field")
                encode_value(field.type, value[field.name], inner, out, is_default=is_default)
        case Union(branches=branches) if is_default:
            _put_first_that_fits(branches, value, path, out)
        case Union(branches=branches):
            labels = [label(branch) for branch in branches]
            pairs = {"null": None} if value is None else value
            if type(pairs) is not dict or len(pairs) != 1 or not pairs.keys() <= set(labels):
                known = ", ".join(labels)
                raise FieldError(path, f"expected null or an object with one field, named after a type of ({known})")
            ((given, inner_value),) = pairs.items()
            index = labels.index(given)
            out += _encode_varint(index)
            encode_value(branches[index], inner_value, path, out)
        case Array(items=items):
            _check(value, list, path, "an array")
            out += _encode_varint(len(value)) if value else b""
            for each in value:
                encode_value(items, each, path, out, is_default=is_default)
            out.append(0)
        case Map(values=values):
            _check(value, dict, path, "an object for a map")
            out += _encode_varint(len(value)) if value else b""
            for key, each in value.items():
                out += _encode_primitive("string", key, path, is_default)
                encode_value(values, each, path, out, is_default=is_default)
            out.append(0)
        case Enum(symbols=symbols):
            if type(value) is not str or value not in symbols:
                raise FieldError(path, f"expected a symbol of the enum, not {_describe_value(value)}")
            out += _encode_varint(symbols.index(value))
        case Fixed(size=size):
            if type(value) is not str or len(value) != size:
                raise FieldError(path, f"expected a string of {size} characters, not {_describe_value(value)}")
            out += _encode_latin(value, path, is_default)


def _put_first_that_fits(branches: tuple[Schema, ...], value: Any, path: str, out: bytearray) -> None:
    start = len(out)
    for index, each in enumerate(branches):
        try:
            out += _encode_varint(index)
            encode_value(each, value, path, out, is_default=True)
        except FieldError:
            del out[start:]
        else:
            return
    raise FieldError(path, "the value fits no type of the union")


def _encode_varint(number: int) -> bytes:
    """A number as ``int`` and ``long`` are written: zigzag, seven bits a byte."""
    rest = number << 1 if number >= 0 else ~number << 1 | 1
    out = bytearray()
    while rest > 127:
        out.append(rest & 127 | 128)
        rest >>= 7
    out.append(rest)
    return bytes(out)


def _check(value: Any, expected: type, path: str, description: str) -> None:
    if type(value) is not expected:
        raise FieldError(path, f"expected {description}, not {_describe_value(value)}")


def _describe_value(value: Any) -> str:
    """A value in an error message; a long one is shortened, a nested one is only named."""
    if isinstance(value, dict | list):
        return "an object" if isinstance(value, dict) else "an array"
    return json.dumps(value)[:40]


def _encode_latin(text: str, path: str, is_default: bool) -> bytes:
    """The characters as bytes; Java writes others as ``?``, but refuses them in a default."""
    try:
        return text.encode("latin-1", "strict" if is_default else "replace")
    except UnicodeEncodeError as error:
        raise FieldError(path, f"expected characters up to U+00FF, not {_describe_value(text)}") from error


def _encode_primitive(name: str, value: Any, path: str, is_default: bool) -> bytes:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    match name, value:
        case "null", None:
            return b""
        case "boolean", bool():
            return bytes([value])
        case "bytes", str():
            return _encode_varint(len(value)) + _encode_latin(value, path, is_default)
        case "string", str():
            try:
                encoded = value.encode()
            except UnicodeEncodeError as error:
                raise FieldError(path, "the string has half of a surrogate pair") from error
            return _encode_varint(len(encoded)) + encoded
        case "float" | "double", _ if is_number:
            return _encode_real(name, value)
        case "float" | "double", "NaN" | "Infinity" | "-Infinity" if not is_default:
            return _encode_real(name, _NON_FINITE[value])
        case "int" | "long", _ if is_number and (isinstance(value, int) or (math.isfinite(value) and not is_default)):
            if -_LIMITS[name] <= int(value) < _LIMITS[name]:
                return _encode_varint(int(value))
    raise FieldError(path, f"expected {name}, not {_describe_value(value)}")


def _encode_real(name: str, value: float) -> bytes:
    """A number as a float or double, infinite if it is too large."""
    form = "<f" if name == "float" else "<d"
    try:
        return struct.pack(form, value)
    except OverflowError:
        return struct.pack(form, math.inf if value > 0 else -math.inf)
