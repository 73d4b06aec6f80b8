"""From the steps of a program to the nodes of a plan.

A stream of several sources is a node for each: what is done to the stream is done to each of them, and a sink writes
them all. Functions that follow one another become one node, which calls them in one go.
"""

from __future__ import annotations

import dis
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import timedelta

from penstock.common import TypeInformation, WatermarkStrategy
from penstock.datastream.function_chain import (
    OUTPUT,
    TIMESTAMP,
    TIMESTAMP_TYPE,
    WATERMARK,
    FunctionChain,
    output_column,
)
from penstock.datastream.function_steps import Step
from penstock.datastream.functions import Surroundings
from penstock.datastream.output_tag import OutputTag
from penstock.datastream.time_characteristic import TimeCharacteristic
from penstock.datastream.transformations import (
    FunctionStep,
    PartitionStep,
    SideOutput,
    SinkStep,
    SourceStep,
    SqlFilter,
    SqlMap,
    Steps,
    Transformation,
    WatermarkStep,
    fold,
)
from penstock.errors import DefinitionError, Problem, UnsupportedError
from penstock.plan.expressions import Call, ColumnRef, Expression, Literal, call, cast
from penstock.plan.nodes import AssignWatermarks, Filter, Item, MapRows, Node, Project, Scan, Sink, project, row_of
from penstock.spi import Column, ColumnKind, TableDefinition, Watermark, connectors, scan_spec, sink_spec
from penstock.types import BOOLEAN, INT, IntervalType, RowType, TimestampType

#: Those of ``process_element``: itself, the value and the context.
_ARGUMENTS = 3
#: The column of timestamps in Kafka's tables.
_METADATA = Column(TIMESTAMP, TIMESTAMP_TYPE, ColumnKind.METADATA, "timestamp")


@dataclass(frozen=True)
class Branch:
    """One of the nodes that give a stream's values. ``timed``: with a timestamp in the last column. ``watermarked``:
    watermarks follow these; ``seen``: functions have seen them. ``free``: nothing else takes the node's rows."""

    node: Node
    info: TypeInformation
    timed: bool
    watermarked: bool = False
    seen: bool = False
    free: bool = False


def lowered(
    sinks: Sequence[SinkStep], job_name: str, times: TimeCharacteristic, surroundings: Surroundings
) -> tuple[Sink, ...]:
    """The plan's sinks. Raises DefinitionError with every problem of every sink."""
    lowering = _Lowering(Steps(list(sinks)), times, surroundings)
    made: list[Sink] = []
    errors: list[DefinitionError] = []
    for position, step in enumerate(sinks, start=1):
        try:
            made += lowering.sink(step, step.name if step.named else f"sink-{position}", job_name)
        except DefinitionError as error:
            errors.append(error)
    if len(errors) == 1:
        raise errors[0]
    if errors:
        raise DefinitionError(tuple(problem for error in errors for problem in error.problems))
    return tuple(made)


def branches_of(step: Transformation, surroundings: Surroundings) -> tuple[Branch, ...]:
    """The nodes that give a step's values, as if nothing else were in the program, without timestamps."""
    lowering = _Lowering(Steps([]), TimeCharacteristic.ProcessingTime, surroundings)
    found: tuple[tuple[Branch, ...], ...] = fold((step,), lowering.branches)
    return found[0]


def read_table(step: SourceStep, *, timed: bool) -> TableDefinition:
    """The table of a source, with the parallelism that was set, and with timestamps if the stream is ``timed``."""
    table = step.table
    if step.parallelism is not None and step.source.parallel:
        table = replace(table, options={**table.options, "scan.parallelism": str(step.parallelism)})
    return replace(table, columns=(*table.columns, _METADATA)) if timed else table


