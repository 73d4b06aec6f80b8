"""A job as stages of tasks: branches from scans, vertices with operators, and the edges between them."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.columns.hashing import key_hashes
from penstock.flow.graph.arrival_order import number_arrivals, pass_on_arrivals, sort_by_arrival
from penstock.flow.graph.exchange import (
    EXCHANGE,
    EdgeId,
    EdgeKind,
    Origin,
    Receiver,
    Sender,
    Spill,
    concat_batches,
    hash_range,
    owner_of,
    split_by_edge,
)
from penstock.flow.graph.outlets import Outlets, Target
from penstock.flow.operators.contract import Combiner, Operator, OperatorContext
from penstock.flow.rows.calc import Calc
from penstock.flow.rows.calls import BatchTransform, TaskFunctions
from penstock.flow.rows.dead_letters import drop_dead_letters, select_dead_letters
from penstock.flow.rows.envelope import ARRIVED, HASH, WEIGHT
from penstock.flow.rows.rows_by_output import Division, divide_rows
from penstock.flow.rows.table_rows import SessionTables, TablesTask
from penstock.flow.state.changed_queries import ColumnNames
from penstock.flow.state.kept_output import KeptFile
from penstock.flow.state.schema_log import read_schemas
from penstock.flow.state.segments import SegmentRef, TableSpec
from penstock.flow.state.storage import Storage
from penstock.flow.state.store import StateStore
from penstock.flow.time.missing_times import check_times
from penstock.flow.time.watermarks import (
    NEVER,
    Clock,
    MeasuredWatermarks,
    PendingPartitions,
    ScanWatermarks,
    operator_clock,
)
from penstock.flow.windows.assigning import Chain
from penstock.plan.step_identity import SIDES
from penstock.spi import KIND, WATERMARK, Output, Stage, Task, unpickle_text
from penstock.types import RowKind

#: Rows that several outputs filter are gathered: so many for each of them, and no more than so many rows and bytes.
_GATHERED_ROWS_OF_EACH, _GATHERED_ROWS, _GATHERED_BYTES = 1 << 13, 1 << 19, 1 << 26
#: The last moment of the year 9999: rows have no later watermark, though the end of event time is one.
_LAST_MILLIS = 253_402_300_799_999


@dataclass(frozen=True)
class Edge:
    """A path for rows of ``schema`` to the input number ``input`` of the vertex number ``vertex``, by ``keys``. Rows of
    a ``local`` edge stay in their task, whose vertices have the same owners of keys. ``kinds``: the rows have the
    column :data:`KIND` instead of a weight. ``combined`` is the edge for what its ``combiner`` makes of many rows.
    ``numbered``: the rows have the column :data:`ARRIVED` too. ``time`` is a column that no row may lack. From a vertex
    it takes the side output ``tag``; with an empty one its result."""

    number: int
    schema: pa.Schema
    vertex: int
    input: int
    keys: tuple[str, ...]
    kinds: bool = False
    local: bool = False
    combiner: Combiner | None = None
    combined: Edge | None = None
    numbered: bool = False
    time: str = ""
    tag: str = ""

    @property
    def id(self) -> EdgeId:
        """The edge in the exchange."""
        return EdgeId(EdgeKind.ROWS, self.number)

    @property
    def sent(self) -> pa.Schema:
        """The schema of the batches that the vertex gets."""
        change = pa.field(KIND, pa.int8()) if self.kinds else pa.field(WEIGHT, pa.int64())
        places = [pa.field(ARRIVED, pa.int64())] if self.numbered else []
        return pa.schema([*self.schema, change, *places, pa.field(HASH, pa.uint64())])

    def append_hashes(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """Rows with the columns :attr:`schema` and that of the change, with the hash of their keys."""
        hashes = key_hashes([rows.column(name) for name in self.keys], rows.num_rows)
        columns = [rows.column(name) for name in self.sent.names[:-1]]
        return pa.RecordBatch.from_arrays([*columns, pa.array(hashes, pa.uint64())], schema=self.sent)


@dataclass(frozen=True)
class Branch:
    """The rows of a scan on their way to an edge; with ``output`` to that output of the job instead. Without ``calc``
    they are the scan's dead letters, or with ``tables`` rows of many tables; ``refusing`` is the output of those whose
    records that cannot be read are the dead letters. ``awaited`` are the numbers of the generators whose watermark it
    reads."""

    scan: int
    calc: BatchTransform | None
    edge: Edge | None = None
    output: int | None = None
    awaited: tuple[int, ...] = ()
    tables: SessionTables | None = None
    refusing: int | None = None


@dataclass(frozen=True)
class Reading:
    """The branches of the ``scan``. Those that are not ``alone`` get their rows by ``divisions``, as their numbers
    among the ``branches``. ``ordered``: the rows are numbered in the order in which they arrive."""

    scan: int
    branches: tuple[Branch, ...]
    alone: tuple[Branch, ...]
    divisions: tuple[Division, ...]
    ordered: bool

    @classmethod
    def from_branches(cls, scan: int, branches: Sequence[Branch]) -> Reading:
        """All ``branches`` of a scan, divided as far as they choose its rows alike."""
        divisions = divide_rows(
            {at: each.calc for at, each in enumerate(branches) if isinstance(each.calc, Calc) and not each.awaited}
        )
        divided = {number for each in divisions for takers in each.takers for number in takers}
        alone = tuple(each for at, each in enumerate(branches) if at not in divided)
        ordered = any(each.edge is not None and each.edge.numbered for each in branches) or have_one_output(branches)
        # What divided branches compute, the divisions have.
        kept = (replace(each, calc=None) if at in divided else each for at, each in enumerate(branches))
        return cls(scan, tuple(kept), alone, divisions, ordered)


@dataclass(frozen=True)
class Vertex:
    """An operator, or the end of an output (:class:`ChangelogWriter`), in stage ``stage`` after that of the scans.
    Its result goes through each of ``outs``, a side output through those that take it. ``generators`` are the numbers
    of the watermark generators of its rows. ``ttls`` are the times to live, in milliseconds, of the rows that it keeps
    of each of its inputs; None: forever. ``numbered`` are the inputs whose rows have the column :data:`ARRIVED`.
    ``awaited`` are the numbers of the generators whose watermark is read behind it.

    Raises ValueError for an edge that takes a side output that the operator does not have."""

    number: int
    stage: int
    operator: Operator
    outs: tuple[tuple[BatchTransform | None, Edge], ...] = ()
    output: int | None = None
    generators: tuple[int, ...] = ()
    ttls: tuple[int | None, ...] = ()
    numbered: frozenset[int] = frozenset()
    awaited: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        for _, edge in self.outs:
            if edge.tag and edge.tag not in self.operator.side_outputs:
                raise ValueError(f"the operator '{self.operator.uid}' has no side output '{edge.tag}'")

    @property
    def tables(self) -> tuple[TableSpec, ...]:
        """The tables of the operator, with their times to live."""
        if not any(self.ttls):
            return self.operator.tables
        return tuple(
            spec if spec.side is None else spec.with_time_to_live(self.ttls[spec.side]) for spec in self.operator.tables
        )

    def tables_named(self, names: Mapping[str, Mapping[str, str]]) -> tuple[TableSpec, ...]:
        """The tables, with the ``names`` that columns have in the state, by the side of the operator."""
        if not names:
            return self.tables
        sides = SIDES if len(self.ttls) > 1 else ("",)
        return tuple(replace(each, names=tuple(names.get(sides[each.side or 0], {}).items())) for each in self.tables)


@dataclass(frozen=True)
class BatchInstructions:
    """What the driver tells the tasks of one batch. ``owners`` tasks share the keys; ``whole``: the one reading task
    does everything. ``name`` distinguishes the attempt at the batch; names of segments begin with it. ``tasks`` is the
    number of reading tasks. ``tables`` has the state before the batch, ``now_ms`` is the time of the batch and
    ``before_ms`` that of the batch before, in milliseconds since the epoch. ``awaited`` has the event time of each
    generator, by its number. A task sends rows when ``waiting_bytes`` of them wait, combines them if they are at least
    ``combined_rows``, and an owner takes about ``owned_bytes`` of its rows at a time. ``last``: no batch continues from
    the state, which is not kept. ``names`` are those of columns in the state, where they have other ones now.
    ``writers`` has the instructions for the writers of each target; None: they pass rows on, which are kept beside the
    state (``keeps``), or wait in the ``folder``. ``schemas`` are the files with the schemas of tables, in the
    storage of the state."""

    name: str
    tasks: int
    owners: int
    whole: bool
    folder: str = ""
    tables: Mapping[str, Mapping[str, Sequence[SegmentRef]]] = field(default_factory=dict)
    now_ms: int = 0
    before_ms: int = 0
    awaited: Mapping[int, PendingPartitions] = field(default_factory=dict)
    waiting_bytes: int = 1 << 25
    owned_bytes: int = 1 << 27
    combined_rows: int = 1 << 12
    last: bool = False
    names: ColumnNames = field(default_factory=dict)
    writers: Sequence[str | None] = ()
    keeps: bool = False
    schemas: tuple[str, ...] = ()


@dataclass(frozen=True)
class Dataflow:
    """The work of a job. ``storage`` is the location of the segments of its state. Reading tasks measure event time by
    the ``generators``."""

    branches: tuple[Branch, ...]
    vertices: tuple[Vertex, ...]
    outputs: tuple[Output, ...]
    storage: str = ""
    targets: tuple[Target, ...] = ()
    generators: tuple[ScanWatermarks, ...] = ()

    @property
    def processing(self) -> bool:
        """Whether an operator depends on processing time."""
        return any(each.operator.processing for each in self.vertices)

    @property
    def stages(self) -> int:
        """The number of stages after that of the scans."""
        return max((vertex.stage for vertex in self.vertices), default=0)

    def __getstate__(self) -> dict[str, object]:
        """Without the readings: tasks that read get theirs, and others need none."""
        return {name: value for name, value in self.__dict__.items() if name != "readings"}

    @cached_property
    def readings(self) -> Mapping[int, Reading]:
        """The branches of each scan that has any."""
        found: dict[int, list[Branch]] = {}
        for branch in self.branches:
            found.setdefault(branch.scan, []).append(branch)
        return {scan: Reading.from_branches(scan, branches) for scan, branches in found.items()}

    def stage(self, scan: int) -> Stage:
        """The work of the tasks that read a scan. Their instructions are a pickled :class:`BatchInstructions`."""
        calls = any(getattr(each.calc, "calls", False) for each in self.branches)
        calls = calls or any(each.tables.work.calls for each in self.branches if each.tables is not None)
        calls = calls or any(each.writers.calls for each in self.targets)
        return Stage(partial(_read, replace(self, branches=()), self.readings[scan]), EXCHANGE, calls)

    def read(
        self, reading: Reading, instructions: BatchInstructions, task: Task, batches: Iterable[pa.RecordBatch]
    ) -> Iterator[pa.RecordBatch]:
        """The work of a task that reads ``batches`` of a scan: rows of :data:`EXCHANGE`."""
        with (
            self._sender(Origin(reading.scan, task.number), instructions) as sender,
            self._outlets(instructions, task, sender) as outlets,
            TaskFunctions(task) as functions,
        ):
            work = _Work(self, instructions, sender, outlets, functions, task)
            outputs = sum(branch.output is not None for branch in reading.branches)
            count = 0
            for batch in _gather(batches, outputs) if outputs > 1 else batches:
                if not batch.num_rows:
                    continue
                rows = drop_dead_letters(batch)
                if reading.ordered:
                    rows, count = number_arrivals(rows, sender.origin, count), count + rows.num_rows
                functions.begin()
                work.measure(rows)
                work.run_branches(reading, batch, rows)
                work.write_results()
                if work.waiting_bytes > instructions.waiting_bytes:
                    work.send_waiting()
                    yield sender.take_rows()
                elif sender.waiting_bytes > instructions.waiting_bytes:
                    yield sender.take_rows()
            if self.generators or self.processing:
                work.broadcast_times()
            if instructions.whole:
                for stage in range(1, self.stages + 1):
                    work.run_stage(stage)
            work.send_waiting()
            work.write_results()
            work.report_tables()
            outlets.finish()
            sender.finish()
            yield sender.take_rows()

    def run(
        self, stage: int, instructions: BatchInstructions, owner: int, rows: Iterable[pa.RecordBatch], spill: str
    ) -> Iterator[pa.RecordBatch]:
        """The work of one owner in a stage: rows of :data:`EXCHANGE` from its rows, which are sorted by
        :data:`penstock.flow.graph.exchange.ORDER`. Rows for later stages and for the driver pass through.

        An owner of many rows divides its range of hashes, and does one part after the other. Rows that have their bytes
        in them wait in the folder ``spill``.
        """
        edges = {edge.id: edge for edge in self.edges() if self.vertices[edge.vertex].stage == stage}
        sent: dict[EdgeId, list[pa.RecordBatch]] = {}
        size = 0
        with (
            Spill(spill, instructions.owned_bytes) as spilled,
            self._sender(Origin(len(self.branches) + stage, owner), instructions) as sender,
            self._outlets(instructions, Task(owner, instructions.owners), sender) as outlets,
            TaskFunctions(Task(owner, instructions.owners)) as functions,
        ):
            for edge, batch in split_by_edge(rows):
                if edge in edges:
                    sent.setdefault(edge, []).append(spilled.keep(batch))
                    size += pc.sum(batch.column("bytes")).as_py()
                    continue
                if edge.kind is EdgeKind.TIMES:
                    sent.setdefault(edge, []).append(batch)
                yield batch
            divided = any(each.keys for each in edges.values())  # else all rows have one hash
            parts = max(1, -(-size // instructions.owned_bytes)) if divided else 1
            for part in range(owner * parts, (owner + 1) * parts):
                task = Task(owner, instructions.owners)
                work = _Work(self, instructions, sender, outlets, functions, task, part, instructions.owners * parts)
                for sent_by, batches in sent.items():
                    if sent_by.kind is EdgeKind.TIMES:
                        work.receive_times(batches)
                    else:
                        work.receive_rows(edges[sent_by], batches)
                work.run_stage(stage)
                work.send_waiting()
                work.write_results()
                yield sender.take_rows()
            outlets.finish()
            sender.finish()
            yield sender.take_rows()

    def _outlets(self, instructions: BatchInstructions, task: Task, sender: Sender) -> Outlets:
        """The writers of a task."""
        given = instructions.writers or (None,) * len(self.targets)
        return Outlets(self.targets, self.outputs, task, given, sender)

    def _sender(self, origin: Origin, instructions: BatchInstructions) -> Sender:
        """What sends the rows of a task."""
        kept = None
        if instructions.keeps:
            prefix = f"{instructions.name}.output-{origin.scan}-{origin.task}"
            kept = KeptFile(Storage.from_uri(self.storage), prefix)
        return Sender(origin, instructions.folder, kept)

    def edges(self) -> Iterator[Edge]:
        """All edges."""
        every = [branch.edge for branch in self.branches if branch.edge]
        every += [edge for vertex in self.vertices for _, edge in vertex.outs]
        for edge in every:
            yield edge
            if edge.combined is not None:
                yield edge.combined


@dataclass
class _Work:
    """One task's work: what it has got for its vertices, and what it sends. Its keys are ``part``, one of ``parts`` of
    all hashes."""

    flow: Dataflow
    instructions: BatchInstructions
    sender: Sender
    outlets: Outlets
    functions: TaskFunctions
    task: Task
    part: int = 0
    parts: int = 1
    inputs: dict[tuple[int, int], list[pa.RecordBatch]] = field(default_factory=dict)
    results: dict[int, list[pa.RecordBatch]] = field(default_factory=dict)
    waiting: dict[int, tuple[Edge, list[pa.RecordBatch]]] = field(default_factory=dict)
    receiver: Receiver = field(default_factory=Receiver)
    measured: MeasuredWatermarks = field(default_factory=MeasuredWatermarks)
    #: The work of branches that make rows of many tables, by their outputs.
    tables: dict[int, TablesTask] = field(default_factory=dict)
    #: The size of the rows in ``waiting``.
    waiting_bytes: int = 0

    def run_branches(self, reading: Reading, batch: pa.RecordBatch, rows: pa.RecordBatch) -> None:
        """A ``batch`` of a scan through all its branches; ``rows`` are those that are no dead letters."""
        for branch in reading.alone:
            if branch.tables is not None and branch.output is not None:
                task = self._open_tables(branch.output, branch.tables)
                self.outlets.write_tables(branch.output, branch.tables.work, task.process(rows))
            elif branch.calc is not None:
                self._deliver(branch, self._compute(branch, rows))
            elif branch.refusing is not None:  # the branch of its tables comes before
                for letters in self.tables[branch.refusing].take_letters():
                    self._deliver(branch, letters)
            elif branch.output is not None:
                self._deliver(branch, select_dead_letters(batch, self.flow.outputs[branch.output].schema.names))
        for division in reading.divisions:
            for number, divided in division.divide(rows):
                self._deliver(reading.branches[number], divided)

    def _deliver(self, branch: Branch, rows: pa.RecordBatch) -> None:
        """Rows at the end of a branch."""
        if branch.output is not None:
            self.results.setdefault(branch.output, []).append(rows)
            return
        if branch.edge is None:
            raise TypeError("a branch leads to an output or to an operator")
        if branch.edge.time:
            check_times(rows, branch.edge.time)
        if branch.edge.kinds:
            self.route(branch.edge, branch.edge.append_hashes(_with_kinds(rows)))
        else:
            self.route(branch.edge, branch.edge.append_hashes(with_weights(rows)))

    def _open_tables(self, output: int, tables: SessionTables) -> TablesTask:
        if output not in self.tables:
            self.tables[output] = tables.open(read_schemas(self.flow.storage, self.instructions.schemas))
        return self.tables[output]

    def report_tables(self) -> None:
        """Report to the driver what was seen of many tables."""
        for task in self.tables.values():
            for kind, data in (
                (EdgeKind.SCHEMAS, task.report_schemas()),
                (EdgeKind.TABLE_COUNTS, task.report_rows()),
            ):
                if data:
                    self.sender.send_bytes(EdgeId(kind), 0, pa.py_buffer(data), 0, inline=True)

    def _compute(self, branch: Branch, batch: pa.RecordBatch) -> pa.RecordBatch:
        assert branch.calc is not None  # noqa: S101
        if not branch.awaited:
            return self._apply(branch.calc, batch)
        made = self._apply(branch.calc, self._with_watermark(branch.awaited, batch))
        return made.select([name for name in made.schema.names if name != WATERMARK])

    def _apply(self, calc: BatchTransform, rows: pa.RecordBatch) -> pa.RecordBatch:
        return calc.batch(rows, self.functions) if isinstance(calc, Chain) else calc.batch(rows)

    def _with_watermark(self, generators: Sequence[int], rows: pa.RecordBatch) -> pa.RecordBatch:
        """Rows with the watermark of these ``generators`` when the batch begins, NULL before there is one."""
        found = min(self.instructions.awaited[each].watermark for each in generators)
        value = pa.scalar(None if found == NEVER else min(found, _LAST_MILLIS), pa.int64())
        return rows.append_column(pa.field(WATERMARK, pa.int64()), pa.repeat(value, len(rows)))

    def measure(self, rows: pa.RecordBatch) -> None:
        """Measure the event time of rows of the scan that this task reads, or of those that functions make of them."""
        for number, generator in enumerate(self.flow.generators):
            if generator.scan == self.sender.origin.scan and rows.num_rows:
                self.measured.add_watermarks(number, generator.generate(self._apply(generator.calc, rows)))

    def broadcast_times(self) -> None:
        """Send what was measured to every owner."""
        data = pa.py_buffer(self.measured.to_bytes())
        for owner in range(self.instructions.owners):
            self.sender.send_bytes(EdgeId(EdgeKind.TIMES), owner, data, 0, inline=True)

    def receive_times(self, rows: Iterable[pa.RecordBatch]) -> None:
        """Take in what the reading tasks have measured."""
        for each in rows:
            for data in self.receiver.data(each):
                self.measured.add_report(bytes(data))

    def receive_rows(self, edge: Edge, rows: Iterable[pa.RecordBatch]) -> None:
        """Rows of the exchange for this owner that came through an edge, limited to this part."""
        taken = self.inputs.setdefault((edge.vertex, edge.input), [])
        for batch in itertools.chain.from_iterable(map(self.receiver.batches, rows)):
            if self.parts == self.instructions.owners:  # all that the owner got
                taken.append(batch)
                continue
            chosen = np.flatnonzero(owner_of(batch.column(HASH).to_numpy(), self.parts) == self.part)
            taken.append(batch.take(pa.array(chosen)))

    def route(self, edge: Edge, rows: pa.RecordBatch) -> None:
        """Rows for an edge: to a vertex of this task, or to other tasks."""
        if not rows.num_rows:
            return
        if edge.local or self.instructions.whole:
            self.inputs.setdefault((edge.vertex, edge.input), []).append(rows)
        else:
            self.waiting.setdefault(edge.number, (edge, []))[1].append(rows)
            self.waiting_bytes += rows.nbytes

    def run_stage(self, stage: int) -> None:
        """Run the vertices of a stage, in their order."""
        low, high = hash_range(self.part, self.parts)
        for vertex in self.flow.vertices:
            if vertex.stage == stage:
                self._run(vertex, low, high)

    def _run(self, vertex: Vertex, low: int, high: int) -> None:
        operator = vertex.operator
        inputs = []
        for number, each in enumerate(operator.inputs):
            change = pa.field(KIND, pa.int8()) if each.kinds else pa.field(WEIGHT, pa.int64())
            places = [pa.field(ARRIVED, pa.int64())] if number in vertex.numbered else []
            schema = pa.schema([*each.schema, change, *places, pa.field(HASH, pa.uint64())])
            inputs.append(sort_by_arrival(concat_batches(self.inputs.pop((vertex.number, number), []), schema)))
        clock = operator_clock(vertex.generators, self.instructions.awaited, self.measured, self.instructions.now_ms)
        if operator.processing:
            # The present millisecond is not over: more rows may come in it.
            clock = Clock(self.instructions.before_ms - 1, self.instructions.now_ms - 1, self.instructions.now_ms)
        if not (operator.timed and clock.moves) and not any(each.num_rows for each in inputs):
            return
        before = self.instructions.tables.get(operator.uid, {})
        store = StateStore(
            Storage.from_uri(self.flow.storage),
            vertex.tables_named(self.instructions.names.get(operator.uid, {})),
            before,
            low,
            high,
            f"{self.instructions.name}-{vertex.number}-{low >> 32:08x}-",
            uid=operator.uid,
            now_ms=self.instructions.now_ms,
            last=self.instructions.last,
        )
        context = OperatorContext(store, clock, operator.side_outputs)
        operator.process(inputs, context)
        if operator.timed:
            self._report_time(operator, context)
        if vertex.tables and not self.instructions.last:
            self._report_state(operator.uid, store.flush(), low, high)
        self._pass_on(vertex, inputs, context)

    def _pass_on(self, vertex: Vertex, inputs: Sequence[pa.RecordBatch], context: OperatorContext) -> None:
        """Pass on what the operator of a vertex emitted for ``inputs``."""
        if vertex.output is not None:
            self.results.setdefault(vertex.output, []).extend(context.list_emitted())
        for tag in dict.fromkeys(edge.tag for _, edge in vertex.outs):
            outs = [(calc, edge) for calc, edge in vertex.outs if edge.tag == tag]
            for batch in context.list_emitted(tag):
                self.functions.begin()
                rows = batch
                if any(edge.numbered for _, edge in outs):
                    rows = pass_on_arrivals(vertex.operator, inputs, rows)
                if vertex.awaited:
                    rows = self._with_watermark(vertex.awaited, rows)
                for calc, edge in outs:
                    made = rows if calc is None else self._apply(calc, rows)
                    if edge.time:
                        check_times(made, edge.time)
                    self.route(edge, edge.append_hashes(made))

    def _report_time(self, operator: Operator, context: OperatorContext) -> None:
        """Report to the driver how an operator that depends on time got on."""
        watermark = NEVER if operator.processing else context.clock.after
        report = {"uid": operator.uid, "late": context.late, "watermark": watermark, "wake": context.wake}
        self.sender.send_bytes(EdgeId(EdgeKind.REPORTS), 0, pa.py_buffer(json.dumps(report).encode()), 0, inline=True)

    def _report_state(self, uid: str, tables: Mapping[str, Sequence[SegmentRef]], low: int, high: int) -> None:
        """Report an operator's state in a range of hashes to the driver."""
        listed = {table: [ref.to_json() for ref in refs] for table, refs in tables.items()}
        data = json.dumps({"uid": uid, "low": low, "high": high, "tables": listed}).encode()
        self.sender.send_bytes(EdgeId(EdgeKind.STATE), 0, pa.py_buffer(data), 0, inline=True)

    def send_waiting(self) -> None:
        """Send the rows for other tasks."""
        for edge, batches in self.waiting.values():
            rows = concat_batches(batches, edge.sent)
            combined = edge.combined
            if combined is not None and combined.combiner is not None and len(rows) >= self.instructions.combined_rows:
                fewer = combined.combiner.combine(rows)
                edge, rows = (edge, rows) if fewer is None else (combined, fewer)  # noqa: PLW2901
            self.sender.send_by_key(edge.id, rows, self.instructions.owners)
        self.waiting, self.waiting_bytes = {}, 0

    def write_results(self) -> None:
        """Write the rows of outputs."""
        results, self.results = self.results, {}
        self.outlets.write(results)


