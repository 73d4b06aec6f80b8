"""Comparisons of values of one type, by Spark's order: NaN equals itself and is larger than any other number, -0.0
equals 0.0."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial, reduce
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.flow.kernels.session import Session
from penstock.flow.kernels.vectors import (
    Kernel,
    Strict,
    Values,
    Vector,
    booleans,
    numbers,
    true_rows,
    valid_rows,
)
from penstock.plan.expressions import Call
from penstock.types import DataType, NullType, arrow_type
from penstock.types.logical import root

#: Types whose values Arrow compares as Spark does.
_COMPARED = {
    *("TINYINT", "SMALLINT", "INT", "BIGINT", "DECIMAL", "STRING", "BYTES", "BOOLEAN"),
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
    compare = _comparing(call.function, [each.type for each in call.args])
    return None if compare is None else Strict(pa.bool_(), compare)


def _comparing(sign: str, types: Sequence[DataType]) -> _Compare | None:
    """Compares two columns, or a column and a constant; None if no kernel compares these types."""
    known = [each for each in types if not isinstance(each, NullType)]
    roots = {root(each) for each in known}
    plain: _Compare = _SIGNS[sign]
    if not known:
        return plain  # never called: the value is null
    if roots in ({"FLOAT"}, {"DOUBLE"}):
        return partial(_floats, sign)
    same = len({arrow_type(each) for each in known}) == 1
    return plain if len(roots) == 1 and roots <= _COMPARED and same else None


def _floats(sign: str, left: Values, right: Values) -> pa.Array:
    valid = [valid_rows(each) for each in (left, right) if isinstance(each, pa.Array) and each.null_count]
    known = reduce(np.logical_and, valid) if valid else None
    return booleans(_compared(sign, numbers(left), numbers(right)), known)


def _compared(sign: str, x: Any, y: Any) -> Any:
    """Whether ``x`` and ``y`` compare as ``sign`` says; one of them is an array."""
    match sign:
        case "=":
            return (x == y) | (np.isnan(x) & np.isnan(y))
        case "<>":
            return (x != y) & ~(np.isnan(x) & np.isnan(y))
        case "<":
            return ~(np.isnan(x) | (y <= x))
        case "<=":
            return np.isnan(y) | (x <= y)
        case ">":
            return _compared("<", y, x)
    return _compared("<=", y, x)


def distinct(call: Call, session: Session) -> Kernel | None:
    """``IS DISTINCT FROM``, which takes NULL for a value that equals itself."""
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
    known = [each.values for each in others if each.values.is_valid]
    found = pc.is_in(array, pa.array([each.as_py() for each in known], array.type))
    valid = valid_rows(array) if array.null_count else None
    if len(known) == len(others) and valid is None:
        return Vector(found, failures)
    here = true_rows(found, rows)
    if len(known) < len(others):
        valid = here
    return Vector(booleans(here, valid), failures)
