"""Streams of values, from sources through functions to sinks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NoReturn

from penstock.common import ExecutionConfig, SqlExpression, TypeInformation, Types, WatermarkStrategy
from penstock.common.arguments import expect
from penstock.common.arrow_functions import ArrowFunction
from penstock.common.typeinfo import PickledBytesTypeInfo, RowTypeInfo, expect_type, from_logical
from penstock.common.watermark_strategy import expect_strategy
from penstock.datastream import execution
from penstock.datastream.collected import CloseableIterator
from penstock.datastream.connected_streams import ConnectedStreams
from penstock.datastream.connectors.base import Sink
from penstock.datastream.connectors.print import PrintTo
from penstock.datastream.connectors.values import ValuesSink
from penstock.datastream.data_stream_sink import DataStreamSink
from penstock.datastream.function_steps import Step
from penstock.datastream.functions import (
    FilterFunction,
    FlatMapFunction,
    KeySelector,
    MapFunction,
    Partitioner,
    ProcessFunction,
    function_of,
)
from penstock.datastream.lowering import branches_of
from penstock.datastream.output_tag import OutputTag
from penstock.datastream.refusals import lookup, refused
from penstock.datastream.slot_sharing_group import SlotSharingGroup
from penstock.datastream.transformations import (
    FunctionStep,
    PartitionStep,
    SideOutput,
    SinkStep,
    SourceStep,
    SqlFilter,
    SqlMap,
    Transformation,
    UnionStep,
    WatermarkStep,
    positive,
)
from penstock.errors import Problem, SchemaError, UnsupportedError
from penstock.plan.nodes import Node, row_of
from penstock.types import RowType

if TYPE_CHECKING:
    from penstock.datastream.stream_execution_environment import StreamExecutionEnvironment


__all__ = ["CloseableIterator", "ConnectedStreams", "DataStream", "DataStreamSink"]

__getattr__ = lookup("data_stream")

_WATERMARKS = "Timestamps/Watermarks"


class DataStream:
    """A stream of values of one type. Environments make streams; methods that describe the last step change it and
    return the stream, all others return a new one."""

    def __init__(self, environment: StreamExecutionEnvironment, step: Transformation):
        self._environment = environment
        self._step = step

    # --- values ----------------------------------------------------------------------------------------------

    def map(
        self,
        func: Callable[[Any], Any] | MapFunction | SqlExpression | ArrowFunction,
        output_type: TypeInformation | None = None,
    ) -> DataStream:
        """Each value changed by ``func``: a Python function, ``call_sql`` with a select list, or ``call_arrow`` with a
        function of arrays, which needs ``output_type``.

        Without ``output_type`` the results of a Python function are pickled values of any kind. SQL gives the types
        itself. Raises SqlError, SchemaError and UnsupportedError.
        """
        if isinstance(func, SqlExpression):
            return self._select(func, output_type)
        return self._call("map", func, "map", "Map", output_type)

    def flat_map(
        self, func: Callable[[Any], Any] | FlatMapFunction, output_type: TypeInformation | None = None
    ) -> DataStream:
        """Each value turned into any number of values by ``func``, which returns or yields them."""
        return self._call("flat_map", func, "flat_map", "Flat Map", output_type)

    def filter(self, func: Callable[[Any], bool] | FilterFunction | SqlExpression | ArrowFunction) -> DataStream:
        """The values for which ``func`` is true: a Python function, ``call_sql`` with a condition, or ``call_arrow``
        with a function of arrays."""
        if isinstance(func, SqlExpression):
            from penstock.sql import parse_condition

            wanted = parse_condition(func.text, self._columns)
            return self._then(SqlFilter(name="Filter", info=self.get_type(), inputs=(self._step,), condition=wanted))
        return self._call("filter", func, "filter", "Filter", self.get_type())

    def process(self, func: ProcessFunction, output_type: TypeInformation | None = None) -> DataStream:
        """Each value turned into any number of values by ``func``, and into values of side outputs. Raises
        UnsupportedError for a function of keyed streams."""
        return self._call("process", func, "process_element", "PROCESS", output_type)

    def get_side_output(self, output_tag: OutputTag) -> DataStream:
        """The values of a side output of the process function before. Raises UnsupportedError for another step."""
        if not isinstance(self._step, FunctionStep) or self._step.steps[0].kind != "process":
            hint = "call it on the stream that process(...) returns"
            raise UnsupportedError((Problem("only process functions have side outputs", "get_side_output", hint=hint),))
        expect(output_tag, OutputTag, "get_side_output", "the tag that the function yields")
        name = f"Side Output {output_tag.tag_id}"
        return self._then(SideOutput(name=name, info=output_tag.type_info, inputs=(self._step,), tag=output_tag))

    def project(self, *field_indexes: int) -> DataStream:
        """The columns of rows at these positions, as rows ``f0``, ``f1``, ... Raises SchemaError for other values and
        positions."""
        fields, info = self.get_type().row.fields, self.get_type()
        if info.single or not field_indexes or any(not 0 <= each < len(fields) for each in field_indexes):
            reason = f"{info} has no columns {', '.join(map(str, field_indexes)) or '(none are given)'}"
            raise SchemaError((Problem(reason, "project"),))
        made = Types.ROW([from_logical(fields[each].type) for each in field_indexes])
        step = Step("map", _Picked(field_indexes), made, name="Projection")
        return self._then(FunctionStep(name="Projection", info=made, inputs=(self._step,), steps=(step,)))

    def union(self, *streams: DataStream) -> DataStream:
        """The values of this stream and of others of the same type. Raises SchemaError for another type."""
        for each in streams:
            expect(each, DataStream, "union")
            if each.get_type().row != self.get_type().row or each.get_type().single != self.get_type().single:
                reason = f"a stream of {each.get_type()} cannot be united with one of {self.get_type()}"
                raise SchemaError((Problem(reason, "union", hint="map it to the same type"),))
        steps = (self._step, *(each._step for each in streams))
        return self._then(UnionStep(name="Union", info=self.get_type(), inputs=steps))

    def connect(self, ds: DataStream) -> ConnectedStreams:
        """Both streams, for functions with a method for each. Raises UnsupportedError for a broadcast stream."""
        if not isinstance(ds, DataStream):
            refused("connect with a broadcast stream", "read the rules in the open method of a function")
        return ConnectedStreams(self, ds)

    def assign_timestamps_and_watermarks(self, watermark_strategy: WatermarkStrategy) -> DataStream:
        """The values with the timestamps that the strategy's assigner finds, and with its watermarks in place of those
        from before. Process functions see them."""
        strategy = expect_strategy(watermark_strategy, "assign_timestamps_and_watermarks")
        if strategy.assigner is None and not strategy.generates:
            return self
        info = self.get_type()
        return self._then(WatermarkStep(name=_WATERMARKS, info=info, inputs=(self._step,), strategy=strategy))

    # --- distribution ----------------------------------------------------------------------------------------

    def rebalance(self) -> DataStream:
        """In Flink values go to parallel instances in turn. Here batches are cut into tasks by volume, which spreads
        them as well, and keeps the order of each partition."""
        return self._partitioned("REBALANCE")

    def rescale(self) -> DataStream:
        """As :meth:`rebalance`."""
        return self._partitioned("RESCALE")

    def shuffle(self) -> DataStream:
        """As :meth:`rebalance`; in Flink values go to parallel instances at random."""
        return self._partitioned("SHUFFLE")

    def forward(self) -> DataStream:
        """Values stay in their task, as always."""
        return self._partitioned("FORWARD")

    def broadcast(self, *broadcast_state_descriptors: Any) -> DataStream:
        """Every value comes once for each parallel instance, as many as the environment's parallelism. Raises
        UnsupportedError for broadcast state."""
        if broadcast_state_descriptors:
            refused("broadcast state", "read the rules in the open method of a function")
        step = Step("repeat", self._environment.get_parallelism(), self.get_type(), name="Broadcast")
        return self._partitioned("BROADCAST", step)

    def partition_custom(
        self, partitioner: Callable[[Any, int], int] | Partitioner, key_selector: Callable[[Any], Any] | KeySelector
    ) -> DataStream:
        """In Flink values go to the parallel instance that ``partitioner`` chooses by a key. Here it is called, and may
        refuse a value; tasks are cut by volume. To choose partitions of a topic, see the sink."""
        self._environment._settings.note("DataStream.partition_custom")
        chooses: Any = function_of(partitioner, "partition")
        key: Any = function_of(key_selector, "get_key")
        chosen = _Chosen(
            getattr(chooses, "partition", chooses), getattr(key, "get_key", key), self._environment.get_parallelism()
        )
        return self._partitioned("CUSTOM", Step("check", chosen, self.get_type(), name="Partition Custom"))

    # --- sinks -----------------------------------------------------------------------------------------------

    def sink_to(self, sink: Any) -> DataStreamSink:
        """Write the stream to a :class:`~penstock.datastream.connectors.base.Sink`, which takes part in the next
        ``execute``. Raises UnsupportedError for anything else."""
        if not isinstance(sink, Sink):
            hint = "for example a KafkaSink"
            raise UnsupportedError((Problem(f"{type(sink).__name__} is not a sink", "sink_to", hint=hint),))
        step = SinkStep(name="", info=self.get_type(), inputs=(self._step,), sink=sink)
        return self._environment._add(DataStreamSink(self._environment._settings, step))

    def add_sink(self, sink_func: Any) -> DataStreamSink:
        """Write the stream to a sink of the former API: a ``FlinkKafkaProducer``."""
        return self.sink_to(sink_func)

    def print(self, sink_identifier: str | None = None) -> DataStreamSink:
        """Print every value as a line, with ``sink_identifier`` before it."""
        return self._shown().sink_to(PrintTo(sink_identifier))

    def execute_and_collect(
        self, job_execution_name: str | None = None, limit: int | None = None
    ) -> CloseableIterator | list[Any]:
        """Run the program, and return this stream's values: an iterator of them as they come, which ends the job when
        it is closed, or with ``limit`` a list of the first ones. Raises the PenstockError that ended the job."""
        sink = ValuesSink(repeats=True)
        self.sink_to(sink).name("collected")
        running = execution.start(self._environment._job(job_execution_name))
        values = CloseableIterator(running, sink, self.get_type())
        if limit is None:
            return values
        with values:
            return [value for value, _ in zip(values, range(limit), strict=False)]

    # --- describing ------------------------------------------------------------------------------------------

    def get_type(self) -> TypeInformation:
        """The type of the values."""
        return self._step.info

    def get_execution_environment(self) -> StreamExecutionEnvironment:
        """The environment of the stream."""
        return self._environment

    def get_execution_config(self) -> ExecutionConfig:
        """The execution configuration of the environment."""
        return self._environment.get_config()

    def name(self, name: str) -> DataStream:
        """Name the step before, for plans and messages."""
        self._step.name = name
        return self

    def get_name(self) -> str:
        """The name of the step before."""
        return self._step.name

    def set_description(self, description: str) -> DataStream:
        """Describe the step before, for plans."""
        self._step.description = description
        return self

    def uid(self, uid: str) -> DataStream:
        """Name the step before, so that a checkpoint finds it again after other steps of the job changed. The offsets
        of a source are found by its uid, by default its name."""
        self._step.uid = uid
        return self

    def set_uid_hash(self, uid_hash: str) -> DataStream:
        """In Flink the id of the step in a checkpoint of a former version. Warns."""
        self._environment._settings.note("DataStream.set_uid_hash")
        return self

    def set_parallelism(self, parallelism: int) -> DataStream:
        """How many tasks read at a time, for a source of Kafka. Functions run in the tasks that read: for them, and for
        other sources, it is warned of."""
        step = self._step
        step.parallelism = positive(parallelism)
        acts = isinstance(step, SourceStep) and (step.source.parallel or parallelism == 1)
        if not acts and parallelism != self._environment.get_parallelism():
            self._environment._settings.note("DataStream.set_parallelism")
        return self

    def force_non_parallel(self) -> DataStream:
        """As ``set_parallelism(1)``."""
        return self.set_parallelism(1)

    def set_max_parallelism(self, max_parallelism: int) -> DataStream:
        """In Flink the largest parallelism of the step. Warns."""
        positive(max_parallelism)
        self._environment._settings.note("DataStream.set_max_parallelism")
        return self

    def set_buffer_timeout(self, timeout_millis: int) -> DataStream:
        """In Flink how long the step's results wait for a buffer to fill. Warns."""
        self._environment._settings.note("DataStream.set_buffer_timeout")
        return self

    def start_new_chain(self) -> DataStream:
        """The function before does not run together with those before it: it gets its values in a separate stage."""
        self._step.starts_chain = True
        return self

    def disable_chaining(self) -> DataStream:
        """The function before does not run together with others: it gets its values in a separate stage."""
        self._step.starts_chain = self._step.ends_chain = True
        return self

    def slot_sharing_group(self, slot_sharing_group: str | SlotSharingGroup) -> DataStream:
        """In Flink which operators share resources. Warns."""
        self._environment._settings.note("DataStream.slot_sharing_group")
        return self

    # --- later -----------------------------------------------------------------------------------------------

    def key_by(self, key_selector: Any, key_type: TypeInformation | None = None) -> NoReturn:
        """Raises UnsupportedError: keyed streams are not supported yet."""
        refused("key_by")

    def window_all(self, window_assigner: Any) -> NoReturn:
        """Raises UnsupportedError: windows are not supported yet."""
        refused("window_all")

    def cache(self) -> NoReturn:
        """Raises UnsupportedError."""
        refused("cache", "write the stream to a topic, and read that")

    # --- steps -----------------------------------------------------------------------------------------------

    @property
    def _columns(self) -> RowType:
        """The columns of the stream, as SQL sees them."""
        return self.get_type().row

    @property
    def _node(self) -> Node:
        """The node of the stream in a plan, if it has one source."""
        (branch,) = branches_of(self._step, self._environment._surroundings)
        return branch.node

    def _then(self, step: Transformation) -> DataStream:
        return DataStream(self._environment, step)

    def _select(self, func: SqlExpression, output_type: TypeInformation | None) -> DataStream:
        from penstock.sql import parse_projection

        expect_type(output_type, "map")
        items = parse_projection(func.text, self._columns)
        schema = row_of(items)
        if output_type is not None and [f.type for f in output_type.row.fields] != [f.type for f in schema.fields]:
            reason = f"the SQL gives {schema}, not {output_type}"
            raise SchemaError((Problem(reason, hint="leave output_type out, or CAST in the SQL"),))
        single = self.get_type().single and len(schema.fields) == 1
        made = output_type or (from_logical(schema.fields[0].type) if single else RowTypeInfo(schema))
        return self._then(SqlMap(name="Map", info=made, inputs=(self._step,), items=items))

    def _call(self, kind: str, func: Any, method: str, name: str, output_type: TypeInformation | None) -> DataStream:
        if isinstance(func, ArrowFunction) and (output_type is None or isinstance(output_type, PickledBytesTypeInfo)):
            hint = f"{kind}(call_arrow(func), output_type=Types.STRING())"
            raise UnsupportedError((Problem("a function of arrays needs the type of its results", hint=hint),))
        function = func if isinstance(func, ArrowFunction) else function_of(func, method)
        made = expect_type(output_type, kind) or Types.PICKLED_BYTE_ARRAY()
        step = Step(kind, function, made, method, name)
        return self._then(FunctionStep(name=name, info=made, inputs=(self._step,), steps=(step,)))

    def _partitioned(self, strategy: str, *steps: Step) -> DataStream:
        info = self.get_type()
        return self._then(
            PartitionStep(name="Partition", info=info, inputs=(self._step,), strategy=strategy, steps=steps)
        )

    def _shown(self) -> DataStream:
        """The stream as text if its values are pickled, as PyFlink prints them."""
        if not isinstance(self.get_type(), PickledBytesTypeInfo):
            return self
        return self.map(str, Types.STRING())


def assign_watermarks(stream: DataStream, strategy: WatermarkStrategy) -> DataStream:
    """A stream from a source with the timestamps and watermarks of a strategy. The source measures those of records'
    own timestamps itself."""
    if strategy.assigner is None and strategy.generator is None:
        return stream
    return stream.assign_timestamps_and_watermarks(strategy)


class _Picked:
    """Picks columns of rows by their positions."""

    def __init__(self, positions: Sequence[int]):
        self._positions = tuple(positions)

    def __call__(self, row: Any) -> tuple[Any, ...]:
        return tuple(row[each] for each in self._positions)


class _Chosen:
    """Calls a partitioner for a value."""

    def __init__(self, partitioner: Callable[[Any, int], int], key: Callable[[Any], Any], parallelism: int):
        self._partitioner, self._key, self._parallelism = partitioner, key, parallelism

    def __call__(self, value: Any) -> None:
        found = self._partitioner(self._key(value), self._parallelism)
        if not 0 <= found < self._parallelism:
            raise ValueError(f"the partitioner chose {found} of {self._parallelism} parallel instances")
