"""Plan nodes to DataFrames: one frame per job, which reads each source once and holds the rows of every sink.

Spark plans, runs and retries the tasks, and carries the rows. Kernels compute them, where they are read if the scan's
tasks can do more than read.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial, reduce
from typing import Any, Protocol

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import DataType, StructField, StructType

from penstock.errors import Problem, SchemaError
from penstock.flow.graph.scan_work import ScanWork, SinkBranch, scan_works
from penstock.flow.kernels.session import Session
from penstock.flow.kernels.vectors import column, numbers, valid_rows
from penstock.flow.rows.calc import Calc, Projection, calc_of, calc_of_rows
from penstock.flow.rows.calls import FunctionStage
from penstock.flow.rows.expressions import NoKernel
from penstock.plan.expressions import Literal, call
from penstock.plan.nodes import AssignWatermarks, MapRows, Node, Scan, Sink
from penstock.plan.walk import base, fold, scans
from penstock.spi import DEAD_LETTER, HIDDEN, KIND, Output, Stage, Task, mapped
from penstock.types import BIGINT, TINYINT, arrow_type, spark_type
from penstock.types import DataType as LogicalType

#: The metadata of a column by which Spark's stateful operators recognise the event time.
_EVENT_TIME = {"spark.watermarkDelayMs": 0}
#: The column of a frame with the watermarks of its rows, in ms since 1970.
_MEASURED = "__measured"


class ScanFrames(Protocol):
    """Where the frames of scans come from."""

    def position(self, scan: Scan) -> int:
        """The position of the scan among those of the job. Scans are read in this order."""
        ...

    def frame(self, scan: Scan) -> DataFrame:
        """The rows of a scan. Called once for each scan, unless :meth:`staged` is."""
        ...

    def staged(self, scan: Scan, stage: Stage, columns: StructType | None = None) -> DataFrame:
        """The rows that ``stage`` makes of those of a scan where they are read, as Spark's ``columns``."""
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


def build(sinks: Sequence[Sink], outputs: Sequence[Output], scan_frames: ScanFrames, session: Session) -> DataFrame:
    """The frame that holds the rows of all ``sinks``, where ``outputs`` (:func:`computed`) say. Raises as
    :func:`penstock.flow.graph.scan_work.scan_works`."""
    branches = [SinkBranch(sink, output.column) for output, sink in zip(outputs, sinks, strict=True)]
    works = sorted(scan_works(branches, session), key=lambda work: scan_frames.position(work.scan))
    frames = (_frame(work, sinks, scan_frames, session) for work in works)
    return reduce(lambda frame, other: frame.unionByName(other, allowMissingColumns=True), frames)


def _frame(work: ScanWork, sinks: Sequence[Sink], scan_frames: ScanFrames, session: Session) -> DataFrame:
    """The rows that a scan gives the sinks."""
    columns = StructType([*_columns(work.branches), *_carried(work)])
    watched = _measuring(work.scan, sinks)
    if not work.watermarked and watched is None:
        return scan_frames.staged(work.scan, Stage(work.batches, work.schema), columns)
    frame = scan_frames.frame(work.scan)
    if watched is not None:
        frame = _observed(watched, frame, scan_frames, session)
    return mapped(frame, partial(_run, work.batches, _types(work.scan)), columns)


def _columns(branches: Sequence[SinkBranch]) -> list[StructField]:
    """The columns of the sinks, in the types that their connectors take."""
    rows = []
    for branch in branches:
        taken = {field.name: field.type for field in branch.sink.spec.schema.fields}
        row = StructType([_field(name, taken[name]) for name in branch.sink.schema.names])
        if branch.column is None:
            return row.fields
        rows.append(StructField(branch.column, row))
    return rows


def _carried(work: ScanWork) -> list[StructField]:
    types = {**{field.name: field.type for field in HIDDEN.fields}, KIND: TINYINT}
    return [_field(each.name, types[each.name]) for each in work.carried]


def _field(name: str, data_type: LogicalType) -> StructField:
    return StructField(name, DataType.fromDDL(spark_type(data_type)))


