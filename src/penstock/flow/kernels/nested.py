"""Parts of rows, arrays and maps."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.flow.kernels.session import Session
from penstock.flow.kernels.vectors import Failure, Kernel, Strict, Values, Vector, column, numbers, valid_rows
from penstock.plan.expressions import Call
from penstock.types import ArrayType, DataType, MapType, arrow_type
from penstock.types.casts import is_integer
from penstock.types.logical import root

#: Types of keys whose values Arrow compares as Spark does.
_KEYS = {"TINYINT", "SMALLINT", "INT", "BIGINT", "DECIMAL", "STRING", "BYTES", "BOOLEAN", "DATE"}


def field_kernel(name: str, data_type: DataType) -> Kernel:
    """The field of a row, null where the row is."""
    return Strict(arrow_type(data_type), lambda rows: pc.struct_field(rows, [name]))


def item(call: Call, session: Session) -> Kernel | None:
    """``array[i]``, counted from 1, and ``map[key]``; null where there is none."""
    base, index = call.args
    arrow = arrow_type(call.type)
    if isinstance(base.type, ArrayType) and is_integer(index.type):
        return Strict(arrow, _element)
    if isinstance(base.type, MapType) and root(base.type.key) in _KEYS and root(index.type) == root(base.type.key):
        return Strict(arrow, _value)
    return None


def _element(arrays: Values, index: Values) -> pa.Array | Vector:
    if isinstance(arrays, pa.Scalar):
        arrays = pa.repeat(arrays, len(index))
    starts = arrays.offsets.to_numpy()
    at = np.asarray(numbers(index), np.int64)
    sizes = np.diff(starts)
    at = np.where(at > 0, at - 1, sizes + at)
    valid = valid_rows(arrays) if isinstance(index, pa.Scalar) else valid_rows(arrays) & valid_rows(index)
    here = (at >= 0) & (at < sizes) & valid
    found = arrays.values.take(pa.array(np.where(here, starts[:-1] + at, 0), mask=~here))
    zero = np.broadcast_to(numbers(index) == 0, len(arrays))
    if not zero.any():
        return found
    reason = "[INVALID_INDEX_OF_ZERO] the first element of an array is [1], not [0]"
    return Vector(found, (Failure(np.array(zero), lambda _: reason),))


def _value(maps: Values, key: Values) -> pa.Array:
    if isinstance(maps, pa.Scalar):
        maps = pa.repeat(maps, len(key))
    starts = maps.offsets.to_numpy()
    first, last = int(starts[0]), int(starts[-1])
    rows = np.repeat(np.arange(len(maps)), np.diff(starts))
    keys = maps.keys.slice(first, last - first)
    sought = key if isinstance(key, pa.Scalar) else key.take(pa.array(rows))
    same = np.flatnonzero(pc.fill_null(pc.equal(keys, sought), False).to_numpy(zero_copy_only=False))
    found, at = np.unique(rows[same], return_index=True)
    index, here = np.zeros(len(maps), np.int64), np.zeros(len(maps), np.bool_)
    index[found], here[found] = first + same[at], True
    return maps.items.take(pa.array(index, mask=~(here & valid_rows(maps))))


def cardinality(call: Call, session: Session) -> Kernel | None:
    """The number of elements of an array or a map."""
    return Strict(pa.int32(), _sizes)


def _sizes(arrays: pa.Array) -> pa.Array:
    sizes = np.diff(arrays.offsets.to_numpy()).astype(np.int32)
    return column(sizes, valid_rows(arrays) if arrays.null_count else None, pa.int32())
