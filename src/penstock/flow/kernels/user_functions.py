"""Functions of users, called for each row or with all rows of a batch."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.common.conversions import describe_raised, from_user, listed, or_none, to_column, to_user
from penstock.errors import FunctionError, RecordError
from penstock.flow.kernels.session import Session
from penstock.flow.kernels.vectors import Failure, Kernel, Mask, Vector, failed_rows
from penstock.plan.expressions import Call
from penstock.table.udf import GENERAL, PANDAS, FunctionContext, ScalarFunction, UserDefinedFunction
from penstock.types import DataType, arrow_type

_HINT = "catch it in the function, or leave such rows out with WHERE or CASE"


@dataclass(frozen=True)
class UserKernelMaker:
    """Makes kernels of a function of the user. Picklable with the function."""

    definition: UserDefinedFunction

    def __call__(self, call: Call, session: Session) -> Kernel:
        """The kernel of a call. The function is opened with its first rows."""
        return _Calls(self.definition, call.function, tuple(arg.type for arg in call.args))


class _Calls:
    """The kernel of one call. A row whose value the function does not give is marked with a FunctionError."""

    def __init__(self, definition: UserDefinedFunction, name: str, given: tuple[DataType, ...]):
        self._definition, self._name, self._given = definition, name, given
        self._function: Callable[..., Any] | None = None

    def __call__(self, args: Sequence[Vector], rows: int) -> Vector:
        failures = tuple(failure for each in args for failure in each.failures)
        columns = [each.spread(rows) for each in args]
        if not rows:
            return Vector(pa.nulls(0, arrow_type(self._definition.result_type)), failures)
        if self._definition.func_type == GENERAL:
            made = self._by_row(columns, rows, failed_rows(failures, rows))
        else:
            made = self._by_batch(columns, rows)
        return Vector(made.values, (*failures, *made.failures))

    def _open(self) -> Callable[..., Any]:
        if self._function is None:
            function = self._definition.function
            if isinstance(function, ScalarFunction):
                function.open(FunctionContext({}))
                weakref.finalize(self, function.close)
                self._function = function.eval
            else:
                self._function = function
        return self._function

    def _by_row(self, columns: Sequence[pa.Array], rows: int, skipped: Mask) -> Vector:
        """The values, each of a call, except for rows that are ``skipped``."""
        result = self._definition.result_type
        reasons: dict[int, str] = {}
        made: list[Any] = [None] * rows
        lists = [_as_seen(column, type_) for column, type_ in zip(columns, self._given, strict=True)]
        convert = or_none(from_user(result) or (lambda value: value))
        try:
            function = self._open()
        except Exception as error:  # noqa: BLE001 - a function of the user may fail in any way
            return self._failed(dict.fromkeys(range(rows), describe_raised(error)), pa.nulls(rows, arrow_type(result)))
        for row in np.flatnonzero(~skipped).tolist():
            try:
                made[row] = convert(function(*[each[row] for each in lists]))
            except RecordError as error:
                reasons[row] = error.reason
            except Exception as error:  # noqa: BLE001 - a function of the user may fail in any way
                reasons[row] = describe_raised(error)
        try:
            return self._failed(reasons, to_column(made, result, ""))
        except RecordError:  # values of another type
            for row, value in enumerate(made):
                try:
                    to_column((value,), result, "")
                except RecordError as error:
                    reasons[row], made[row] = error.reason, None
        return self._failed(reasons, to_column(made, result, ""))

    def _by_batch(self, columns: Sequence[pa.Array], rows: int) -> Vector:
        """The values of one call with all rows, which fail together."""
        arrow = arrow_type(self._definition.result_type)
        series = self._definition.func_type == PANDAS
        try:
            found = self._open()(*([each.to_pandas() for each in columns] if series else columns))
            if isinstance(found, pa.ChunkedArray):
                found = found.combine_chunks()
            values = found.cast(arrow) if isinstance(found, pa.Array) else pa.array(found, arrow, from_pandas=series)
            if len(values) != rows:
                raise ValueError(f"expected {rows} values, not {len(values)}")
        except Exception as error:  # noqa: BLE001 - a function of the user may fail in any way
            return self._failed(dict.fromkeys(range(rows), describe_raised(error)), pa.nulls(rows, arrow))
        return Vector(values)

    def _failed(self, reasons: dict[int, str], values: pa.Array) -> Vector:
        if not reasons:
            return Vector(values)
        failed = np.zeros(len(values), np.bool_)
        failed[list(reasons)] = True
        name = self._name
        return Vector(values, (Failure(failed, lambda row: f"{name}: {reasons[row]}", FunctionError, _HINT),))


def _as_seen(column: pa.Array, type_: DataType) -> list[Any]:
    """The values of a column as the function sees them."""
    convert = to_user(type_)
    found = listed(column)
    return found if convert is None else [None if each is None else convert(each) for each in found]
