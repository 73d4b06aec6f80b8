"""Arrow columns in the form that the kernels read: the start and length of each row's bytes, -1 for null."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from penstock.errors import SchemaError
from penstock.kafka.kernels import ColumnParts, HeaderColumn

#: Record headers. Writing also accepts ``map<string, binary>``.
HEADERS_TYPE = pa.list_(pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())]))

_BYTE_TYPES = (pa.binary(), pa.string(), pa.large_binary(), pa.large_string())


def read_only(array: NDArray[Any]) -> NDArray[Any]:
    """A read-only view: kernels are compiled for read-only inputs."""
    view = array.view()
    view.flags.writeable = False
    return view


_NO_BYTES = read_only(np.empty(0, np.uint8))
_NO_INTS = read_only(np.empty(0, np.int64))


def to_binary_column(array: pa.Array | pa.ChunkedArray | None, rows: int) -> ColumnParts:
    """``array`` (any binary, string or null type) with ``rows`` rows; None means all null.

    The bytes of an array or of a single chunk are not copied; several chunks are joined first. Raises SchemaError
    for another type or length.
    """
    if array is None or pa.types.is_null(array.type):
        return ColumnParts(read_only(np.zeros(rows, np.int64)), read_only(np.full(rows, -1, np.int64)), _NO_BYTES)
    array = _combine_chunks(array)
    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    if pa.types.is_fixed_size_binary(array.type) or pa.types.is_binary_view(array.type):
        array = array.cast(pa.large_binary())
    elif pa.types.is_string_view(array.type):
        array = array.cast(pa.large_string())
    if array.type not in _BYTE_TYPES:
        raise SchemaError(f"a key, value or header column has type {array.type}; expected binary or string")
    _check_length(array, rows)
    _, offsets, data = array.buffers()
    starts, lengths = _find_ranges(array, offsets, array.type in (pa.large_binary(), pa.large_string()), null=-1)
    return ColumnParts(starts, lengths, read_only(np.frombuffer(data, np.uint8)) if data is not None else _NO_BYTES)


def to_header_column(array: pa.Array | pa.ChunkedArray | None, rows: int) -> HeaderColumn:
    """Lists of headers, of HEADERS_TYPE or ``map<string, binary>``; None and null lists mean no headers.

    Raises SchemaError for another type or length, or for a null header key.
    """
    if array is None or pa.types.is_null(array.type):
        none = to_binary_column(None, 0)
        return HeaderColumn(_NO_INTS, _NO_INTS, none, none)
    array = _combine_chunks(array)
    found = array.type
    wide = pa.types.is_large_list(found)
    listed = wide or pa.types.is_list(found)
    if pa.types.is_map(found):
        keys, values = array.keys, array.items
    elif listed and pa.types.is_struct(found.value_type) and found.value_type.num_fields == 2:
        keys, values = array.values.flatten()
    else:
        raise SchemaError(f"the header column has type {found}; expected {HEADERS_TYPE} or map<string, binary>")
    _check_length(array, rows)
    if keys.null_count:
        raise SchemaError("a header has a null key; expected text (its value may be null)")
    starts, counts = _find_ranges(array, array.buffers()[1], wide, null=0)
    return HeaderColumn(starts, counts, to_binary_column(keys, len(keys)), to_binary_column(values, len(values)))


def _find_ranges(array: pa.Array, offsets: pa.Buffer, wide: bool, null: int) -> tuple[NDArray[Any], NDArray[Any]]:
    """The start and number of each row's items; ``null`` is the number of a null row."""
    rows = len(array)
    if not rows:
        return _NO_INTS, _NO_INTS
    limits = np.frombuffer(offsets, np.int64 if wide else np.int32)[array.offset : array.offset + rows + 1]
    lengths = np.subtract(limits[1:], limits[:-1], dtype=np.int64)
    if array.null_count:
        lengths[array.is_null().to_numpy(zero_copy_only=False)] = null
    return read_only(limits[:-1].astype(np.int64)), read_only(lengths)


def _combine_chunks(array: pa.Array | pa.ChunkedArray) -> pa.Array:
    """One array. Chunks are joined as large binary, because more than 2 GiB do not fit Arrow's binary type."""
    if not isinstance(array, pa.ChunkedArray):
        return array
    if array.num_chunks == 1:
        return array.chunk(0)
    if array.type == pa.binary():
        array = array.cast(pa.large_binary())
    elif array.type == pa.string():
        array = array.cast(pa.large_string())
    return array.combine_chunks()


def _check_length(array: pa.Array, rows: int) -> None:
    if len(array) != rows:
        raise SchemaError(f"a key, value or header column has {len(array)} rows; expected {rows}")
