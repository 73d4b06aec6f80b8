"""Plan nodes to DataFrames: one frame per job, which reads each source once and holds the rows of every sink."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial, reduce
from operator import or_
from typing import Protocol

import numpy as np
import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from penstock.engine.translate.expressions import millis, spark_sql
from penstock.engine.translate.kernels import computable
from penstock.errors import Problem, SchemaError
from penstock.flow.calls import Called, beside
from penstock.plan.enforcing import not_null
from penstock.plan.expressions import ColumnRef, Expression, cast, coerce
from penstock.plan.nodes import AssignWatermarks, DeadLetters, Filter, MapRows, Node, Project, Scan, Sink
from penstock.plan.walk import calculations, fold, scans
from penstock.spi import DEAD_LETTER, HIDDEN, KIND, Output, Task, mapped
from penstock.types import DataType, Field, quoted_name, spark_ddl, spark_type
from penstock.types.casts import alike, widens

#: The metadata of a column by which Spark's stateful operators recognise the event time.
_EVENT_TIME = {"spark.watermarkDelayMs": 0}


class Reading(Protocol):
    """Where the frames of scans come from."""

    def position(self, scan: Scan) -> int:
        """The position of the scan among those of the job. Scans are read in this order."""
        ...

    def frame(self, scan: Scan) -> DataFrame:
        """The rows of a scan. Called once for each scan."""
        ...

    def watched(self, node: AssignWatermarks, frame: DataFrame, watermark: Column) -> DataFrame:
        """``frame`` of the node's rows, with its ``watermark`` (BIGINT) observed if its scan needs it."""
        ...


def computed(sinks: Sequence[Sink]) -> tuple[Output, ...]:
    """The place of each sink's rows in the frame of :func:`build`.

    With one sink the frame's columns are the sink's. With several, sink ``i`` has the struct column ``sink_i``,
    null in rows that are not for it, so that rows for several sinks are read and computed once.
    """
    if len(sinks) == 1:
        sink = sinks[0]
        return (Output(0, sink.table, sink.spec, sink.schema, None, sink.schema.names),)
    return tuple(Output(i, sink.table, sink.spec, sink.schema, f"sink_{i}") for i, sink in enumerate(sinks))


def build(sinks: Sequence[Sink], outputs: Sequence[Output], reading: Reading) -> DataFrame:
    """The frame that holds the rows of all ``sinks``, where ``outputs`` (:func:`computed`) say."""
    if len(sinks) == 1:
        frame = rows_of(sinks[0].input, reading)
        frame, values = _sink_columns(frame, sinks[0])
        columns = zip(sinks[0].schema.names, values, strict=True)
        return frame.select(*(_of_rows(frame, each).alias(name) for name, each in columns), *_hidden(frame))
    groups: dict[Scan, list[_Branch]] = {}
    for output, sink in zip(outputs, sinks, strict=True):
        (scan,) = scans(sink)
        groups.setdefault(scan, []).append(_Branch(output, sink))
    frames = (_side_by_side(scan, groups[scan], reading) for scan in sorted(groups, key=reading.position))
    return reduce(lambda frame, other: frame.unionByName(other, allowMissingColumns=True), frames)


def rows_of(node: Node, reading: Reading) -> DataFrame:
    """The rows of a node."""
    found: tuple[DataFrame, ...] = fold((node,), partial(_frame, reading))
    return found[0]


def _frame(reading: Reading, node: Node, inputs: tuple[DataFrame, ...]) -> DataFrame:
    match node, inputs:
        case Scan(), ():
            return _declared(reading.frame(node), node)
        case AssignWatermarks(), (frame,):
            return _event_time(node, frame, reading)
        case Filter(condition=condition), (frame,):
            wider, (condition,) = computable(frame, (condition,))
            return wider.where(_of_rows(wider, _computed(condition), F.lit(True))).select(*map(_column, frame.columns))
        case Project(items=items), (frame,):
            frame, values = computable(frame, [item.expression for item in items])
            columns = [_of_rows(frame, _computed(v)).alias(item.name) for item, v in zip(items, values, strict=True)]
            return frame.select(*columns, *_hidden(frame))
        case MapRows(schema=schema), (frame,):
            called = Called.of(node)

            def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
                yield from called.batches(_task(), batches)

            return mapped(frame, run, ", ".join([spark_ddl(schema), *_types_of(frame, _hidden(frame))]))
    raise SchemaError((Problem(f"the engine does not run {type(node).__name__} nodes"),))


