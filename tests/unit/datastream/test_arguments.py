"""Arguments that have to be objects of these packages: another one is named where it is given."""

from __future__ import annotations

import contextlib
import inspect
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from penstock.common import Configuration, SimpleStringSchema, Types, WatermarkStrategy
from penstock.common.serialization import TypeInformationSerializationSchema
from penstock.datastream import OutputTag, StreamExecutionEnvironment
from penstock.datastream.connectors.kafka import (
    FlinkKafkaConsumer,
    FlinkKafkaProducer,
    KafkaOffsetsInitializer,
    KafkaRecordSerializationSchema,
    KafkaSink,
    KafkaSource,
)
from penstock.datastream.formats.csv import CsvRowDeserializationSchema
from penstock.datastream.formats.json import JsonRowDeserializationSchema, JsonRowSerializationSchema
from penstock.errors import ArgumentError, DefinitionError, PenstockError

ODD = object()
SOURCE = (
    KafkaSource.builder()
    .set_bootstrap_servers("localhost:9092")
    .set_topics("orders")
    .set_value_only_deserializer(SimpleStringSchema())
    .build()
)
BROKERS = {"bootstrap.servers": "localhost:9092", "group.id": "g"}


def env() -> StreamExecutionEnvironment:
    return StreamExecutionEnvironment.get_execution_environment()


def numbers() -> Any:
    return env().from_collection([1], Types.INT())


class Strategy:
    """A strategy of one's own, which PyFlink takes in no form but Java's."""

    def create_watermark_generator(self) -> None: ...


@pytest.mark.parametrize(
    "give",
    [
        lambda given: env().from_source(SOURCE, given, "orders"),
        lambda given: numbers().assign_timestamps_and_watermarks(given),
        lambda given: FlinkKafkaConsumer("orders", SimpleStringSchema(), BROKERS).assign_timestamps_and_watermarks(
            given
        ),
    ],
)
@pytest.mark.parametrize("given", [ODD, Strategy(), Strategy, WatermarkStrategy, None])
def test_a_strategy_of_one_s_own_is_told_which_there_are(give: Callable[[Any], Any], given: Any):
    with pytest.raises(ArgumentError, match=r"takes a WatermarkStrategy, not (an object of|the class) ") as raised:
        give(given)
    for name in (
        "no_watermarks",
        "for_monotonous_timestamps",
        "for_bounded_out_of_orderness(Duration)",
        "for_generator",
    ):
        assert name in str(raised.value)
    assert isinstance(raised.value, TypeError)
    assert isinstance(raised.value, DefinitionError)


