"""PERCENTILE of the values of a group, with linear interpolation between two of them, as Flink computes it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.flow.kernels.session import Session
from penstock.flow.kernels.vectors import Kernel, Vector
from penstock.plan.expressions import Call, Literal
from penstock.types import ArrayType, arrow_type

_Numbers = npt.NDArray[np.float64]
_Counts = npt.NDArray[np.int64]


def percentile(call: Call, session: Session) -> Kernel:
    """Of lists of values, or of rows of a value and its frequency, at the constants that follow; NULL without values.
    Values that count less than once do not count."""
    result, several = arrow_type(call.type), isinstance(call.type, ArrayType)
    wanted = np.array([each.value for each in call.args[1:] if isinstance(each, Literal)], np.float64)

    def compute(args: Sequence[Vector], rows: int) -> Vector:
        lists = args[0].spread(rows)
        numbers, counts = _list_entries(lists)
        offsets = np.asarray(lists.offsets)
        found = []
        for number, valid in enumerate(args[0].validity(rows)):
            part = slice(offsets[number] - offsets[0], offsets[number + 1] - offsets[0])
            each = _compute_percentiles(numbers[part], counts[part], wanted) if valid else None
            found.append(each if each is None or several else each[0])
        return Vector(pa.array(found, result))

    return compute


def _list_entries(lists: pa.ListArray) -> tuple[_Numbers, _Counts]:
    """The values of all lists, and how often each counts."""
    flat = lists.values.slice(lists.offsets[0].as_py(), lists.offsets[-1].as_py() - lists.offsets[0].as_py())
    if not pa.types.is_struct(flat.type):
        return flat.to_numpy(zero_copy_only=False), np.ones(len(flat), np.int64)
    values, counts = flat.flatten()
    return values.to_numpy(zero_copy_only=False), np.maximum(counts.to_numpy(zero_copy_only=False), 0)


def _compute_percentiles(numbers: _Numbers, counts: _Counts, wanted: _Numbers) -> list[float] | None:
    """The values at the ``wanted`` fractions of the way from the first to the last; None without values."""
    order = np.argsort(numbers, kind="stable")
    ends = np.cumsum(counts[order])
    if not len(ends) or not ends[-1]:
        return None
    places = (ends[-1] - 1) * wanted + 1  # from 1, since differences of floating-point numbers depend on it
    below, above = np.floor(places), np.ceil(places)
    lower, upper = (numbers[order][np.searchsorted(ends, each)] for each in (below, above))
    between = (above - places) * lower + (places - below) * upper
    return list(map(float, np.where((below == above) | (lower == upper), lower, between)))
