"""Avro's JSON encoding to the binary one and back, as Avro's Java library has it.

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

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.formats import kinds
from penstock.formats.avro import rewrite_kernel
from penstock.formats.avro.codec import Spans
from penstock.formats.avro.constants import varint
from penstock.formats.avro.program import Program
from penstock.formats.avro.rewriting import label, rewriting
from penstock.formats.avro.schema import Array, Enum, Fixed, Map, Primitive, Record, Schema, Union
from penstock.formats.columns import Bytes, binary_parts, messages_of
from penstock.formats.refusals import FieldError, Malformed

__all__ = ["JsonText"]

#: Appends the binary encoding of what JSON has, or raises FieldError.
_Parse: TypeAlias = Callable[[Any, bytearray], None]

_PACK_DOUBLE = struct.Struct("<d").pack
_LIMITS = {"int": 2**31, "long": 2**63}
_NO_NUMBERS = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}


def _refused(word: str) -> Any:
    raise ValueError(f"'{word}' is no JSON")


_DECODER = json.JSONDecoder(parse_constant=_refused)


@dataclass(frozen=True)
class JsonText:
    """Rewrites data of one schema: in a compiled loop, and in Python the messages that it leaves."""

    schema: Schema

    @cached_property
    def _program(self) -> Program:
        return rewriting(self.schema)

    @cached_property
    def _parse(self) -> _Parse:
        return _parser(self.schema, "")

    def binary(self, messages: pa.BinaryArray, status: npt.NDArray[np.uint8]) -> tuple[Spans, dict[int, ValueError]]:
        """The messages whose ``status`` is READ in the binary encoding, and why some are refused, which are EXACT.

        What follows the record in a message is not looked at.
        """
        text, offsets = binary_parts(messages)
        status, ends = status.copy(), np.zeros(len(status), np.int64)
        out = np.empty((int(offsets[-1]) - int(offsets[0])) * rewrite_kernel.GROWTH + rewrite_kernel.ROOM, np.uint8)
        program = self._program
        rewrite_kernel.from_texts(text, offsets, program.steps, program.table, program.constants, out, ends, status)
        starts = np.concatenate([[0], ends[:-1]]).astype(np.int64)
        found, refusals = dict[int, bytes](), dict[int, ValueError]()
        for place in np.flatnonzero(status == kinds.EXACT).tolist():
            try:
                found[place] = self.exact(text[offsets[place] : offsets[place + 1]].tobytes())
            except (Malformed, FieldError) as error:
                refusals[place] = error
        status[list(found)] = kinds.READ
        spans = Spans(out[: ends[-1] if len(ends) else 0], starts, ends, status)
        return spans.replaced(found) if found else spans, refusals

    def exact(self, text: bytes) -> bytes:
        """One message in the binary encoding, by Python. Raises Malformed or FieldError."""
        try:
            document, _ = _DECODER.raw_decode(text.decode().lstrip(" \t\r\n"))
        except (ValueError, RecursionError) as error:
            raise Malformed(f"no JSON: {error}") from error
        out = bytearray()
        self._parse(document, out)
        return bytes(out)

    def text(self, data: Bytes, offsets: npt.NDArray[np.int64]) -> pa.BinaryArray:
        """Well-formed data, record ``i`` from ``offsets[i]`` on, as JSON on one line without spaces."""
        program, ends = self._program, np.zeros(len(offsets) - 1, np.int64)
        out = np.empty(4 * int(offsets[-1]) + rewrite_kernel.ROOM, np.uint8)
        row = 0
        while True:
            row = rewrite_kernel.to_texts(
                data, offsets, program.steps, program.table, program.constants, out, ends, row
            )
            if row == len(ends):
                return messages_of(out, np.concatenate([[0], ends]), "avro")
            used = ends[row - 1] if row else 0
            out = np.concatenate([out[:used], np.empty(2 * len(out), np.uint8)])


def _told(value: Any) -> str:
    """A value for an error; not all of one that is long or deep."""
    if isinstance(value, dict | list):
        return "an object" if isinstance(value, dict) else "an array"
    return json.dumps(value)[:40]


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
    known = {label(each): (varint(index), _parser(each, path)) for index, each in enumerate(branches)}
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
