"""How functions of the user's see rows."""

from __future__ import annotations

import pytest

from penstock.common import Row, SimpleStringSchema, Types, WatermarkStrategy
from penstock.datastream import FilterFunction, FlatMapFunction, MapFunction, StreamExecutionEnvironment
from penstock.datastream.connectors.kafka import KafkaSource
from penstock.errors import RecordError, UnsupportedError

ORDER = Types.ROW_NAMED(["id", "items"], [Types.LONG(), Types.LIST(Types.ROW_NAMED(["sku"], [Types.STRING()]))])


@pytest.fixture
def strings():
    source = (
        KafkaSource.builder()
        .set_bootstrap_servers("localhost:9092")
        .set_topics("in")
        .set_value_only_deserializer(SimpleStringSchema())
        .build()
    )
    env = StreamExecutionEnvironment.get_execution_environment()
    return env.from_source(source, WatermarkStrategy.no_watermarks(), "in")


def run(stream, *rows):
    return list(stream._node.rows(iter(rows)))


def test_single_values_travel_unwrapped(strings):
    assert run(strings.map(str.upper, Types.STRING()), ("a",), ("b",)) == [("A",), ("B",)]
    assert run(strings.filter(lambda text: text > "a"), ("a",), ("b",)) == [("b",)]
    assert run(strings.flat_map(str.split, Types.STRING()), ("a b",), ("",)) == [("a",), ("b",)]


def test_a_null_is_none(strings):
    assert run(strings.map(lambda text: text, Types.STRING()), (None,)) == [(None,)]


def test_rows_are_seen_by_name_and_position(strings):
    rows = strings.map(lambda text: Row(1, []), ORDER)
    made = rows.map(lambda row: f"{row.id} {row[0]} {row['id']} {row.items[0].sku}", Types.STRING())

    assert run(made, (7, [{"sku": "x"}])) == [("7 7 7 x",)]


@pytest.mark.parametrize("value", [Row(1, [Row("x")]), Row(id=1, items=[{"sku": "x"}]), (1, [("x",)]), [1, [["x"]]]])
def test_rows_may_be_returned_as_rows_tuples_lists_and_dictionaries(strings, value):
    assert run(strings.map(lambda _: value, ORDER), ("a",)) == [(1, [("x",)])]


def test_maps_are_dictionaries(strings):
    kind = Types.MAP(Types.STRING(), Types.INT())
    made = strings.map(lambda text: {text: 1}, kind).map(lambda found: found["a"], Types.INT())

    assert run(strings.map(lambda text: {text: 1}, kind), ("a",)) == [([("a", 1)],)]
    assert run(made, ([("a", 1)],)) == [(1,)]


@pytest.mark.parametrize("value", [Row(1), Row(1, [], 3), "ab", 5, None])
def test_what_is_no_row_of_the_output_type_is_refused(strings, value):
    with pytest.raises(RecordError):
        run(strings.map(lambda _: value, ORDER), ("a",))


def test_a_missing_output_type_is_asked_for(strings):
    with pytest.raises(UnsupportedError, match=r"output_type=Types.STRING"):
        strings.map(str.upper)


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


class Opened(Shout):
    def open(self, runtime_context):
        self.opened = True


def test_function_classes_are_called(strings):
    assert run(strings.map(Shout(), Types.STRING()), ("a",)) == [("a!",)]
    assert run(strings.flat_map(Twice(), Types.STRING()), ("a",)) == [("a",), ("a",)]
    assert run(strings.filter(Short()), ("a",), ("ab",)) == [("a",)]


def test_a_function_that_wants_to_be_opened_is_refused(strings):
    with pytest.raises(UnsupportedError, match=r"Opened.open is not called"):
        strings.map(Opened(), Types.STRING())
    with pytest.raises(UnsupportedError, match="cannot be called"):
        strings.map(5, Types.STRING())
