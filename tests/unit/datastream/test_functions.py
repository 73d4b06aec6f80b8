"""Functions of the user's on streams: what they see, what they may return, and what happens when they fail."""

from __future__ import annotations

import pickle
from datetime import UTC, datetime
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from penstock.common import Row, Types, call_arrow, call_sql
from penstock.datastream import (
    CoFlatMapFunction,
    CoMapFunction,
    CoProcessFunction,
    FilterFunction,
    FlatMapFunction,
    KeySelector,
    MapFunction,
    OutputTag,
    Partitioner,
    ProcessFunction,
    StreamExecutionEnvironment,
)
from penstock.datastream.connectors.values import ValuesSink
from penstock.datastream.function_chain import AT_A_TIME, FunctionChain
from penstock.datastream.function_steps import Step
from penstock.datastream.functions import Surroundings
from penstock.errors import FunctionError, RecordError, SchemaError, UnsupportedError
from penstock.plan.nodes import MapRows
from penstock.spi import Task
from tests.computed import results

ORDER = Types.ROW_NAMED(["id", "items"], [Types.LONG(), Types.LIST(Types.ROW_NAMED(["sku"], [Types.STRING()]))])


@pytest.fixture
def env():
    return StreamExecutionEnvironment.get_execution_environment()


@pytest.fixture
def strings(env):
    return lambda *values: env.from_collection(values, Types.STRING())


def rows(*streams):
    """The rows of some streams of one environment, by what a plan of them computes."""
    env = streams[0].get_execution_environment()
    for each in streams:
        each.sink_to(ValuesSink())
    found = results(env._job("test"))
    return found if len(streams) > 1 else found[0]


def values(*streams):
    """The values of streams of single values."""
    found = rows(*streams)
    return [[value for (value,) in each] for each in found] if len(streams) > 1 else [value for (value,) in found]


# --- how they are called -------------------------------------------------------------------------------------


def test_many_rows_are_computed_in_parts():
    count = 2 * AT_A_TIME + 7
    texts = pa.array([str(number) for number in range(count)])
    steps = (
        Step("filter", lambda text: text[-1] != "3", Types.STRING(), "filter"),
        Step("flat_map", lambda text: [text] * (int(text) % 3), Types.STRING(), "flat_map"),
        Step("map", int, Types.INT(), "map"),
    )
    chain = FunctionChain(steps, Types.STRING(), timed=True).open(Task(0, 1))
    stamps = pa.array(range(count), pa.timestamp("us", "UTC"))
    (made, times), origin = chain([texts, stamps])
    wanted = [number for number in range(count) if number % 10 != 3 for _ in range(number % 3)]
    assert made.to_pylist() == wanted
    assert origin.tolist() == wanted
    assert times.cast(pa.int64()).to_pylist() == wanted
    assert len(chain([texts.slice(0, 0), stamps.slice(0, 0)])[0][0]) == 0


@pytest.mark.parametrize("row", [0, AT_A_TIME - 1, AT_A_TIME, 2 * AT_A_TIME + 6])
@pytest.mark.parametrize("raises", [True, False])
def test_an_error_in_any_part_has_the_number_of_its_row(row, raises):
    def number(given):
        if given != row:
            return given
        return given.missing if raises else "not a number"

    chain = FunctionChain((Step("map", number, Types.LONG(), "map"),), Types.LONG()).open(Task(0, 1))
    with pytest.raises(RecordError) as error:
        chain([pa.array(range(2 * AT_A_TIME + 7))])
    assert error.value.offset == row


# --- what they see -------------------------------------------------------------------------------------------


def test_single_values_travel_unwrapped(strings):
    assert values(strings("a", "b").map(str.upper, Types.STRING())) == ["A", "B"]
    assert values(strings("a", "b").filter(lambda text: text > "a")) == ["b"]
    assert values(strings("a b", "").flat_map(str.split, Types.STRING())) == ["a", "b"]


