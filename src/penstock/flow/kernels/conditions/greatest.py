"""``GREATEST`` and ``LEAST`` of values of one type: null if one of them is."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial, reduce

import pyarrow as pa
import pyarrow.compute as pc

from penstock.flow.kernels.conditions.comparison import order_numbers
from penstock.flow.kernels.session import Session
from penstock.flow.kernels.vectors import Kernel, Strict, Values, columns_of
from penstock.plan.expressions import Call
from penstock.types import arrow_type
from penstock.types.logical import root


def extreme(call: Call, session: Session) -> Kernel:
    """``GREATEST`` and ``LEAST``, of arguments of the type of the value."""
    arrow = arrow_type(call.type)
    better = pc.greater if call.function == "GREATEST" else pc.less
    order = order_numbers if root(call.type) in ("FLOAT", "DOUBLE") else _keep_values
    return Strict(arrow, partial(_choose_best, lambda each, best: better(order(each), order(best))))


def _keep_values(values: pa.Array) -> pa.Array:
    return values


def _choose_best(better: Callable[[pa.Array, pa.Array], pa.Array], *values: Values) -> pa.Array:
    """The first value, unless a later one is better."""
    columns = columns_of(*values)
    found = reduce(lambda best, each: pc.if_else(better(each, best), each, best), columns)
    known = reduce(pc.and_, (pc.is_valid(each) for each in columns))
    return pc.if_else(known, found, pa.scalar(None, found.type))
