"""Jobs whose reading tasks compute, encode and publish rows by themselves: no row enters the JVM."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import pyarrow as pa

from penstock.flow.kernels.session import UNKNOWN, Session
from penstock.flow.rows.calc import Calc, Projection, calc_of, calc_of_rows
from penstock.flow.rows.calls import FunctionStage, function_stage
from penstock.flow.rows.expressions import NoKernel
from penstock.plan.expressions import Expression
from penstock.plan.nodes import Node, Scan, Sink, scans
from penstock.plan.scalar_functions import is_deterministic
from penstock.plan.walk import base
from penstock.spi import DEAD_LETTER, Output, Stage, Task, WriterFactory

#: Rows that several sinks filter are gathered: so many for each of them, and no more than so many rows and bytes.
_GATHERED_ROWS_OF_EACH, _GATHERED_ROWS, _GATHERED_BYTES = 1 << 13, 1 << 18, 1 << 26


@dataclass(frozen=True, eq=False)
class Fused:
    """The work between the one ``scan`` of a job and its sinks, whose rows are where ``outputs`` say in the batches
    that it makes.

    There is one calc for all sinks that take the same rows, with their columns side by side, or one for each sink,
    whose rows are then in the struct column of its output.
    """

    scan: Scan
    outputs: tuple[Output, ...]
    calcs: tuple[Calc, ...]
    #: What the rows go through before: Python functions, and a calc below each.
    before: tuple[Calc | FunctionStage, ...] = ()

    def stage(self, writers: WriterFactory) -> Stage:
        """The computation, followed by a committer's writers."""
        structs = tuple(each.column for each in self.outputs if each.column not in (None, DEAD_LETTER))
        work = Branches(self.calcs, tuple(map(str, structs))) if structs else self.calcs[0]
        calls = writers.calls or any(each.calls for each in (*self.before, *self.calcs))
        return Stage(partial(_staged, (*self.before, work), writers), writers.schema, calls)


def _staged(
    works: Sequence[Calc | FunctionStage | Branches],
    writers: WriterFactory,
    task: Task,
    given: Iterator[pa.RecordBatch],
) -> Iterator[pa.RecordBatch]:
    batches = given
    for work in works:
        batches = work.batches(task, batches) if isinstance(work, FunctionStage) else work.batches(batches)
    return writers.run(task, batches)


