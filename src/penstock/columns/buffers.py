"""Arrow columns as numpy buffers and back, without a Python object per value."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.errors import RecordError
from penstock.loops import type_roots
from penstock.types import RowType, arrow_schema

Bytes = npt.NDArray[np.uint8]
Buffer: TypeAlias = bytes | bytearray | memoryview

#: The most bytes or elements of one column.
LARGEST = 2**31 - 1

_EMPTY = np.zeros(0, np.uint8)


def unpack_bits(buffer: pa.Buffer | None, offset: int, length: int) -> npt.NDArray[np.uint8]:
    """``length`` bits from bit ``offset`` on, one byte per bit; all ones without a buffer."""
    if buffer is None:
        return np.ones(length, np.uint8)
    first = offset // 8
    packed = np.frombuffer(buffer, np.uint8)[first : (offset + length + 7) // 8]
    return np.unpackbits(packed, bitorder="little")[offset - first * 8 : offset - first * 8 + length]


def validity(array: pa.Array) -> npt.NDArray[np.uint8]:
    """One byte per value: 1, or 0 for null."""
    return unpack_bits(array.buffers()[0] if array.null_count else None, array.offset, len(array))


def binary_parts(array: pa.Array) -> tuple[Bytes, npt.NDArray[np.int64]]:
    """The bytes of a binary or string column and its n + 1 offsets into them, also for a slice."""
    large = pa.types.is_large_binary(array.type) or pa.types.is_large_string(array.type)
    if not (large or pa.types.is_binary(array.type) or pa.types.is_string(array.type)):
        raise TypeError(f"expected a binary or string column, not {array.type}")
    _, offsets, data = array.buffers()
    if len(array) == 0 or offsets is None:
        return _EMPTY, np.zeros(len(array) + 1, np.int64)
    width: Any = np.int64 if large else np.int32
    starts = np.frombuffer(offsets, width)[array.offset : array.offset + len(array) + 1].astype(np.int64)
    return (_EMPTY if data is None else np.frombuffer(data, np.uint8)), starts


def fixed_values(array: pa.Array, width: Any) -> npt.NDArray[Any]:
    """The values of a fixed-width column as a view. Values under nulls are undefined."""
    if len(array) == 0:
        return np.zeros(0, width)
    return np.frombuffer(array.buffers()[1], width)[array.offset : array.offset + len(array)]


def validity_buffer(valid: npt.NDArray[np.uint8]) -> pa.Buffer | None:
    """Arrow's bitmap of ``valid``, or None if nothing is null."""
    return None if valid.all() else pa.py_buffer(np.packbits(valid, bitorder="little"))


def from_buffers(data_type: pa.DataType, valid: npt.NDArray[np.uint8], *buffers: npt.NDArray[Any]) -> pa.Array:
    """A column of ``len(valid)`` values over these buffers, without copying them."""
    parts = [validity_buffer(valid), *(pa.py_buffer(np.ascontiguousarray(each)) for each in buffers)]
    return pa.Array.from_buffers(data_type, len(valid), parts)


def check_size(size: int, format: str) -> None:
    """Raise RecordError, which names ``format``, if messages of ``size`` bytes exceed a column."""
    if size > LARGEST:
        raise RecordError("the messages of one batch exceed 2 GiB", format=format, hint="use smaller batches")


def slice_messages(data: Bytes, offsets: npt.NDArray[np.int64], format: str) -> pa.BinaryArray:
    """A column of the messages in ``data`` between the first and the last of ``offsets``.

    Raises RecordError, which names ``format``, if they exceed the size of a column.
    """
    check_size(int(offsets[-1] - offsets[0]), format)
    starts = (offsets - offsets[0]).astype(np.int32)
    return from_buffers(pa.binary(), np.ones(len(starts) - 1, np.uint8), starts, data[offsets[0] :])