def test_a_null_is_none(strings):
    assert values(strings(None, "a").map(lambda text: text, Types.STRING())) == [None, "a"]


def test_rows_are_seen_by_name_and_position(env):
    orders = env.from_collection([Row(7, [Row("x")])], ORDER)
    made = orders.map(lambda row: f"{row.id} {row[0]} {row['id']} {row.items[0].sku}", Types.STRING())

    assert values(made) == ["7 7 7 x"]


@pytest.mark.parametrize("chained", [True, False])
@pytest.mark.parametrize("value", [Row(1, [Row("x")]), Row(id=1, items=[{"sku": "x"}]), (1, [("x",)]), [1, [["x"]]]])
def test_rows_may_be_returned_as_rows_tuples_lists_and_dictionaries(strings, value, chained):
    """The next function sees rows, whether it runs together with the first or not."""
    made = strings("a").map(lambda _: value, ORDER)
    made = made if chained else made.disable_chaining()

    assert rows(made) == [(1, [{"sku": "x"}])]
    seen = made.map(lambda row: f"{row.id}{row.items[0].sku}{type(row).__name__}", Types.STRING())
    assert values(seen) == ["1xRow"]


def test_maps_are_dictionaries(strings):
    kind = Types.MAP(Types.STRING(), Types.INT())
    made = strings("a").map(lambda text: {text: 1}, kind)

    assert rows(made) == [([("a", 1)],)]
    assert values(made.map(lambda found: found["a"], Types.INT())) == [1]


def test_times_and_decimals_are_pythons(env):
    at = datetime(2026, 11, 21, 12, 0, 0, 5000, tzinfo=UTC)
    kind = Types.ROW_NAMED(["at", "amount"], [Types.INSTANT(), Types.BIG_DEC()])
    made = env.from_collection([(at, Decimal("1.5"))], kind).map(
        lambda row: (row.at.microsecond, row.amount * 2), Types.ROW([Types.INT(), Types.BIG_DEC()])
    )
    assert rows(made) == [(5000, Decimal("3"))]


def test_without_a_type_values_are_of_any_kind(env):
    stream = env.from_collection([{"a": {1, 2}}, {"a": set()}]).map(lambda value: value["a"])
    assert values(stream.map(len, Types.INT())) == [2, 0]
    assert [pickle.loads(each) for each in values(stream)] == [{1, 2}, set()]
    assert values(stream.map(lambda found: found).disable_chaining().map(len, Types.INT())) == [2, 0]


def test_pickled_values_are_printed_as_text(env):
    env.from_collection([{1}, None]).print()
    (sink,) = env.to_job().sinks
    assert sink.schema.names == ("f0",)
    assert results(env._job("test")) == [[("{1}",), ("None",)]]


# --- what they may not return ----------------------------------------------------------------------------------


@pytest.mark.parametrize("value", [Row(1), Row(1, [], 3), "ab", 5, None])
def test_what_is_no_row_of_the_output_type_is_refused(strings, value):
    with pytest.raises(RecordError) as error:
        rows(strings("a", "b").flat_map(lambda text: [(1, []), value] if text == "b" else [], ORDER))
    assert error.value.offset == 1


@pytest.mark.parametrize(
    ("value", "kind", "reason"),
    [
        ("x", Types.INT(), "returned 'x', which is not a value of INT"),
        (1, Types.STRING(), "returned 1, which is not a value of STRING"),
        (2**31, Types.INT(), "returned 2147483648, which is not a value of INT"),
    ],
)
def test_what_is_no_value_of_the_output_type_is_refused(strings, value, kind, reason):
    with pytest.raises(RecordError, match=reason) as error:
        rows(strings("a", "b", "c").filter(lambda text: text != "a").map(lambda text: value, kind))
    assert (error.value.partition, error.value.offset) == (0, 1)


