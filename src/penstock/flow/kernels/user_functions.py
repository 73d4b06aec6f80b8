"""Functions of users, called for each row or with all rows of a batch."""

from __future__ import annotations

import copy
import weakref
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.common.conversions import (
    CAUGHT,
    describe_raised,
    from_user,
    list_values,
    missing_value_error,
    skip_none,
    to_column,
    to_user,
)
from penstock.errors import FunctionError, RecordError
from penstock.flow.kernels.batch_results import from_batch, to_series
from penstock.flow.kernels.session import Session
from penstock.flow.kernels.vectors import Failure, Kernel, Mask, Vector, failed_rows, valid_rows
from penstock.plan.expressions import Call
from penstock.table.udf import GENERAL, PANDAS, FunctionContext, ScalarFunction, UserDefinedFunction
from penstock.types import DataType, arrow_type


@dataclass(frozen=True)
class UserKernelMaker:
    """Makes kernels of a function of the user. Picklable with the function."""

    definition: UserDefinedFunction

    def __call__(self, call: Call, session: Session) -> Kernel:
        """The kernel of a call. The function is opened with its first rows."""
        return _Calls(self.definition, call.function, tuple(arg.type for arg in call.args))


class _Calls:
    """The kernel of one call, with its own :class:`ScalarFunction`, as in PyFlink. A row for which the function gives
    no value is marked with a FunctionError."""

    def __init__(self, definition: UserDefinedFunction, name: str, given: tuple[DataType, ...]):
        self._definition, self._name, self._given = definition, name, given
        self._arrow = arrow_type(definition.result_type)
        self._function: Callable[..., Any] | None = None

    def __call__(self, args: Sequence[Vector], rows: int) -> Vector:
        failures = tuple(failure for each in args for failure in each.failures)
        columns = [each.spread(rows) for each in args]
        if not rows:
            return Vector(pa.nulls(0, self._arrow), failures)
        try:
            function = self._open()
        except CAUGHT as error:
            reason = describe_raised(error).replace("the function", "open()", 1)
            made = self._fail_together(RecordError(reason, hint="it is called before the first row"), rows)
        else:
            if self._definition.func_type == GENERAL:
                made = self._call_by_row(function, columns, rows, failed_rows(failures, rows))
            else:
                made = self._call_by_batch(function, columns, rows)
        return Vector(made.values, (*failures, *made.failures))

    def _open(self) -> Callable[..., Any]:
        if self._function is None:
            function = self._definition.function
            if isinstance(function, ScalarFunction):
                own = copy.deepcopy(function)
                own.open(FunctionContext({}))
                weakref.finalize(self, own.close)
                self._function = own.eval
            else:
                self._function = function
        return self._function

    def _call_by_row(
        self, function: Callable[..., Any], columns: Sequence[pa.Array], rows: int, skipped: Mask
    ) -> Vector:
        """The values, each of a call, except for rows that are ``skipped``."""
        lists = [_show_values(column, type_) for column, type_ in zip(columns, self._given, strict=True)]
        called = np.flatnonzero(~skipped).tolist()
        return self._convert_results(lambda row: function(*[each[row] for each in lists]), called, rows)

    def _call_by_batch(self, function: Callable[..., Any], columns: Sequence[pa.Array], rows: int) -> Vector:
        """The values of one call with all rows, which fail together if it raises."""
        result, series = self._definition.result_type, self._definition.func_type == PANDAS
        try:
            values = from_batch(function(*(map(to_series, columns) if series else columns)), result, rows)
        except RecordError as error:
            return self._fail_together(error, rows)
        except CAUGHT as error:
            return self._fail_together(_make_raised_error(error), rows)
        if not isinstance(values, pa.Array):
            return self._convert_results(values.__getitem__, range(rows), rows)
        if result.nullable or not values.null_count:
            return Vector(values)
        missing = np.flatnonzero(~valid_rows(values)).tolist()
        return Vector(values, self._make_failures(dict.fromkeys(missing, missing_value_error(result)), rows))

    def _convert_results(self, give: Callable[[int], Any], called: Sequence[int], rows: int) -> Vector:
        """The results that ``give`` returns for the rows ``called``, where they are of the declared type."""
        result = self._definition.result_type
        convert = skip_none(from_user(result) or (lambda value: value))
        failed: dict[int, RecordError] = {}
        numbers: list[int] = []
        found: list[Any] = []
        for row in called:
            try:
                found.append(convert(give(row)))
                numbers.append(row)
            except RecordError as error:
                failed[row] = error
            except CAUGHT as error:
                failed[row] = _make_raised_error(error)
        try:
            made = to_column(found, result, "")
        except RecordError:
            fitting: list[int] = []
            for at, value in enumerate(found):
                try:
                    to_column((value,), result, "")
                    fitting.append(at)
                except RecordError as error:
                    failed[numbers[at]] = error
            made = to_column([found[at] for at in fitting], result, "")
            numbers = [numbers[at] for at in fitting]
        if len(numbers) < rows:
            index, missing = np.zeros(rows, np.int64), np.ones(rows, np.bool_)
            index[numbers], missing[numbers] = np.arange(len(numbers)), False
            made = made.take(pa.array(index, mask=missing))
        return Vector(made, self._make_failures(failed, rows))

    def _fail_together(self, error: RecordError, rows: int) -> Vector:
        return Vector(pa.nulls(rows, self._arrow), self._make_failures(dict.fromkeys(range(rows), error), rows))

    def _make_failures(self, failed: Mapping[int, RecordError], rows: int) -> tuple[Failure, ...]:
        name = self._name
        made = []
        for hint in {each.hint for each in failed.values()}:
            mask = np.zeros(rows, np.bool_)
            mask[[row for row, each in failed.items() if each.hint == hint]] = True
            made.append(Failure(mask, lambda row: f"{name}: {failed[row].reason}", FunctionError, hint))
        return tuple(made)


def _make_raised_error(error: BaseException) -> RecordError:
    return RecordError(
        describe_raised(error), hint="catch it in the function, or leave such rows out with WHERE or CASE"
    )


def _show_values(column: pa.Array, type_: DataType) -> list[Any]:
    """The values of a column as the function sees them."""
    convert = to_user(type_)
    found = list_values(column)
    return found if convert is None else [None if each is None else convert(each) for each in found]