class _Lowering:
    def __init__(self, steps: Steps, times: TimeCharacteristic, surroundings: Surroundings):
        self._steps = steps
        self._times = times
        self._surroundings = surroundings
        self._timed = times is not TimeCharacteristic.ProcessingTime and any(map(_wants_times, steps.order))
        #: Whether a function sees watermarks.
        self._watermarked = self._timed and any(map(_sees_watermarks, steps.order))
        self._split: dict[int, list[Branch]] = {}
        found = fold(steps.sinks, self.branches)
        self._of = {id(step): branches for step, branches in zip(steps.sinks, found, strict=True)}

    def sink(self, step: SinkStep, name: str, job_name: str) -> list[Sink]:
        """The plan's sinks for one of the program's: one for each branch."""
        return [self._sink(step, branch, name, job_name) for branch in self._of[id(step)]]

    def _assigned_above(self, source: SourceStep) -> tuple[WatermarkStrategy, ...]:
        """The strategies with watermarks that are assigned to what is made of a source's values."""
        reached: set[int] = {id(source)}
        found = []
        for step in self._steps.order:
            if any(id(each) in reached for each in step.inputs):
                reached.add(id(step))
                if isinstance(step, WatermarkStep) and step.strategy.generates:
                    found.append(step.strategy)
        return tuple(found)

    def branches(self, step: Transformation, inputs: tuple[tuple[Branch, ...], ...]) -> tuple[Branch, ...]:
        """The branches of a step."""
        match step:
            case SourceStep():
                found = [self._source(step)]
            case FunctionStep(steps=steps):
                found = [
                    self._called(step, each, branch)
                    for each, branches in zip(steps, inputs, strict=True)
                    for branch in branches
                ]
            case WatermarkStep():
                found = [self._assigned(step, branch) for branch in inputs[0]]
            case SqlFilter(condition=condition):
                found = [
                    replace(each, node=Filter(each.node.schema, each.node, condition, uid=step.uid), free=False)
                    for each in inputs[0]
                ]
            case SqlMap(items=items):
                found = [_computed(each, items, step) for each in inputs[0]]
            case SideOutput(tag=tag):
                (below,) = step.inputs
                found = [self._output(each, below, tag) for each in self._split[id(below)]]
            case PartitionStep(steps=steps) if steps:
                found = [self._called(step, steps[0], each) for each in inputs[0]]
            case _:
                alone = self._steps.consumers(step) == 1
                found = [replace(each, free=each.free and alone) for branches in inputs for each in branches]
        return tuple(found)

    def _source(self, step: SourceStep) -> Branch:
        timed = self._timed and self._times is TimeCharacteristic.EventTime and step.source.timestamps
        table = read_table(step, timed=timed)
        assigned = self._assigned_above(step) if self._watermarked and step.source.timestamps else ()
        if table.watermark is None and assigned:  # measured behind functions
            idle = min((each.idleness for each in assigned if each.idleness is not None), default=None)
            table = replace(table, watermark=Watermark(lag=None, idle_timeout=idle))
        connector = table.options["connector"]
        spec = scan_spec(connectors.get(connector), table)
        branch = Branch(Scan(table.produced, table.name, connector, spec, uid=step.uid), step.source.read_info, timed)
        if self._timed and self._times is TimeCharacteristic.IngestionTime:
            branch = _ingested(branch)
        if branch.timed and table.watermark is not None and table.watermark.lag is not None:
            branch = self._lagging(branch, table.watermark.lag)
        for each in step.steps:
            branch = self._called(step, each, branch)
        return branch

    def _assigned(self, step: WatermarkStep, branch: Branch) -> Branch:
        """The branch with the timestamps and watermarks of a strategy."""
        strategy = step.strategy
        if branch.seen and strategy.generates:
            hint = "assign timestamps and watermarks before the first process function that asks for the watermark"
            reason = "comes after a process function that sees the watermarks from before, which is not supported"
            raise UnsupportedError((Problem(reason, step.name, hint=hint),))
        branch = replace(branch, watermarked=False)
        if strategy.assigner is not None:
            timestamps = Step("timestamps", strategy.assigner, branch.info, "extract_timestamp", step.name)
            branch = self._called(step, timestamps, branch)
        if not (self._watermarked and branch.timed):
            return branch
        if strategy.generator is not None:
            generated = Step("watermarks", strategy.generator, branch.info, name=step.name)
            chain = FunctionChain((generated,), branch.info, True, self._surroundings)
            made = MapRows(chain.schema, branch.node, chain, uid=step.uid)
            node = _assign(made, ColumnRef(WATERMARK, type=TIMESTAMP_TYPE))
            return replace(branch, node=_without(node, WATERMARK), watermarked=True, free=False)
        return branch if strategy.lag is None else self._lagging(branch, strategy.lag)

    def _lagging(self, branch: Branch, lag: int) -> Branch:
        """The branch with a watermark so many ms behind its timestamps, where that is wanted."""
        if not self._watermarked:
            return branch
        behind = Literal(timedelta(milliseconds=lag), type=IntervalType(months=False, nullable=False))
        moment = ColumnRef(TIMESTAMP, type=TIMESTAMP_TYPE)
        node = _assign(branch.node, call("-", moment, behind, type=TIMESTAMP_TYPE))
        return replace(branch, node=node, watermarked=True, free=False)

    def _called(self, step: Transformation, each: Step, branch: Branch) -> Branch:
        """The branch with a function called on its values, together with those before where that is possible."""
        tags = self._steps.tags(step)
        if tags:
            each = replace(each, tags=tags)
        below = branch.node
        watermarked = branch.watermarked and _asks_for_watermark(each)
        before = below.rows if isinstance(below, MapRows) and branch.free and not step.starts_chain else None
        if isinstance(before, FunctionChain) and (before.watermarked or not watermarked):
            assert isinstance(below, MapRows)  # noqa: S101
            chain, below = before.then(each), below.input
        else:
            chain = FunctionChain((each,), branch.info, branch.timed, self._surroundings, watermarked)
            below = _with_watermark(below) if watermarked else below
        node = MapRows(chain.schema, below, chain, uid=step.uid)
        made = Branch(node, each.made, chain.gives_timestamps, branch.watermarked, branch.seen or watermarked)
        if tags:
            self._split.setdefault(id(step), []).append(made)
            return _picked(made, 0)
        return replace(made, free=self._steps.consumers(step) <= 1 and not step.ends_chain)

    def _output(self, branch: Branch, step: Transformation, tag: OutputTag) -> Branch:
        number = self._steps.tags(step).index(tag) + 1
        return _picked(replace(branch, info=tag.type_info), number)

    def _sink(self, step: SinkStep, branch: Branch, name: str, job_name: str) -> Sink:
        sink = step.sink
        info = branch.info
        for each in sink.steps(branch.info):
            branch = self._called(step, each, branch)
        table = sink.table(name, info, job_name)
        if step.parallelism is not None and sink.parallel:
            table = replace(table, options={**table.options, "sink.parallelism": str(step.parallelism)})
        node = branch.node
        if branch.timed and sink.writes_timestamps:
            table = replace(table, columns=(*table.columns, _METADATA))
        elif branch.timed:
            node = _without(node, TIMESTAMP)
        connector = table.options["connector"]
        spec = sink_spec(connectors.get(connector), table)
        return Sink(table.written, node, table.name, connector, spec, uid=step.uid)


