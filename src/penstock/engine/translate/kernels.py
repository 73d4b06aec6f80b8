"""Expressions that Spark SQL has no text for: Python tasks compute them by kernels, as columns of their own."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql.types import DataType, StructField, StructType

from penstock.engine.session import kernel_session
from penstock.engine.translate.expressions import has_spark_sql
from penstock.errors import Problem, UnsupportedError
from penstock.flow.calc import Calc
from penstock.flow.expressions import Lacking, compile_expressions
from penstock.plan.expressions import Call, ColumnRef, Expression, walk
from penstock.spi import mapped
from penstock.types import BOOLEAN, arrow_type, spark_type

_PREFIX = "__kernel_"


def computable(
    frame: DataFrame, expressions: Sequence[Expression], kept: str = ""
) -> tuple[DataFrame, list[Expression]]:
    """``frame`` with a column for each of the expressions that has no Spark SQL, and the expressions in terms of it.
    With ``kept``, the name of a BOOLEAN column, it is computed only where that is true, and NULL elsewhere.

    Raises UnsupportedError for one that has no kernel either.
    """
    lacking = [each for each in expressions if not has_spark_sql(each)]
    if not lacking:
        return frame, list(expressions)
    taken = sum(name.startswith(_PREFIX) for name in frame.columns)
    names = [f"{_PREFIX}{taken + number}" for number in range(len(lacking))]
    columns = {id(each): ColumnRef(name, type=each.type) for each, name in zip(lacking, names, strict=True)}
    calc = _calc(frame, [_guarded(each, kept) for each in lacking] if kept else lacking, names)
    made = [StructField(name, DataType.fromDDL(spark_type(e.type))) for name, e in zip(names, lacking, strict=True)]
    schema = StructType([*made, *frame.schema.fields])

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield from calc.batches(_in_utc(each) for each in batches)

    return mapped(frame, run, schema), [columns.get(id(each), each) for each in expressions]


def _guarded(expression: Expression, kept: str) -> Expression:
    """The value where ``kept`` is true."""
    condition = ColumnRef(kept, type=BOOLEAN)
    type_ = expression.type.with_nullability(True)
    return Call("CASE", (condition, expression), type=type_, place=expression.place)


def _calc(frame: DataFrame, expressions: Sequence[Expression], names: Sequence[str]) -> Calc:
    read = {e.name: arrow_type(e.type) for each in expressions for e in walk(each) if isinstance(e, ColumnRef)}
    session = kernel_session(frame.sparkSession)
    items = compile_expressions(tuple(expressions), pa.schema(read), session)
    if isinstance(items, Lacking):
        where = str(items.place) if items.place else ""
        hint = "CAST its arguments, use constants, or compute it downstream"
        raise UnsupportedError((Problem(f"{items.function} is not supported here", where=where, hint=hint),))
    types = [arrow_type(each.type) for each in expressions]
    return Calc((), (), items, pa.schema(list(zip(names, types, strict=True))))


def _in_utc(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The batch with its points in time as all batches have them, not in the session's zone."""
    utc = pa.timestamp("us", "UTC")
    columns = [each.cast(utc) if getattr(each.type, "tz", None) else each for each in batch.columns]
    return pa.RecordBatch.from_arrays(columns, names=batch.schema.names)
