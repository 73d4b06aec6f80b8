"""Text to numbers, truth, dates, times and timestamps: a compiled loop reads the usual forms, and Python the others."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from penstock.columns.buffers import binary_parts, fixed_column
from penstock.flow.kernels.decimals import out_of_range_reason
from penstock.flow.kernels.moments.local import Convert
from penstock.flow.kernels.moments.readings import BLANK, days, decimal, double, integer, micros, single, time_of_day
from penstock.flow.kernels.vectors import Failure, Mask, Vector, column, valid_rows
from penstock.loops.type_roots import describe_root
from penstock.types import DataType, DecimalType, TimestampType, TimeType, arrow_type
from penstock.types.logical import root


def malformed_reason(source: DataType, target: DataType, values: pa.Array) -> Callable[[int], str]:
    """The reason of rows whose text is not a value of ``target``."""
    return lambda row: (
        f"[CAST_INVALID_INPUT] '{values[row].as_py()}' of type {source.text()} is not a value of type {target.text()}"
    )


#: For fewer texts, loading compiled loops takes longer than it saves.
_FEW = 16


def _run_loop(values: pa.Array, loop: str, *more: int) -> tuple[NDArray[np.int64], Mask]:
    """The results of a compiled loop over texts, and which texts it leaves undecided; none for a few texts."""
    found, undecided = np.zeros(len(values), np.int64), np.ones(len(values), np.uint8)
    if len(values) > _FEW:
        from penstock.flow.kernels.casts import parsing

        getattr(parsing, loop)(*binary_parts(values), found, undecided, *more)
    return found, undecided.view(np.bool_)


def cast_text_to_integers(source: DataType, target: DataType, values: pa.Array) -> pa.Array | Vector:
    """Whole numbers, without the digits after a point."""
    found, undecided = _run_loop(values, "parse_integers")
    arrow = arrow_type(target)
    limits = np.iinfo(arrow.to_pandas_dtype())
    valid = valid_rows(values)
    failed = (found < limits.min) | (found > limits.max)
    for row in np.flatnonzero(undecided & valid).tolist():
        value = integer(values[row].as_py())
        failed[row] = value is None or not limits.min <= value <= limits.max
        found[row] = 0 if failed[row] or value is None else value
    made = column(found.astype(arrow.to_pandas_dtype()), None if valid.all() else valid, arrow)
    if not (failed & valid).any():
        return made
    return Vector(made, (Failure(failed & valid, malformed_reason(source, target, values)),))


_TRUE, _FALSE = ("t", "true", "y", "yes", "1"), ("f", "false", "n", "no", "0")


def cast_text_to_booleans(source: DataType, target: DataType, values: pa.Array) -> pa.Array | Vector:
    """Truth, by words."""
    plain = pc.ascii_lower(pc.utf8_trim(values, characters=BLANK))
    true, false = (pc.is_in(plain, pa.array(words)) for words in (_TRUE, _FALSE))
    failed = pc.and_(pc.invert(pc.or_(true, false)), pc.is_valid(values)).to_numpy(zero_copy_only=False)
    made = pc.if_else(pc.is_valid(values), true, None)
    return Vector(made, (Failure(failed, malformed_reason(source, target, values)),)) if failed.any() else made


def cast_text_to_numbers(source: DataType, target: DataType, values: pa.Array) -> pa.Array | Vector:
    """Decimals and floating-point numbers."""
    kind, precision, scale = describe_root(target)
    found, undecided = _run_loop(values, "parse_numbers", kind, scale, precision)
    arrow, valid = arrow_type(target), valid_rows(values)
    others = np.flatnonzero(undecided & valid).tolist()
    plain = fixed_column(arrow, kind, found, (valid & ~undecided).view(np.uint8))
    if not others:
        return plain
    read: list[Any] = [None] * len(values)
    wrong, wide = np.zeros(len(values), np.bool_), np.zeros(len(values), np.bool_)
    for row in others:
        given = values[row].as_py()
        if isinstance(target, DecimalType):
            value = decimal(given, target)
            wide[row] = value == "range"
            read[row] = None if isinstance(value, str) else value
        else:
            read[row] = single(given) if root(target) == "FLOAT" else double(given)
        wrong[row] = read[row] is None and not wide[row]
    reasons = ((wrong, malformed_reason(source, target, values)), (wide, out_of_range_reason(values, target)))
    failures = tuple(Failure(rows, reason) for rows, reason in reasons if rows.any())
    return Vector(pc.coalesce(pa.array(read, arrow), plain), failures)


def cast_text_to_moments(source: DataType, target: DataType, values: pa.Array) -> pa.Array | Vector:
    """Dates and timestamps without a zone."""
    dated = not isinstance(target, TimestampType)
    found, undecided = _run_loop(values, "parse_dates" if dated else "parse_timestamps")
    arrow, valid = arrow_type(target), valid_rows(values)
    failed = np.zeros(len(values), np.bool_)
    for row in np.flatnonzero(undecided & valid).tolist():
        given = values[row].as_py()
        value = days(given) if dated else micros(given)
        failed[row], found[row] = value is None, value or 0
    if isinstance(target, TimestampType) and target.precision < 6:
        found -= found % 10 ** (6 - target.precision)
    made = column(found.astype(np.int32) if dated else found, valid, arrow)
    return Vector(made, (Failure(failed, malformed_reason(source, target, values)),)) if failed.any() else made


def cast_text_to_instants(
    source: DataType, target: TimestampType, instant: Convert, values: pa.Array
) -> pa.Array | Vector:
    """Local times of the session as points in time."""
    found = cast_text_to_moments(source, TimestampType(target.precision), values)
    if not isinstance(found, Vector):
        return instant(found)
    made = instant(found.spread(len(values)))
    failures = tuple(Failure(each.rows, malformed_reason(source, target, values)) for each in found.failures)
    return Vector(made if isinstance(made, pa.Array) else made.values, failures)


def cast_text_to_times(source: DataType, target: TimeType, values: pa.Array) -> pa.Array | Vector:
    """Times of the day."""
    read = [None if each is None else time_of_day(each) for each in values.to_pylist()]
    unit = 10 ** (6 - min(target.precision, 6))
    made = pa.array([None if each is None else (each - each % unit) * 1000 for each in read], pa.int64())
    failed = valid_rows(values) & ~valid_rows(made)
    times = made.view(pa.time64("ns"))
    return Vector(times, (Failure(failed, malformed_reason(source, target, values)),)) if failed.any() else times