def binary_array(pieces: Sequence[Buffer]) -> pa.BinaryArray:
    """A column of these bytes, copied once. Arrow's own conversion never releases a memoryview."""
    offsets = np.zeros(len(pieces) + 1, np.int64)
    np.cumsum([len(each) for each in pieces], out=offsets[1:])
    return slice_messages(np.frombuffer(b"".join(pieces), np.uint8), offsets, "raw")


def build_batch(columns: list[pa.Array], schema: pa.Schema, rows: int) -> pa.RecordBatch:
    """A batch of these columns. It has ``rows`` rows even without columns, because a table may have only metadata."""
    if columns:
        return pa.RecordBatch.from_arrays(columns, schema=schema)
    return pa.RecordBatch.from_struct_array(pa.Array.from_buffers(pa.struct([]), rows, [None]))


def cast(rows: pa.RecordBatch, schema: RowType) -> pa.RecordBatch:
    """``rows`` with the Arrow types of ``schema``."""
    wanted = arrow_schema(schema)
    return rows if not schema.fields or rows.schema.equals(wanted) else rows.cast(wanted)


#: Copies the strings of one column: (text, spans, valid, offsets, out).
Gather: TypeAlias = Callable[..., None]


_WIDTHS: dict[int, Any] = {
    type_roots.TINYINT: np.int8,
    type_roots.SMALLINT: np.int16,
    type_roots.INT: np.int32,
    type_roots.FLOAT: np.int32,
    type_roots.DATE: np.int32,
}


def decimal_pairs(column: pa.Array) -> npt.NDArray[np.int64]:
    """The low and high 64 bits of each decimal, as a view. Values under nulls are undefined."""
    return fixed_values(column, np.dtype((np.int64, 2))).reshape(-1, 2)


def words(code: int, column: pa.Array) -> npt.NDArray[np.int64]:
    """64 bits per value of a fixed-width column other than a decimal; a FLOAT is its own 32 bits."""
    if code == type_roots.BOOLEAN:
        return unpack_bits(column.buffers()[1], column.offset, len(column)).astype(np.int64)
    return fixed_values(column, _WIDTHS.get(code, np.int64)).astype(np.int64, copy=False)


def fixed_column(
    arrow: pa.DataType, root: int, values: npt.NDArray[np.int64], valid: npt.NDArray[np.uint8]
) -> pa.Array:
    """A fixed-width column from 64 bits per value: floating-point numbers are given as doubles, decimals unscaled."""
    if root == type_roots.BOOLEAN:
        return from_buffers(arrow, valid, np.packbits(values.astype(np.uint8), bitorder="little"))
    if root == type_roots.FLOAT:
        with np.errstate(over="ignore"):
            return from_buffers(arrow, valid, values.view(np.float64).astype(np.float32))
    if root == type_roots.DECIMAL:
        wide = np.empty((len(values), 2), np.int64)
        wide[:, 0], wide[:, 1] = values, values >> 63
        return from_buffers(arrow, valid, wide)
    return from_buffers(arrow, valid, values.astype(_WIDTHS.get(root, np.int64), copy=False))


def gather_spans(
    arrow: pa.DataType,
    text: npt.NDArray[np.uint8],
    spans: npt.NDArray[np.int64],
    valid: npt.NDArray[np.uint8],
    gather: Gather,
) -> pa.Array:
    """A column of strings or bytes that ``gather`` copies from ``text``. The last number of each span is the copied
    size.

    Raises RecordError if they exceed the size of a column.
    """
    ends = np.cumsum(spans[:, -1] * valid)
    if len(ends) and ends[-1] > LARGEST:
        raise RecordError("the strings or bytes of one column exceed 2 GiB", hint="use smaller batches")
    offsets = np.zeros(len(valid) + 1, np.int32)
    offsets[1:] = ends
    out = np.empty(int(offsets[-1]), np.uint8)
    gather(text, spans, valid, offsets, out)
    return from_buffers(arrow, valid, offsets, out)
