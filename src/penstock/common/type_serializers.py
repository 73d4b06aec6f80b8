"""Values as Flink's own serializers write them: the bytes of a type, without a name or a schema.

Layout, as of Flink 1.13 to 2.2: numbers have a fixed size, the highest byte first. A text is the number of its UTF-16
units plus one, then the units, each of these as groups of seven bits, the lowest first; zero is null. Arrays are a
number and their elements; maps a number, and for each entry the key, a byte that says whether the value is null, and
the value. A row is a bit mask, of its kind in the first two bits and then of its nulls, and the columns that are not
null. Bytes are their number and they themselves.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from penstock.common.typeinfo import PickledBytesTypeInfo, TypeInformation, expect_type
from penstock.common.types import Row
from penstock.errors import Problem, UnsupportedError
from penstock.types import ArrayType, BinaryType, DataType, MapType, PrimitiveType, RowKind, RowType, StringType

_Write = Callable[[Any, bytearray], None]
#: Reads a value of bytes from a position on; returns it, and the position after it.
_Read = Callable[[bytes, int], tuple[Any, int]]

_NUMBERS = {
    "BOOLEAN": "?",
    "TINYINT": ">b",
    "SMALLINT": ">h",
    "INT": ">i",
    "BIGINT": ">q",
    "FLOAT": ">f",
    "DOUBLE": ">d",
}
_COUNT = struct.Struct(">i")
_KINDS = 2  # bits of a row's mask before those of its columns


@dataclass(frozen=True)
class TypeSerializer:
    """Writes and reads the values of a type."""

    write: _Write
    read: _Read


def find_serializer(info: TypeInformation, where: str) -> TypeSerializer:
    """The serializer of a type. Raises UnsupportedError for a type whose bytes only Java knows; ``where`` says what
    needs it."""
    expect_type(info, where)
    if isinstance(info, PickledBytesTypeInfo):
        raise _unknown_error("values of any kind", where)
    return _choose_serializer(info.logical, where)


def _choose_serializer(logical: DataType, where: str) -> TypeSerializer:
    match logical:
        case PrimitiveType(name=name) if name in _NUMBERS:
            return _make_number(struct.Struct(_NUMBERS[name]))
        case StringType():
            return TypeSerializer(_write_text, _read_text)
        case BinaryType():
            return TypeSerializer(_write_bytes, _read_bytes)
        case ArrayType(element=element):
            return _make_array(_choose_serializer(element, where))
        case MapType(key=key, value=value):
            return _make_map(_choose_serializer(key, where), _choose_serializer(value, where))
        case RowType(fields=fields):
            return _make_row(logical.names, [_choose_serializer(each.type, where) for each in fields])
    raise _unknown_error(str(logical), where)


def _unknown_error(what: str, where: str) -> UnsupportedError:
    hint = "use text, numbers, bytes, arrays, maps and rows of them; or JSON or Avro"
    return UnsupportedError((Problem(f"the bytes of {what} are known only to Java", where, hint=hint),))


def _make_number(packed: struct.Struct) -> TypeSerializer:
    def write(value: Any, out: bytearray) -> None:
        out += packed.pack(value)

    def read(given: bytes, at: int) -> tuple[Any, int]:
        return packed.unpack_from(given, at)[0], at + packed.size

    return TypeSerializer(write, read)


def _write_bytes(value: Any, out: bytearray) -> None:
    out += _COUNT.pack(len(value)) + value


def _read_bytes(given: bytes, at: int) -> tuple[Any, int]:
    (count,) = _COUNT.unpack_from(given, at)
    first = at + _COUNT.size
    if len(given) - first < count:
        raise IndexError("bytes are missing")
    return given[first : first + count], first + count


def _write_text(value: str | None, out: bytearray) -> None:
    if value is None:
        out.append(0)
    elif value.isascii():  # each unit is a byte
        _write_groups(len(value) + 1, out)
        out += value.encode()
    else:
        units = memoryview(value.encode("utf-16-le", "surrogatepass")).cast("H")
        _write_groups(len(units) + 1, out)
        for unit in units:
            _write_groups(unit, out)


def _read_text(given: bytes, at: int) -> tuple[str | None, int]:
    count, at = _read_groups(given, at)
    if count == 0:
        return None, at
    count -= 1
    plain = given[at : at + count]
    if plain.isascii():
        if len(plain) < count:
            raise IndexError("units are missing")
        return plain.decode(), at + count
    units = bytearray()
    for _ in range(count):
        unit, at = _read_groups(given, at)
        units += unit.to_bytes(2, "little")
    return units.decode("utf-16-le", "surrogatepass"), at


def _write_groups(number: int, out: bytearray) -> None:
    while number >= 0x80:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)


def _read_groups(given: bytes, at: int) -> tuple[int, int]:
    number, shift = 0, 0
    while True:
        group = given[at]
        number, at, shift = number | (group & 0x7F) << shift, at + 1, shift + 7
        if group < 0x80:
            return number, at


def _make_array(element: TypeSerializer) -> TypeSerializer:
    def write(value: Any, out: bytearray) -> None:
        out += _COUNT.pack(len(value))
        for each in value:
            element.write(each, out)

    def read(given: bytes, at: int) -> tuple[Any, int]:
        (count,) = _COUNT.unpack_from(given, at)
        at += _COUNT.size
        found = []
        for _ in range(count):
            each, at = element.read(given, at)
            found.append(each)
        return found, at

    return TypeSerializer(write, read)


def _make_map(key: TypeSerializer, value: TypeSerializer) -> TypeSerializer:
    def write(given: Any, out: bytearray) -> None:
        out += _COUNT.pack(len(given))
        for name, each in given.items():
            key.write(name, out)
            out.append(each is None)
            if each is not None:
                value.write(each, out)

    def read(given: bytes, at: int) -> tuple[Any, int]:
        (count,) = _COUNT.unpack_from(given, at)
        at += _COUNT.size
        found: dict[Any, Any] = {}
        for _ in range(count):
            name, at = key.read(given, at)
            null, at = given[at], at + 1
            found[name] = None
            if not null:
                found[name], at = value.read(given, at)
        return found, at

    return TypeSerializer(write, read)


def _make_row(names: tuple[str, ...], columns: list[TypeSerializer]) -> TypeSerializer:
    bits = _KINDS + len(columns)
    size = (bits + 7) // 8

    def write(value: Any, out: bytearray) -> None:
        cells = [value[name] for name in names] if isinstance(value, dict) else list(value)
        if len(cells) != len(columns):
            raise ValueError(f"{len(cells)} values for {len(columns)} columns")
        kind = int(value.get_row_kind()) if isinstance(value, Row) else 0
        mask = (kind & 1) << 1 | kind >> 1
        for each in cells:
            mask = mask << 1 | (each is None)
        out += (mask << (size * 8 - bits)).to_bytes(size, "big")
        for column, each in zip(columns, cells, strict=True):
            if each is not None:
                column.write(each, out)

    def read(given: bytes, at: int) -> tuple[Any, int]:
        if len(given) - at < size:
            raise IndexError("the mask is missing")
        mask = int.from_bytes(given[at : at + size], "big") >> (size * 8 - bits)
        at += size
        cells = []
        for number, column in enumerate(columns, start=1):
            each = None
            if not mask >> (len(columns) - number) & 1:
                each, at = column.read(given, at)
            cells.append(each)
        row = Row.named(names, cells)
        kind = mask >> len(columns)
        row.set_row_kind(RowKind((kind & 1) << 1 | kind >> 1))
        return row, at

    return TypeSerializer(write, read)
