"""Parts of rows, arrays and maps."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.flow.kernels.rowwise import ValueFailure, row_by_row
from penstock.flow.kernels.session import Session
from penstock.flow.kernels.vectors import Kernel, Strict, Values, Vector, column, numbers, valid_rows
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


def _element(arrays: Values, index: Values) -> pa.Array:
    if isinstance(arrays, pa.Scalar):
        arrays = pa.repeat(arrays, len(index))
    starts = arrays.offsets.to_numpy()
    at = np.asarray(numbers(index), np.int64)
    sizes = np.diff(starts)
    at = at - 1
    valid = valid_rows(arrays) if isinstance(index, pa.Scalar) else valid_rows(arrays) & valid_rows(index)
    here = (at >= 0) & (at < sizes) & valid
    return arrays.values.take(pa.array(np.where(here, starts[:-1] + at, 0), mask=~here))


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


def array(call: Call, session: Session) -> Kernel | None:
    """``ARRAY[..]`` of elements of one type."""
    assert isinstance(call.type, ArrayType)  # noqa: S101
    element, arrow = arrow_type(call.type.element), arrow_type(call.type)

    def kernel(args: Sequence[Vector], rows: int) -> Vector:
        failures = tuple(failure for each in args for failure in each.failures)
        columns = [pc.cast(each.spread(rows), element) for each in args]
        order = np.arange(rows * len(args)).reshape(len(args), rows).T.reshape(-1)
        values = pa.concat_arrays(columns).take(pa.array(order))
        offsets = pa.array(np.arange(rows + 1, dtype=np.int32) * len(args))
        return Vector(pa.ListArray.from_arrays(offsets, values, type=arrow), failures)

    return kernel


def row(call: Call, session: Session) -> Kernel:
    """``ROW(..)``."""
    arrow = arrow_type(call.type)

    def kernel(args: Sequence[Vector], rows: int) -> Vector:
        failures = tuple(failure for each in args for failure in each.failures)
        columns = [each.spread(rows) for each in args]
        return Vector(pa.StructArray.from_arrays(columns, fields=list(arrow)), failures)

    return kernel


def _pair_entries(*given: Any) -> list[tuple[Any, Any]]:
    """``MAP[..]`` of keys and values in turn. Of several values of a key the last one counts."""
    if None in given[::2]:
        raise ValueFailure("MAP[..] got a key that is NULL")
    found: dict[Any, tuple[Any, Any]] = {}
    for key, value in zip(given[::2], given[1::2], strict=True):
        found[_make_hashable(key)] = key, value
    return list(found.values())


def _make_hashable(key: Any) -> Any:
    """A key, or a hashable value in place of one that is an array or a row."""
    match key:
        case list():
            return tuple(map(_make_hashable, key))
        case dict():
            return tuple(map(_make_hashable, key.values()))
    return key


MAP = row_by_row(_pair_entries, strict=False)
