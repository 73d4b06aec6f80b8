"""The work on the rows of a scan on their way through Spark to the sinks of a job."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass

import pyarrow as pa

from penstock.flow.kernels.session import UNKNOWN, Session
from penstock.flow.rows.calc import Calc, Projection, calc_of, calc_of_rows
from penstock.flow.rows.calls import FunctionStage
from penstock.flow.rows.expressions import NoKernel
from penstock.plan.functions import OpenFunction
from penstock.plan.nodes import DeadLetters, MapRows, Node, Scan, Sink
from penstock.plan.walk import scans
from penstock.spi import DEAD_LETTER, HIDDEN, INSERTIONS, KIND, Task
from penstock.types import TINYINT, arrow_schema, arrow_type


@dataclass(frozen=True)
class SinkBranch:
    """A sink, and the struct column of its rows; none if the job has one sink, whose columns are those of the rows."""

    sink: Sink
    column: str | None


@dataclass(frozen=True, eq=False)
class _Fan:
    """The paths of the rows of a scan, or of a function: to sinks, by column, and to further functions."""

    sinks: tuple[tuple[str | None, Calc], ...]
    calls: tuple[tuple[Calc, FunctionStage, _Fan], ...]

    def functions(self) -> Iterator[FunctionStage]:
        """The functions, each once."""
        for _, called, above in self.calls:
            yield called
            yield from above.functions()

    def rows(
        self, functions: Mapping[int, OpenFunction], batch: pa.RecordBatch
    ) -> Iterator[tuple[str | None, Calc, pa.RecordBatch]]:
        """The rows of each sink that a batch without dead letters gives any."""
        for column, calc in self.sinks:
            made = calc.rows(batch)
            if made.num_rows:
                yield column, calc, made
        for calc, called, above in self.calls:
            given = calc.rows(batch)
            if given.num_rows:
                yield from above.rows(functions, called.batch(functions[id(called)], given))


@dataclass(frozen=True, eq=False)
class ScanWork:
    """Computes the rows of sinks from the batches of a ``scan``: those of several in struct columns, null in rows of
    others. Picklable.

    ``letters`` are the columns of the sinks that take dead letters, as in :class:`SinkBranch`. ``watermarked``: an
    expression reads the column :data:`penstock.spi.WATERMARK` of the batches.
    """

    scan: Scan
    branches: tuple[SinkBranch, ...]
    fan: _Fan
    letters: tuple[str | None, ...]
    watermarked: bool
    #: Of what is computed. :data:`HIDDEN` and, where rows have kinds, :data:`KIND` follow.
    computed: pa.Schema

    @property
    def carried(self) -> pa.Schema:
        """The columns that follow those of the sinks."""
        kinds = [] if self.scan.spec.capabilities.kinds == INSERTIONS else [pa.field(KIND, arrow_type(TINYINT))]
        return pa.schema([*arrow_schema(HIDDEN), *kinds])

    @property
    def schema(self) -> pa.Schema:
        """All columns."""
        return pa.schema([*self.computed, *self.carried])

    def batches(self, task: Task, given: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The rows of the sinks. Raises RecordError for a row that cannot be computed, with the number of its partition
        and its offset, and without a topic."""
        with ExitStack() as stack:
            functions: dict[int, OpenFunction] = {}
            for called in self.fan.functions():
                functions[id(called)] = opened = called.opened(task)
                stack.callback(opened.close)
            for each in given:
                yield from self._batch(functions, each)

    def _batch(self, functions: Mapping[int, OpenFunction], batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        letters = None
        if DEAD_LETTER in batch.schema.names:
            if batch.column(DEAD_LETTER).null_count < batch.num_rows:
                letters = batch.filter(batch.column(DEAD_LETTER).is_valid())
                batch = batch.filter(batch.column(DEAD_LETTER).is_null())
            batch = batch.drop_columns([DEAD_LETTER])
        if batch.num_rows:
            for column, calc, made in self.fan.rows(functions, batch):
                yield self._placed(column, made.columns[: len(calc.schema)], made)
        if letters is not None:
            for column in self.letters:
                yield self._placed(column, letters.column(DEAD_LETTER).flatten(), letters)

    def _placed(self, column: str | None, values: Sequence[pa.Array], rows: pa.RecordBatch) -> pa.RecordBatch:
        """The ``values`` of a sink's columns where they belong, with what is carried of ``rows``."""
        arrays = list(values)
        if column is not None:
            fields = list(self.computed.field(column).type)
            arrays = [
                pa.StructArray.from_arrays(arrays, fields=fields)
                if each.name == column
                else pa.nulls(rows.num_rows, each.type)
                for each in self.computed
            ]
        for each in self.carried:
            known = each.name in rows.schema.names
            arrays.append(rows.column(each.name) if known else pa.nulls(rows.num_rows, each.type))
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema)


