"""A FlinkKafkaConsumer, the source of Flink's former API, and a FlinkKafkaProducer with whole records, exactly once.

As on Flink's page about its Kafka connector. Run with ``python examples/pyflink_consumer.py``; BOOTSTRAP names the
brokers and TOPIC_PREFIX stands before every topic. It runs until it is stopped.
"""

from __future__ import annotations

import os
import re

from penstock.common import Duration, SimpleStringSchema, WatermarkStrategy
from penstock.datastream import StreamExecutionEnvironment
from penstock.datastream.connectors.kafka import (
    FlinkKafkaConsumer,
    FlinkKafkaProducer,
    KafkaSerializationSchema,
    KafkaTopicPartition,
    ProducerRecord,
    Semantic,
)

BOOTSTRAP = os.environ.get("BOOTSTRAP", "localhost:9092")
PREFIX = os.environ.get("TOPIC_PREFIX", "")

properties = {"bootstrap.servers": BOOTSTRAP, "group.id": f"{PREFIX}test"}


def by_name() -> FlinkKafkaConsumer:
    """Reads a topic: three partitions from these offsets, all others from those of the group."""
    topic = f"{PREFIX}topic"
    consumer = FlinkKafkaConsumer(topic, SimpleStringSchema(), {**properties, "auto.offset.reset": "earliest"})
    offsets = {KafkaTopicPartition(topic, 0): 1, KafkaTopicPartition(topic, 1): 2, KafkaTopicPartition(topic, 2): 0}
    consumer.set_start_from_specific_offsets(offsets)
    consumer.set_commit_offsets_on_checkpoints(True)
    return consumer


#: What a consumer that is given a topic may be told about where it begins; the offsets of its group are the default.
STARTS = {
    "earliest": FlinkKafkaConsumer.set_start_from_earliest,
    "latest": FlinkKafkaConsumer.set_start_from_latest,
    "group": FlinkKafkaConsumer.set_start_from_group_offsets,
    "time": lambda consumer: consumer.set_start_from_timestamp(1700000001000),
}


def starting(where: str) -> FlinkKafkaConsumer:
    """Reads a topic from one of these places."""
    consumer = FlinkKafkaConsumer(f"{PREFIX}topic", SimpleStringSchema(), properties)
    STARTS[where](consumer)
    return consumer


def by_pattern() -> FlinkKafkaConsumer:
    """Reads all topics whose names match, new ones too, from the earliest records."""
    looking = {**properties, "flink.partition-discovery.interval-millis": "10000"}
    topics = re.compile(re.escape(PREFIX) + "test-topic-[0-9]")
    consumer = FlinkKafkaConsumer(topics, SimpleStringSchema(), looking)
    consumer.set_start_from_earliest()
    consumer.assign_timestamps_and_watermarks(WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_seconds(20)))
    return consumer


class ToTopic(KafkaSerializationSchema):
    """Makes the whole record of a value."""

    def serialize(self, element: str, timestamp: int | None) -> ProducerRecord:
        """A record without a key, with the timestamp that the value was read with."""
        return ProducerRecord(f"{PREFIX}my-topic", element.encode(), timestamp=timestamp)


def main() -> None:
    """Read both and write them."""
    env = StreamExecutionEnvironment.get_execution_environment()
    env.enable_checkpointing(1000)
    producer = FlinkKafkaProducer(
        f"{PREFIX}my-topic", ToTopic(), {"bootstrap.servers": BOOTSTRAP}, semantic=Semantic.EXACTLY_ONCE
    ).set_transactional_id_prefix(f"{PREFIX}pyflink-consumer")
    named, matched = env.add_source(by_name(), "by-name"), env.add_source(by_pattern(), "by-pattern")
    named.union(matched).add_sink(producer).name("out")
    env.execute(f"{PREFIX}pyflink-consumer")


if __name__ == "__main__":
    main()
