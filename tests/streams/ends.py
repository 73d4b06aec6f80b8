"""Sources and sinks of the programs. The environment says where the broker is, and what topics' names begin with."""

from __future__ import annotations

import os
from typing import Any

from penstock.common import SimpleStringSchema, WatermarkStrategy
from penstock.datastream import DataStream, StreamExecutionEnvironment
from penstock.datastream.connectors.base import DeliveryGuarantee
from penstock.datastream.connectors.kafka import (
    KafkaOffsetsInitializer,
    KafkaRecordSerializationSchema,
    KafkaSink,
    KafkaSource,
    KafkaSourceBuilder,
)

BOOTSTRAP = os.environ["BOOTSTRAP"]
PREFIX = os.environ["TOPIC_PREFIX"]


def environment() -> StreamExecutionEnvironment:
    """An environment in which values keep their order."""
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(1)
    return env


def builder(*topics: str) -> KafkaSourceBuilder:
    """A source of the records that topics hold now."""
    source = KafkaSource.builder().set_bootstrap_servers(BOOTSTRAP).set_group_id(f"{PREFIX}group")
    source.set_starting_offsets(KafkaOffsetsInitializer.earliest()).set_bounded(KafkaOffsetsInitializer.latest())
    return source.set_topics(*(PREFIX + each for each in topics)) if topics else source


def read(env: StreamExecutionEnvironment, topic: str, schema: Any = None) -> DataStream:
    """The values of a topic, strings by default."""
    source = builder(topic).set_value_only_deserializer(schema or SimpleStringSchema()).build()
    return env.from_source(source, WatermarkStrategy.no_watermarks(), f"from {topic}")


def sink(serializer: Any, guarantee: DeliveryGuarantee = DeliveryGuarantee.AT_LEAST_ONCE) -> KafkaSink:
    """A sink with a serializer of records."""
    made = KafkaSink.builder().set_bootstrap_servers(BOOTSTRAP).set_record_serializer(serializer)
    made.set_delivery_guarantee(guarantee).set_transactional_id_prefix(f"{PREFIX}tx")
    return made.set_property("transaction.timeout.ms", "60000").build()


def write(stream: DataStream, topic: str, schema: Any = None) -> None:
    """Writes values, strings by default, without keys."""
    serializer = KafkaRecordSerializationSchema.builder().set_topic(PREFIX + topic)
    serializer.set_value_serialization_schema(schema or SimpleStringSchema())
    stream.sink_to(sink(serializer.build())).name(f"to {topic}")