def _declared(frame: DataFrame, scan: Scan) -> DataFrame:
    """``frame`` with the columns of ``scan`` in the types that its table declares."""
    types = {field.name: field.type for field in scan.schema.fields}
    casts = {
        name: cast(ColumnRef(name, type=native), types[name])
        for name, native in scan.spec.capabilities.native
        if not widens(native, types[name])
    }
    if not casts:
        return frame
    wider, values = computable(frame, list(casts.values()))
    columns = dict(zip(casts, map(_computed, values), strict=True))
    return wider.withColumns(columns).select(*map(_column, frame.columns))


def _hidden(frame: DataFrame) -> list[str]:
    """The columns of a frame that belong to its rows, but to no table."""
    return [name for name in (*HIDDEN.names, KIND, DEAD_LETTER) if name in frame.columns]


def _of_rows(frame: DataFrame, value: Column, otherwise: Column | None = None) -> Column:
    """``value``, computed for the table's rows but not for dead letters."""
    if DEAD_LETTER not in frame.columns:
        return value
    return F.when(F.col(DEAD_LETTER).isNull(), value).otherwise(F.lit(None) if otherwise is None else otherwise)


def _event_time(node: AssignWatermarks, frame: DataFrame, reading: Reading) -> DataFrame:
    """``frame`` with its event time marked for Spark. The source moves the watermark (decision 0019)."""
    marked = _column(node.column).alias(node.column, metadata=_EVENT_TIME)
    wider, (watermark,) = computable(frame, (node.watermark,))
    return reading.watched(node, wider, F.expr(millis(watermark))).select(
        *(marked if name == node.column else _column(name) for name in frame.columns)
    )


def _sink_columns(frame: DataFrame, sink: Sink, kept: str = "") -> tuple[DataFrame, list[Column]]:
    """``frame``, perhaps wider, and the values of the sink's columns, in their order; with ``kept``, as
    :func:`computable` takes it."""
    given, wanted = sink.input.schema.fields, sink.schema.fields
    if len(given) != len(wanted):
        reason = f"has {len(wanted)} columns but is given {len(given)}"
        raise SchemaError((Problem(reason, sink.table, hint="list the columns in INSERT INTO, or select as many"),))
    taken = {field.name: field.type for field in sink.spec.schema.fields}
    values = [
        _fitted(not_null(_ref(source), target, sink), target.type, taken[target.name])
        for source, target in zip(given, wanted, strict=True)
    ]
    frame, values = computable(frame, values, kept)
    types = [spark_type(taken[each.name]) for each in wanted]
    return frame, [_computed(each).cast(type_) for each, type_ in zip(values, types, strict=True)]


def _ref(source: Field) -> Expression:
    return ColumnRef(source.name, type=source.type)


def _fitted(value: Expression, declared: DataType, taken: DataType) -> Expression:
    """A value cast to the type that the table declares, then to the one that the connector takes."""
    return value if alike(declared, taken) else cast(coerce(value, declared), taken)


@dataclass(frozen=True)
class _Branch:
    """A sink, and the place of its rows in the frame."""

    output: Output
    sink: Sink

    def next_call(self, base: Node) -> MapRows | None:
        """The first Python function above ``base`` that the rows of this branch go through."""
        found: MapRows | None = None
        node: Node = self.sink
        while node != base:
            found = node if isinstance(node, MapRows) else found
            (node,) = node.inputs
        return found


@dataclass(frozen=True)
class _Base:
    """Rows of ``node`` in a frame with several branches: its columns under the names ``aliases``, in the rows for which
    ``flag`` is true."""

    node: Node
    aliases: Mapping[str, str]
    flag: str

    @property
    def names(self) -> tuple[str, ...]:
        """All columns."""
        return (*self.aliases, self.flag)


def _side_by_side(scan: Scan, branches: Sequence[_Branch], reading: Reading) -> DataFrame:
    """The rows of several sinks that take them from one reading of ``scan``."""
    rows = rows_of(scan, reading)
    hidden = _hidden(rows)
    aliases = {f"__base_{i}": name for i, name in enumerate(name for name in rows.columns if name not in hidden)}
    base = _Base(scan, aliases, "__of_base")
    of_table = _of_rows(rows, F.lit(True), F.lit(False)).alias(base.flag)
    frame = rows.select(*(_column(name).alias(alias) for alias, name in aliases.items()), of_table, *hidden)
    frame, done = _branches(frame, base, branches, (), reading)
    wanted = reduce(or_, (F.col(name).isNotNull() for name in done))
    return frame.select(*done, *(name for name in hidden if name != DEAD_LETTER)).where(wanted)


