"""Kafka sources and sinks, built as in PyFlink.

A builder records its settings as the options of a table, and the ``kafka`` connector checks them: a builder and a
CREATE TABLE with equal options give the same plan and the same errors.
"""

from penstock.datastream.connectors.kafka.consumer import FlinkKafkaConsumer
from penstock.datastream.connectors.kafka.offsets import (
    KafkaOffsetResetStrategy,
    KafkaOffsetsInitializer,
    KafkaTopicPartition,
    OffsetAndTimestamp,
    OffsetsInitializer,
    PartitionOffsetsRetriever,
)
from penstock.datastream.connectors.kafka.producer import FlinkKafkaProducer, Semantic
from penstock.datastream.connectors.kafka.sink import (
    KafkaRecordSerializationSchema,
    KafkaRecordSerializationSchemaBuilder,
    KafkaSink,
    KafkaSinkBuilder,
)
from penstock.datastream.connectors.kafka.source import KafkaSource, KafkaSourceBuilder

__all__ = [
    "FlinkKafkaConsumer",
    "FlinkKafkaProducer",
    "KafkaOffsetResetStrategy",
    "KafkaOffsetsInitializer",
    "KafkaRecordSerializationSchema",
    "KafkaRecordSerializationSchemaBuilder",
    "KafkaSink",
    "KafkaSinkBuilder",
    "KafkaSource",
    "KafkaSourceBuilder",
    "KafkaTopicPartition",
    "OffsetAndTimestamp",
    "OffsetsInitializer",
    "PartitionOffsetsRetriever",
    "Semantic",
]
