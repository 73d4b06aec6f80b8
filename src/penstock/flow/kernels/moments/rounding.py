"""``FLOOR(x TO unit)`` and ``CEIL(x TO unit)`` of dates, times and timestamps."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from penstock.flow.kernels.moments.calendar import DAY_MICROS, Numbers, civil, days_of
from penstock.flow.kernels.moments.datetimes import UNIT_MICROS, localize, micros_of, overflow_reason
from penstock.flow.kernels.moments.local import from_local
from penstock.flow.kernels.session import Session
from penstock.flow.kernels.vectors import Failure, Kernel, Strict, Vector, column, find_known
from penstock.plan.expressions import Call, Literal
from penstock.types import arrow_type
from penstock.types.logical import root

_MONTHS = {"MONTH": 1, "QUARTER": 3, "YEAR": 12}


def round_moment(call: Call, session: Session) -> Kernel | None:
    """The first moment of the unit, or of the next one; of what is local time in the session."""
    unit, moment = call.args
    up, kind = call.function == "CEIL TO", root(call.type)
    local, back = localize(moment.type, session), from_local(session)
    if not isinstance(unit, Literal) or local is None:
        return None
    word = str(unit.value)
    if kind == "TIME":
        return Strict(arrow_type(call.type), lambda _, values: _round_time_of_day(call, word, up, values))
    if kind != "TIMESTAMP_LTZ" or back is None:
        return Strict(arrow_type(call.type), lambda _, values: _round_kind(word, up, kind, values))
    return Strict(arrow_type(call.type), lambda _, values: back(_round_kind(word, up, kind, local(values))))


def _round_kind(unit: str, up: bool, kind: str, values: pa.Array) -> pa.Array:
    found: NDArray[Any] = _round(unit, up, micros_of(values))
    if kind == "DATE":
        found = (found // DAY_MICROS).astype(np.int32)
    return column(np.ascontiguousarray(found), find_known(values), values.type)


def _round_time_of_day(call: Call, unit: str, up: bool, values: pa.Array) -> pa.Array | Vector:
    """A time of the day, which fails at its end."""
    found = _round(unit, up, micros_of(values))
    beyond = found >= DAY_MICROS
    made = column(np.where(beyond, 0, found) * 1000, find_known(values), values.type)
    return Vector(made, (Failure(beyond, overflow_reason(call)),)) if beyond.any() else made


def _round(unit: str, up: bool, micros: Numbers) -> Numbers:
    if unit in UNIT_MICROS and unit != "WEEK":
        size = UNIT_MICROS[unit]
        millis = micros - micros % 1000  # Flink rounds up by milliseconds
        return -(-millis // size) * size if up else micros // size * size
    return _round_days(unit, up, micros // DAY_MICROS) * DAY_MICROS


def _round_days(unit: str, up: bool, days: Numbers) -> Numbers:
    """The first day of the unit; with ``up`` the first day of the next one, unless the day is a first day. Weeks start
    on Sunday."""
    if unit == "WEEK":
        of_week = (days + 4) % 7
        return days - of_week + np.where((of_week > 0) & up, 7, 0)
    year, month, _ = civil(days)
    size = _MONTHS[unit]
    first = (year * 12 + month - 1) // size * size
    found = _find_first_day(first)
    return np.where((found < days) & up, _find_first_day(first + size), found)


def _find_first_day(months: Numbers) -> Numbers:
    """Of a month, counted from the year 0."""
    return days_of(months // 12, months % 12 + 1, 1)
