"""The order of values as whole numbers, so that loops compare numbers only."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from penstock.columns.equality import Flags, fixed_values, is_valid, same_rows
from penstock.plan.sort_column import SortColumn

Ordinals = npt.NDArray[np.int64]


def ordinals(column: pa.Array) -> Ordinals:
    """A number per value that orders the values of this column: equal values have equal ones, smaller values smaller
    ones. Under nulls the values are undefined.

    -0.0 is 0.0, and NaN is larger than everything, as in Java. Strings are ordered by their bytes in UTF-8.
    """
    values = fixed_values(column)
    if values is None:
        return _ranks(column)
    if values.dtype.kind == "f":
        return float_ordinals(values + 0.0)  # -0.0 is 0.0
    if values.dtype == np.uint64:
        return (values ^ np.uint64(1 << 63)).view(np.int64)
    return values.astype(np.int64, copy=False)


def sort_columns(rows: pa.RecordBatch, order: Sequence[SortColumn]) -> list[npt.NDArray[np.generic]]:
    """Arrays that put rows into the order of these columns, the first one foremost."""
    by: list[npt.NDArray[np.generic]] = []
    for each in order:
        column = rows.column(each.name)
        values, valid = ordinals(column), is_valid(column)
        if valid is not None:
            values = np.where(valid, values, 0)
            by.append(valid if each.nulls_first else ~valid)
        by.append(~values if each.descending else values)
    return by


def float_ordinals(values: npt.NDArray[np.floating]) -> Ordinals:
    """Numbers in the order of floating-point numbers: -0.0 is below 0.0, and NaN, whatever its bits, the largest."""
    wide = values.astype(np.float64)
    wide[np.isnan(wide)] = np.nan
    bits = wide.view(np.int64)
    return np.where(bits < 0, bits ^ np.int64(2**63 - 1), bits)


def _ranks(column: pa.Array) -> Ordinals:
    order = pc.array_sort_indices(column).to_numpy()
    ranks = np.zeros(len(order), np.int64)
    steps = ~same_rows([column], order[1:], [column], order[:-1])
    ranks[order[1:]] = np.cumsum(steps)
    return ranks


def valid_mask(column: pa.Array) -> Flags:
    """Whether each value is not null."""
    valid = is_valid(column)
    return np.ones(len(column), np.bool_) if valid is None else valid
