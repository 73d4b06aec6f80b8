"""Avro's JSON encoding to the binary one and back, one message at a time in Python.

The rules come from Java's ``JsonDecoder`` and ``JsonEncoder``; see :mod:`penstock.formats.avro.json_values`.
"""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NoReturn

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.columns.buffers import Bytes
from penstock.exact.errors import FieldError, Malformed
from penstock.exact.numbers import format_double, format_float
from penstock.formats.avro.datum import Spans
from penstock.formats.avro.json_values import encode_value, label
from penstock.formats.avro.schema import Array, Enum, Fixed, Map, Primitive, Record, Schema, Union
from penstock.formats.json.quoting import quote_in_bytes
from penstock.loops.record_status import EXACT, READ


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
        """Well-formed data as JSON on one line without spaces. Record ``i`` is ``data[offsets[i]:offsets[i + 1]]``."""
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
        encode_value(self.schema, document, "", out)
        return bytes(out)


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
                branch = branches[self._read_number()]
                text = self.text(branch)
                return text if branch == Primitive("null") else f"{{{quote_in_bytes(label(branch))}:{text}}}"
            case Array(items=items):
                return "[" + ",".join(self.text(items) for _ in self._iter_items()) + "]"
            case Map(values=values):
                return (
                    "{" + ",".join(f"{self._primitive('string')}:{self.text(values)}" for _ in self._iter_items()) + "}"
                )
            case Enum(symbols=symbols):
                return quote_in_bytes(symbols[self._read_number()])
            case Fixed(size=size):
                return quote_in_bytes(self._take(size).decode("latin-1"))

    def _primitive(self, name: str) -> str:
        match name:
            case "null":
                return "null"
            case "boolean":
                return "true" if self._take(1) != b"\0" else "false"
            case "int" | "long":
                return str(self._read_number())
            case "float" | "double":
                real: float
                (real,) = struct.unpack("<f" if name == "float" else "<d", self._take(4 if name == "float" else 8))
                text = format_float(real) if name == "float" else format_double(real)
                return text if math.isfinite(real) else f'"{text}"'
        return quote_in_bytes(self._take(self._read_number()).decode("utf-8" if name == "string" else "latin-1"))

    def _take(self, size: int) -> bytes:
        self.at += size
        return self.data[self.at - size : self.at]

    def _read_number(self) -> int:
        value = shift = 0
        while True:
            byte = self.data[self.at]
            self.at += 1
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value >> 1 ^ -(value & 1)

    def _iter_items(self) -> Iterator[None]:
        """Yields once for each item of the array or map that starts here."""
        while count := self._read_number():
            for _ in range(count):
                yield