def _branches(
    frame: DataFrame, base: _Base, branches: Sequence[_Branch], done: tuple[str, ...], reading: Reading
) -> tuple[DataFrame, tuple[str, ...]]:
    """``frame`` with a column for each of the ``branches`` above ``base``, and the names of all columns of branches.

    The columns ``done``, of earlier branches and of bases that later branches need, stay.

    A branch's filters become conditions, so that no expression is computed for rows that do not reach it, as if the
    branch ran alone. A Python function that several branches share runs once.
    """
    calls: dict[MapRows, list[_Branch]] = {}
    for branch in branches:
        call, column = branch.next_call(base.node), str(branch.output.column)
        if call is not None:
            calls.setdefault(call, []).append(branch)
            continue
        carried = [*base.names, *_hidden(frame), *done]
        if isinstance(branch.sink.input, DeadLetters):
            frame = frame.select(*carried, F.col(DEAD_LETTER).alias(column))
        else:
            current = _calculated(frame, base, branch.sink.input, carried, reading)
            current, columns = _sink_columns(current, branch.sink, "__kept")
            values = zip(branch.sink.schema.names, columns, strict=True)
            row = F.when(F.col("__kept"), F.struct(*(each.alias(name) for name, each in values))).alias(column)
            frame = current.select(*carried, row)
        done = (*done, column)
    for number, (call, members) in enumerate(calls.items()):
        last = number == len(calls) - 1
        carried = [*base.names, *_hidden(frame), *done]
        current = _calculated(frame, base, call.input, carried, reading)
        above = _Base(
            call,
            {f"{base.flag}_{number}_column_{i}": name for i, name in enumerate(call.schema.names)},
            f"{base.flag}_{number}",
        )
        kept = () if last else base.names
        frame, found = _branches(_fanned_out(current, call, above, carried), above, members, (*done, *kept), reading)
        done = tuple(name for name in found if name not in base.names)
    return frame, done


def _calculated(frame: DataFrame, base: _Base, node: Node, carried: Sequence[str], reading: Reading) -> DataFrame:
    """``frame`` with the columns of ``node`` in the rows where ``__kept`` is true. Only calculations are between
    ``base`` and ``node``."""
    names = [F.col(alias).alias(name) for alias, name in base.aliases.items()]
    current = frame.select(*carried, F.col(base.flag).alias("__kept"), *names)
    for step in calculations(node):
        if isinstance(step, AssignWatermarks):
            current = _event_time(step, current, reading)
        elif isinstance(step, Filter):
            current, (condition,) = computable(current, (step.condition,), "__kept")
            kept = (F.col("__kept") & F.coalesce(_computed(condition), F.lit(False))).alias("__kept")
            current = current.select(*carried, kept, *(_column(name) for name in step.schema.names))
        else:
            current, values = computable(current, [item.expression for item in step.items], "__kept")
            named = zip(step.items, values, strict=True)
            columns = [F.when(F.col("__kept"), _computed(value)).alias(item.name) for item, value in named]
            current = current.select(*carried, "__kept", *columns)
    return current


def _fanned_out(frame: DataFrame, call: MapRows, base: _Base, carried: Sequence[str]) -> DataFrame:
    """The rows of ``frame``, each followed by the rows that ``call`` makes of it, which are the rows of ``base``."""
    hidden = _hidden(frame)
    made = [f"{alias} {spark_type(field.type)}" for alias, field in zip(base.aliases, call.schema.fields, strict=True)]
    schema = [*_types_of(frame, carried), *made, f"{base.flag} BOOLEAN"]
    work = Called.of(call)

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        function = work.opened(_task())
        try:
            for batch in batches:
                kept = np.flatnonzero(batch.column("__kept").fill_null(False).to_numpy(zero_copy_only=False))
                arrays, origin = work.rows(function, batch, kept.astype(np.int64))
                arrays, rows, called = beside(np.arange(len(batch), dtype=np.int64), arrays, origin)
                own, all_rows = pa.array(rows, pa.int64(), mask=called), pa.array(rows, pa.int64())
                taken = [batch.column(name).take(all_rows if name in hidden else own) for name in carried]
                yield pa.RecordBatch.from_arrays([*taken, *arrays, pa.array(called)], names=[*carried, *base.names])
        finally:
            function.close()

    return mapped(frame, run, ", ".join(schema))


def _column(name: str) -> Column:
    return F.col(quoted_name(name))


def _computed(expression: Expression) -> Column:
    return F.expr(spark_sql(expression))


def _task() -> Task:
    """The running task, as functions of the user's see it."""
    context = TaskContext.get()
    return Task(0, 1) if context is None else Task(context.partitionId(), 0, attempt=context.attemptNumber())


def _types_of(frame: DataFrame, columns: Sequence[str]) -> list[str]:
    """Columns of a frame with their types, as in Spark's DDL."""
    return [f"{name} {frame.schema[name].dataType.simpleString()}" for name in columns]
