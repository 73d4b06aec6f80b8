"""Avro's JSON encoding to the binary one and back, one message at a time in Python.

The rules are those of Java's ``JsonDecoder`` and ``JsonEncoder``. A value of a union is null or an object with one
field, which is named after the value's type. Bytes are a string of the characters 0 to 255. A fraction is cut off where
a whole number is expected. Every field must be present. NaN and the infinities are strings.
"""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.formats.avro.datum import Spans
from penstock.formats.avro.defaults import sized, varint
from penstock.formats.avro.schema import Array, Enum, Fixed, Map, Primitive, Record, Schema, Union, kind_name
from penstock.formats.columns.buffers import Bytes
from penstock.formats.exact.errors import FieldError, Malformed
from penstock.formats.exact.numbers import double_text, float_text
from penstock.formats.json.quoting import quote_in_bytes
from penstock.formats.loops.record_status import EXACT, READ

_LIMITS = {"int": 2**31, "long": 2**63}
_NON_FINITE = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}


def _refuse(word: str) -> NoReturn:
    raise ValueError(f"'{word}' is not JSON")


_DECODER = json.JSONDecoder(parse_constant=_refuse)


@dataclass(frozen=True)
class JsonEncoding:
    """Converts data of one schema between the two encodings."""

    schema: Schema

    def spans(self, messages: pa.BinaryArray, status: npt.NDArray[np.uint8]) -> tuple[Spans, dict[int, ValueError]]:
        """The messages whose ``status`` is READ, in the binary encoding, and the errors of the refused messages.

        Refused messages become EXACT.
        """
        parts, status, errors = [b""] * len(messages), status.copy(), dict[int, ValueError]()
        for index in np.flatnonzero(status == READ).tolist():
            try:
                parts[index] = self.binary(messages[index].as_py())
            except (Malformed, FieldError) as error:
                errors[index], status[index] = error, EXACT
        sizes = np.array([len(part) for part in parts], np.int64)
        ends = np.cumsum(sizes)
        return Spans(np.frombuffer(b"".join(parts), np.uint8), ends - sizes, ends, status), errors

    def texts(self, data: Bytes, offsets: npt.NDArray[np.int64]) -> pa.BinaryArray:
        """Well-formed data as JSON on one line without spaces; record ``i`` is ``data[offsets[i]:offsets[i + 1]]``."""
        encoded, found = data.tobytes(), []
        for start in offsets[:-1].tolist():
            found.append(_Writer(encoded, start).text(self.schema).encode())
        return pa.array(found, pa.binary())

    def binary(self, message: bytes) -> bytes:
        """One message in the binary encoding. Bytes after its JSON value are ignored.

        Raises Malformed or FieldError.
        """
        try:
            document, _ = _DECODER.raw_decode(message.decode().lstrip(" \t\r\n"))
        except (ValueError, RecursionError) as error:
            raise Malformed(f"not JSON: {error}") from error
        out = bytearray()
        _put(self.schema, document, "", out)
        return bytes(out)


def _label(schema: Schema) -> str:
    """The name of a type in the JSON of a union."""
    return schema.name if isinstance(schema, Record | Enum | Fixed) else kind_name(schema)


def _described(value: Any) -> str:
    """A value in an error message; a long one is cut, a nested one is only named."""
    if isinstance(value, dict | list):
        return "an object" if isinstance(value, dict) else "an array"
    return json.dumps(value)[:40]


def _checked(value: Any, expected: type, path: str, description: str) -> Any:
    if type(value) is not expected:
        raise FieldError(path, f"expected {description}, not {_described(value)}")
    return value