def scan_works(branches: Sequence[SinkBranch], session: Session = UNKNOWN) -> list[ScanWork]:
    """The work on the rows of each scan that the sinks of ``branches`` take theirs from. Raises UnsupportedError for an
    expression that has no kernel, and SchemaError for a sink that is given too many or too few columns."""
    by_scan: dict[Scan, list[SinkBranch]] = {}
    for branch in branches:
        (scan,) = scans(branch.sink)
        by_scan.setdefault(scan, []).append(branch)
    return [_work(scan, each, session) for scan, each in by_scan.items()]


def _work(scan: Scan, branches: Sequence[SinkBranch], session: Session) -> ScanWork:
    letters = tuple(each.column for each in branches if isinstance(each.sink.input, DeadLetters))
    others = [each for each in branches if not isinstance(each.sink.input, DeadLetters)]
    watermarked = False
    try:
        fan = _fan(scan, others, session, watermarked=False)
    except _NoKernelError:
        watermarked = True
        fan = _fan(scan, others, session, watermarked=True)
    (only, *more) = branches
    whole = _struct(only.sink)
    computed = list(whole) if only.column is None else [pa.field(str(e.column), _struct(e.sink)) for e in (only, *more)]
    return ScanWork(scan, tuple(branches), fan, letters, watermarked, pa.schema(computed))


def _struct(sink: Sink) -> pa.DataType:
    """The type of a sink's rows, in the types that its connector takes."""
    taken = {field.name: field.type for field in sink.spec.schema.fields}
    return pa.struct([pa.field(name, arrow_type(taken[name])) for name in sink.schema.names])


class _NoKernelError(Exception):
    """An expression reads a column that the batches do not have."""


def _known(calc: Calc | NoKernel) -> Calc:
    if isinstance(calc, NoKernel):
        raise _NoKernelError(calc)
    return calc


def _fan(below: Scan | MapRows, branches: Sequence[SinkBranch], session: Session, *, watermarked: bool) -> _Fan:
    """The paths of the rows of ``below``. Raises _NoKernelError."""
    own: list[tuple[str | None, Calc]] = []
    calls: dict[MapRows, list[SinkBranch]] = {}
    for each in branches:
        call = _next_call(below, each.sink)
        if call is not None:
            calls.setdefault(call, []).append(each)
            continue
        rows = Projection.from_node(each.sink.input)
        calc = calc_of_rows(rows, rows.sink_columns(each.sink), session, watermarked=watermarked)
        own.append((each.column, _known(calc)))
    above = tuple(
        (
            _known(calc_of(call.input, session, watermarked=watermarked)),
            FunctionStage.from_node(call),
            _fan(call, members, session, watermarked=watermarked),
        )
        for call, members in calls.items()
    )
    return _Fan(tuple(own), above)


def _next_call(below: Node, sink: Sink) -> MapRows | None:
    """The first function above ``below`` that the rows of a sink go through."""
    found: MapRows | None = None
    node: Node = sink
    while node != below:
        found = node if isinstance(node, MapRows) else found
        (node,) = node.inputs
    return found
