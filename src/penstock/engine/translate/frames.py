"""Plan nodes to DataFrames: one frame per job that reads each source once and holds the rows of every sink."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from penstock.engine.translate.expressions import spark_sql
from penstock.errors import Problem, SchemaError
from penstock.plan import (
    AssignWatermarks,
    DeadLetters,
    Filter,
    MapRows,
    Node,
    Project,
    Scan,
    Sink,
    base,
    calculations,
    fold,
)
from penstock.plan.expressions import ColumnRef, Expression, cast, coerce
from penstock.spi import DEAD_LETTER, HIDDEN, KIND, Output, guarded
from penstock.types import DataType, Field, RowType, arrow_schema, quoted_name, spark_ddl, spark_type
from penstock.types.casts import alike, widens

__all__ = ["Reading", "build", "computed", "direct"]

#: What Spark's stateful operators look for in the metadata of a column to know that it is the event time.
_EVENT_TIME = {"spark.watermarkDelayMs": 0}


class Reading(Protocol):
    """Where the frames of scans come from."""

    def frame(self, scan: Scan) -> DataFrame:
        """The rows of a scan. Called once for each time that it is read: once, unless branches part below Python
        functions."""
        ...

    def watched(self, node: AssignWatermarks, frame: DataFrame) -> DataFrame:
        """``frame`` of the node's rows, with its watermarks observed if its scan is to be told of them."""
        ...


def computed(sinks: Sequence[Sink]) -> tuple[Output, ...]:
    """Where in the frame of :func:`build` each sink's rows are.

    With one sink the frame's columns are the sink's. With several, sink ``i`` has the struct column ``sink_i``,
    null in rows that are not for it, so that rows meant for several sinks are read and computed once.
    """
    if len(sinks) == 1:
        sink = sinks[0]
        return (Output(0, sink.table, sink.spec, sink.schema, None, sink.schema.names),)
    return tuple(Output(i, sink.table, sink.spec, sink.schema, f"sink_{i}") for i, sink in enumerate(sinks))


def build(sinks: Sequence[Sink], outputs: Sequence[Output], reading: Reading) -> DataFrame:
    """The frame that holds the rows of all ``sinks``, where ``outputs`` (:func:`computed`) say."""
    if len(sinks) == 1:
        return _cast(_rows(sinks[0].input, reading), sinks[0])
    groups: dict[Node, list[int]] = {}
    for i, sink in enumerate(sinks):
        groups.setdefault(base(sink.input), []).append(i)
    frames = [_group(below, [(outputs[i], sinks[i]) for i in members], reading) for below, members in groups.items()]
    frame = frames[0]
    for other in frames[1:]:
        frame = frame.unionByName(other, allowMissingColumns=True)
    return frame


def direct(sinks: Sequence[Sink]) -> tuple[Scan, tuple[Output, ...]] | None:
    """The one scan that all ``sinks`` take their rows from, and which of its columns each of them takes, when nothing
    has to be computed in between: no filter, no expression, no cast. Otherwise None."""
    bases = {base(sink.input) for sink in sinks}
    scan = bases.pop()
    if bases or not isinstance(scan, Scan):
        return None
    outputs = []
    for i, sink in enumerate(sinks):
        if isinstance(sink.input, DeadLetters):
            outputs.append(Output(i, sink.table, sink.spec, sink.schema, DEAD_LETTER))
            continue
        columns = _picked(sink.input)
        if columns is None or len(columns) != len(sink.schema.fields):
            return None
        declared = {field.name: field.type for field in scan.schema.fields}
        read, taken = dict(scan.spec.capabilities.native), {field.name: field.type for field in sink.spec.schema.fields}
        for name, field in zip(columns, sink.schema.fields, strict=True):
            own = declared[name]
            unchanged = widens(read.get(name, own), own) and alike(own, field.type)
            if not unchanged or not alike(field.type, taken[field.name]):
                return None
        outputs.append(Output(i, sink.table, sink.spec, sink.schema, None, columns))
    return scan, tuple(outputs)