def _put(schema: Schema, value: Any, path: str, out: bytearray) -> None:
    """Append the binary encoding of a JSON value. Raises FieldError."""
    match schema:
        case Primitive(type=name):
            out += _primitive(name, value, path)
        case Record(fields=fields):
            _checked(value, dict, path, "an object for a record")
            for field in fields:
                inner = f"{path}.{field.name}" if path else field.name
                if field.name not in value:
                    raise FieldError(inner, "the JSON of its record lacks this field")
                _put(field.type, value[field.name], inner, out)
        case Union(branches=branches):
            labels = [_label(branch) for branch in branches]
            pairs = {"null": None} if value is None else value
            if type(pairs) is not dict or len(pairs) != 1 or not pairs.keys() <= set(labels):
                known = ", ".join(labels)
                raise FieldError(path, f"expected null or an object with one field, named after a type of ({known})")
            ((given, inner_value),) = pairs.items()
            index = labels.index(given)
            out += varint(index)
            _put(branches[index], inner_value, path, out)
        case Array(items=items):
            if _checked(value, list, path, "an array"):
                out += varint(len(value))
                for each in value:
                    _put(items, each, path, out)
            out.append(0)
        case Map(values=values):
            if _checked(value, dict, path, "an object for a map"):
                out += varint(len(value))
                for key, each in value.items():
                    out += _primitive("string", key, path)
                    _put(values, each, path, out)
            out.append(0)
        case Enum(symbols=symbols):
            if type(value) is not str or value not in symbols:
                raise FieldError(path, f"expected a symbol of the enum, not {_described(value)}")
            out += varint(symbols.index(value))
        case Fixed(size=size):
            if type(value) is not str or len(value) != size:
                raise FieldError(path, f"expected a string of {size} characters, not {_described(value)}")
            out += value.encode("latin-1", "replace")


def _primitive(name: str, value: Any, path: str) -> bytes:
    match name, value:
        case "null", None:
            return b""
        case "boolean", bool():
            return bytes([value])
        case "bytes", str():
            return sized(value.encode("latin-1", "replace"))
        case "string", str():
            try:
                return sized(value.encode())
            except UnicodeEncodeError as error:
                raise FieldError(path, "the string has half of a surrogate pair") from error
        case "float" | "double", int() | float() if not isinstance(value, bool):
            return _real(name, value)
        case "float" | "double", "NaN" | "Infinity" | "-Infinity":
            return _real(name, _NON_FINITE[value])
        case "int" | "long", int() | float() if not isinstance(value, bool) and _is_finite(value):
            if -_LIMITS[name] <= int(value) < _LIMITS[name]:
                return varint(int(value))
    raise FieldError(path, f"expected {name}, not {_described(value)}")


def _is_finite(value: float) -> bool:
    return isinstance(value, int) or math.isfinite(value)


def _real(name: str, value: float) -> bytes:
    """A number as a float or double, infinite if it is too large."""
    form = "<f" if name == "float" else "<d"
    try:
        return struct.pack(form, value)
    except OverflowError:
        return struct.pack(form, math.inf if value > 0 else -math.inf)


@dataclass
class _Writer:
    """Writes the JSON of well-formed binary data from position ``at`` on."""

    data: bytes
    at: int

    def text(self, schema: Schema) -> str:
        match schema:
            case Primitive(type=name):
                return self._primitive(name)
            case Record(fields=fields):
                pairs = [f"{quote_in_bytes(field.name)}:{self.text(field.type)}" for field in fields]
                return "{" + ",".join(pairs) + "}"
            case Union(branches=branches):
                branch = branches[self._number()]
                text = self.text(branch)
                return text if branch == Primitive("null") else f"{{{quote_in_bytes(_label(branch))}:{text}}}"
            case Array(items=items):
                return "[" + ",".join(self.text(items) for _ in self._items()) + "]"
            case Map(values=values):
                return "{" + ",".join(f"{self._primitive('string')}:{self.text(values)}" for _ in self._items()) + "}"
            case Enum(symbols=symbols):
                return quote_in_bytes(symbols[self._number()])
            case Fixed(size=size):
                return quote_in_bytes(self._take(size).decode("latin-1"))

    def _primitive(self, name: str) -> str:
        match name:
            case "null":
                return "null"
            case "boolean":
                return "true" if self._take(1) != b"\0" else "false"
            case "int" | "long":
                return str(self._number())
            case "float" | "double":
                real: float
                (real,) = struct.unpack("<f" if name == "float" else "<d", self._take(4 if name == "float" else 8))
                text = float_text(real) if name == "float" else double_text(real)
                return text if math.isfinite(real) else f'"{text}"'
        return quote_in_bytes(self._take(self._number()).decode("utf-8" if name == "string" else "latin-1"))

    def _take(self, size: int) -> bytes:
        self.at += size
        return self.data[self.at - size : self.at]

    def _number(self) -> int:
        value = shift = 0
        while True:
            byte = self.data[self.at]
            self.at += 1
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value >> 1 ^ -(value & 1)

    def _items(self) -> Iterator[None]:
        """Yields once for each item of the array or map that starts here."""
        while count := self._number():
            for _ in range(count):
                yield
