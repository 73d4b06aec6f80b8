"""Typed expressions over Arrow batches, by kernels; and which expressions have none."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import partial
from typing import Any

import pyarrow as pa

from penstock.errors import Problem, UnsupportedError
from penstock.flow.kernels.casts.casting import cast_kernel
from penstock.flow.kernels.collections.parts import field_kernel
from penstock.flow.kernels.session import UNKNOWN, Session
from penstock.flow.kernels.vectors import Kernel, Vector, compute_constant
from penstock.plan.expressions import (
    Call,
    Cast,
    ColumnRef,
    Expression,
    FieldAccess,
    Literal,
    Place,
    walk,
)
from penstock.plan.flink_sql import flink_sql
from penstock.plan.scalar_functions import Function, UserCall, Varies, function_of
from penstock.spi import WATERMARK
from penstock.types import DataType, IntervalType, NullType, arrow_type


@dataclass(frozen=True)
class NoKernel:
    """A human-readable description of why a part of a plan has no kernels: the ``function`` with the types of its
    arguments, and its place in the user's text."""

    function: str
    place: Place | None = None

    def __str__(self) -> str:
        return f"{self.function} at {self.place}" if self.place else self.function


@dataclass(frozen=True)
class UnsupportedCall(NoKernel):
    """A call or a cast that has no kernel for its types or its constants."""

    def error(self) -> UnsupportedError:
        """The refusal of the expression."""
        hint = "CAST its arguments, use other constants, or compute it in a Python function"
        where = str(self.place) if self.place else ""
        return UnsupportedError((Problem(f"{self.function} is not supported", where=where, hint=hint),))


@dataclass(frozen=True, eq=False)
class Evaluator:
    """Computes expressions from batches that have the columns ``reads``, perhaps among others. Picklable.

    It is a program: each of its steps computes one vector, the first ones being those columns.
    """

    expressions: tuple[Expression, ...]
    schema: pa.Schema
    session: Session
    reads: tuple[str, ...]
    _steps: tuple[_Step, ...]
    _results: tuple[int, ...]

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        return compile_expressions, (self.expressions, self.schema, self.session)

    def vectors(self, batch: pa.RecordBatch) -> list[Vector]:
        """The values of the expressions, with the rows that failed."""
        rows = batch.num_rows
        made = [Vector(batch.column(name)) for name in self.reads]
        for step in self._steps:
            made.append(step.compute(made, rows))
        return [made[index] for index in self._results]

    def columns(self, batch: pa.RecordBatch) -> list[pa.Array]:
        """The values of the expressions. Raises RecordError for the first row that fails, with its number as
        ``offset`` and without a topic."""
        found = self.vectors(batch)
        check(found)
        return [each.spread(batch.num_rows) for each in found]

    def column(self, batch: pa.RecordBatch) -> pa.Array:
        """The values of the only expression. Raises as :meth:`columns`."""
        (found,) = self.columns(batch)
        return found


@dataclass(frozen=True, eq=False)
class _Step:
    """A constant, or a kernel with the numbers of its arguments."""

    kernel: Kernel | None
    args: tuple[int, ...] = ()
    constant: Vector | None = None
    #: Whether each row or batch computes it again, even of constant arguments.
    volatile: bool = False

    def compute(self, made: Sequence[Vector], rows: int) -> Vector:
        if self.constant is not None or self.kernel is None:
            assert self.constant is not None  # noqa: S101
            return self.constant
        args = [made[index] for index in self.args]
        once = not self.volatile and all(each.constant for each in args)
        run = partial(compute_constant, self.kernel) if once else self.kernel
        return run(args, rows)


def check(vectors: Sequence[Vector]) -> None:
    """Raises a RecordError for the first row that failed in any of ``vectors``, with its number as ``offset``."""
    failures = [failure for each in vectors for failure in each.failures]
    if failures:
        row, first = min(
            ((int(each.rows.argmax()), each) for each in failures if each.rows.any()),
            key=lambda found: found[0],
            default=(0, None),
        )
        if first is not None:
            raise first.error(first.reason(row), offset=row, hint=first.hint)


def compile_expression(expression: Expression, schema: pa.Schema, session: Session = UNKNOWN) -> Evaluator | NoKernel:
    """What computes ``expression`` from batches of ``schema``."""
    return compile_expressions((expression,), schema, session)


def compile_expressions(
    expressions: Sequence[Expression], schema: pa.Schema, session: Session = UNKNOWN
) -> Evaluator | NoKernel:
    """What computes ``expressions`` from batches of ``schema``; what they have in common is computed once."""
    made = _Compiler(schema, session)
    try:
        results = [made.compiled(each) for each in expressions]
    except _NoKernelError as error:
        return error.reason
    return made.evaluator(tuple(expressions), results)


def find_missing_kernel(expression: Expression) -> NoKernel | None:
    """The first part of an expression that has no kernel, None if all have one."""
    found = compile_expression(expression, _schema_of(expression))
    return found if isinstance(found, NoKernel) else None


def _schema_of(expression: Expression) -> pa.Schema:
    columns = {each.name: arrow_type(each.type) for each in walk(expression) if isinstance(each, ColumnRef)}
    return pa.schema(columns)


class _NoKernelError(Exception):
    def __init__(self, reason: NoKernel):
        super().__init__(reason)
        self.reason = reason