def test_a_collection_is_of_its_type(env):
    with pytest.raises(SchemaError, match="not a value of INT"):
        env.from_collection(["a"], Types.INT())
    with pytest.raises(SchemaError, match="expected a row of 2 columns"):
        env.from_collection([1], Types.ROW([Types.INT(), Types.INT()]))


# --- failures ------------------------------------------------------------------------------------------------


def fails_for_b(text):
    if text == "b":
        raise LookupError("no b")
    return text


class Failing(ProcessFunction):
    def process_element(self, value, ctx):
        yield fails_for_b(value)


@pytest.mark.parametrize(
    "step",
    [
        lambda stream: stream.map(fails_for_b, Types.STRING()),
        lambda stream: stream.filter(fails_for_b),
        lambda stream: stream.flat_map(lambda text: [fails_for_b(text)], Types.STRING()),
        lambda stream: stream.process(Failing(), Types.STRING()),
        lambda stream: stream.flat_map(lambda text: [text, text], Types.STRING()).map(fails_for_b, Types.STRING()),
        lambda stream: stream.map(fails_for_b, Types.STRING()).disable_chaining().map(len, Types.INT()),
    ],
)
def test_an_exception_names_the_record_and_the_line(strings, step):
    with pytest.raises(FunctionError) as error:
        rows(step(strings("a", "b", "c")))
    assert (error.value.partition, error.value.offset) == (0, 1)
    assert "the function raised LookupError (test_functions.py, line " in str(error.value)
    assert ": no b" in str(error.value)
    assert error.value.restartable
    assert not error.value.retriable


def test_an_error_of_penstock_is_passed_on(strings):
    def refuse(text):
        raise RecordError("unreadable", hint="look at it")

    with pytest.raises(RecordError, match=r"unreadable \(look at it\)") as error:
        rows(strings("a").map(refuse, Types.STRING()))
    assert error.value.offset == 0


# --- function classes ----------------------------------------------------------------------------------------


class Shout(MapFunction):
    def map(self, value):
        return value + "!"


class Twice(FlatMapFunction):
    def flat_map(self, value):
        yield value
        yield value


class Short(FilterFunction):
    def filter(self, value):
        return len(value) < 2


def test_function_classes_are_called(strings):
    assert values(strings("a").map(Shout(), Types.STRING())) == ["a!"]
    assert values(strings("a").flat_map(Twice(), Types.STRING())) == ["a", "a"]
    assert values(strings("a", "ab").filter(Short())) == ["a"]
    with pytest.raises(UnsupportedError, match="cannot be called"):
        strings("a").map(5, Types.STRING())


class Opened(MapFunction):
    def __init__(self, log, fails=False):
        self.log, self.fails = log, fails

    def open(self, runtime_context):
        self.context = runtime_context
        self.log.append("open")

    def map(self, value):
        if self.fails:
            raise ValueError("no")
        self.log.append(value)
        return value

    def close(self):
        self.log.append("close")


def test_a_function_is_opened_before_the_first_row_and_closed_after_the_last(strings):
    log = []
    values(strings("a", "b").map(Opened(log), Types.STRING()))
    assert log == ["open", "a", "b", "close"]


def test_a_function_is_closed_after_an_error(strings):
    log = []
    first, second = Opened(log), Opened(log, fails=True)
    with pytest.raises(FunctionError, match="ValueError"):
        values(strings("a").map(first, Types.STRING()).map(second, Types.STRING()))
    assert log == ["open", "open", "a", "close", "close"]


class Unopenable(MapFunction):
    def open(self, runtime_context):
        raise OSError("no service")

    def map(self, value):
        return value


def test_a_function_that_cannot_be_opened_fails_and_the_others_are_closed(strings):
    log = []
    with pytest.raises(FunctionError, match=r"raised OSError .*: no service"):
        values(strings("a").map(Opened(log), Types.STRING()).map(Unopenable(), Types.STRING()))
    assert log == ["open", "close"]