def _run(work: Any, types: dict[str, pa.DataType], batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """``work`` in a task, on batches in their own types instead of those of Spark's session."""
    yield from work(_task(), (_typed(each, types) for each in batches))


def _typed(batch: pa.RecordBatch, types: dict[str, pa.DataType]) -> pa.RecordBatch:
    """The batch with its points in time in UTC, not in the session's zone."""
    columns = [
        column if types.get(name, column.type) == column.type else column.cast(types[name])
        for name, column in zip(batch.schema.names, batch.columns, strict=True)
    ]
    return pa.RecordBatch.from_arrays(columns, names=batch.schema.names)


def _types(node: Node) -> dict[str, pa.DataType]:
    """The types of a node's columns in its batches."""
    native = dict(node.spec.capabilities.native) if isinstance(node, Scan) else {}
    return {each.name: arrow_type(native.get(each.name, each.type)) for each in node.schema.fields}


def rows_of(node: Node, scan_frames: ScanFrames, session: Session) -> DataFrame:
    """The rows of a node, dead letters among them. Raises UnsupportedError for an expression that has no kernel."""
    works: list[Calc | FunctionStage] = []
    at = node
    while True:
        watermarked = isinstance(base(at), Scan)
        calc = calc_of(at, session, watermarked=watermarked)
        if isinstance(calc, NoKernel):
            raise SchemaError((Problem(f"{calc} is not there", where=f"table '{scans(node)[0].table}'"),))
        works.append(calc)
        at = base(at)
        if not isinstance(at, MapRows):
            break
        works.append(FunctionStage.from_node(at))
        at = at.input
    if not isinstance(at, Scan):
        raise SchemaError((Problem(f"the engine does not run {type(at).__name__} nodes"),))
    frame = scan_frames.frame(at)
    watched = _measuring(at, [node])
    if watched is not None:
        frame = _observed(watched, frame, scan_frames, session)
    hidden = [each for each in frame.schema.fields if each.name in (*HIDDEN.names, KIND, DEAD_LETTER)]
    columns = [_field(each.name, each.type) for each in node.schema.fields]
    chain = partial(_chained, tuple(reversed(works)), tuple(each.name for each in (*columns, *hidden)))
    rows = mapped(frame, partial(_run, chain, _types(at)), StructType([*columns, *hidden]))
    return rows.withMetadata(node.column, _EVENT_TIME) if isinstance(node, AssignWatermarks) else rows


def _chained(
    works: Sequence[Calc | FunctionStage], names: Sequence[str], task: Task, given: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    batches = given
    for work in works:
        batches = work.batches(task, batches) if isinstance(work, FunctionStage) else work.batches(batches)
    yield from (each.select(list(names)) for each in batches)


# --- event time ----------------------------------------------------------------------------------------------


def _measuring(scan: Scan, roots: Sequence[Node]) -> AssignWatermarks | None:
    """The node with the event time of a scan whose tasks do not measure it."""
    if scan.spec.capabilities.measures:
        return None
    found: list[AssignWatermarks] = []

    def visit(node: Node, _: tuple[None, ...]) -> None:
        if isinstance(node, AssignWatermarks) and base(node) == scan:
            found.append(node)

    fold(roots, visit)
    return found[0] if found else None


def _observed(node: AssignWatermarks, frame: DataFrame, scan_frames: ScanFrames, session: Session) -> DataFrame:
    """``frame``, of the scan below the node, whose watermarks Spark observes (decision 0019)."""
    rows = Projection.from_node(node.input)
    value = rows.substitute(node.watermark)
    for condition in rows.conditions:
        value = call("CASE", condition, value, Literal(None, type=value.type), type=value.type)
    measured = calc_of_rows(Projection(rows.base, (), {}), {_MEASURED: value}, session)
    if isinstance(measured, NoKernel):
        raise SchemaError((Problem(f"{measured} is not there", where=f"table '{scans(node)[0].table}'"),))
    assert isinstance(rows.base, Scan)  # noqa: S101 - so it was found
    columns = StructType([_field(_MEASURED, BIGINT), *frame.schema.fields])
    wider = mapped(frame, partial(_run, partial(_measured, measured), _types(rows.base)), columns)
    return scan_frames.watched(node, wider, F.col(_MEASURED)).drop(_MEASURED)


def _measured(calc: Calc, _: Task, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The batches with their watermarks as a first column, and dead letters last."""
    for each in batches:
        batch = each
        if DEAD_LETTER in each.schema.names:
            letters = each.column(DEAD_LETTER)
            batch = pa.concat_batches([each.filter(letters.is_null()), each.filter(letters.is_valid())])
        moments = calc.batch(batch).column(0)
        millis = column(numbers(moments.view(pa.int64())) // 1000, valid_rows(moments), pa.int64())
        yield pa.RecordBatch.from_arrays([millis, *batch.columns], names=[_MEASURED, *batch.schema.names])


def _task() -> Task:
    """The running task, as user-defined functions see it."""
    context = TaskContext.get()
    return Task(0, 1) if context is None else Task(context.partitionId(), 0, attempt=context.attemptNumber())