@pytest.mark.parametrize(
    ("call", "wanted"),
    [
        (lambda: env().from_source(ODD, WatermarkStrategy.no_watermarks(), "s"), "Source"),
        (lambda: env().from_source(SOURCE, WatermarkStrategy.no_watermarks(), "s", ODD), "TypeInformation"),
        (lambda: env().add_source(ODD), "Source"),
        (lambda: env().from_collection([1], ODD), "TypeInformation"),
        (lambda: env().set_state_backend(ODD), "StateBackend"),
        (lambda: env().set_restart_strategy(ODD), "RestartStrategyConfiguration"),
        (lambda: env().get_config().set_restart_strategy(ODD), "RestartStrategyConfiguration"),
        (lambda: env().configure({"a": "b"}), "Configuration"),
        (lambda: StreamExecutionEnvironment.get_execution_environment(ODD), "Configuration"),
        (lambda: Configuration(ODD), "Configuration"),
        (lambda: env().get_checkpoint_config().set_checkpoint_storage("file:///a"), "CheckpointStorage"),
        (lambda: env().get_checkpoint_config().set_alignment_timeout(5), "Duration"),
        (lambda: numbers().map(str, "STRING"), "TypeInformation"),
        (lambda: numbers().flat_map(str, ODD), "TypeInformation"),
        (lambda: numbers().union(ODD), "DataStream"),
        (lambda: OutputTag("late", ODD), "TypeInformation"),
        (lambda: WatermarkStrategy.for_bounded_out_of_orderness(5), "Duration"),
        (lambda: WatermarkStrategy.no_watermarks().with_idleness(5), "Duration"),
        (lambda: WatermarkStrategy.no_watermarks().with_timestamp_assigner(ODD), "TimestampAssigner"),
        (lambda: KafkaSource.builder().set_topics(["a", "b"]), "str"),
        (lambda: KafkaSource.builder().set_partitions({("orders", 0)}), "KafkaTopicPartition"),
        (lambda: KafkaSource.builder().set_properties("acks"), "Mapping"),
        (lambda: KafkaSink.builder().set_delivery_guarantee("exactly-once"), "DeliveryGuarantee"),
        (lambda: KafkaSink.builder().set_kafka_producer_config(ODD), "Mapping"),
        (lambda: KafkaRecordSerializationSchema.builder().set_value_serialization_schema(ODD), "SerializationSchema"),
        (lambda: KafkaRecordSerializationSchema.builder().set_key_serialization_schema(str), "SerializationSchema"),
        (lambda: KafkaOffsetsInitializer.committed_offsets("latest"), "KafkaOffsetResetStrategy"),
        (lambda: KafkaOffsetsInitializer.offsets([1]), "Mapping"),
        (lambda: KafkaOffsetsInitializer.timestamp("yesterday"), "int"),
        (lambda: FlinkKafkaConsumer("t", ODD, BROKERS), "DeserializationSchema or KafkaDeserializationSchema"),
        (lambda: FlinkKafkaConsumer("t", SimpleStringSchema(), ODD), "Mapping"),
        (lambda: FlinkKafkaProducer("t", ODD, BROKERS), "SerializationSchema or KafkaSerializationSchema"),
        (lambda: FlinkKafkaProducer("t", SimpleStringSchema(), BROKERS, semantic="none"), "Semantic"),
        (lambda: JsonRowDeserializationSchema.builder().type_info(ODD).build(), "TypeInformation"),
        (lambda: JsonRowSerializationSchema.builder().with_type_info(ODD).build(), "TypeInformation"),
        (lambda: CsvRowDeserializationSchema.Builder(ODD), "TypeInformation"),
        (lambda: TypeInformationSerializationSchema(ODD), "TypeInformation"),
        (lambda: Types.LIST(int), "TypeInformation"),
        (lambda: Types.MAP(Types.STRING(), "INT"), "TypeInformation"),
        (lambda: Types.ROW([ODD]), "TypeInformation"),
    ],
)
def test_another_object_is_named_with_what_the_call_takes(call: Callable[[], Any], wanted: str):
    with pytest.raises(ArgumentError, match=f"takes a {wanted}"):
        call()


def objects() -> Iterator[Any]:
    stream = numbers()
    yield from (stream, stream.print(), stream.get_execution_environment())
    yield from (env().get_config(), env().get_checkpoint_config(), Configuration(), WatermarkStrategy.no_watermarks())
    yield from (KafkaSource.builder(), KafkaSink.builder(), KafkaRecordSerializationSchema.builder())
    yield from (JsonRowDeserializationSchema.builder(), JsonRowSerializationSchema.builder())


#: Calls that run a job, and one that fills a dictionary of the caller's.
NOT_CALLED = {"execute", "execute_async", "execute_and_collect", "close", "add_all_to_dict"}


def methods() -> Iterator[tuple[str, Callable[..., Any]]]:
    for each in objects():
        for name, method in inspect.getmembers(each, inspect.ismethod):
            if not name.startswith("_") and name not in NOT_CALLED:
                yield f"{type(each).__qualname__}.{name}", method


@pytest.mark.parametrize(("name", "method"), list(methods()), ids=lambda each: each if isinstance(each, str) else "")
def test_no_call_fails_deep_inside_for_want_of_an_attribute(name: str, method: Callable[..., Any]):
    parameters = inspect.signature(method).parameters.values()
    required = [each for each in parameters if each.default is each.empty and each.kind is not each.VAR_KEYWORD]
    with warnings.catch_warnings(), contextlib.suppress(PenstockError, TypeError, ValueError):
        warnings.simplefilter("ignore")
        method(*(ODD for _ in required))