def test_a_function_knows_its_task():
    function = Opened([])
    surroundings = Surroundings(4, 128, {"city": "Ulm"})
    step = Step("map", function, Types.STRING(), "map", "Shout")
    FunctionChain((step,), Types.STRING(), surroundings=surroundings).open(Task(2, 7, attempt=1))
    context = function.context
    assert (context.get_task_name(), context.get_task_name_with_subtasks()) == ("Shout", "Shout (3/4)")
    assert (context.get_index_of_this_subtask(), context.get_number_of_parallel_subtasks()) == (2, 4)
    assert (context.get_attempt_number(), context.get_max_number_of_parallel_subtasks()) == (1, 128)
    assert context.get_job_parameter("city", "-") == "Ulm"
    assert context.get_job_parameter("street", "-") == "-"
    with pytest.warns(UserWarning, match="metrics of functions are not reported yet"):
        context.get_metrics_group()
    for state in ("get_state", "get_list_state", "get_map_state", "get_reducing_state", "get_aggregating_state"):
        with pytest.raises(UnsupportedError, match="state belongs to keyed streams"):
            getattr(context, state)(None)


# --- process functions and side outputs ------------------------------------------------------------------------

LATE, LONG = OutputTag("late", Types.STRING()), OutputTag("long", Types.ROW_NAMED(["n"], [Types.INT()]))


class Sorted(ProcessFunction):
    def process_element(self, value, ctx):
        if value.startswith("late"):
            yield LATE, value
        if len(value) > 5:
            yield LONG, (len(value),)
        yield value[0], value  # a pair that is no side output
        yield OutputTag("nobody"), value


def test_a_process_function_has_side_outputs(strings):
    pair = Types.ROW([Types.STRING(), Types.STRING()])
    main = strings("a", "late b", "c").process(Sorted(), pair)
    late, lengths = main.get_side_output(LATE), main.get_side_output(LONG).map(lambda row: row.n + 1, Types.INT())
    assert rows(main, late, lengths) == [
        [("a", "a"), ("l", "late b"), ("c", "c")],
        [("late b",)],
        [(7,)],
    ]


def test_a_side_output_may_be_all_that_is_taken(strings):
    main = strings("a", "late b").process(Sorted(), Types.ROW([Types.STRING(), Types.STRING()]))
    assert values(main.get_side_output(OutputTag("late", Types.STRING()))) == ["late b"]


def test_side_outputs_without_a_type_are_of_any_kind(strings):
    tag = OutputTag("sets")

    class Sets(ProcessFunction):
        def process_element(self, value, ctx):
            yield tag, {value}

    main = strings("a").process(Sets())
    assert values(main.get_side_output(tag).map(sorted, Types.LIST(Types.STRING()))) == [["a"]]


def test_only_process_functions_have_side_outputs(strings):
    with pytest.raises(UnsupportedError, match="only process functions have side outputs"):
        strings("a").map(str.upper, Types.STRING()).get_side_output(LATE)
    with pytest.raises(ValueError, match="tag_id"):
        OutputTag("")
    assert OutputTag("a", [Types.INT()]).type_info == Types.ROW([Types.INT()])
    assert OutputTag("a") == OutputTag("a", Types.INT()) != OutputTag("b")


class Timed(ProcessFunction):
    def process_element(self, value, ctx):
        assert ctx.timer_service().current_processing_time() > 1_700_000_000_000
        assert ctx.timer_service().current_watermark() == -(2**63)
        yield ctx.timestamp()


class WithTimer(ProcessFunction):
    def process_element(self, value, ctx):
        ctx.timer_service().register_event_time_timer(1)


def test_values_of_a_collection_have_no_timestamps(strings):
    assert values(strings("a").process(Timed(), Types.LONG())) == [None]
    with pytest.raises(FunctionError, match="timers belong to keyed streams"):
        values(strings("a").process(WithTimer(), Types.LONG()))


