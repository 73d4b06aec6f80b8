"""Generated values of columns. A value depends on the seed, the column and the number of its row alone, so that a row
that is read again is the same."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from penstock.types import ArrayType, BinaryType, DataType, DecimalType, MapType, RowType, StringType, arrow_type
from penstock.types.logical import root

_Numbers = NDArray[np.int64]
_Bits = NDArray[np.uint64]

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_HEX = np.frombuffer(b"0123456789abcdef", np.uint8)
_DAY_MICROS = 86_400_000_000


@dataclass(frozen=True)
class Generator:
    """How the values of a column, or of a part of it, are made. ``path`` names it: columns with equal options have
    different values.

    With ``start`` the values are a sequence. Other numbers are from ``low`` to ``high``, for decimals in units of their
    last digit. ``parts`` are the fields of a ROW, the element of an ARRAY, the key and the value of a MAP.
    """

    path: str
    type: DataType
    start: int | None = None
    low: float = 0
    high: float = 0
    length: int = 0
    varied: bool = False
    past_ms: int = 0
    null_rate: float = 0.0
    parts: tuple[Generator, ...] = field(default=())


@dataclass(frozen=True)
class RowNumbers:
    """The rows to make: their numbers, and their times in ms since 1970, which are local in the time zone ``zone``."""

    seed: int
    numbers: _Numbers
    times: _Numbers
    zone: str


def values(generator: Generator, rows: RowNumbers) -> pa.Array:
    """The column of these rows."""
    column = (
        _generate_random(generator, rows)
        if generator.start is None
        else _generate_sequence(generator, generator.start, rows)
    )
    if not generator.null_rate:
        return column
    missing = _to_fraction(_generate_bits(generator, rows, rows.numbers, "null")) < generator.null_rate
    return pc.if_else(pa.array(missing), pa.scalar(None, column.type), column)


def _generate_sequence(generator: Generator, start: int, rows: RowNumbers) -> pa.Array:
    """The start, and one more in each row; for decimals in units of 1."""
    column = pa.array(rows.numbers + start)
    if isinstance(generator.type, DecimalType):
        return column.cast(pa.decimal128(19, 0)).cast(arrow_type(generator.type))
    return column.cast(arrow_type(generator.type))


def _generate_random(generator: Generator, rows: RowNumbers) -> pa.Array:
    match generator.type:
        case RowType(names=names):
            columns = [values(part, rows) for part in generator.parts]
            return pa.StructArray.from_arrays(columns, names=list(names))
        case ArrayType():
            return _generate_lists(generator, rows)
        case MapType():
            return _generate_maps(generator, rows)
        case StringType() | BinaryType():
            return _generate_texts(generator, rows)
        case DecimalType():
            return _to_decimals(_generate_numbers(generator, rows), generator.type)
    return _generate_primitive(generator, rows)


def _generate_primitive(generator: Generator, rows: RowNumbers) -> pa.Array:
    arrow = arrow_type(generator.type)
    match root(generator.type):
        case "BOOLEAN":
            return pa.array(_generate_bits(generator, rows, rows.numbers) & np.uint64(1) == 1)
        case "FLOAT" | "DOUBLE":
            part = _to_fraction(_generate_bits(generator, rows, rows.numbers))
            column = generator.low * (1 - part) + generator.high * part  # the difference may be infinite
            return pa.array(column).cast(arrow, safe=False)
        case "DATE" | "TIME" | "TIMESTAMP" | "TIMESTAMP_LTZ":
            return _generate_moments(generator, rows, arrow)
    return pa.array(_generate_numbers(generator, rows)).cast(arrow)


def _generate_moments(generator: Generator, rows: RowNumbers, arrow: pa.DataType) -> pa.Array:
    """The times of the rows, or times up to this many ms earlier."""
    past = np.zeros(len(rows.times), np.int64)
    if generator.past_ms:
        past = (_generate_bits(generator, rows, rows.numbers) % np.uint64(generator.past_ms + 1)).view(np.int64)
    column = pa.array((rows.times - past) * 1000).view(pa.timestamp("us", "UTC"))
    if arrow == column.type:
        return column
    local = pc.local_timestamp(column.cast(pa.timestamp("us", rows.zone)))
    if pa.types.is_date(arrow):
        return local.cast(arrow, safe=False)
    if pa.types.is_time(arrow):
        micros = local.view(pa.int64()).to_numpy() % _DAY_MICROS
        return pa.array(micros // 1_000_000 * 1_000_000_000).view(arrow)
    return local.cast(arrow)


def _generate_numbers(generator: Generator, rows: RowNumbers) -> _Numbers:
    """Whole numbers from ``low`` to ``high``."""
    low, high = int(generator.low), int(generator.high)
    bits = _generate_bits(generator, rows, rows.numbers)
    span = high - low + 1
    chosen = bits if span == 2**64 else bits % np.uint64(span)
    return (chosen + np.uint64(low % 2**64)).view(np.int64)


def _to_decimals(units: _Numbers, data_type: DecimalType) -> pa.Array:
    """Decimals from numbers of units of their last digit."""
    halves = np.stack((units, units >> 63), axis=1)
    return pa.Array.from_buffers(arrow_type(data_type), len(units), [None, pa.py_buffer(np.ascontiguousarray(halves))])


# --- text, bytes, arrays and maps ------------------------------------------------------------------------------


def _generate_texts(generator: Generator, rows: RowNumbers) -> pa.Array:
    """Hexadecimal digits, or bytes."""
    hexadecimal = isinstance(generator.type, StringType)
    length, count = generator.length, len(rows.numbers)
    words = -(-length // (16 if hexadecimal else 8))
    each = rows.numbers[:, None] * words + np.arange(words)
    drawn = _generate_bits(generator, rows, each.reshape(-1)).view(np.uint8).reshape(count, words * 8)
    if hexadecimal:
        digits = np.stack((drawn >> 4, drawn & 15), axis=2).reshape(count, words * 16)
        drawn = _HEX[digits]
    lengths = _generate_lengths(generator, rows)
    content = drawn[:, :length][np.arange(length) < lengths[:, None]]
    arrow = pa.string() if hexadecimal else pa.binary()
    offsets = np.concatenate(([0], np.cumsum(lengths))).astype(np.int32)
    column = pa.Array.from_buffers(arrow, count, [None, pa.py_buffer(offsets), pa.py_buffer(content)])
    return column.cast(arrow_type(generator.type))


def _generate_lengths(generator: Generator, rows: RowNumbers) -> _Numbers:
    if not generator.varied:
        return np.full(len(rows.numbers), generator.length, np.int64)
    drawn = _generate_bits(generator, rows, rows.numbers, "length") % np.uint64(max(1, generator.length))
    return np.minimum(drawn.view(np.int64) + 1, generator.length)


def _number_elements(generator: Generator, rows: RowNumbers) -> RowNumbers:
    """The elements of arrays as rows, ``length`` of each."""
    length = generator.length
    numbers = (rows.numbers[:, None] * length + np.arange(length)).reshape(-1)
    return RowNumbers(rows.seed, numbers, np.repeat(rows.times, length), rows.zone)


def _generate_lists(generator: Generator, rows: RowNumbers) -> pa.Array:
    (element,) = generator.parts
    offsets = np.arange(len(rows.numbers) + 1, dtype=np.int32) * generator.length
    column = pa.ListArray.from_arrays(pa.array(offsets), values(element, _number_elements(generator, rows)))
    return column.cast(arrow_type(generator.type))


def _generate_maps(generator: Generator, rows: RowNumbers) -> pa.Array:
    """Maps of ``length`` entries, without those with repeated keys."""
    keys, items = (values(part, _number_elements(generator, rows)) for part in generator.parts)
    of = np.repeat(np.arange(len(rows.numbers), dtype=np.int64), generator.length)
    codes = pc.dictionary_encode(keys).indices.to_numpy()
    _, first = np.unique(of * (int(codes.max(initial=0)) + 1) + codes, return_index=True)
    first.sort()
    offsets = np.searchsorted(of[first], np.arange(len(rows.numbers) + 1)).astype(np.int32)
    chosen = pa.array(first)
    return pa.MapArray.from_arrays(pa.array(offsets), keys.take(chosen), items.take(chosen)).cast(
        arrow_type(generator.type)
    )


# --- chance ----------------------------------------------------------------------------------------------------


def _generate_bits(generator: Generator, rows: RowNumbers, numbers: _Numbers, purpose: str = "") -> _Bits:
    """64 bits for each number, by the finalizer of SplitMix64."""
    digest = hashlib.blake2b(f"{rows.seed}/{generator.path}/{purpose}".encode(), digest_size=8).digest()
    mixed: Any = numbers.view(np.uint64) * _GOLDEN + np.frombuffer(digest, np.uint64)[0]
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    bits: _Bits = mixed ^ (mixed >> np.uint64(31))
    return bits


def _to_fraction(bits: _Bits) -> NDArray[np.float64]:
    """From 0 to less than 1."""
    part: NDArray[np.float64] = (bits >> np.uint64(11)).astype(np.float64) * 2.0**-53
    return part
