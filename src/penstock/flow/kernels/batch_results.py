"""Columns as ``pandas.Series`` for functions of users, and what functions of batches return as columns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.errors import RecordError
from penstock.types import DataType, arrow_type

_INTEGERS = (pa.int8(), pa.int16(), pa.int32(), pa.int64())
_HINT = "convert the values, or declare another result_type"


def to_series(column: pa.Array) -> Any:
    """A column as a ``pandas.Series``. Integers with NULLs have the types of pandas, such as Int64, and in lists they
    are Python's: floating-point numbers would lose digits."""
    import pandas as pd

    extension = {each: getattr(pd, f"Int{each.bit_width}Dtype")() for each in _INTEGERS} if column.null_count else {}
    return column.to_pandas(types_mapper=extension.get, integer_object_nulls=True)


def from_batch(found: Any, logical: DataType, rows: int) -> pa.Array | Sequence[Any]:
    """The result of a function for a batch of ``rows``, as a column of its declared type, or as Python values. Raises
    RecordError for anything else, and for columns of another kind."""
    arrow = arrow_type(logical)
    if isinstance(found, pa.ChunkedArray):
        found = found.combine_chunks()
    missing: Any = None
    if hasattr(found, "isna") and hasattr(found, "to_numpy") and getattr(found, "ndim", 0) == 1:  # of pandas
        missing, array = np.asarray(found.isna()), found
        found = array.to_numpy(dtype=object).tolist() if array.dtype == object else pa.array(array, from_pandas=True)
    elif isinstance(found, np.ndarray) and found.ndim == 1:
        found = found.tolist() if found.dtype == object else pa.array(found)
    if not isinstance(found, pa.Array | list | tuple):
        reason = f"the function returned a {type(found).__name__}, not a column of values"
        raise RecordError(reason, hint="return a Series, an Arrow array or a list with a value for each row")
    if len(found) != rows:
        raise RecordError(f"the function returned {len(found)} values for {rows} rows", hint="return one for each row")
    if not isinstance(found, pa.Array):
        return found if missing is None else [None if gone else each for each, gone in zip(found, missing, strict=True)]
    if pa.types.is_dictionary(found.type):
        found = found.dictionary_decode()
    if not _is_alike(found.type, arrow, pandas=missing is not None):
        raise RecordError(
            f"the function returned a column of {found.type}, which are not values of {logical}", hint=_HINT
        )
    try:  # digits of a second beyond those of the type are cut
        return pc.cast(found, arrow, safe=not pa.types.is_timestamp(found.type))
    except pa.ArrowInvalid as error:
        raise RecordError(f"the function returned values that are not of {logical}: {error}", hint=_HINT) from None


def _is_alike(found: pa.DataType, arrow: pa.DataType, *, pandas: bool) -> bool:
    """Whether values of a type can be read as another type without a change of meaning. In pandas whole numbers with
    missing values are floating-point numbers, and dates are timestamps."""
    types = pa.types
    if found == arrow or types.is_null(found):
        return True
    if types.is_floating(arrow) or types.is_decimal(arrow):
        exact = types.is_integer(found) or types.is_decimal(found)
        return bool(exact or (types.is_floating(arrow) and types.is_floating(found)))
    if types.is_integer(arrow):
        return bool(types.is_integer(found) or (pandas and types.is_floating(found)))
    if types.is_date(arrow):
        return types.is_date(found) or (pandas and types.is_timestamp(found))
    for test in (_is_text, _is_binary, types.is_timestamp, types.is_time):
        if test(arrow):
            return bool(test(found))
    if types.is_map(arrow):
        parts = ((arrow.key_type, found.key_type), (arrow.item_type, found.item_type)) if types.is_map(found) else ()
        return bool(parts) and all(_is_alike(one, other, pandas=pandas) for other, one in parts)
    if types.is_list(arrow):
        listed = types.is_list(found) or types.is_large_list(found) or types.is_fixed_size_list(found)
        return listed and _is_alike(found.value_type, arrow.value_type, pandas=pandas)
    if types.is_struct(arrow):
        same = types.is_struct(found) and [each.name for each in found] == [each.name for each in arrow]
        return same and all(_is_alike(one.type, to.type, pandas=pandas) for one, to in zip(found, arrow, strict=True))
    return False


def _is_text(arrow: pa.DataType) -> bool:
    types = pa.types
    return bool(types.is_string(arrow) or types.is_large_string(arrow) or types.is_string_view(arrow))


def _is_binary(arrow: pa.DataType) -> bool:
    types = pa.types
    return bool(types.is_binary(arrow) or types.is_large_binary(arrow) or types.is_fixed_size_binary(arrow))
