"""Rows that are the same key: Arrow columns compared row by row, exactly.

NULL equals NULL, NaN equals NaN, and -0.0 equals 0.0. Everything else is equal if its values are.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from penstock.columns.hash_loops import compare_bytes

Flags: TypeAlias = npt.NDArray[np.bool_]
RowIndices: TypeAlias = npt.NDArray[np.int64]
Column: TypeAlias = "pa.Array | pa.ChunkedArray"

_FIXED: dict[int, Any] = {
    **{getattr(pa.lib, f"Type_{name}"): getattr(np, name.lower()) for name in ("INT8", "INT16", "INT32", "INT64")},
    **{getattr(pa.lib, f"Type_{name}"): getattr(np, name.lower()) for name in ("UINT8", "UINT16", "UINT32", "UINT64")},
    **dict.fromkeys((pa.lib.Type_DATE32, pa.lib.Type_TIME32), np.int32),
    **dict.fromkeys((pa.lib.Type_DATE64, pa.lib.Type_TIME64, pa.lib.Type_TIMESTAMP, pa.lib.Type_DURATION), np.int64),
    pa.lib.Type_HALF_FLOAT: np.float16,
    pa.lib.Type_FLOAT: np.float32,
    pa.lib.Type_DOUBLE: np.float64,
}


def plain(column: Column) -> pa.Array:
    """The column as one array without a dictionary, runs or views, whose nested columns may still have them.

    Raises TypeError for types that cannot be a key.
    """
    if isinstance(column, pa.ChunkedArray):
        column = column.combine_chunks()
    kind = column.type
    if isinstance(kind, pa.BaseExtensionType):
        return plain(column.storage)
    if pa.types.is_dictionary(kind):
        return plain(column.dictionary_decode())
    if pa.types.is_run_end_encoded(kind):
        return plain(pc.run_end_decode(column))
    if pa.types.is_string_view(kind) or pa.types.is_binary_view(kind):
        return column.cast(pa.large_string() if pa.types.is_string_view(kind) else pa.large_binary())
    if pa.types.is_decimal32(kind) or pa.types.is_decimal64(kind):
        return column.cast(pa.decimal128(kind.precision, kind.scale))
    return column


def is_valid(column: pa.Array) -> Flags | None:
    """Whether each value is not null; None if all are not."""
    if column.null_count == 0:
        return None
    if pa.types.is_null(column.type):
        return np.zeros(len(column), np.bool_)
    bits = np.frombuffer(column.buffers()[0], np.uint8)
    first = column.offset // 8
    some = np.unpackbits(bits[first : (column.offset + len(column) + 7) // 8], bitorder="little")
    return some[column.offset - first * 8 :][: len(column)].astype(np.bool_)


def fixed_values(column: pa.Array) -> npt.NDArray[Any] | None:
    """The values of a column of numbers or times as a view; None for other types. Values under nulls are undefined."""
    width = _FIXED.get(column.type.id)
    if width is None:
        return None
    if len(column) == 0:
        return np.zeros(0, width)
    return np.frombuffer(column.buffers()[1], width)[column.offset : column.offset + len(column)]


def wide_values(column: pa.Array, size: int) -> npt.NDArray[np.uint64]:
    """The values of a decimal column of ``size`` words each as a view, the lowest word first."""
    if len(column) == 0:
        return np.zeros((0, size), np.uint64)
    words = np.frombuffer(column.buffers()[1], np.uint64)
    return words.reshape(-1, size)[column.offset : column.offset + len(column)]


def byte_parts(column: pa.Array) -> tuple[npt.NDArray[np.uint8], npt.NDArray[Any]] | None:
    """The bytes of a column of strings or bytes and its n + 1 offsets into them; None for other types."""
    kind = column.type
    if pa.types.is_fixed_size_binary(kind):
        offsets = (column.offset + np.arange(len(column) + 1)) * kind.byte_width
        data = column.buffers()[1]
    elif pa.types.is_large_binary(kind) or pa.types.is_large_string(kind):
        offsets, data = _read_offsets(column, np.int64), column.buffers()[2]
    elif pa.types.is_binary(kind) or pa.types.is_string(kind):
        offsets, data = _read_offsets(column, np.int32), column.buffers()[2]
    else:
        return None
    return (np.zeros(0, np.uint8) if data is None else np.frombuffer(data, np.uint8)), offsets


def _read_offsets(column: pa.Array, width: Any) -> npt.NDArray[Any]:
    if len(column) == 0:
        return np.zeros(1, width)
    return np.frombuffer(column.buffers()[1], width)[column.offset : column.offset + len(column) + 1]


def booleans(column: pa.Array, rows: RowIndices) -> Flags:
    """The values of a column of booleans at ``rows``."""
    if len(rows) == 0:
        return np.zeros(0, np.bool_)
    return _unpack_bits(column.buffers()[1], column.offset + rows)


def _unpack_bits(buffer: pa.Buffer, rows: RowIndices) -> Flags:
    found = np.frombuffer(buffer, np.uint8)[rows >> 3] >> (rows & 7).astype(np.uint8) & 1
    return np.asarray(found, np.bool_)


def list_parts(column: pa.Array) -> tuple[npt.NDArray[np.int64], tuple[pa.Array, ...]] | None:
    """The n + 1 offsets of a column of lists or maps into its columns of elements, or of keys and values; None for
    other types."""
    kind = column.type
    if pa.types.is_fixed_size_list(kind):
        return (column.offset + np.arange(len(column) + 1)) * kind.list_size, (column.values,)
    if pa.types.is_map(kind):
        entries: tuple[pa.Array, ...] = (column.keys, column.items)
    elif pa.types.is_list(kind) or pa.types.is_large_list(kind):
        entries = (column.values,)
    else:
        return None
    width = np.int64 if pa.types.is_large_list(kind) else np.int32
    return _read_offsets(column, width).astype(np.int64), entries


def unsupported_error(kind: pa.DataType) -> TypeError:
    return TypeError(f"a column of type {kind} cannot be part of a key; cast it to a type that columns of tables have")


def same_rows(left: Sequence[Column], left_rows: RowIndices, right: Sequence[Column], right_rows: RowIndices) -> Flags:
    """For each pair of rows, whether all columns of ``left`` and ``right`` are equal. Columns that are compared have
    the same type, except for dictionaries and widths of offsets."""
    same = np.ones(len(left_rows), np.bool_)
    if len(left_rows):
        for one, other in zip(left, right, strict=True):
            same &= _compare(plain(one), left_rows, plain(other), right_rows)
    return same


def _compare(left: pa.Array, left_rows: RowIndices, right: pa.Array, right_rows: RowIndices) -> Flags:
    if pa.types.is_null(left.type):
        return np.ones(len(left_rows), np.bool_)
    same = _same_values(left, left_rows, right, right_rows)
    if left.null_count or right.null_count:
        first, second = _valid_at(left, left_rows), _valid_at(right, right_rows)
        same = (first == second) & (same | ~first)
    return same


def _valid_at(column: pa.Array, rows: RowIndices) -> Flags:
    if column.null_count == 0:
        return np.ones(len(rows), np.bool_)
    return _unpack_bits(column.buffers()[0], column.offset + rows)


def _same_values(left: pa.Array, left_rows: RowIndices, right: pa.Array, right_rows: RowIndices) -> Flags:
    if (values := fixed_values(left)) is not None and (others := fixed_values(right)) is not None:
        one, other = values[left_rows], others[right_rows]
        if values.dtype.kind == "f":
            return np.asarray((one == other) | (np.isnan(one) & np.isnan(other)), np.bool_)
        return np.asarray(one == other, np.bool_)
    if pa.types.is_boolean(left.type):
        return np.asarray(booleans(left, left_rows) == booleans(right, right_rows), np.bool_)
    if pa.types.is_decimal(left.type):
        size = left.type.byte_width // 8
        pairs = wide_values(left, size)[left_rows] == wide_values(right, size)[right_rows]
        return np.asarray(pairs.all(axis=1), np.bool_)
    if (parts := byte_parts(left)) and (more := byte_parts(right)):
        out = np.empty(len(left_rows), np.bool_)
        compare_bytes(*parts, left_rows, *more, right_rows, out)
        return out
    if pa.types.is_struct(left.type):
        children = range(left.type.num_fields)
        return same_rows([left.field(i) for i in children], left_rows, [right.field(i) for i in children], right_rows)
    if (lists := list_parts(left)) and (other_lists := list_parts(right)):
        return _same_lists(*lists, left_rows, *other_lists, right_rows)
    raise unsupported_error(left.type)


def _same_lists(
    offsets: npt.NDArray[np.int64],
    elements: tuple[pa.Array, ...],
    rows: RowIndices,
    other_offsets: npt.NDArray[np.int64],
    other_elements: tuple[pa.Array, ...],
    other_rows: RowIndices,
) -> Flags:
    starts, others = offsets[rows], other_offsets[other_rows]
    sizes = offsets[rows + 1] - starts
    same = np.asarray(sizes == other_offsets[other_rows + 1] - others, np.bool_)
    pairs = np.flatnonzero(same & (sizes > 0))
    sizes = sizes[pairs]
    firsts = np.cumsum(sizes) - sizes
    within = np.arange(int(sizes.sum())) - np.repeat(firsts, sizes)
    equal = same_rows(
        elements, np.repeat(starts[pairs], sizes) + within, other_elements, np.repeat(others[pairs], sizes) + within
    )
    if len(pairs):
        same[pairs] = np.logical_and.reduceat(equal, firsts)
    return same
