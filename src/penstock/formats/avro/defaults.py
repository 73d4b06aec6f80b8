"""Default values of a schema in Avro's binary encoding."""

from __future__ import annotations

import struct
from typing import Any

from penstock.formats.avro.schema import Array, Enum, Fixed, Map, Primitive, Record, Schema, Union

_LIMITS = {"int": 2**31, "long": 2**63}


def varint(number: int) -> bytes:
    """A number as ``int`` and ``long`` are written: zigzag, seven bits a byte."""
    rest = number << 1 if number >= 0 else ~number << 1 | 1
    out = bytearray()
    while rest > 127:
        out.append(rest & 127 | 128)
        rest >>= 7
    out.append(rest)
    return bytes(out)


def sized(data: bytes) -> bytes:
    """``data`` after its length."""
    return varint(len(data)) + data


def constant(schema: Schema, value: Any) -> bytes:
    """The binary encoding of a field's default, which is given as JSON. Raises ValueError if it does not fit its type.

    A default of a union is encoded as the first type that it fits.
    """
    match schema:
        case Union(branches=branches):
            for index, each in enumerate(branches):
                try:
                    return varint(index) + constant(each, value)
                except ValueError:
                    continue
            raise ValueError("the value fits no type of the union")
        case Array(items=items):
            return _blocks([constant(items, each) for each in _checked(value, list)])
        case Map(values=values):
            pairs = _checked(value, dict).items()
            return _blocks([sized(key.encode()) + constant(values, each) for key, each in pairs])
        case Record():
            return _record(schema, _checked(value, dict))
        case Enum(symbols=symbols):
            if value not in symbols:
                raise ValueError("the value is not a symbol of the enum")
            return varint(symbols.index(value))
        case Fixed(size=size):
            data: bytes = _checked(value, str).encode("latin-1")
            if len(data) != size:
                raise ValueError(f"expected {size} bytes")
            return data
    return _primitive(schema, value)


def _checked(value: Any, kind: type) -> Any:
    if not isinstance(value, kind):
        raise ValueError(f"expected {kind.__name__}")
    return value


def _blocks(items: list[bytes]) -> bytes:
    return (varint(len(items)) if items else b"") + b"".join(items) + b"\0"


def _record(schema: Record, given: dict[str, Any]) -> bytes:
    parts = []
    for field in schema.fields:
        if field.name in given:
            parts.append(constant(field.type, given[field.name]))
        else:
            raise ValueError(f"'{field.name}' is missing")
    return b"".join(parts)


def _primitive(schema: Primitive, value: Any) -> bytes:
    kind = schema.type
    if kind == "null" and value is None:
        return b""
    if kind == "boolean" and isinstance(value, bool):
        return bytes([value])
    if kind in _LIMITS and isinstance(value, int) and not isinstance(value, bool):
        if not -_LIMITS[kind] <= value < _LIMITS[kind]:
            raise ValueError(f"out of the range of {kind}")
        return varint(value)
    if kind in ("float", "double") and isinstance(value, int | float) and not isinstance(value, bool):
        return struct.pack("<f" if kind == "float" else "<d", value)
    if kind == "string" and isinstance(value, str):
        return sized(value.encode())
    if kind == "bytes" and isinstance(value, str):
        return sized(value.encode("latin-1"))
    raise ValueError(f"expected {kind}")
