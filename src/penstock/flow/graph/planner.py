"""Plans with state to dataflows: which operators run in which stage, and how rows get to them."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from functools import partial

from penstock.errors import Problem, UnsupportedError
from penstock.flow.graph.arrival_edges import carrying_arrivals
from penstock.flow.graph.dataflow import Branch, Edge, Vertex
from penstock.flow.kernels.moments.local import is_utc
from penstock.flow.kernels.session import UNKNOWN, Session
from penstock.flow.operators.changes import ChangelogWriter, Mode
from penstock.flow.operators.contract import Input, Operator
from penstock.flow.operators.node_operators import JobFacts, make_operator
from penstock.flow.rows.calc import Calc, Projection, calc_of, calc_of_rows, check_width
from penstock.flow.rows.calls import BatchTransform, FunctionCall
from penstock.flow.rows.expressions import NoKernel
from penstock.flow.rows.row_works import PathFacts, make_work
from penstock.flow.rows.table_rows import SessionTables
from penstock.flow.state.changed_queries import Fitting, FlowStep
from penstock.flow.time.watermarks import TIMESTAMP, ScanWatermarks
from penstock.flow.windows.assigning import Chain
from penstock.plan.enforcing import fit_columns
from penstock.plan.expressions import Call, Expression, Literal, walk
from penstock.plan.flink_sql import flink_sql
from penstock.plan.identities import identify_step
from penstock.plan.lineage import Lineage
from penstock.plan.nodes import Calculation, Item, Node, Scan, Sink, Stateful, Step, compute_columns
from penstock.plan.origins import meaning
from penstock.plan.scalar_functions import Varies, function_of
from penstock.plan.traits import traits
from penstock.plan.walk import fold, rewrite
from penstock.settings import Settings
from penstock.spi import INSERTIONS
from penstock.types import RowKind, arrow_schema

_PLAINER = "measure a column, or a column less an interval"


@dataclass(frozen=True)
class _Path:
    """Rows from a scan or a node with state, through ``steps``, the lowest first."""

    origin: Node
    steps: tuple[Step, ...] = ()

    @property
    def node(self) -> Node:
        """The last step."""
        found = self.origin
        for step in self.steps:
            found = step.with_inputs((found,))
        return found


@dataclass
class Planner:
    """Makes the branches and vertices of a job. ``scans`` are in the order of their numbers; ``ttl`` is the job's time
    to live of state. ``batch``: there is one batch, in which all results are final, so that no row is retracted.
    ``lenient``: rows without an event time are late, instead of ending the job.

    Raises UnsupportedError for an expression that has no kernel.
    """

    scans: Sequence[Scan]
    session: Session = UNKNOWN
    ttl: timedelta | None = None
    batch: bool = False
    lenient: bool = False
    branches: list[Branch] = field(default_factory=list)
    vertices: list[Vertex] = field(default_factory=list)
    generators: list[ScanWatermarks] = field(default_factory=list)
    _made: dict[int, int] = field(default_factory=dict)
    #: The numbers of the calls of functions, by the steps up to each: paths of several sinks share them.
    _calls: dict[tuple[Node, ...], int] = field(default_factory=dict)
    #: The nodes with state that have vertices, by the number of the vertex.
    _nodes: dict[int, Stateful] = field(default_factory=dict)
    _edges: int = 0

    def add(self, sink: Sink, output: int) -> None:
        """Add all that feeds a sink, which is the output of this number."""
        if sink.takes_dead_letters:
            (scan,) = (each for each in self.scans if each is _scan_of(sink.input))
            number = self.scans.index(scan)
            finding = (each.output for each in self.branches if each.tables is not None and each.scan == number)
            self.branches.append(Branch(number, None, output=output, refusing=next(finding, None)))
            return
        if sink.input.tables_work is not None:
            tables = SessionTables(sink.input.tables_work, self.session)
            self.branches.append(Branch(self._number(_scan_of(sink.input)), None, output=output, tables=tables))
            return
        check_width(sink)
        node = fit_columns(sink)
        paths = tuple(_paths_to_scans(node))
        if all(isinstance(path.origin, Scan) for path in paths):
            for path in paths:
                self._branch(path, None, output)
            return
        number = self._vertex(self._changes(sink, node, paths), paths=(paths,))
        self.vertices[number] = replace(self.vertices[number], output=output)
        branches, vertices = carrying_arrivals(self.branches, self.vertices)
        self.branches, self.vertices = list(branches), list(vertices)

    def fitting(self, reset: Collection[str] = (), *, unclaimed: bool = False, zone: str | None = None) -> Fitting:
        """What decides whether the job can continue from a state, with the steps that may ``reset`` theirs, and whether
        state that is ``unclaimed`` is left out. ``zone`` is the session's time zone where that of the plan is not the
        one in which the job runs, empty if it is not known."""
        steps = self._steps(self.session.zone if zone is None else zone)
        return Fitting(steps, {each.name: each.measure for each in self.generators}, reset, unclaimed)

    def _steps(self, zone: str) -> dict[str, FlowStep]:
        """The steps with state, by uid."""
        lineage, found = Lineage(), dict[str, FlowStep]()
        known = "UTC" if is_utc(Session(zone)) else zone
        below: dict[str, frozenset[str]] = {}
        fold(self._nodes.values(), partial(_note_below, below))
        for number, node in self._nodes.items():
            vertex = self.vertices[number]
            if not vertex.tables:
                continue
            kept, timed = vertex.operator.describe_state(), vertex.operator.timed
            identity = identify_step(node, kept, lineage, known, node.lifetimes(self.ttl))
            changing = any(traits(each).changing for each in node.inputs)
            may_have = vertex.operator.may_have
            found[node.uid] = FlowStep(identity, vertex.tables, below[node.uid], timed, changing, may_have)
        return {uid: replace(step, below=step.below & found.keys()) for uid, step in found.items()}

    def ordered(self) -> tuple[Vertex, ...]:
        """The vertices, each after those that feed it."""
        return tuple(self.vertices)

    def _changes(self, sink: Sink, node: Node, paths: Sequence[_Path]) -> ChangelogWriter:
        """The end of an output."""
        taken, schema = sink.spec.capabilities, arrow_schema(node.schema)
        names = dict(zip(sink.schema.names, node.schema.names, strict=True))
        uid = f"sink {sink.table}"
        keys: tuple[str, ...] | None
        if taken.upsert_keys:
            keys = tuple(names[key] for key in taken.upsert_keys)
            mode = Mode.UPSERTS
        elif taken.kinds == INSERTIONS or self.batch:
            keys, mode = None, Mode.INSERTIONS
        else:
            keys = next(iter(traits(node).upsert_keys), None)
            mode = Mode.RETRACTIONS if RowKind.UPDATE_BEFORE in taken.kinds else Mode.UPSERTS
        one_row = any(set(each) <= set(taken.upsert_keys) for each in traits(sink).upsert_keys)
        several = bool(taken.upsert_keys) and not one_row
        return ChangelogWriter(uid, schema, keys, mode, netting=len(paths) > 1 and not self.batch, ordered=several)

    def _vertex(self, operator: Operator, paths: Sequence[Sequence[_Path]]) -> int:
        """The number of a new vertex, with the rows of ``paths`` by input."""
        sources = [self._node(path.origin) for each in paths for path in each if not isinstance(path.origin, Scan)]
        local = self._local(operator, paths)
        generators = self._generators(paths) if operator.timed else ()
        stages = [self.vertices[number].stage + (0 if local else 1) for number in sources]
        number, stage = len(self.vertices), max([1, *stages])
        self.vertices.append(Vertex(number, stage, operator, generators=generators))
        plain = [position for position, each in enumerate(operator.inputs) if each.combiner is None]
        for position, each in zip(plain, paths, strict=True):
            for path in each:
                self._connect(path, self._edge(operator.inputs, position, number, local=local))
        return number

    def _edge(self, inputs: Sequence[Input], position: int, vertex: int, *, local: bool) -> Edge:
        """A new edge to an input of a vertex, with one for what is made of its rows where they can be combined."""
        into, combined = inputs[position], None
        if not local and position + 1 < len(inputs) and inputs[position + 1].combiner is not None:
            combined = self._edge(inputs, position + 1, vertex, local=False)
        number = self._edges
        self._edges += 1
        operator, time = self.vertices[vertex].operator, ""
        if operator.timed and not self.lenient:
            time = _times_by_input(operator)[position]
        return Edge(
            number, into.schema, vertex, position, into.keys, into.kinds, local, into.combiner, combined, time=time
        )

    def _connect(self, path: _Path, edge: Edge) -> None:
        if isinstance(path.origin, Scan):
            self._branch(path, edge, None)
            return
        calc = self._calc(path, keeps=self._keeps(edge)) if path.steps else None
        source = self.vertices[self._node(path.origin)]
        awaited = self._generators(((path,),)) if calc is not None and calc.reads_watermark else ()
        awaited = tuple(sorted({*source.awaited, *awaited}))
        self.vertices[source.number] = replace(source, outs=(*source.outs, (calc, edge)), awaited=awaited)

    def _branch(self, path: _Path, edge: Edge | None, output: int | None) -> None:
        """Add a branch from a scan."""
        number, calc = self._number(path.origin), self._calc(path, keeps=self._keeps(edge))
        awaited = self._generators(((path,),)) if calc.reads_watermark else ()
        self.branches.append(Branch(number, calc, edge, output, awaited))

    def _calc(self, path: _Path, *, keeps: bool = False) -> Calc | Chain:
        """The work of the steps of a path. ``keeps``: rows without an event time get a window of nulls."""
        works: list[BatchTransform | FunctionCall] = []
        at = _Path(path.origin)
        for count, step in enumerate(path.steps, 1):
            facts = PathFacts(self.session, keeps, partial(self._call_number, (path.origin, *path.steps[:count])))
            work = make_work(step, facts)
            if work is None:
                at = _Path(at.origin, (*at.steps, step))
                continue
            works += [self._plain(at), work]
            at = _Path(step.with_inputs((at.node,)))
        last = self._plain(at)
        return Chain((*works, last)) if works else last

    def _call_number(self, steps: tuple[Node, ...]) -> int:
        """The number of the call of a function, by the steps up to it."""
        return self._calls.setdefault(steps, len(self._calls))

    def _plain(self, path: _Path) -> Calc:
        found = calc_of(path.node, self.session, watermarked=True)
        if isinstance(found, NoKernel):
            raise TypeError(f"a node has not {found}")
        return found

    def _keeps(self, edge: Edge | None) -> bool:
        """Whether rows without a window pass an edge: the operator counts them."""
        return self.lenient and edge is not None and self.vertices[edge.vertex].operator.timed

    def _local(self, operator: Operator, paths: Sequence[Sequence[_Path]]) -> bool:
        """Whether the rows of each key are in one task already: the operator has one input, from one vertex, whose keys
        pass unchanged and are its own."""
        if len(paths) != 1 or len(paths[0]) != 1 or isinstance(paths[0][0].origin, Scan):
            return False
        (path,) = paths[0]
        return operator.is_local_to(_partitioned(path, self.vertices[self._node(path.origin)].operator.partition_keys))

    def _node(self, node: Node) -> int:
        """The number of the vertex of a node with state."""
        assert isinstance(node, Stateful)  # noqa: S101
        if id(node) not in self._made:
            paths = tuple(tuple(_paths_to_scans(each)) for each in node.inputs)
            lives = node.lifetimes(self.ttl)
            ttls = tuple(None if each is None else each // timedelta(milliseconds=1) for each in lives)
            retracts = not self.batch and isinstance(node, Step) and traits(node.input).kinds != INSERTIONS
            facts = JobFacts(self.session, retracts, expires=any(ttls), batch=self.batch)
            number = self._vertex(make_operator(node, facts), paths)
            self.vertices[number] = replace(self.vertices[number], ttls=ttls)
            self._made[id(node)], self._nodes[number] = number, node
        return self._made[id(node)]

    def _generators(self, paths: Sequence[Sequence[_Path]]) -> tuple[int, ...]:
        """The numbers of the watermark generators of all event time in these rows."""
        found = fold([path.node for each in paths for path in each], self._timed)
        return tuple(sorted({number for each in found for number in each}))

    def _timed(self, node: Node, below: tuple[frozenset[int], ...]) -> frozenset[int]:
        if not isinstance(node, Calculation) or node.assigned_watermark is None:
            return frozenset[int]().union(*below)
        return frozenset({self._generator(node, node.assigned_watermark)})

    def _generator(self, node: Calculation, watermark: Expression) -> int:
        """The number of the generator that measures event time in the rows of a scan."""
        moment, lag = _moment_and_lag(watermark)
        number = self._number(_scan_of(node))
        calc = self._measuring(node.input, moment)
        if isinstance(calc, NoKernel):
            reason = f"{calc.function} has no kernel, so the watermark cannot be measured"
            raise UnsupportedError((Problem(reason, where=f"table '{self.scans[number].table}'", hint=_PLAINER),))
        for at, each in enumerate(self.generators):
            if (each.scan, each.lag) == (number, lag) and _measures(each.calc) == _measures(calc):
                return at
        names = [each.table for each in self.scans]
        again = names[:number].count(names[number])
        name = f"{names[number]}-{again + 1}" if again else names[number]
        others = sum(each.scan == number for each in self.generators)
        measure = meaning(Lineage().expression(node.input, moment))
        self.generators.append(ScanWatermarks(f"{name}, {others + 1}" if others else name, number, calc, lag, measure))
        return len(self.generators) - 1

    def _measuring(self, node: Node, moment: Expression) -> Calc | Chain | NoKernel:
        """The work that computes a timestamp of the rows of ``node``, from those of a scan. Functions of the user are
        called for it and for what comes after it once."""
        rows = _rows_of_scan(node)
        if isinstance(rows.base, Scan):
            self._check_repeatable(rows.substitute(moment), rows.base)
            return calc_of_rows(rows, {TIMESTAMP: rows.substitute(moment)}, self.session)
        (path,) = _paths_to_scans(node)
        items = (Item(TIMESTAMP, moment),)
        last = compute_columns(node, items)
        return self._calc(replace(path, steps=(*path.steps, last)))

    def _check_repeatable(self, moment: Expression, scan: Scan) -> None:
        """Raises UnsupportedError for an event time of chance: rows would have another one than was measured."""
        for each in walk(moment):
            function = function_of(each) if isinstance(each, Call) else None
            if function is not None and function.varies is Varies.BY_ROW:
                reason = f"the event time is by {flink_sql(each)}, which has another value when it is computed again"
                hint = "compute it without that, or declare the function deterministic if it is"
                raise UnsupportedError((Problem(reason, where=f"table '{scan.table}'", hint=hint),))

    def _number(self, scan: Node) -> int:
        return next(number for number, each in enumerate(self.scans) if each is scan or each == scan)


def plan_sinks(sinks: Sequence[Sink], read: Sequence[Scan], session: Session, settings: Settings) -> Planner:
    """The branches and vertices of all ``sinks`` of a job with these ``settings``, which ``read`` these scans. A sink's
    output has the number of its position. Raises UnsupportedError for a job that cannot be computed."""
    planner = Planner(read, session, settings.state_ttl, settings.batch, settings.lenient)
    for number, sink in enumerate(sinks):
        planner.add(sink, number)
    return planner


def _note_below(found: dict[str, frozenset[str]], node: Node, inputs: tuple[frozenset[str], ...]) -> frozenset[str]:
    """Note the uids of the steps with state from which this one takes its rows, at once or by others; they, and its
    own."""
    below = frozenset[str]().union(*inputs)
    if not isinstance(node, Stateful):
        return below
    found[node.uid] = below
    return below | {node.uid}


def _times_by_input(operator: Operator) -> tuple[str, ...]:
    """Of each input, the column with the event time that its rows need."""
    times = iter(operator.times)
    return tuple(next(times) if each.combiner is None else "" for each in operator.inputs)


def _measures(calc: BatchTransform) -> tuple[object, ...]:
    """What distinguishes the work of generators: the calls of functions, the conditions, and the last expressions."""
    works = calc.works if isinstance(calc, Chain) else (calc,)
    calls = [each.number for each in works if isinstance(each, FunctionCall)]
    conditions = [each.expressions for work in works if isinstance(work, Calc) for each in work.conditions]
    assert isinstance(works[-1], Calc)  # noqa: S101 - it computes the timestamp
    return (*calls, *conditions, works[-1].items.expressions)


def _scan_of(node: Node) -> Node:
    while not isinstance(node, Scan):
        (node,) = node.inputs
    return node


def _rows_of_scan(node: Node) -> Projection:
    """The rows of ``node`` in terms of those of a scan, whatever becomes of its changes in between."""

    def below_state(each: Node) -> Node:
        passes = isinstance(each, Stateful) and each.passes_rows
        return each.input if passes and isinstance(each, Step) else each

    return Projection.from_node(rewrite((node,), below_state)[0])


def _moment_and_lag(watermark: Expression) -> tuple[Expression, int]:
    """A watermark as a timestamp and the microseconds that are subtracted."""
    match watermark:
        case Call(function="-", args=(moment, Literal(value=timedelta() as lag))):
            return moment, lag // timedelta(microseconds=1)
    return watermark, 0


def _paths_to_scans(node: Node) -> Iterator[_Path]:
    """The paths on which the rows of ``node`` come from scans and nodes with state."""
    if isinstance(node, Scan | Stateful):
        yield _Path(node)
        return
    for member in node.inputs:
        for path in _paths_to_scans(member):
            yield replace(path, steps=(*path.steps, *node.steps_above(member)))


def _partitioned(path: _Path, names: tuple[str, ...]) -> tuple[str, ...]:
    """The columns, under their last names, by which the rows of a path are divided among owners, where those are
    ``names`` at its origin; empty if the names do not survive."""
    for step in path.steps:
        now = step.passing_columns(names)
        if not all(name in now for name in names):
            return ()
        names = tuple(now[name] for name in names)
    return names
