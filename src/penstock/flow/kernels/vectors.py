"""The operands and results of kernels: values of a batch's rows, and the rows whose value could not be computed.

A row that fails, by a division by zero or a cast, fails the job only if its value is used: not if a CASE, an AND or a
filter decides without it. So kernels mark such rows, and the user of the values raises.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from penstock.columns.buffers import fixed_values, from_buffers, unpack_bits
from penstock.errors import RecordError

#: One value per row, or one for all rows.
Values: TypeAlias = pa.Array | pa.Scalar

Mask: TypeAlias = NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Failure:
    """The rows for which a computation failed, and the reason of each, by its number. ``error`` is raised if one is
    needed, with ``hint``."""

    rows: Mask
    reason: Callable[[int], str]
    error: type[RecordError] = RecordError
    hint: str = "leave such rows out with WHERE, or use CASE or TRY_CAST"


@dataclass(frozen=True, eq=False)
class Vector:
    """The values of a batch's rows. Those of rows in ``failures`` are undefined; of several failures of a row the first
    counts."""

    values: Values
    failures: tuple[Failure, ...] = ()

    @property
    def constant(self) -> bool:
        """Whether all rows have one value."""
        return isinstance(self.values, pa.Scalar)

    def spread(self, rows: int) -> pa.Array:
        """One value per row."""
        if not isinstance(self.values, pa.Scalar):
            return self.values
        # Arrow does not repeat a collection zero times.
        return pa.repeat(self.values, rows) if rows else pa.nulls(0, self.values.type)

    def validity(self, rows: int) -> Mask:
        """Which rows have a value that is not null."""
        if isinstance(self.values, pa.Scalar):
            return np.full(rows, self.values.is_valid)
        return valid_rows(self.values)


#: Computes the values of a batch's rows from those of the arguments. The last argument is the number of rows.
Kernel: TypeAlias = Callable[[Sequence[Vector], int], Vector]


def valid_rows(array: pa.Array) -> Mask:
    """Which values are not null."""
    return unpack_bits(array.buffers()[0] if array.null_count else None, array.offset, len(array)).view(np.bool_)


def rows_of(*values: Values) -> int:
    """The number of rows of arguments, of which at least one is a column."""
    return max(len(each) for each in values if isinstance(each, pa.Array))


def columns_of(*values: Values) -> list[pa.Array]:
    """The arguments, of which at least one is a column, as columns."""
    rows = rows_of(*values)
    return [pa.repeat(each, rows) if isinstance(each, pa.Scalar) else each for each in values]


def find_known(*values: Values) -> Mask | None:
    """The rows in which no value is null; None if there are no nulls."""
    found = [valid_rows(each) for each in values if isinstance(each, pa.Array) and each.null_count]
    return np.logical_and.reduce(found) if found else None


def true_rows(values: Values, rows: int) -> Mask:
    """Which values of a BOOLEAN are true, and neither false nor null."""
    if isinstance(values, pa.Scalar):
        return np.full(rows, values.as_py() is True)
    found = unpack_bits(values.buffers()[1], values.offset, len(values)).view(np.bool_)
    return found & valid_rows(values) if values.null_count else found


def booleans(values: Mask, valid: Mask | None = None) -> pa.Array:
    """A BOOLEAN column."""
    known = np.ones(len(values), np.uint8) if valid is None else valid.view(np.uint8)
    return from_buffers(pa.bool_(), known, np.packbits(values.view(np.uint8), bitorder="little"))


def numbers(values: Values) -> Any:
    """The numbers of a column as a view, undefined under nulls; one that is not null for a constant."""
    if isinstance(values, pa.Scalar):
        return values.type.to_pandas_dtype()(values.as_py())
    return fixed_values(values, values.type.to_pandas_dtype())


def column(values: NDArray[Any], valid: Mask | None, arrow: pa.DataType) -> pa.Array:
    """A column of fixed width other than BOOLEAN."""
    known = np.ones(len(values), np.uint8) if valid is None else valid.view(np.uint8)
    return from_buffers(arrow, known, values)


def select_failures(failures: Sequence[Failure], rows: Mask) -> tuple[Failure, ...]:
    """The failures in ``rows``."""
    found = (replace(each, rows=each.rows & rows) for each in failures)
    return tuple(each for each in found if each.rows.any())


def failed_rows(failures: Sequence[Failure], rows: int) -> Mask:
    """The rows of all failures."""
    found = np.zeros(rows, np.bool_)
    for each in failures:
        found |= each.rows
    return found


@dataclass(frozen=True)
class Strict:
    """A kernel whose value is null where an argument is. ``compute`` takes the values of the arguments, of which at
    least one is a column and none is a NULL for all rows; it returns a column, or a :class:`Vector` with its own
    failures, which are ignored where an argument is null."""

    type: pa.DataType
    compute: Callable[..., pa.Array | Vector]

    def __call__(self, args: Sequence[Vector], rows: int) -> Vector:
        failures, known = _evaluate_in_turn(args, rows)
        if any(isinstance(each.values, pa.Scalar) and not each.values.is_valid for each in args):
            return Vector(pa.scalar(None, self.type), failures)
        found = self.compute(*(each.values for each in args))
        if not isinstance(found, Vector):
            return Vector(found, failures)
        if found.failures:
            known = np.logical_and.reduce([each.validity(rows) for each in args]) if known is None else known
            failures = (*failures, *select_failures(found.failures, known))
        return Vector(found.values, failures)


def _evaluate_in_turn(args: Sequence[Vector], rows: int) -> tuple[tuple[Failure, ...], Mask | None]:
    """The failures of arguments that are evaluated one after the other until one is null, and the rows in which none is
    null; None if that was not needed."""
    if not any(each.failures for each in args):
        return (), None
    failures: tuple[Failure, ...] = ()
    known = np.ones(rows, np.bool_)
    for each in args:
        failures = (*failures, *select_failures(each.failures, known))
        known &= each.validity(rows)
    return failures, known


def compute_constant(kernel: Kernel, args: Sequence[Vector], rows: int) -> Vector:
    """The value of a kernel whose arguments are all constant, computed once and not for each of ``rows``."""
    once = [
        Vector(pa.repeat(each.values, 1), tuple(replace(found, rows=found.rows[:1]) for found in each.failures))
        for each in args
    ]
    made = kernel(once if rows else [Vector(each.values) for each in once], 1)
    failures = (
        replace(each, rows=np.repeat(each.rows, rows), reason=partial(_find_first_reason, each.reason))
        for each in made.failures
    )
    return Vector(made.values if made.constant else made.values[0], tuple(failures) if rows else ())


def _find_first_reason(reason: Callable[[int], str], _: int) -> str:
    return reason(0)


def mark_overflows(strict: bool, values: pa.Array, failed: Mask, reason: Callable[[int], str]) -> pa.Array | Vector:
    """``values``, of which those in ``failed`` do not fit their type: failures if the session is ``strict``."""
    return Vector(values, (Failure(failed, reason),)) if strict else values


def with_type(values: Values, arrow: pa.DataType) -> Values:
    """``values`` with the type of a column of the same layout; an untyped NULL becomes one of that type."""
    if values.type == arrow:
        return values
    return pc.cast(values, arrow) if isinstance(values, pa.Array) else values.cast(arrow)
