"""Comparisons of values of one type, as Flink's generated Java does them: NaN compares with nothing, -0.0 equals 0.0.

Where Flink orders floating-point numbers (``ORDERED``), NaN is the largest one and equals itself, and -0.0 is below
0.0. Arrays, rows and maps are equal if they have the same elements, fields or entries, where NULL is the same as NULL.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from penstock.columns.hashing import Groups, key_hashes
from penstock.columns.ordinals import float_ordinals
from penstock.flow.kernels.session import Session
from penstock.flow.kernels.vectors import (
    Kernel,
    Mask,
    Strict,
    Values,
    Vector,
    booleans,
    column,
    columns_of,
    numbers,
    true_rows,
    valid_rows,
)
from penstock.plan.expressions import Call
from penstock.types import ArrayType, DataType, IntervalType, MapType, RowType, arrow_type
from penstock.types.casts import digits
from penstock.types.logical import root

#: Types whose values Arrow compares as Flink does.
_COMPARED = {
    *("TINYINT", "SMALLINT", "INT", "BIGINT", "FLOAT", "DOUBLE", "DECIMAL", "STRING", "BYTES", "BOOLEAN"),
    *("DATE", "TIME", "TIMESTAMP", "TIMESTAMP_LTZ"),
}
_SIGNS = {
    "=": pc.equal,
    "<>": pc.not_equal,
    "<": pc.less,
    "<=": pc.less_equal,
    ">": pc.greater,
    ">=": pc.greater_equal,
}

_Compare = Callable[[Values, Values], pa.Array]


def comparison(call: Call, session: Session) -> Kernel | None:
    """``= <> < <= > >=``."""
    compare = _make_comparison(call.function, [each.type for each in call.args])
    return None if compare is None else Strict(pa.bool_(), compare)


def _make_comparison(sign: str, types: Sequence[DataType]) -> _Compare | None:
    """Compares two columns, or a column and a constant; None if no kernel compares these types."""
    roots = {root(each) for each in types}
    plain: _Compare = _SIGNS[sign]
    if all(isinstance(each, IntervalType) for each in types):
        return plain  # both are numbers of one unit
    same = len({arrow_type(each) for each in types}) == 1
    if roots == {"DECIMAL"} and not same:
        return _compare_decimals(plain, types)
    if len(roots) != 1 or not same:
        return None
    if roots <= {"ARRAY", "MAP", "ROW"} and sign in ("=", "<>") and all(map(_has_equality, types)):
        return partial(_compare_nested, sign == "=")
    return plain if roots <= _COMPARED else None


def _compare_decimals(compare: _Compare, types: Sequence[DataType]) -> _Compare:
    """Compares decimals of two types exactly. A 256-bit decimal has the values of both, which a DECIMAL may not
    have."""
    whole, scale = digits(types)
    wide = pa.decimal256(whole + scale, scale)
    return lambda left, right: compare(pc.cast(left, wide), pc.cast(right, wide))


def _has_equality(data_type: DataType) -> bool:
    match data_type:
        case ArrayType(element=element):
            return _has_equality(element)
        case MapType(key=key, value=value):
            return _has_equality(key) and _has_equality(value)
        case RowType(fields=fields):
            return all(_has_equality(each.type) for each in fields)
    return root(data_type) in _COMPARED


def _compare_nested(equal: bool, left: Values, right: Values) -> pa.Array:
    one, other = columns_of(left, right)
    return booleans(_find_same(one, other) == equal, valid_rows(one) & valid_rows(other))


def _find_same(left: pa.Array, right: pa.Array) -> Mask:
    """Which values are the same; NULL is the same as NULL."""
    here, there = valid_rows(left), valid_rows(right)
    found: Mask = np.where(here & there, _find_same_values(left, right), here == there)
    return found


def _find_same_values(left: pa.Array, right: pa.Array) -> Mask:
    """Which values are the same, undefined where one is null."""
    if pa.types.is_struct(left.type):
        fields = [_find_same(one, other) for one, other in zip(left.flatten(), right.flatten(), strict=True)]
        both: Mask = np.logical_and.reduce(fields)
        return both
    if not (pa.types.is_list(left.type) or pa.types.is_map(left.type)):
        return true_rows(pc.equal(left, right), len(left))
    sizes = [np.where(valid_rows(each), np.diff(each.offsets.to_numpy()), 0) for each in (left, right)]
    found: Mask = sizes[0] == sizes[1]
    rows = np.repeat(np.arange(len(left)), np.where(found, sizes[0], 0))
    chosen = pa.array(found)
    one, other = (each.filter(chosen) for each in (left, right))
    same = (
        _find_same_entries(rows, one, other)
        if pa.types.is_map(left.type)
        else _find_same(one.flatten(), other.flatten())
    )
    found[rows[~same]] = False
    return found


def _find_same_entries(rows: NDArray[np.int64], left: pa.MapArray, right: pa.MapArray) -> Mask:
    """Which entries of the ``left`` maps are also in the ``right`` maps of the same ``rows``, in any order."""
    (keys, values), (other_keys, other_values) = _list_entries(left), _list_entries(right)
    keys = pa.concat_arrays([keys, other_keys])
    pairs = pa.RecordBatch.from_arrays([pa.array(np.tile(rows, 2)), keys], names=["row", "key"])
    entries = Groups.by_key(key_hashes(pairs.columns), pairs)
    place = np.full(len(entries), -1)
    place[entries.index[len(rows) :]] = np.arange(len(rows))
    at = place[entries.index[: len(rows)]]
    found = at >= 0
    found[found] = _find_same(values.filter(pa.array(found)), other_values.take(pa.array(at[found])))
    return found


def _list_entries(maps: pa.MapArray) -> tuple[pa.Array, pa.Array]:
    """The keys and the values of all entries."""
    first, last = maps.offsets[0].as_py(), maps.offsets[-1].as_py()
    return maps.keys.slice(first, last - first), maps.items.slice(first, last - first)


def order(call: Call, session: Session) -> Kernel:
    """``ORDERED``: numbers in the same order as the values of a DOUBLE."""
    return Strict(pa.int64(), order_numbers)


def order_numbers(values: pa.Array) -> pa.Array:
    """Whole numbers in the order of floating-point numbers: -0.0 is below 0.0, and NaN the largest one."""
    keys = float_ordinals(numbers(values))
    return column(keys, valid_rows(values) if values.null_count else None, pa.int64())


def distinct(call: Call, session: Session) -> Kernel | None:
    """``IS DISTINCT FROM``, which treats NULL as a value that equals itself."""
    compare = comparison(Call("=", call.args, type=call.type), session)
    if compare is None:
        return None

    def kernel(args: Sequence[Vector], rows: int) -> Vector:
        left, right = (Vector(each.values) for each in args)
        failures = tuple(failure for each in args for failure in each.failures)
        here, there = left.validity(rows), right.validity(rows)
        same = true_rows(compare((left, right), rows).values, rows)
        return Vector(booleans((here != there) | (here & there & ~same)), failures)

    return kernel


def member(call: Call, session: Session) -> Kernel | None:
    """``IN`` with constants: true if one equals the value, else null if the value or one of them is null."""
    value, *others = call.args
    if any(comparison(Call("=", (value, each), type=call.type), session) is None for each in others):
        return None
    return _is_in


def _is_in(args: Sequence[Vector], rows: int) -> Vector:
    value, *others = args
    failures = tuple(failure for each in args for failure in each.failures)
    if isinstance(value.values, pa.Scalar) and not value.values.is_valid:
        return Vector(pa.scalar(None, pa.bool_()), failures)
    array = value.spread(rows)
    members = [(each.values if each.constant else each.values[0]).as_py() for each in others]
    known = [each for each in members if each is not None]
    found = pc.is_in(array, pa.array(known, array.type))
    valid = valid_rows(array) if array.null_count else None
    if len(known) == len(others) and valid is None:
        return Vector(found, failures)
    here = true_rows(found, rows)
    if len(known) < len(others):
        valid = here
    return Vector(booleans(here, valid), failures)