# --- several streams -------------------------------------------------------------------------------------------


def test_streams_are_united(env):
    first, second = (env.from_collection(each, Types.STRING()) for each in (["a"], ["b", "c"]))
    both = first.union(second).map(Shout(), Types.STRING())
    both.sink_to(ValuesSink())
    both.filter(lambda text: text != "b!").sink_to(ValuesSink())
    found = results(env._job("test"))
    assert found == [[("a!",)], [("b!",), ("c!",)], [("a!",)], [("c!",)]]
    with pytest.raises(SchemaError, match="cannot be united"):
        first.union(env.from_collection([1], Types.INT()))


class Both(CoMapFunction):
    def map1(self, value):
        return f"1{value}"

    def map2(self, value):
        return f"2{value}"


class BothFlat(CoFlatMapFunction):
    def flat_map1(self, value):
        yield f"1{value}"

    def flat_map2(self, value):
        return [f"2{value}"] * value


class BothProcessed(CoProcessFunction):
    def process_element1(self, value, ctx):
        yield f"1{value}{ctx.timestamp()}"

    def process_element2(self, value, ctx):
        yield LATE, f"2{value}"


def test_streams_are_connected(env):
    texts, numbers = env.from_collection(["a"], Types.STRING()), env.from_collection([1, 2], Types.INT())
    both = texts.connect(numbers)
    for stream in (both.map(Both(), Types.STRING()), both.flat_map(BothFlat(), Types.STRING())):
        stream.sink_to(ValuesSink())
    processed = both.process(BothProcessed(), Types.STRING())
    processed.sink_to(ValuesSink())
    processed.get_side_output(LATE).sink_to(ValuesSink())
    assert results(env._job("test")) == [
        [("1a",)],
        [("21",), ("22",)],
        [("1a",)],
        [("21",), ("22",), ("22",)],
        [("1aNone",)],
        [],
        [],
        [("21",), ("22",)],
    ]
    with pytest.raises(UnsupportedError, match="give it the methods map1 and map2"):
        both.map(Shout())


def test_broadcast_repeats_values_and_others_do_not(strings, env):
    env.set_parallelism(3)
    assert values(strings("a", "b").broadcast()) == ["a", "a", "a", "b", "b", "b"]
    for method in ("rebalance", "rescale", "shuffle", "forward"):
        assert values(getattr(strings("a", "b"), method)()) == ["a", "b"]


class First(KeySelector):
    def get_key(self, value):
        return value[0]


class ByLetter(Partitioner):
    def partition(self, key, num_partitions):
        return ord(key) - ord("a")


@pytest.mark.filterwarnings("ignore:partition_custom")
def test_a_partitioner_is_called_and_may_choose_an_instance_that_there_is(strings, env):
    env.set_parallelism(2)
    assert values(strings("a", "b").partition_custom(ByLetter(), First())) == ["a", "b"]
    assert values(strings("a").partition_custom(lambda key, count: count - 1, lambda text: text)) == ["a"]
    with pytest.raises(FunctionError, match="chose 2 of 2 parallel instances"):
        values(strings("a", "c").partition_custom(ByLetter(), First()))


def test_a_partitioner_is_warned_of(strings):
    with pytest.warns(UserWarning, match="partition_custom has no effect here. The partitioner is called"):
        strings("a").partition_custom(ByLetter(), First())


def test_columns_are_picked_by_position(env):
    orders = env.from_collection([(1, "a", 2.5)], Types.ROW([Types.INT(), Types.STRING(), Types.DOUBLE()]))
    assert rows(orders.project(2, 0)) == [(2.5, 1)]
    for wrong in ((), (3,), (-1,)):
        with pytest.raises(SchemaError, match="has no columns"):
            orders.project(*wrong)


# --- runs of functions -----------------------------------------------------------------------------------------


