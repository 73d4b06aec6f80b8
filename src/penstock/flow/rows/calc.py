"""The expressions between a scan, or another node, and what takes its rows, computed on Arrow batches."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa

from penstock.errors import Problem, RecordError, SchemaError
from penstock.flow.kernels.session import UNKNOWN, Session
from penstock.flow.kernels.vectors import Vector, select_failures, true_rows
from penstock.flow.rows.envelope import ONCE
from penstock.flow.rows.expressions import Evaluator, NoKernel, UnsupportedCall, check, compile_expressions
from penstock.plan.expressions import Call, ColumnRef, Expression, cast, rewrite, walk
from penstock.plan.nodes import Node, Scan, Sink
from penstock.plan.scalar_functions import UserCall, varies_by_row
from penstock.plan.walk import base, calculations
from penstock.spi import WATERMARK, locate_error
from penstock.types import DataType, Field, arrow_type
from penstock.types.casts import widens


@dataclass(frozen=True, eq=False)
class Calc:
    """Filters rows by ``conditions``, one after the other, and computes columns. Picklable.

    A condition gives further columns for what comes after it: random values, of which a row has one.
    Its batches have the ``columns`` of the node below, and perhaps others, such as :data:`penstock.spi.HIDDEN`, which
    follow the computed ones in the result.
    """

    columns: tuple[str, ...]
    conditions: tuple[Evaluator, ...]
    items: Evaluator
    #: Of the computed columns.
    schema: pa.Schema

    @property
    def reads_watermark(self) -> bool:
        """Whether it needs the present watermark, as the column :data:`penstock.spi.WATERMARK`."""
        return any(WATERMARK in each.reads for each in (*self.conditions, self.items))

    @property
    def calls(self) -> bool:
        """Whether it calls functions of the user."""
        every = (part for each in (*self.conditions, self.items) for one in each.expressions for part in walk(one))
        return any(isinstance(part, UserCall) for part in every)

    def batch(self, given: pa.RecordBatch) -> pa.RecordBatch:
        """The result for one batch. Raises RecordError for a row that cannot be computed, with the number of its
        partition and its offset if the batch has them, and without a topic."""
        carried = [name for name in given.schema.names if name not in self.columns]
        rows = given
        for number, condition in enumerate(self.conditions):
            left = {name for each in (*self.conditions[number + 1 :], self.items) for name in each.reads}
            kept = [name for name in rows.schema.names if name in left or name in carried]
            once = [f"{ONCE}{number}_{at}" for at in range(len(condition.expressions) - 1)]
            rows = _filter(rows, condition, kept, once)
        try:
            made = self.items.columns(rows)
        except RecordError as error:
            raise locate_error(error, rows, error.offset) from None
        fields = [*self.schema, *(rows.schema.field(name) for name in carried)]
        return pa.RecordBatch.from_arrays([*made, *map(rows.column, carried)], schema=pa.schema(fields))


def _filter(rows: pa.RecordBatch, condition: Evaluator, names: Sequence[str], once: Sequence[str]) -> pa.RecordBatch:
    """The columns ``names`` of the rows for which ``condition`` is true, and the columns ``once`` that it gives."""
    decision, *values = condition.vectors(rows)
    try:
        check((decision,))
        found = decision.spread(rows.num_rows)
        if values:  # those of rows that are left out may have failed
            check(
                [Vector(each.values, select_failures(each.failures, true_rows(found, len(found)))) for each in values]
            )
    except RecordError as error:
        raise locate_error(error, rows, error.offset) from None
    chosen = rows.select(list(names))
    for name, value in zip(once, values, strict=True):
        chosen = chosen.append_column(name, value.spread(rows.num_rows))
    return chosen if found.true_count == rows.num_rows else chosen.filter(found)


def check_width(sink: Sink) -> None:
    """Raises SchemaError for a sink that is given more or fewer columns than it has."""
    given, wanted = len(sink.input.schema.fields), len(sink.schema.fields)
    if given != wanted:
        reason = f"has {wanted} columns but is given {given}"
        raise SchemaError((Problem(reason, sink.table, hint="list the columns in INSERT INTO, or select as many"),))


# --- from plans ----------------------------------------------------------------------------------------------


def calc_of(node: Node, session: Session = UNKNOWN, *, watermarked: bool = False) -> Calc | NoKernel:
    """The work between ``node`` and :func:`penstock.plan.walk.base` of it, on the batches of that: those of a scan as
    tasks read them, before columns are cast to their declared types. ``watermarked``: they may have the present
    watermark as a further column. Raises UnsupportedError for an expression that has no kernel."""
    rows = Projection.from_node(node)
    return calc_of_rows(rows, rows.columns, session, watermarked=watermarked)


@dataclass(frozen=True)
class Projection:
    """The rows of a node in terms of the columns of ``base``: those that meet the ``conditions``, with ``columns``."""

    base: Node
    conditions: tuple[Expression, ...]
    columns: Mapping[str, Expression]

    @classmethod
    def from_node(cls, node: Node) -> Projection:
        """The rows of ``node``."""
        below = base(node)
        conditions: tuple[Expression, ...] = ()
        columns: dict[str, Expression] = {each.name: _read(below, each) for each in below.schema.fields}
        for step in calculations(node):
            if step.kept_if is not None:
                conditions = (*conditions, _in_terms_of(columns, step.kept_if))
            if step.computed is not None:
                columns = {name: _in_terms_of(columns, each) for name, each in step.computed.items()}
        return cls(below, conditions, columns)

    def substitute(self, expression: Expression) -> Expression:
        """An expression of the rows' columns, of those of the base."""
        return _in_terms_of(self.columns, expression)