def _picked(node: Node) -> tuple[str, ...] | None:
    """The scan's columns that ``node`` passes on, None when it does anything else to its rows."""

    def visit(node: Node, inputs: tuple[tuple[str, ...] | None, ...]) -> tuple[str, ...] | None:
        match node:
            case Scan():
                return node.schema.names
            case AssignWatermarks():
                return inputs[0]
            case Project(input=below, items=items) if inputs[0] is not None:
                sources = dict(zip(below.schema.names, inputs[0], strict=True))
                picked = [item.expression.name for item in items if isinstance(item.expression, ColumnRef)]
                return tuple(sources[name] for name in picked) if len(picked) == len(items) else None
        return None

    return fold((node,), visit)[0]


def _rows(node: Node, reading: Reading) -> DataFrame:
    found: tuple[DataFrame, ...] = fold((node,), partial(_frame, reading))
    return found[0]


def _frame(reading: Reading, node: Node, inputs: tuple[DataFrame, ...]) -> DataFrame:
    match node, inputs:
        case Scan(), ():
            return _declared(reading.frame(node), node)
        case AssignWatermarks(), (frame,):
            return _event_time(node, frame, reading)
        case Filter(condition=condition), (frame,):
            return frame.where(_of_rows(frame, _computed(condition), F.lit(True)))
        case Project(items=items), (frame,):
            columns = [_of_rows(frame, _computed(item.expression)).alias(item.name) for item in items]
            return frame.select(*columns, *_hidden(frame))
        case MapRows(input=below, rows=rows, schema=schema), (frame,):
            hidden = _hidden(frame)
            kinds = [f"{name} {frame.schema[name].dataType.simpleString()}" for name in hidden]
            mapper = _row_mapper(rows, below.schema, schema, hidden)
            return frame.mapInArrow(mapper, ", ".join([spark_ddl(schema), *kinds]))
    raise SchemaError((Problem(f"the engine does not run {type(node).__name__} nodes"),))


def _declared(frame: DataFrame, scan: Scan) -> DataFrame:
    """``frame`` with the columns of ``scan`` in the types that its table declares."""
    types = {field.name: field.type for field in scan.schema.fields}
    casts = {
        name: _computed(cast(ColumnRef(name, type=native), types[name]))
        for name, native in scan.spec.capabilities.native
        if not widens(native, types[name])
    }
    return frame.withColumns(casts) if casts else frame


def _hidden(frame: DataFrame) -> list[str]:
    """The columns of a frame that come with its rows and are no table's."""
    return [name for name in (*HIDDEN.names, KIND, DEAD_LETTER) if name in frame.columns]


def _of_rows(frame: DataFrame, value: Column, otherwise: Column | None = None) -> Column:
    """``value``, computed of the table's rows and not of dead letters."""
    if DEAD_LETTER not in frame.columns:
        return value
    return F.when(F.col(DEAD_LETTER).isNull(), value).otherwise(F.lit(None) if otherwise is None else otherwise)


def _event_time(node: AssignWatermarks, frame: DataFrame, reading: Reading) -> DataFrame:
    """``frame`` with its event time known to Spark, whose watermark the source itself moves (decision 0019)."""
    marked = _column(node.column).alias(node.column, metadata=_EVENT_TIME)
    return reading.watched(node, frame).select(
        *(marked if name == node.column else _column(name) for name in frame.columns)
    )


def _cast(frame: DataFrame, sink: Sink) -> DataFrame:
    return frame.select(*_sink_columns(sink), *_hidden(frame))


def _sink_columns(sink: Sink) -> list[Column]:
    given, wanted = sink.input.schema.fields, sink.schema.fields
    if len(given) != len(wanted):
        reason = f"has {len(wanted)} columns but is given {len(given)}"
        raise SchemaError((Problem(reason, sink.table, hint="list the columns in INSERT INTO, or select as many"),))
    taken = {field.name: field.type for field in sink.spec.schema.fields}
    return [
        _fitted(source, target.type, taken[target.name]).alias(target.name)
        for source, target in zip(given, wanted, strict=True)
    ]