def plan(stream):
    """The nodes above the scan of a stream, the last first."""
    nodes, node = [], stream._node
    while node.inputs:
        nodes.append(node)
        (node,) = node.inputs
    return nodes


def lengths(stream, *others):
    """How many functions each node of a program calls, sink by sink."""
    env = stream.get_execution_environment()
    for each in (stream, *others):
        each.sink_to(ValuesSink())
    found = []
    for sink in env._job("test").sinks:
        node, counts = sink.input, []
        while node.inputs:
            if isinstance(node, MapRows):
                counts.append(len(node.rows.steps))
            (node,) = node.inputs
        found.append(counts)
    return found


def test_functions_that_follow_one_another_are_one_node(strings):
    stream = strings("a").map(str.upper, Types.STRING()).filter(bool).flat_map(Twice(), Types.STRING())
    assert lengths(stream) == [[3]]


def test_a_stream_that_is_taken_twice_ends_a_run(strings):
    upper = strings("a").map(str.upper, Types.STRING())
    assert lengths(upper.map(Shout(), Types.STRING()), upper.filter(bool)) == [[1, 1], [1, 1]]


def test_chains_are_broken_where_the_program_says(strings):
    def run(change):
        first = strings("a").map(str.upper, Types.STRING())
        second = change(first.map(Shout(), Types.STRING()))
        return lengths(second.map(str.lower, Types.STRING()))

    assert run(lambda stream: stream) == [[3]]
    assert run(lambda stream: stream.start_new_chain()) == [[2, 1]]
    assert run(lambda stream: stream.disable_chaining()) == [[1, 1, 1]]


def test_sql_stands_between_functions(strings):
    stream = strings("a", "b").map(str.upper, Types.STRING()).filter(call_sql("f0 = 'B'")).map(len, Types.INT())
    assert lengths(stream) == [[1, 1]]
    assert values(stream) == [1]


# --- functions of arrays -----------------------------------------------------------------------------------------


def test_functions_of_arrays_take_many_values(env):
    numbers = env.from_collection([1, 2, 3, None], Types.LONG())
    doubled = numbers.map(call_arrow(lambda array: pc.multiply(array, 2)), Types.LONG())
    assert values(doubled) == [2, 4, 6, None]
    assert values(numbers.filter(call_arrow(lambda array: pc.greater(array, 1)))) == [2, 3]
    mixed = doubled.map(lambda value: value and value + 1, Types.LONG()).map(call_arrow(pc.negate), Types.LONG())
    assert values(mixed.filter(lambda value: value is not None)) == [-3, -5, -7]


def test_functions_of_record_batches_take_rows(env):
    pairs = env.from_collection([(1, "a"), (2, "b")], Types.ROW_NAMED(["n", "t"], [Types.INT(), Types.STRING()]))

    def swapped(batch):
        return pa.RecordBatch.from_arrays([batch.column("t"), pc.add(batch.column("n"), 1)], names=["x", "y"])

    made = pairs.map(call_arrow(swapped), Types.ROW([Types.STRING(), Types.LONG()]))
    assert rows(made) == [("a", 2), ("b", 3)]
    assert rows(made.filter(call_arrow(lambda batch: pc.equal(batch.column(0), "b")))) == [("b", 3)]


@pytest.mark.parametrize(
    ("function", "reason"),
    [
        (lambda array: array[:1], "expected 1 columns of 2 values, not an array of 1 values"),
        (lambda array: "x", "expected 1 columns of 2 values|has no len"),
        (lambda array: 1 / 0, "ZeroDivisionError"),
    ],
)
def test_functions_of_arrays_return_as_many_values(env, function, reason):
    with pytest.raises(FunctionError, match=reason):
        values(env.from_collection([1, 2], Types.LONG()).map(call_arrow(function), Types.LONG()))