def calc_of_rows(
    rows: Projection, columns: Mapping[str, Expression], session: Session, *, watermarked: bool = False
) -> Calc | NoKernel:
    """The work that computes ``columns`` of the base's from ``rows``; as :func:`calc_of`."""
    given = _given(rows.base)
    schema = pa.schema([pa.field(name, arrow_type(each)) for name, each in given.items()])
    if watermarked:
        schema = schema.append(pa.field(WATERMARK, pa.int64()))
    conditions = []
    waiting = [*rows.conditions, *columns.values()]
    for number in range(len(rows.conditions)):
        condition, *waiting = waiting
        once = {f"{ONCE}{number}_{at}": each for at, each in enumerate(_random_in_both(condition, waiting))}
        evaluator = compile_expressions((condition, *once.values()), schema, session)
        if isinstance(evaluator, UnsupportedCall):
            raise evaluator.error()
        if isinstance(evaluator, NoKernel):
            return evaluator
        conditions.append(evaluator)
        read = {id(each): ColumnRef(name, type=each.type) for name, each in once.items()}
        waiting = [_with_columns(each, read) for each in waiting]
        schema = pa.schema([*schema, *(pa.field(name, arrow_type(each.type)) for name, each in once.items())])
    items = compile_expressions(tuple(waiting), schema, session)
    if isinstance(items, UnsupportedCall):
        raise items.error()
    if isinstance(items, NoKernel):
        return items
    made = pa.schema([pa.field(name, arrow_type(each.type)) for name, each in columns.items()])
    return Calc(tuple(given), tuple(conditions), items, made)


def _random_in_both(condition: Expression, others: Sequence[Expression]) -> list[Expression]:
    """The calls with another value for each row that are parts of a condition and of expressions after it: a row has
    one value of each."""
    after = {id(each) for other in others for each in walk(other)}
    return [each for each in walk(condition) if id(each) in after and isinstance(each, Call) and varies_by_row(each)]


def _with_columns(expression: Expression, columns: Mapping[int, ColumnRef]) -> Expression:
    """The expression with parts, by their objects, replaced by columns."""
    if not columns or id(expression) in columns:
        return columns.get(id(expression), expression)
    operands = tuple(_with_columns(each, columns) for each in expression.operands)
    same = all(one is other for one, other in zip(operands, expression.operands, strict=True))
    return expression if same else expression.with_operands(operands)


def _given(node: Node) -> dict[str, DataType]:
    """The columns of a node in the types of its batches."""
    native = dict(node.spec.capabilities.native) if isinstance(node, Scan) else {}
    return {each.name: native.get(each.name, each.type) for each in node.schema.fields}


def _read(node: Node, declared: Field) -> Expression:
    """A column of a node, in the type that it declares."""
    native = _given(node)[declared.name]
    read = ColumnRef(declared.name, type=native)
    return replace(read, type=declared.type) if widens(native, declared.type) else cast(read, declared.type)


def _in_terms_of(columns: Mapping[str, Expression], expression: Expression) -> Expression:
    return rewrite(expression, lambda each: columns.get(each.name, each) if isinstance(each, ColumnRef) else each)
