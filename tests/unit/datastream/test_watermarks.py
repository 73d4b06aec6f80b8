"""The watermarks of streams, on the dataflow of a program, batch by batch."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from penstock.common import SimpleStringSchema, Types, WatermarkStrategy, call_sql
from penstock.common.time import Duration
from penstock.common.watermark_strategy import TimestampAssigner, WatermarkGenerator, WatermarkOutput
from penstock.datastream import DataStream, MapFunction, ProcessFunction, StreamExecutionEnvironment, TimeCharacteristic
from penstock.datastream.connectors.kafka import KafkaSource
from penstock.datastream.connectors.values import ValuesSink
from penstock.errors import FunctionError, UnsupportedError
from penstock.flow.graph.dataflow import Dataflow
from penstock.flow.graph.planner import Planner
from penstock.flow.kernels.session import Session
from penstock.plan.nodes import AssignWatermarks, scans
from penstock.plan.planning import plan_job
from penstock.plan.walk import fold
from penstock.spi import HIDDEN, Output
from penstock.types import arrow_schema
from tests.unit.flow.driver import Driver

#: The timestamp of each record in Kafka.
RECORD_MILLIS = 1_700_000_000_000
NONE = -(2**63)


class Number(TimestampAssigner):
    """The seconds that a value begins with."""

    def extract_timestamp(self, value: str, record_timestamp: int) -> int:
        return int(value.partition("@")[0]) * 1000


class Seen(ProcessFunction):
    def process_element(self, value: str, ctx: Any) -> Any:
        yield f"{value}@{ctx.timer_service().current_watermark()}"


class Unseen(ProcessFunction):
    def process_element(self, value: str, ctx: Any) -> Any:
        yield f"{value} {ctx.timestamp()}"


@dataclass
class Prefixed(MapFunction):
    """A dataclass, which has no hash."""

    prefix: str

    def map(self, value: str) -> str:
        return self.prefix + value


class Passing(ProcessFunction):
    """Its context goes elsewhere."""

    def process_element(self, value: str, ctx: Any) -> Any:
        yield str(tell(ctx))


def tell(ctx: Any) -> int:
    found: int = ctx.timer_service().current_watermark()
    return found


NEWEST = WatermarkStrategy.for_monotonous_timestamps()
NUMBERS = NEWEST.with_timestamp_assigner(Number())


@pytest.fixture
def env() -> StreamExecutionEnvironment:
    return StreamExecutionEnvironment.get_execution_environment()


@pytest.fixture
def orders(env: StreamExecutionEnvironment) -> Callable[..., DataStream]:
    built = KafkaSource.builder().set_bootstrap_servers("localhost:9092").set_topics("orders")
    source = built.set_value_only_deserializer(SimpleStringSchema()).build()
    return lambda strategy=None: env.from_source(source, strategy or WatermarkStrategy.no_watermarks(), "orders")


class Program:
    """A program of one source, whose sinks keep their values."""

    def __init__(self, env: StreamExecutionEnvironment, folder: Path):
        self.sinks = plan_job(env.to_job()).sinks
        (self.scan,) = scans(*self.sinks)
        planner = Planner((self.scan,), Session("UTC"))
        for number, sink in enumerate(self.sinks):
            planner.add(sink, number)
        outputs = tuple(Output(number, each.table, each.spec, each.schema) for number, each in enumerate(self.sinks))
        generators = tuple(planner.generators)
        flow = Dataflow(tuple(planner.branches), planner.ordered(), outputs, str(folder), generators=generators)
        self.driver = Driver(flow)

    def run(self, values: Mapping[int, Sequence[str]]) -> list[list[str]]:
        """The results of each sink for a batch of values, by partition."""
        self.driver.partitions = sorted({*self.driver.partitions, *values})
        rows = [(partition, value) for partition, each in values.items() for value in each]
        schema = arrow_schema(self.scan.schema)
        columns = [
            pa.array([value for _, value in rows], field.type)
            if pa.types.is_string(field.type)
            else pa.array([RECORD_MILLIS] * len(rows), pa.timestamp("ms")).cast(field.type)
            for field in schema
        ]
        hidden = pa.array([partition for partition, _ in rows], pa.int32()), pa.array(range(len(rows)), pa.int64())
        batch = pa.RecordBatch.from_arrays([*columns, *hidden], names=[*schema.names, *HIDDEN.names])
        self.driver.run([(0, [batch])], 1)
        return [
            [value for each in self.driver.results(number) for value in each.column(0).to_pylist()]
            for number in range(len(self.sinks))
        ]

    @property
    def assigned(self) -> int:
        """The steps that assign watermarks."""
        found = []
        fold(self.sinks, lambda node, _: found.append(node) if isinstance(node, AssignWatermarks) else None)
        return len(found)


def test_strategies_of_two_branches_have_watermarks_of_their_own(env, orders, tmp_path):
    stream = orders(NEWEST)
    stream.process(Seen(), Types.STRING()).sink_to(ValuesSink())
    stream.assign_timestamps_and_watermarks(NUMBERS).process(Seen(), Types.STRING()).sink_to(ValuesSink())
    program = Program(env, tmp_path)
    program.run({0: ["5"]})
    assert program.run({0: ["6"]}) == [[f"6@{RECORD_MILLIS - 1}"], ["6@4999"]]


def test_what_a_filter_drops_does_not_move_the_watermark_behind_it(env, orders, tmp_path):
    stream = orders()
    stream.assign_timestamps_and_watermarks(NUMBERS).process(Seen(), Types.STRING()).sink_to(ValuesSink())
    kept = stream.filter(call_sql("f0 <> '9'")).assign_timestamps_and_watermarks(NUMBERS)
    kept.process(Seen(), Types.STRING()).sink_to(ValuesSink())
    program = Program(env, tmp_path)
    program.run({0: ["5", "9"]})
    assert program.run({0: ["6"]}) == [["6@8999"], ["6@4999"]]


def test_a_strategy_takes_the_place_of_the_one_before(env, orders, tmp_path):
    stream = orders(NEWEST).assign_timestamps_and_watermarks(
        WatermarkStrategy.no_watermarks().with_timestamp_assigner(Number())
    )
    stream.process(Seen(), Types.STRING()).sink_to(ValuesSink())
    program = Program(env, tmp_path)
    program.run({0: ["5"]})
    assert program.run({0: ["6"]}) == [[f"6@{NONE}"]]


def test_a_strategy_behind_a_function_that_sees_watermarks_is_refused(env, orders):
    stream = orders(NUMBERS).process(Seen(), Types.STRING()).assign_timestamps_and_watermarks(NUMBERS)
    stream.process(Seen(), Types.STRING()).sink_to(ValuesSink())
    with pytest.raises(UnsupportedError, match="comes after a process function that sees the watermarks from before"):
        env.to_job()


@pytest.mark.parametrize(("function", "assigned"), [(Seen(), 1), (Passing(), 1), (Unseen(), 0)])
def test_watermarks_are_measured_for_functions_that_may_ask_for_them(env, orders, tmp_path, function, assigned):
    orders(NUMBERS).process(function, Types.STRING()).sink_to(ValuesSink())
    assert Program(env, tmp_path).assigned == assigned


def test_a_stream_without_such_functions_has_none(env, orders, tmp_path):
    class Same(MapFunction):
        def map(self, value):
            return value

    orders(NUMBERS).map(Same(), Types.STRING()).sink_to(ValuesSink())
    assert Program(env, tmp_path).assigned == 0


def test_the_idleness_of_a_strategy_is_that_of_the_source(env, orders, tmp_path):
    idle = NUMBERS.with_idleness(Duration.of_seconds(30))
    orders().assign_timestamps_and_watermarks(idle).process(Seen(), Types.STRING()).sink_to(ValuesSink())
    assert Program(env, tmp_path).scan.spec.watermark.idle_timeout.total_seconds() == 30


@pytest.mark.filterwarnings("ignore:set_auto_watermark_interval")
@pytest.mark.parametrize("at_source", [True, False])
def test_ingestion_time_has_watermarks_too(env, orders, tmp_path, at_source):
    env.set_stream_time_characteristic(TimeCharacteristic.IngestionTime)
    stream = orders(NEWEST) if at_source else orders().assign_timestamps_and_watermarks(NEWEST)
    stream.process(Seen(), Types.STRING()).sink_to(ValuesSink())
    assert Program(env, tmp_path).assigned == 1


class Extreme(WatermarkGenerator):
    """Java's smallest number before the first value, its largest for the value 9."""

    def __init__(self) -> None:
        self.at = -(2**63)

    def on_event(self, event: str, event_timestamp: int, output: WatermarkOutput) -> None:
        output.emit_watermark(self.at)
        self.at = 2**63 - 1 if event == "9" else event_timestamp

    def on_periodic_emit(self, output: WatermarkOutput) -> None:
        output.emit_watermark(self.at)