class _Compiler:
    """Makes the steps of a program, each once."""

    def __init__(self, schema: pa.Schema, session: Session):
        self._schema, self._session = schema, session
        self._reads: list[str] = []
        self._steps: list[_Step] = []
        #: The number of each step by what it computes. Those of columns are negative until all columns are known.
        self._by_meaning: dict[object, int] = {}
        self._by_identity: dict[int, tuple[Expression, int]] = {}

    def evaluator(self, expressions: tuple[Expression, ...], results: Sequence[int]) -> Evaluator:
        """The program of these results. Columns come first."""
        first = len(self._reads)

        def number(found: int) -> int:
            return -found - 1 if found < 0 else first + found

        steps = tuple(replace(each, args=tuple(map(number, each.args))) for each in self._steps)
        return Evaluator(
            expressions, self._schema, self._session, tuple(self._reads), steps, tuple(map(number, results))
        )

    def compiled(self, expression: Expression) -> int:
        """The step that computes the expression. Raises _NoKernelError."""
        known = self._by_identity.get(id(expression))
        if known is None:
            known = self._by_identity[id(expression)] = expression, self._compiled(expression)
        return known[1]

    def _compiled(self, expression: Expression) -> int:
        data_type = expression.type.with_nullability(True)
        match expression:
            case ColumnRef(name=name):
                return self._column(name, data_type)
            case Literal(value=value):
                return self._constant((data_type, repr(value)), literal(expression))
            case Call() as call:
                return self._function(call, data_type)
            case Cast(safe=safe):
                operand = expression.operand
                source = operand.type.with_nullability(True)
                cast = cast_kernel(expression, self._session)
                if cast is None:
                    raise self._unsupported(expression)
                return self._call(("CAST", source, data_type, safe), cast, (operand,))
            case FieldAccess(row=row, name=name):
                return self._call(("FIELD", name, data_type), field_kernel(name, data_type), (row,))
        raise self._unsupported(expression)

    def _function(self, call: Call, data_type: DataType) -> int:
        function = function_of(call)
        if function is None:
            raise self._unsupported(call)
        found = function.rewrite(call) if function.rewrite else call
        if not isinstance(found, Call) or found.function != call.function:
            return self.compiled(found)
        kernel = function.kernel(found, self._session) if function.kernel else None
        if kernel is None:
            raise self._unsupported(call)
        if function.varies is Varies.BY_ROW or (function.varies is Varies.BY_BATCH and not call.args):
            return self._volatile(function, found, kernel)
        # A function is known by its object: two of a user may have one name.
        key = id(function), tuple(each.type.with_nullability(True) for each in found.args)
        return self._call((*key, data_type), kernel, found.args, fold=not isinstance(call, UserCall))

    def _column(self, name: str, data_type: DataType) -> int:
        key = "COLUMN", name
        if key not in self._by_meaning:
            index = self._schema.get_field_index(name)
            if index < 0:
                raise _NoKernelError(NoKernel("CURRENT_WATERMARK" if name == WATERMARK else f"column '{name}'"))
            if self._schema.field(index).type != arrow_type(data_type):
                found = self._schema.field(index).type
                raise TypeError(f"column '{name}' is {found} in the batches, not {arrow_type(data_type)}")
            self._reads.append(name)
            self._by_meaning[key] = -len(self._reads)
        return self._by_meaning[key]

    def _constant(self, meaning: object, value: Vector) -> int:
        return self._step(("LITERAL", meaning), _Step(None, (), value))

    def _call(self, meaning: object, kernel: Kernel, operands: Sequence[Expression], *, fold: bool = True) -> int:
        """A kernel; its value if all operands are constant, unless it is not to ``fold`` before there are rows."""
        args = tuple(map(self.compiled, operands))
        constants = [self._steps[each].constant for each in args if each >= 0]
        known = [each for each in constants if each is not None]
        if fold and len(known) == len(args):
            value = compute_constant(kernel, known, 1)
            if not value.failures:
                return self._step((meaning, args), _Step(None, (), value))
        return self._step((meaning, args), _Step(kernel, args))

    def _volatile(self, function: Function, call: Call, kernel: Kernel) -> int:
        """A call whose value changes with time, or, if random, with each occurrence."""
        args = tuple(map(self.compiled, call.args))
        meaning = object() if function.varies is Varies.BY_ROW else (call.function, args)
        return self._step(meaning, _Step(kernel, args, volatile=True))

    def _step(self, meaning: object, step: _Step) -> int:
        if meaning not in self._by_meaning:
            self._steps.append(step)
            self._by_meaning[meaning] = len(self._steps) - 1
        return self._by_meaning[meaning]

    def _unsupported(self, expression: Expression) -> _NoKernelError:
        operands = ", ".join(
            flink_sql(each) if isinstance(each, Literal) and isinstance(each.value, str) else each.type.text()
            for each in expression.operands
        )
        match expression:
            case Call(function=function):
                text = f"{function}({operands})"
            case Cast(type=target, safe=safe):
                text = f"{'TRY_CAST' if safe else 'CAST'}({operands} AS {target.text()})"
            case _:
                text = f"{type(expression).__name__} of {expression.type.text()}"
        return _NoKernelError(UnsupportedCall(text, expression.place))


def literal(given: Literal) -> Vector:
    """The vector of a constant. Intervals are numbers of months or microseconds."""
    if isinstance(given.type, NullType):
        return Vector(pa.scalar(None, pa.null()))
    if isinstance(given.type, IntervalType):
        value = given.value // timedelta(microseconds=1) if isinstance(given.value, timedelta) else given.value
        return Vector(pa.scalar(value, pa.int64()))
    return Vector(pa.scalar(given.value, arrow_type(given.type)))
