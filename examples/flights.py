"""Flights that left New York in 2013, in Python: late departures to one topic, cancelled flights to another; read
once, written exactly once. The same as flights.sql.

Run with ``python examples/flights.py``; BOOTSTRAP names the brokers and TOPIC_PREFIX stands before every topic.
"""

from __future__ import annotations

import os

from penstock.common import RowTypeInfo, Types, WatermarkStrategy, call_sql
from penstock.datastream import StreamExecutionEnvironment
from penstock.datastream.connectors.base import DeliveryGuarantee
from penstock.datastream.connectors.kafka import (
    KafkaOffsetsInitializer,
    KafkaRecordSerializationSchema,
    KafkaSink,
    KafkaSource,
)
from penstock.datastream.formats.json import JsonRowDeserializationSchema, JsonRowSerializationSchema

BOOTSTRAP = os.environ.get("BOOTSTRAP", "localhost:9092")
PREFIX = os.environ.get("TOPIC_PREFIX", "")

FLIGHT = Types.ROW_NAMED(
    ["carrier", "flight", "origin", "dest", "time_hour", "dep_time", "dep_delay"],
    [
        Types.STRING(),
        Types.INT(),
        Types.STRING(),
        Types.STRING(),
        Types.INSTANT(),
        Types.INT(),  # null: the flight was cancelled
        Types.INT(),  # minutes
    ],
)
CANCELLED = Types.ROW_NAMED(
    ["carrier", "flight", "origin", "dest", "time_hour"],
    [Types.STRING(), Types.INT(), Types.STRING(), Types.STRING(), Types.INSTANT()],
)
DELAYED = Types.ROW_NAMED(
    [*CANCELLED.get_field_names(), "dep_delay"],
    [*CANCELLED.get_field_types(), Types.INT()],
)


def sink(topic: str, row: RowTypeInfo) -> KafkaSink:
    """A sink that writes JSON exactly once. Both sinks have one prefix, so their records appear together."""
    schema = JsonRowSerializationSchema.builder().with_type_info(row).build()
    serializer = KafkaRecordSerializationSchema.builder().set_topic(PREFIX + topic)
    return (
        KafkaSink.builder()
        .set_bootstrap_servers(BOOTSTRAP)
        .set_record_serializer(serializer.set_value_serialization_schema(schema).build())
        .set_delivery_guarantee(DeliveryGuarantee.EXACTLY_ONCE)
        .set_transactional_id_prefix(PREFIX + "flights-python")
        .build()
    )


def main() -> None:
    """Read the flights once and write both topics."""
    env = StreamExecutionEnvironment.get_execution_environment()
    env.enable_checkpointing(1000)
    source = (
        KafkaSource.builder()
        .set_bootstrap_servers(BOOTSTRAP)
        .set_topics(PREFIX + "flights")
        .set_group_id(PREFIX + "flights-python")
        .set_starting_offsets(KafkaOffsetsInitializer.earliest())
        .set_bounded(KafkaOffsetsInitializer.latest())
        .set_value_only_deserializer(JsonRowDeserializationSchema.builder().type_info(FLIGHT).build())
        .build()
    )
    flights = env.from_source(source, WatermarkStrategy.no_watermarks(), "flights")

    (
        flights.filter(call_sql("dep_delay > 60"))
        .map(call_sql("carrier, flight, origin, dest, time_hour, dep_delay"))
        .sink_to(sink("flights-delayed-python", DELAYED))
        .name("delayed")
    )
    (
        flights.filter(call_sql("dep_time IS NULL"))
        .map(call_sql("carrier, flight, origin, dest, time_hour"))
        .sink_to(sink("flights-cancelled-python", CANCELLED))
        .name("cancelled")
    )
    env.execute("flights-python")


if __name__ == "__main__":
    main()
