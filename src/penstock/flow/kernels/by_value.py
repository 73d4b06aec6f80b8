"""Kernels that are made for constants, such as patterns, computed for arguments that are columns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

import numpy as np
import pyarrow as pa

from penstock.flow.kernels.makers import Maker
from penstock.flow.kernels.session import Session
from penstock.flow.kernels.vectors import Failure, Kernel, Strict, Values, Vector, columns_of
from penstock.plan.expressions import Call, Literal
from penstock.types import arrow_type


def by_value(maker: Maker, *places: int) -> Maker:
    """Makes the kernels of ``maker``, and one for calls whose arguments at ``places`` are columns: the rows with the
    same values there are computed together, by the kernel for these values as constants. Rows fail with values for
    which ``maker`` has none."""

    def make_kernel(call: Call, session: Session) -> Kernel | None:
        varying = [at for at in places if at < len(call.args) and not isinstance(call.args[at], Literal)]
        if not varying:
            return maker(call, session)
        return Strict(arrow_type(call.type), partial(_compute_by_value, maker, call, session, varying))

    return make_kernel


def _compute_by_value(maker: Maker, call: Call, session: Session, varying: Sequence[int], *values: Values) -> Vector:
    arrow = arrow_type(call.type)
    columns = columns_of(*values)
    chosen = list(zip(*(columns[at].to_pylist() for at in varying), strict=True))
    rows_by_value: dict[tuple[object, ...], list[int]] = {}
    for row, each in enumerate(chosen):
        if None not in each:
            rows_by_value.setdefault(each, []).append(row)
    parts, order, failures = [], np.full(len(chosen), -1, np.int64), []
    at = 0
    for given, rows in rows_by_value.items():
        args = list(call.args)
        for place, value in zip(varying, given, strict=True):
            args[place] = Literal(value, type=call.args[place].type)  # type: ignore[arg-type]
        kernel = maker(replace(call, args=tuple(args)), session)
        if kernel is None:
            failures.append(
                _make_failure(rows, len(chosen), f"{call.function} does not accept {', '.join(map(repr, given))}")
            )
            continue
        index = pa.array(rows, pa.int64())
        taken = [
            Vector(pa.scalar(given[varying.index(place)], column.type) if place in varying else column.take(index))
            for place, column in enumerate(columns)
        ]
        made = kernel(taken, len(rows))
        parts.append(made.spread(len(rows)))
        failures += [_move_failure(each, rows, len(chosen)) for each in made.failures]
        order[rows] = np.arange(at, at + len(rows))
        at += len(rows)
    if not parts:
        return Vector(pa.nulls(len(chosen), arrow), tuple(failures))
    whole = pa.concat_arrays(parts)
    return Vector(whole.take(pa.array(order, mask=order < 0)), tuple(failures))


def _make_failure(rows: Sequence[int], count: int, reason: str) -> Failure:
    found = np.zeros(count, np.bool_)
    found[rows] = True
    return Failure(found, lambda _: reason)


def _move_failure(failure: Failure, rows: Sequence[int], count: int) -> Failure:
    """A failure of some of the ``rows``, in terms of all."""
    found = np.zeros(count, np.bool_)
    found[rows] = failure.rows
    places = {row: at for at, row in enumerate(rows)}
    return replace(failure, rows=found, reason=lambda row: failure.reason(places[row]))
