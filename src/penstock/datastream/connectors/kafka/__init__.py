"""Kafka sources and sinks, built as in PyFlink.

A builder records its settings as the options of a table, and the ``kafka`` connector checks them: a builder and a
CREATE TABLE with equal options give the same plan and the same errors.
"""

from penstock.datastream.connectors.kafka.consumer import FlinkKafkaConsumer, FlinkKafkaConsumerBase
from penstock.datastream.connectors.kafka.deserialization import (
    JsonDeserializationSchema,
    JSONKeyValueDeserializationSchema,
    KafkaDeserializationSchema,
    KafkaRecordDeserializationSchema,
)
from penstock.datastream.connectors.kafka.offsets import (
    KafkaOffsetResetStrategy,
    KafkaOffsetsInitializer,
    KafkaTopicPartition,
    OffsetAndTimestamp,
    OffsetsInitializer,
    PartitionOffsetsRetriever,
)
from penstock.datastream.connectors.kafka.producer import FlinkKafkaProducer, FlinkKafkaProducerBase, Semantic
from penstock.datastream.connectors.kafka.records import ConsumerRecord, ProducerRecord
from penstock.datastream.connectors.kafka.serialization import (
    FlinkKafkaPartitioner,
    HeaderProvider,
    KafkaRecordSerializationSchema,
    KafkaRecordSerializationSchemaBuilder,
    KafkaSerializationSchema,
    KafkaTopicSelector,
)
from penstock.datastream.connectors.kafka.sink import KafkaSink, KafkaSinkBuilder
from penstock.datastream.connectors.kafka.source import KafkaSource, KafkaSourceBuilder
from penstock.datastream.connectors.kafka.typed import TypeInformationKeyValueSerializationSchema

__all__ = [
    "ConsumerRecord",
    "FlinkKafkaConsumer",
    "FlinkKafkaConsumerBase",
    "FlinkKafkaPartitioner",
    "FlinkKafkaProducer",
    "FlinkKafkaProducerBase",
    "HeaderProvider",
    "JSONKeyValueDeserializationSchema",
    "JsonDeserializationSchema",
    "KafkaDeserializationSchema",
    "KafkaOffsetResetStrategy",
    "KafkaOffsetsInitializer",
    "KafkaRecordDeserializationSchema",
    "KafkaRecordSerializationSchema",
    "KafkaRecordSerializationSchemaBuilder",
    "KafkaSerializationSchema",
    "KafkaSink",
    "KafkaSinkBuilder",
    "KafkaSource",
    "KafkaSourceBuilder",
    "KafkaTopicPartition",
    "KafkaTopicSelector",
    "OffsetAndTimestamp",
    "OffsetsInitializer",
    "PartitionOffsetsRetriever",
    "ProducerRecord",
    "Semantic",
    "TypeInformationKeyValueSerializationSchema",
]