def _fitted(source: Field, declared: DataType, taken: DataType) -> Column:
    """A value as the type that the table declares, then as the one that the connector takes."""
    column = _column(source.name)
    if alike(declared, taken):
        return column.cast(spark_type(taken))
    return _computed(cast(coerce(ColumnRef(source.name, type=source.type), declared), taken))


def _group(below: Node, members: list[tuple[Output, Sink]], reading: Reading) -> DataFrame:
    """The branches of ``members`` side by side over one reading of ``below``.

    A branch's filters become conditions, so that what a row does not reach is not computed for it, as if the branch
    ran alone.
    """
    rows = _rows(below, reading)
    hidden = _hidden(rows)
    kept = {f"__base_{i}": name for i, name in enumerate(rows.columns) if name not in hidden}
    frame = rows.select(*(_column(name).alias(alias) for alias, name in kept.items()), *hidden)
    done: list[str] = []
    for output, sink in members:
        carried = [*kept, *hidden, *done]
        if isinstance(sink.input, DeadLetters):
            frame = frame.select(*carried, F.col(DEAD_LETTER).alias(str(output.column)))
            done.append(str(output.column))
            continue
        of_table = _of_rows(frame, F.lit(True), F.lit(False))
        current = frame.select(*carried, of_table.alias("__kept"), *_originals(kept))
        for node in calculations(sink.input):
            if isinstance(node, AssignWatermarks):
                current = _event_time(node, current, reading)
            elif isinstance(node, Filter):
                names = node.schema.names
                kept_now = (F.col("__kept") & F.coalesce(_computed(node.condition), F.lit(False))).alias("__kept")
                current = current.select(*carried, kept_now, *(_column(name) for name in names))
            else:
                columns = [F.when(F.col("__kept"), _computed(item.expression)).alias(item.name) for item in node.items]
                current = current.select(*carried, "__kept", *columns)
        row = F.when(F.col("__kept"), F.struct(*_sink_columns(sink))).alias(str(output.column))
        frame = current.select(*carried, row)
        done.append(str(output.column))
    wanted = F.lit(False)
    for name in done:
        wanted = wanted | F.col(name).isNotNull()
    return frame.select(*done, *(name for name in hidden if name != DEAD_LETTER)).where(wanted)


def _originals(kept: Mapping[str, str]) -> list[Column]:
    return [F.col(alias).alias(name) for alias, name in kept.items()]


def _column(name: str) -> Column:
    return F.col(quoted_name(name))


def _computed(expression: Expression) -> Column:
    return F.expr(spark_sql(expression))


def _row_mapper(
    rows: Callable[[Iterator[tuple[Any, ...]]], Iterator[tuple[Any, ...]]],
    given: RowType,
    made: RowType,
    hidden: list[str],
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    schema = arrow_schema(made)

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            columns = [batch.column(i).to_pylist() for i in range(len(given.fields))]
            out: list[tuple[Any, ...]] = []
            origin: list[int] = []
            passed = _dead(batch)
            for i, row in enumerate(zip(*columns, strict=True)):
                made_of_row = [(None,) * len(schema)] if i in passed else list(rows(iter((row,))))
                out.extend(made_of_row)
                origin.extend([i] * len(made_of_row))
            values = list(zip(*out, strict=True)) if out else [()] * len(schema)
            arrays = [pa.array(column, kind) for column, kind in zip(values, schema.types, strict=True)]
            taken = [batch.column(name).take(pa.array(origin, pa.int64())) for name in hidden]
            yield pa.RecordBatch.from_arrays([*arrays, *taken], names=[*schema.names, *hidden])

    return guarded(run)


def _dead(batch: pa.RecordBatch) -> frozenset[int]:
    """Which rows are dead letters."""
    if DEAD_LETTER not in batch.schema.names:
        return frozenset()
    return frozenset(np.flatnonzero(batch.column(DEAD_LETTER).is_valid()).tolist())