def test_functions_of_arrays_need_a_type(env):
    with pytest.raises(UnsupportedError, match=r"call_arrow\(func\), output_type=Types.STRING"):
        env.from_collection([1], Types.LONG()).map(call_arrow(lambda array: array))
    with pytest.raises(FunctionError, match="expected a boolean array of 1 values"):
        values(env.from_collection([1], Types.LONG()).filter(call_arrow(lambda array: array)))


# --- as data -------------------------------------------------------------------------------------------------


def test_a_chain_survives_a_task_boundary_and_compares(strings):
    (node, *_) = plan(strings("a").map(str.upper, Types.STRING()).filter(Short()))
    copy = pickle.loads(pickle.dumps(node.rows))
    assert list(copy(iter([("a",), ("bc",)]))) == [("A",)]
    (again, *_) = plan(strings("a").map(str.upper, Types.STRING()))
    (same, *_) = plan(strings("a").map(str.upper, Types.STRING()))
    assert again.rows == same.rows
    assert hash(again.rows) == hash(same.rows)


def test_the_numbers_of_rows_are_those_they_came_from(strings):
    (node, *_) = plan(strings("a").flat_map(str.split, Types.STRING()).filter(lambda text: text != "x"))
    chain = node.rows.open(Task(0, 1))
    arrays, origin = chain([pa.array(["a x b", "", "c", "x"])])
    assert arrays[0].to_pylist() == ["a", "b", "c"]
    np.testing.assert_array_equal(origin, [0, 0, 2])


@pytest.mark.parametrize(
    "name", ["KeyedProcessFunction", "ReduceFunction", "WindowedStream", "AsyncFunction", "BroadcastProcessFunction"]
)
def test_what_comes_later_is_refused_by_name(name):
    import penstock.datastream

    with pytest.raises(UnsupportedError, match=f"'{name}': is not supported yet"):
        getattr(penstock.datastream, name)


def test_state_and_windows_are_refused_by_name(strings):
    with pytest.raises(UnsupportedError, match=r"'state.ValueStateDescriptor': is not supported yet"):
        from penstock.datastream.state import ValueStateDescriptor  # noqa: F401
    with pytest.raises(UnsupportedError, match=r"'window.TumblingEventTimeWindows': is not supported yet"):
        from penstock.datastream.window import TumblingEventTimeWindows  # noqa: F401
    for call in (
        lambda: strings("a").key_by(lambda text: text),
        lambda: strings("a").cache(),
        lambda: strings("a").broadcast(object()),
        lambda: strings("a").connect(object()),
        lambda: strings("a").connect(strings("b")).key_by(len, len),
    ):
        with pytest.raises(UnsupportedError, match="is not supported yet"):
            call()


# --- times that Python does not have -------------------------------------------------------------------------------


def test_a_year_that_python_does_not_have_is_an_error_of_its_row():
    chain = FunctionChain((Step("map", str, Types.STRING(), "map"),), Types.SQL_TIMESTAMP()).open(Task(0, 1))
    end = 253_402_300_799_999_999
    (made,), _ = chain([pa.array([0, end]).view(pa.timestamp("us"))])
    assert made.to_pylist() == ["1970-01-01 00:00:00", "9999-12-31 23:59:59.999999"]
    with pytest.raises(RecordError, match="outside the years 1 to 9999, which Python's datetime has") as error:
        chain([pa.array([0, end + 1]).view(pa.timestamp("us"))])
    assert error.value.offset == 1


def test_a_timestamp_that_no_column_holds_is_an_error_of_its_row():
    step = Step("timestamps", lambda value, _: value, Types.LONG(), "assigner")
    chain = FunctionChain((step,), Types.LONG()).open(Task(0, 1))
    (_, times), _ = chain([pa.array([253_402_300_799_999])])
    assert times.cast(pa.int64()).to_pylist() == [253_402_300_799_999_000]
    with pytest.raises(RecordError, match="timestamp 9223372036854775807 ms is beyond the range") as error:
        chain([pa.array([1, 2**63 - 1])])
    assert error.value.offset == 1
