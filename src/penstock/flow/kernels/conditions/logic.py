"""AND, OR, NOT and tests by three-valued logic, and conditions: CASE and COALESCE.

As in Spark, operands are evaluated from left to right: operands after a deciding one count as not computed, so their
failures are ignored.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial, reduce

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.flow.kernels.session import Session
from penstock.flow.kernels.vectors import (
    Failure,
    Kernel,
    Strict,
    Values,
    Vector,
    failed_rows,
    select_failures,
    true_rows,
)
from penstock.plan.expressions import Call
from penstock.types import arrow_type


def conjunction(call: Call, session: Session) -> Kernel:
    """``AND`` of two or more."""
    return partial(_join_operands, pc.and_kleene, pc.invert)


def disjunction(call: Call, session: Session) -> Kernel:
    """``OR`` of two or more."""
    return partial(_join_operands, pc.or_kleene, lambda value: value)


def _join_operands(
    join: Callable[[Values, Values], Values],
    decides: Callable[[Values], Values],
    args: Sequence[Vector],
    rows: int,
) -> Vector:
    values = [_make_boolean(each.values) for each in args]
    failures: tuple[Failure, ...] = ()
    if any(each.failures for each in args):
        open_rows = np.ones(rows, np.bool_)
        for each, value in zip(args, values, strict=True):
            failures = (*failures, *select_failures(each.failures, open_rows))
            open_rows &= ~true_rows(decides(value), rows) | failed_rows(each.failures, rows)
    return Vector(reduce(join, values), failures)


def _make_boolean(values: Values) -> Values:
    return pa.scalar(None, pa.bool_()) if pa.types.is_null(values.type) else values


def negation(call: Call, session: Session) -> Kernel:
    """``NOT``."""
    return Strict(pa.bool_(), pc.invert)


def is_null(call: Call, session: Session) -> Kernel:
    """``IS NULL``."""
    return lambda args, rows: Vector(pc.is_null(args[0].values), args[0].failures)


def is_true(call: Call, session: Session) -> Kernel:
    """``IS TRUE``."""
    return lambda args, rows: Vector(pc.fill_null(_make_boolean(args[0].values), False), args[0].failures)


def is_false(call: Call, session: Session) -> Kernel:
    """``IS FALSE``."""
    return lambda args, rows: Vector(pc.fill_null(pc.invert(_make_boolean(args[0].values)), False), args[0].failures)


def choice(call: Call, session: Session) -> Kernel:
    """``CASE`` with conditions."""
    return partial(_choose_values, arrow_type(call.type))


def _choose_values(arrow: pa.DataType, args: Sequence[Vector], rows: int) -> Vector:
    pairs = len(args) // 2
    values = [*args[1::2], *args[2 * pairs :]]
    if len(values) == pairs:
        values.append(Vector(pa.scalar(None, arrow)))
    conditions = [pc.fill_null(_make_boolean(each.values), False) for each in args[: 2 * pairs : 2]]
    failures: tuple[Failure, ...] = ()
    if any(each.failures for each in args):
        open_rows = np.ones(rows, np.bool_)
        for condition, when, then in zip(args[: 2 * pairs : 2], conditions, values, strict=False):
            failures = (*failures, *select_failures(condition.failures, open_rows))
            open_rows &= ~failed_rows(condition.failures, rows)
            here = true_rows(when, rows)
            failures = (*failures, *select_failures(then.failures, open_rows & here))
            open_rows &= ~here
        failures = (*failures, *select_failures(values[-1].failures, open_rows))
    found = values[-1].values
    for when, then in zip(reversed(conditions), reversed(values[:-1]), strict=True):
        found = pc.if_else(when, then.values, found)
    return Vector(found, failures)


def first_known(call: Call, session: Session) -> Kernel:
    """``COALESCE``."""
    return _coalesce_values


def _coalesce_values(args: Sequence[Vector], rows: int) -> Vector:
    failures: tuple[Failure, ...] = ()
    if any(each.failures for each in args):
        open_rows = np.ones(rows, np.bool_)
        for each in args:
            failures = (*failures, *select_failures(each.failures, open_rows))
            open_rows &= ~each.validity(rows) & ~failed_rows(each.failures, rows)
    return Vector(pc.coalesce(*(each.values for each in args)), failures)
