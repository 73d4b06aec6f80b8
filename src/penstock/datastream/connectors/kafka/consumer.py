"""``FlinkKafkaConsumer``, the Kafka source of PyFlink's former API. It becomes a KafkaSource."""

from __future__ import annotations

import re
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from penstock.common import DeserializationSchema, TypeInformation, WatermarkStrategy
from penstock.common.arguments import expect
from penstock.common.watermark_strategy import expect_strategy
from penstock.datastream.connectors.base import Source
from penstock.datastream.connectors.kafka.deserialization import (
    KafkaDeserializationSchema,
    KafkaRecordDeserializationSchema,
    read_info,
    read_steps,
)
from penstock.datastream.connectors.kafka.offsets import (
    KafkaOffsetResetStrategy,
    KafkaOffsetsInitializer,
    KafkaTopicPartition,
)
from penstock.datastream.connectors.kafka.source import KafkaSource
from penstock.datastream.function_steps import Step
from penstock.java_gateway import without_java
from penstock.spi import TableDefinition

_SCHEMA = "for example SimpleStringSchema()"


class FlinkKafkaConsumerBase(Source):
    """The base of the former sources of Kafka. Raises UnsupportedError when it is made of a Java object."""

    timestamps = True
    parallel = True

    _topics: str | Sequence[str] | re.Pattern[str]
    _schema: KafkaRecordDeserializationSchema
    _properties: dict[str, str]
    _start: KafkaOffsetsInitializer

    def __init__(self, j_flink_kafka_consumer: Any):
        raise without_java("FlinkKafkaConsumerBase", "use FlinkKafkaConsumer")

    def set_start_from_group_offsets(self) -> FlinkKafkaConsumerBase:
        """Start at the offsets that the consumer group has committed: the default."""
        return self._starting(KafkaOffsetsInitializer.committed_offsets())

    def set_start_from_earliest(self) -> FlinkKafkaConsumerBase:
        """Start at the first record there is."""
        return self._starting(KafkaOffsetsInitializer.earliest())

    def set_start_from_latest(self) -> FlinkKafkaConsumerBase:
        """Start after the last record there is."""
        return self._starting(KafkaOffsetsInitializer.latest())

    def set_start_from_timestamp(self, startup_offsets_timestamp: int) -> FlinkKafkaConsumerBase:
        """Start at the first record at or after a time in milliseconds since 1970."""
        return self._starting(KafkaOffsetsInitializer.timestamp(startup_offsets_timestamp))

    def set_start_from_specific_offsets(
        self, specific_startup_offsets: Mapping[KafkaTopicPartition, int]
    ) -> FlinkKafkaConsumerBase:
        """Start at these offsets; partitions that are left out start at the group's."""
        return self._starting(KafkaOffsetsInitializer.offsets(specific_startup_offsets))

    def set_commit_offsets_on_checkpoints(self, commit_on_checkpoints: bool) -> FlinkKafkaConsumerBase:
        """Whether the offsets of every batch are committed to the group, which is the default."""
        self._properties["commit.offsets.on.checkpoint"] = str(commit_on_checkpoints).lower()
        return self

    def assign_timestamps_and_watermarks(self, watermark_strategy: WatermarkStrategy) -> FlinkKafkaConsumerBase:
        """The watermarks of each partition, from the timestamps of its records in Kafka, or other timestamps."""
        self.strategy = expect_strategy(watermark_strategy, "assign_timestamps_and_watermarks")
        return self

    def disable_filter_restored_partitions_with_subscribed_topics(self) -> FlinkKafkaConsumerBase:
        """Warns. Flink keeps reading partitions of unsubscribed topics; here a new set of topics needs a new
        checkpoint."""
        warnings.warn(
            "disable_filter_restored_partitions_with_subscribed_topics has no effect here: a checkpoint belongs to its "
            "topics",
            stacklevel=2,
        )
        return self

    def get_produced_type(self) -> TypeInformation:
        """The type of the values."""
        return self.type_info

    def table(self, name: str) -> TableDefinition:
        """The table that is read. Raises OptionsError when properties are missing."""
        return replace(self._source().table(name), watermark=self.strategy.watermark)

    def steps(self) -> tuple[Step, ...]:
        """The functions that make values of the rows."""
        return read_steps(self._schema)

    @property
    def type_info(self) -> TypeInformation:
        """The type of the values."""
        return self._schema.get_produced_type()

    @property
    def read_info(self) -> TypeInformation:
        """The type of the rows that are read."""
        return read_info(self._schema)

    def _source(self) -> KafkaSource:
        builder = KafkaSource.builder().set_deserializer(self._schema)
        if isinstance(self._topics, re.Pattern):
            builder.set_topic_pattern(self._topics.pattern)
        else:
            builder.set_topics(*([self._topics] if isinstance(self._topics, str) else self._topics))
        start = self._start
        if start.reset is not None:  # the properties decide, else Kafka's own default
            known = "auto.offset.reset" in self._properties
            start = replace(start, reset=None if known else KafkaOffsetResetStrategy.LATEST)
        return builder.set_properties(self._properties).set_starting_offsets(start).build()

    def _starting(self, start: KafkaOffsetsInitializer) -> FlinkKafkaConsumerBase:
        self._start = start
        return self


class FlinkKafkaConsumer(FlinkKafkaConsumerBase):
    """Reads ``topics`` (a name, several, or a compiled pattern of whole names) for ``env.add_source``.

    ``properties`` are Kafka's and need ``bootstrap.servers`` and ``group.id``. By default it starts at the group's
    offsets; ``auto.offset.reset`` applies to partitions without one, and is ``latest`` by default, as for Kafka's own
    consumer. It looks for new partitions only with ``flink.partition-discovery.interval-millis``.
    """

    def __init__(
        self,
        topics: str | Sequence[str] | re.Pattern[str],
        deserialization_schema: DeserializationSchema | KafkaDeserializationSchema,
        properties: Mapping[str, str],
    ):
        self._topics = topics
        expect(topics, (str, re.Pattern, Sequence), "FlinkKafkaConsumer", "a topic, several, or a compiled pattern")
        expect(
            deserialization_schema, (DeserializationSchema, KafkaDeserializationSchema), "FlinkKafkaConsumer", _SCHEMA
        )
        expect(properties, Mapping, "FlinkKafkaConsumer", "{'bootstrap.servers': .., 'group.id': ..}")
        if isinstance(deserialization_schema, KafkaDeserializationSchema):
            self._schema = KafkaRecordDeserializationSchema.of(deserialization_schema)
        else:
            self._schema = KafkaRecordDeserializationSchema.value_only(deserialization_schema)
        # Kafka's consumer commits by itself unless it is told not to; with checkpoints that does not count.
        self._properties = {"enable.auto.commit": "true", **properties}
        self._start = KafkaOffsetsInitializer.committed_offsets()
        self.strategy = WatermarkStrategy.no_watermarks()
