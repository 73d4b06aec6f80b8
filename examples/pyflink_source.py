"""A KafkaSource in all its parts: which partitions, from where, how its records are read, and their timestamps.

As on Flink's page about its Kafka connector. Run with ``python examples/pyflink_source.py``; BOOTSTRAP names the
brokers and TOPIC_PREFIX stands before every topic.
"""

from __future__ import annotations

import os

from penstock.common import Duration, SimpleStringSchema, Types, WatermarkStrategy
from penstock.common.watermark_strategy import TimestampAssigner, WatermarkGenerator, WatermarkOutput
from penstock.datastream import DataStream, StreamExecutionEnvironment
from penstock.datastream.connectors.base import DeliveryGuarantee
from penstock.datastream.connectors.kafka import (
    ConsumerRecord,
    KafkaOffsetResetStrategy,
    KafkaOffsetsInitializer,
    KafkaRecordDeserializationSchema,
    KafkaRecordSerializationSchema,
    KafkaSink,
    KafkaSource,
    KafkaSourceBuilder,
    KafkaTopicPartition,
)

BOOTSTRAP = os.environ.get("BOOTSTRAP", "localhost:9092")
PREFIX = os.environ.get("TOPIC_PREFIX", "")


def source() -> KafkaSourceBuilder:
    """A source that ends at the last record there is."""
    end = KafkaOffsetsInitializer.latest()
    return KafkaSource.builder().set_bootstrap_servers(BOOTSTRAP).set_group_id(f"{PREFIX}my-group").set_bounded(end)


def described(record: ConsumerRecord) -> str:
    """A record in words."""
    return f"offset {record.offset}, {len(record.headers)} headers: {(record.value or b'').decode()}"


def starts() -> dict[str, KafkaOffsetsInitializer]:
    """Where a source may begin; without any of them it is the earliest offset."""
    return {
        # at the offsets of the group; without them the source fails
        "group": KafkaOffsetsInitializer.committed_offsets(),
        # at the offsets of the group; without them at the earliest
        "group or earliest": KafkaOffsetsInitializer.committed_offsets(KafkaOffsetResetStrategy.EARLIEST),
        # at the first record with this timestamp or a later one
        "time": KafkaOffsetsInitializer.timestamp(1592323200000),
        "earliest": KafkaOffsetsInitializer.earliest(),
        "latest": KafkaOffsetsInitializer.latest(),
    }


class ByLength(TimestampAssigner):
    """Timestamps of one's own: a second later for each letter."""

    def extract_timestamp(self, value: str, record_timestamp: int) -> int:
        """In milliseconds."""
        return record_timestamp + 1000 * len(value)


class TwentySecondsBehind(WatermarkGenerator):
    """Watermarks that are 20 seconds behind the newest value."""

    def __init__(self) -> None:
        self.newest = 0

    def on_event(self, event: str, event_timestamp: int, output: WatermarkOutput) -> None:
        """Called for each value."""
        self.newest = max(self.newest, event_timestamp)

    def on_periodic_emit(self, output: WatermarkOutput) -> None:
        """Called after some thousands of values at most."""
        output.emit_watermark(self.newest - 20_000)


class CustomWatermarkStrategy(WatermarkStrategy):
    """Both of them."""

    def create_timestamp_assigner(self) -> TimestampAssigner:
        """Finds the timestamps."""
        return ByLength()

    def create_watermark_generator(self) -> WatermarkGenerator:
        """Made for each partition of the source."""
        return TwentySecondsBehind()


def streams(env: StreamExecutionEnvironment) -> list[DataStream]:
    """A stream for each way to describe a source."""
    plain, string = WatermarkStrategy.no_watermarks(), SimpleStringSchema()
    own = CustomWatermarkStrategy().with_idleness(Duration.of_minutes(1))

    # A list of topics; only the value of a message is read, as a string.
    topics = source().set_topics(f"{PREFIX}input-topic", f"{PREFIX}other-topic")
    topics.set_starting_offsets(starts()["earliest"]).set_value_only_deserializer(string)
    # All topics that match a pattern, their values by one of Kafka's own deserializers.
    pattern = source().set_topic_pattern(f"{PREFIX}topic.*").set_starting_offsets(starts()["group or earliest"])
    pattern.set_deserializer(KafkaRecordDeserializationSchema.value_only("StringDeserializer"))
    # Chosen partitions; whole records are read by a function.
    chosen = {KafkaTopicPartition(f"{PREFIX}topic-a", 0), KafkaTopicPartition(f"{PREFIX}topic-b", 5)}
    partitions = source().set_partitions(chosen)
    partitions.set_starting_offsets(starts()["time"])
    partitions.set_deserializer(KafkaRecordDeserializationSchema.of(described, Types.STRING()))
    return [
        env.from_source(topics.build(), plain, "Kafka Source"),
        env.from_source(pattern.build(), own, "Kafka Source With Custom Watermark Strategy"),
        env.from_source(partitions.build(), plain, "Kafka Source Of Partitions"),
    ]


def main() -> None:
    """Write what all of them read to one topic, with the timestamps of the records."""
    env = StreamExecutionEnvironment.get_execution_environment()
    env.enable_checkpointing(1000)
    first, *others = streams(env)
    serializer = KafkaRecordSerializationSchema.builder().set_topic(f"{PREFIX}read")
    sink = (
        KafkaSink.builder()
        .set_bootstrap_servers(BOOTSTRAP)
        .set_record_serializer(serializer.set_value_serialization_schema(SimpleStringSchema()).build())
        .set_delivery_guarantee(DeliveryGuarantee.AT_LEAST_ONCE)
        .build()
    )
    first.union(*others).sink_to(sink).name("read")
    env.execute(f"{PREFIX}pyflink-source")


if __name__ == "__main__":
    main()