@dataclass(frozen=True, eq=False)
class Branches:
    """The rows of several sinks that filter differently: a batch has one of the struct columns ``names``, and one of
    dead letters none. Picklable."""

    calcs: tuple[Calc, ...]
    names: tuple[str, ...]

    def batches(self, given: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The rows of each calc, one after the other for some of the given batches at a time, then their dead letters.
        Raises RecordError as :meth:`Calc.batch`."""
        for each in _gathered(given, min(_GATHERED_ROWS, _GATHERED_ROWS_OF_EACH * len(self.calcs))):
            letters = None
            if DEAD_LETTER in each.schema.names and each.column(DEAD_LETTER).null_count < each.num_rows:
                letters = each.filter(each.column(DEAD_LETTER).is_valid())
                each = each.filter(each.column(DEAD_LETTER).is_null())  # noqa: PLW2901
            for number, calc in enumerate(self.calcs):
                made = calc.rows(each)
                if made.num_rows:
                    yield self._placed(made, number)
            if letters is not None:
                yield letters.select([name for name in letters.schema.names if name not in self.calcs[0].columns])

    def _placed(self, rows: pa.RecordBatch, number: int) -> pa.RecordBatch:
        """``rows`` of a calc in its struct column."""
        made = self.calcs[number].schema
        struct = pa.StructArray.from_arrays(rows.columns[: len(made)], fields=list(made))
        carried = rows.schema.names[len(made) :]
        return pa.RecordBatch.from_arrays([struct, *rows.columns[len(made) :]], names=[self.names[number], *carried])


def _gathered(given: Iterator[pa.RecordBatch], rows: int) -> Iterator[pa.RecordBatch]:
    """The same rows in batches of at least so many, as far as there are: many conditions are computed on them, each of
    which leaves a few rows over."""
    waiting: list[pa.RecordBatch] = []
    count = size = 0
    for each in given:
        waiting.append(each)
        count, size = count + each.num_rows, size + each.nbytes
        if count >= rows or size >= _GATHERED_BYTES:
            yield pa.concat_batches(waiting)
            waiting, count, size = [], 0, 0
    if waiting:
        yield pa.concat_batches(waiting)


def fused(sinks: Sequence[Sink], session: Session = UNKNOWN) -> Fused | NoKernel:
    """What reading tasks can do for these sinks, or the first thing that makes the job a dataflow.

    Raises SchemaError for a sink that is given too many or too few columns.
    """
    base_node = _base(sinks)
    if isinstance(base_node, NoKernel):
        return base_node
    found = _before(base_node, session)
    if isinstance(found, NoKernel):
        return found
    scan, before = found
    rows = {i: Projection.from_node(sink.input) for i, sink in enumerate(sinks) if not sink.takes_dead_letters}
    columns = {i: each.sink_columns(sinks[i]) for i, each in rows.items()}
    conditions = [each.conditions for each in rows.values()]
    # Random conditions are as many as sinks, although they are written alike.
    apart = any(each != conditions[0] or not all(map(is_deterministic, each)) for each in conditions[1:])
    if apart:
        works = [(rows[i], columns[i]) for i in rows]
    else:
        beside = {f"{i}.{name}": value for i, each in columns.items() for name, value in each.items()}
        works = [(next(iter(rows.values()), Projection(base_node, (), {})), beside)]
    calcs = []
    for work, each in works:
        calc = calc_of_rows(work, each, session)
        if isinstance(calc, NoKernel):
            return calc
        calcs.append(calc)
    outputs = tuple(_output(i, sink, columns.get(i), apart) for i, sink in enumerate(sinks))
    return Fused(scan, outputs, tuple(calcs), before)


def _output(index: int, sink: Sink, columns: dict[str, Expression] | None, apart: bool) -> Output:
    if columns is None:
        return Output(index, sink.table, sink.spec, sink.schema, DEAD_LETTER)
    if apart:
        return Output(index, sink.table, sink.spec, sink.schema, f"sink_{index}")
    return Output(index, sink.table, sink.spec, sink.schema, None, tuple(f"{index}.{name}" for name in columns))


def _base(sinks: Sequence[Sink]) -> Node | NoKernel:
    """The one scan, or function above a scan, that all sinks take their rows from. Dead letters come from the scan."""
    bases = list(dict.fromkeys(base(sink.input) for sink in sinks if not sink.takes_dead_letters))
    letters = list(dict.fromkeys(base(sink.input) for sink in sinks if sink.takes_dead_letters))
    for each in (*bases, *letters):
        if not isinstance(each, Scan) and function_stage(each) is None:
            return NoKernel(f"a {type(each).__name__} node")
    if len(bases) > 1:
        shared = any(function_stage(each) is not None for each in bases)
        return NoKernel("Python functions side by side" if shared else "several sources")
    (only,) = bases or letters[:1]
    if any(each != scans(only)[0] for each in letters):
        return NoKernel("several sources")
    return only


def _before(node: Node, session: Session) -> tuple[Scan, tuple[Calc | FunctionStage, ...]] | NoKernel:
    """The scan at or below a node, and what its rows go through up to the node, or what makes the job a dataflow."""
    works: list[Calc | FunctionStage] = []
    at: Node = node
    while (stage := function_stage(at)) is not None:
        (below,) = at.inputs
        calc = calc_of(below, session)
        if isinstance(calc, NoKernel):
            return calc
        works += [stage, calc]
        at = base(below)
    if not isinstance(at, Scan):
        return NoKernel(f"a {type(at).__name__} node")
    return at, tuple(reversed(works))