def test_the_first_and_the_last_watermark_of_java_are_none_and_the_last_moment(env, orders, tmp_path):
    strategy = WatermarkStrategy.for_generator(Extreme).with_timestamp_assigner(Number())
    orders(strategy).process(Seen(), Types.STRING()).sink_to(ValuesSink())
    program = Program(env, tmp_path)
    assert program.run({0: ["5"]}) == [[f"5@{NONE}"]]
    assert program.run({0: ["9"]}) == [["9@5000"]]
    (((last,),)) = program.run({0: ["6"]})
    assert int(last.partition("@")[2]) > 200_000_000_000_000


@pytest.mark.parametrize(
    ("make", "reason"), [(lambda: 1 // 0, "ZeroDivisionError"), (lambda: None, "expected a WatermarkGenerator")]
)
def test_a_generator_that_cannot_be_made_names_its_step(env, orders, tmp_path, make, reason):
    strategy = WatermarkStrategy.for_generator(make)
    orders(strategy).process(Seen(), Types.STRING()).sink_to(ValuesSink())
    with pytest.raises(FunctionError, match=reason) as raised:
        Program(env, tmp_path).run({0: ["5"]})
    assert "Timestamps/Watermarks" in str(raised.value)


def test_functions_may_be_objects_without_a_hash(env, orders, tmp_path):
    named = orders().map(Prefixed("a"), Types.STRING())
    named.sink_to(ValuesSink())
    named.map(Prefixed("b"), Types.STRING()).sink_to(ValuesSink())
    assert Program(env, tmp_path).run({0: ["5"]}) == [["a5"], ["ba5"]]