def _wants_times(step: Transformation) -> bool:
    """Whether a step does something with timestamps."""
    if isinstance(step, SinkStep):
        if step.sink.writes_timestamps:
            return True
        steps = step.sink.steps(step.info)
    else:
        steps = step.steps if isinstance(step, FunctionStep | SourceStep) else ()
    assigns = isinstance(step, WatermarkStep) and step.strategy.assigner is not None
    return assigns or any(each.kind == "process" for each in steps)


def _sees_watermarks(step: Transformation) -> bool:
    """Whether a function of a step sees watermarks."""
    return isinstance(step, FunctionStep) and any(map(_asks_for_watermark, step.steps))


def _asks_for_watermark(step: Step) -> bool:
    """Whether a function may ask its context for the watermark: it is measured for those alone. A function that does
    anything with its context but read other attributes may."""
    if step.kind != "process":
        return False
    code = getattr(getattr(step.function, step.method, None), "__code__", None)
    if code is None or code.co_argcount < _ARGUMENTS or code.co_varnames[_ARGUMENTS - 1] in code.co_cellvars:
        return True
    context, used = code.co_varnames[_ARGUMENTS - 1], list(dis.get_instructions(code))
    for at, each in enumerate(used):
        if each.argval == context or (isinstance(each.argval, tuple) and context in each.argval):
            after = used[at + 1] if each.opname.startswith("LOAD_FAST") and each.argval == context else None
            if after is None or not after.opname.startswith(("LOAD_ATTR", "LOAD_METHOD")):
                return True
            if after.argval == "timer_service":
                return True
    return False


def _computed(branch: Branch, items: tuple[Item, ...], step: SqlMap) -> Branch:
    if branch.timed:
        items = (*items, Item(TIMESTAMP, ColumnRef(TIMESTAMP, type=TIMESTAMP_TYPE)))
    node = replace(project(branch.node, items), uid=step.uid) if step.uid else project(branch.node, items)
    return replace(branch, node=node, info=step.info, free=False)


def _ingested(branch: Branch) -> Branch:
    """The branch with the time of reading for a timestamp."""
    now = Call("CURRENT_TIMESTAMP", (), type=TimestampType(3, True, nullable=False))
    items = (*_items(branch.node.schema), Item(TIMESTAMP, cast(now, TIMESTAMP_TYPE)))
    return replace(branch, node=Project(row_of(items), branch.node, items), timed=True)


def _assign(node: Node, watermark: Expression) -> Node:
    """The node with a watermark of the timestamps."""
    return AssignWatermarks(node.schema, node, TIMESTAMP, watermark)


def _with_watermark(node: Node) -> Node:
    """The node with the present watermark as a last column."""
    moment = ColumnRef(TIMESTAMP, type=TIMESTAMP_TYPE)
    items = (*_items(node.schema), Item(WATERMARK, Call("CURRENT_WATERMARK", (moment,), type=TIMESTAMP_TYPE)))
    return Project(row_of(items), node, items)


def _without(node: Node, name: str) -> Node:
    """The node without a column."""
    return project(node, tuple(each for each in _items(node.schema) if each.name != name))


def _picked(branch: Branch, number: int) -> Branch:
    """One output of a function with side outputs."""
    node, output = branch.node, ColumnRef(OUTPUT, type=INT)
    condition = Call("=", (output, Literal(number, type=INT.with_nullability(False))), type=BOOLEAN)
    types = {field.name: field.type for field in node.schema.fields}
    items = [
        Item(each.name, ColumnRef(output_column(number, each.name), type=types[output_column(number, each.name)]))
        for each in branch.info.row.fields
    ]
    if branch.timed:
        items.append(Item(TIMESTAMP, ColumnRef(TIMESTAMP, type=TIMESTAMP_TYPE)))
    kept = Filter(node.schema, node, condition)
    return Branch(
        Project(row_of(tuple(items)), kept, tuple(items)), branch.info, branch.timed, branch.watermarked, branch.seen
    )


def _items(row: RowType) -> tuple[Item, ...]:
    return tuple(Item(each.name, ColumnRef(each.name, type=each.type)) for each in row.fields)
