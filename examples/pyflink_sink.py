"""A KafkaSink with Kafka's own serializer, exactly once, and a source that finds new topics while it runs; both log in.

As on Flink's pages about its Kafka connector. Run with ``python examples/pyflink_sink.py``; BOOTSTRAP names the brokers
and TOPIC_PREFIX stands before every topic. With USERNAME and PASSWORD it logs in by SASL/PLAIN. It runs until it is
stopped.
"""

from __future__ import annotations

import os

from penstock.common import SimpleStringSchema, Types, WatermarkStrategy
from penstock.datastream import StreamExecutionEnvironment
from penstock.datastream.connectors.base import DeliveryGuarantee
from penstock.datastream.connectors.kafka import (
    KafkaOffsetsInitializer,
    KafkaRecordSerializationSchema,
    KafkaSink,
    KafkaSource,
)

BOOTSTRAP = os.environ.get("BOOTSTRAP", "localhost:9092")
PREFIX = os.environ.get("TOPIC_PREFIX", "")


def login() -> dict[str, str]:
    """Properties of Kafka's clients."""
    if "USERNAME" not in os.environ:
        return {}
    module = "org.apache.kafka.common.security.plain.PlainLoginModule"
    user, password = os.environ["USERNAME"], os.environ["PASSWORD"]
    return {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "PLAIN",
        "sasl.jaas.config": f'{module} required username="{user}" password="{password}";',
    }


def source() -> KafkaSource:
    """Reads all topics whose names match, also those that are made later."""
    builder = KafkaSource.builder().set_bootstrap_servers(BOOTSTRAP).set_group_id(f"{PREFIX}my-group")
    builder.set_topic_pattern(f"{PREFIX}input-.*").set_starting_offsets(KafkaOffsetsInitializer.earliest())
    builder.set_value_only_deserializer(SimpleStringSchema())
    builder.set_property("partition.discovery.interval.ms", "1000")  # look for new partitions every second
    return builder.set_properties(login()).build()


def sink() -> KafkaSink:
    """Writes strings by transactions."""
    record = KafkaRecordSerializationSchema.builder().set_topic(f"{PREFIX}my-topic")
    return (
        KafkaSink.builder()
        .set_bootstrap_servers(BOOTSTRAP)
        .set_kafka_producer_config({"linger.ms": "5", **login()})
        .set_record_serializer(record.set_kafka_value_serializer("StringSerializer").build())
        .set_delivery_guarantee(DeliveryGuarantee.EXACTLY_ONCE)
        .set_transactional_id_prefix(f"{PREFIX}pyflink-sink")
        .build()
    )


def main() -> None:
    """Write what is read, in capital letters."""
    env = StreamExecutionEnvironment.get_execution_environment()
    env.enable_checkpointing(500)
    stream = env.from_source(source(), WatermarkStrategy.no_watermarks(), "Kafka Source")
    stream.map(str.upper, Types.STRING()).sink_to(sink()).name("my-topic")
    env.execute(f"{PREFIX}pyflink-sink")


if __name__ == "__main__":
    main()