def _read(flow: Dataflow, reading: Reading, task: Task, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    instructions: BatchInstructions = unpickle_text(task.instructions)
    yield from flow.read(
        reading, instructions, replace(task, number=task.number % instructions.tasks, of=instructions.tasks), batches
    )


def _gather(batches: Iterable[pa.RecordBatch], outputs: int) -> Iterator[pa.RecordBatch]:
    """The same rows in batches of so many for each of the ``outputs``, as far as there are: many conditions are
    computed on them, each of which leaves a few rows over."""
    least = min(_GATHERED_ROWS, _GATHERED_ROWS_OF_EACH * outputs)
    waiting: list[pa.RecordBatch] = []
    count = size = 0
    for each in batches:
        waiting.append(each)
        count, size = count + each.num_rows, size + each.nbytes
        if count >= least or size >= _GATHERED_BYTES:
            yield concat_batches(waiting, each.schema)
            waiting, count, size = [], 0, 0
    if waiting:
        yield concat_batches(waiting, waiting[0].schema)


def have_one_output(branches: Sequence[Branch]) -> bool:
    """Whether rows of a scan come to one output in several ways."""
    outputs = [branch.output for branch in branches if branch.output is not None]
    return len(set(outputs)) < len(outputs)


def with_weights(rows: pa.RecordBatch) -> pa.RecordBatch:
    """Rows with the column :data:`WEIGHT`, from their kinds if they have any."""
    weights = np.ones(rows.num_rows, np.int64)
    if KIND in rows.schema.names:
        kinds = rows.column(KIND).fill_null(int(RowKind.INSERT)).to_numpy(zero_copy_only=False)
        weights[(kinds == RowKind.UPDATE_BEFORE) | (kinds == RowKind.DELETE)] = -1
    return rows.append_column(WEIGHT, pa.array(weights))


def _with_kinds(rows: pa.RecordBatch) -> pa.RecordBatch:
    if KIND in rows.schema.names:
        index = rows.schema.get_field_index(KIND)
        return rows.set_column(index, KIND, rows.column(index).fill_null(int(RowKind.INSERT)))
    return rows.append_column(KIND, pa.array(np.full(rows.num_rows, int(RowKind.INSERT), np.int8)))
