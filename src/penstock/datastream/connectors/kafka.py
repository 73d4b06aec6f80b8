"""Kafka sources and sinks, built as in PyFlink.

A builder records what it is told as the options of a table, and the ``kafka`` connector judges them: a builder and a
CREATE TABLE that say the same give the same plan and the same errors.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from penstock.common import DeserializationSchema, SerializationSchema, TypeInformation
from penstock.connectors.kafka.offsets import partitions_text
from penstock.datastream.connectors.base import DeliveryGuarantee, client_options, format_options, table_to_read
from penstock.datastream.connectors.consumer import FlinkKafkaConsumer
from penstock.datastream.connectors.offsets import (
    ChosenOffsets,
    KafkaOffsetResetStrategy,
    KafkaOffsetsInitializer,
    KafkaTopicPartition,
    OffsetAndTimestamp,
    OffsetsInitializer,
    OwnOffsetsInitializer,
    PartitionOffsetsRetriever,
)
from penstock.errors import OptionsError, Problem, SchemaError, UnsupportedError
from penstock.options import Origin
from penstock.spi import Column, Surface, TableDefinition

__all__ = [
    "FlinkKafkaConsumer",
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
]


@dataclass(frozen=True)
class KafkaSource:
    """A source of messages. ``type_info``: what a message's value becomes."""

    options: Mapping[str, str] = field(repr=False)  # may hold passwords
    schema: DeserializationSchema
    objects: Mapping[str, ChosenOffsets] = field(default_factory=dict)

    @staticmethod
    def builder() -> KafkaSourceBuilder:
        """Begin a source."""
        return KafkaSourceBuilder()

    @property
    def type_info(self) -> TypeInformation:
        """The type of the values."""
        return self.schema.type_info

    def table(self, name: str) -> TableDefinition:
        """The table that is read."""
        return table_to_read(name, self.schema, self.options, self.objects)


class KafkaSourceBuilder:
    """Builds a :class:`KafkaSource`. Required: bootstrap servers, topics, a pattern or partitions, and a deserializer.

    Where it starts and stops is said by :class:`KafkaOffsetsInitializer`, or by an object of one's own: see
    ``penstock.datastream.connectors.offsets``.
    """

    def __init__(self) -> None:
        self._options: dict[str, str] = {"connector": "kafka"}
        self._properties: dict[str, str] = {}
        self._partitions: frozenset[KafkaTopicPartition] = frozenset()
        self._start: KafkaOffsetsInitializer | ChosenOffsets | None = None
        self._stop: KafkaOffsetsInitializer | ChosenOffsets | None = None
        self._schema: DeserializationSchema | None = None

    def set_bootstrap_servers(self, bootstrap_servers: str) -> KafkaSourceBuilder:
        """Brokers to ask first, as host:port, joined by commas."""
        return self.set_property("bootstrap.servers", bootstrap_servers)

    def set_group_id(self, group_id: str) -> KafkaSourceBuilder:
        """The consumer group whose offsets are read and committed."""
        return self.set_property("group.id", group_id)

    def set_topics(self, *topics: str) -> KafkaSourceBuilder:
        """The topics to read."""
        self._options["topic"] = ";".join(topics)
        return self

    def set_topic_pattern(self, topic_pattern: str) -> KafkaSourceBuilder:
        """A regular expression that matches the whole name of every topic to read."""
        self._options["topic-pattern"] = topic_pattern
        return self

    def set_partitions(self, partitions: set[KafkaTopicPartition]) -> KafkaSourceBuilder:
        """The partitions to read, instead of whole topics; new ones are not looked for."""
        self._partitions = frozenset(partitions)
        return self

    def set_starting_offsets(
        self, starting_offsets_initializer: KafkaOffsetsInitializer | OwnOffsetsInitializer
    ) -> KafkaSourceBuilder:
        """Where to start; without it, at the earliest offsets."""
        self._start = _initializer(starting_offsets_initializer, "set_starting_offsets")
        return self

    def set_bounded(
        self, stopping_offsets_initializer: KafkaOffsetsInitializer | OwnOffsetsInitializer
    ) -> KafkaSourceBuilder:
        """Where to stop, fixed when the job first starts. The stream ends there.

        Partitions that ``offsets(...)`` leaves out stop at the group's offset, and are not read where there is none;
        ``committed_offsets()`` needs an offset in every partition.
        """
        stop = _initializer(stopping_offsets_initializer, "set_bounded")
        if isinstance(stop, KafkaOffsetsInitializer) and stop.mode == "earliest-offset":
            hint = "latest(), committed_offsets(), timestamp(...) or offsets(...)"
            raise UnsupportedError(
                (Problem("a source that stops where it starts reads nothing", "earliest", hint=hint),)
            )
        if (
            isinstance(stop, KafkaOffsetsInitializer)
            and stop.mode == "specific-offsets"
            and stop.reset is not KafkaOffsetResetStrategy.EARLIEST
        ):
            hint = "name every partition, or set an initializer of your own"
            raise UnsupportedError((Problem("stopping offsets take no reset strategy", "offsets", hint=hint),))
        self._stop = stop
        self._options.pop("scan.bounded.streaming", None)
        return self

    def set_unbounded(
        self, stopping_offsets_initializer: KafkaOffsetsInitializer | OwnOffsetsInitializer
    ) -> KafkaSourceBuilder:
        """Where to stop, as :meth:`set_bounded`, in batches that keep the job's interval until then."""
        self.set_bounded(stopping_offsets_initializer)
        self._options["scan.bounded.streaming"] = "true"
        return self

    def set_value_only_deserializer(self, deserialization_schema: DeserializationSchema) -> KafkaSourceBuilder:
        """How a message's value is read."""
        self._schema = deserialization_schema
        return self

    def set_client_id_prefix(self, prefix: str) -> KafkaSourceBuilder:
        """The name of the client in the brokers' logs and quotas."""
        return self.set_property("client.id.prefix", prefix)

    def set_property(self, key: str, value: str) -> KafkaSourceBuilder:
        """A property of Kafka's consumer, by its Java name, or one of Flink's: ``partition.discovery.interval.ms``."""
        self._properties[key] = value
        return self

    def set_properties(self, props: Mapping[str, str]) -> KafkaSourceBuilder:
        """Several properties."""
        self._properties |= props
        return self

    def build(self) -> KafkaSource:
        """The source. Raises OptionsError without a deserializer; all else is checked when it is used."""
        if self._schema is None:
            hint = "for example set_value_only_deserializer(SimpleStringSchema())"
            raise OptionsError((Problem("a Kafka source needs a deserializer", "KafkaSource", hint=hint),))
        properties = dict(self._properties)
        options = {**self._options, **self._read_only()}
        objects: dict[str, ChosenOffsets] = {}
        for scope, given in (("scan.startup", self._start), ("scan.bounded", self._stop)):
            if isinstance(given, KafkaOffsetsInitializer):
                options |= given.options(scope)
            elif given is not None:
                objects[f"{scope}.mode"] = given
        reset = self._start.reset if self._start is not None else None
        if reset is not None:  # the initializer overrides the property, as in Flink
            properties.pop("auto.offset.reset", None)
            if reset is not KafkaOffsetResetStrategy.NONE:
                properties["auto.offset.reset"] = reset.name.lower()
        return KafkaSource(options | client_options(properties), self._schema, objects)

    def _read_only(self) -> dict[str, str]:
        """The options that stand for a set of partitions. Raises OptionsError when topics were named too."""
        if not self._partitions:
            return {}
        if not self._options.keys().isdisjoint(("topic", "topic-pattern")):
            hint = "set_partitions names the topics by itself"
            reason = "cannot be combined with set_topics or set_topic_pattern"
            raise OptionsError((Problem(reason, "set_partitions", "KafkaSource", hint),))
        places = {(each.topic, each.partition) for each in self._partitions}
        return {"topic": ";".join(sorted({topic for topic, _ in places})), "scan.partitions": partitions_text(places)}


@dataclass(frozen=True)
class KafkaRecordSerializationSchema:
    """How a value becomes a record: the topic, the value's schema, and the key's schema if there is a key."""

    topic: str
    value: SerializationSchema
    key: SerializationSchema | None = None

    @staticmethod
    def builder() -> KafkaRecordSerializationSchemaBuilder:
        """Begin a schema."""
        return KafkaRecordSerializationSchemaBuilder()


class KafkaRecordSerializationSchemaBuilder:
    """Builds a :class:`KafkaRecordSerializationSchema`. Required: a topic and the value's schema."""

    def __init__(self) -> None:
        self._topic: str | None = None
        self._value: SerializationSchema | None = None
        self._key: SerializationSchema | None = None

    def set_topic(self, topic: str) -> KafkaRecordSerializationSchemaBuilder:
        """The topic to write."""
        self._topic = topic
        return self

    def set_topic_selector(self, topic_selector: Any) -> KafkaRecordSerializationSchemaBuilder:
        """Raises UnsupportedError: choosing a topic per record cannot be done by a Python function yet."""
        hint = "write to one topic per sink, or use SQL with a column STRING METADATA FROM 'topic'"
        raise UnsupportedError((Problem("topics cannot be chosen per record yet", "set_topic_selector", hint=hint),))

    def set_key_serialization_schema(
        self, key_serialization_schema: SerializationSchema
    ) -> KafkaRecordSerializationSchemaBuilder:
        """How the key is made of a value: of the columns that the schema names."""
        self._key = key_serialization_schema
        return self

    def set_value_serialization_schema(
        self, value_serialization_schema: SerializationSchema
    ) -> KafkaRecordSerializationSchemaBuilder:
        """How the message's value is made of a value."""
        self._value = value_serialization_schema
        return self

    def build(self) -> KafkaRecordSerializationSchema:
        """The schema. Raises OptionsError with all that is missing."""
        problems = []
        if not self._topic:
            problems.append(Problem("is required", "set_topic", "KafkaRecordSerializationSchema"))
        if self._value is None:
            problems.append(Problem("is required", "set_value_serialization_schema", "KafkaRecordSerializationSchema"))
        if problems or self._value is None:
            raise OptionsError(tuple(problems))
        return KafkaRecordSerializationSchema(self._topic or "", self._value, self._key)


@dataclass(frozen=True)
class KafkaSink:
    """A sink of records."""

    options: Mapping[str, str] = field(repr=False)  # may hold passwords
    serializer: KafkaRecordSerializationSchema

    @staticmethod
    def builder() -> KafkaSinkBuilder:
        """Begin a sink."""
        return KafkaSinkBuilder()

    def table(self, name: str, stream: TypeInformation, job_name: str) -> TableDefinition:
        """The table that ``stream`` is written to. Without a transactional id prefix, exactly-once derives
        ``<job name>-<sink name>`` and warns, because two jobs of one name would then stop each other.
        """
        value, key = self.serializer.value, self.serializer.key
        row = _fitting(value, stream, name).row
        options = {**self.options, "topic": self.serializer.topic, **format_options(value, "format", "")}
        if key is not None:
            options |= {"key.fields": ";".join(_key_names(key, row.names, stream, name))}
            options |= format_options(key, "key.format", "key.")
        exactly_once = options.get("sink.delivery-guarantee") == DeliveryGuarantee.EXACTLY_ONCE.text
        if exactly_once and "sink.transactional-id-prefix" not in options:
            options["sink.transactional-id-prefix"] = derived = f"{job_name}-{name}"
            warnings.warn(
                f"sink '{name}' writes exactly-once without set_transactional_id_prefix: using '{derived}'; "
                "no other job may have the same job and sink name",
                stacklevel=2,
            )
        columns = tuple(Column(each.name, each.type) for each in row.fields)
        return TableDefinition(name, columns, options, Origin(f"sink '{name}'"), Surface.BUILDER)


class KafkaSinkBuilder:
    """Builds a :class:`KafkaSink`. Required: bootstrap servers and a record serializer."""

    def __init__(self) -> None:
        self._options: dict[str, str] = {"connector": "kafka"}
        self._properties: dict[str, str] = {}
        self._serializer: KafkaRecordSerializationSchema | None = None

    def set_bootstrap_servers(self, bootstrap_servers: str) -> KafkaSinkBuilder:
        """Brokers to ask first, as host:port, joined by commas."""
        return self.set_property("bootstrap.servers", bootstrap_servers)

    def set_delivery_guarantee(self, delivery_guarantee: DeliveryGuarantee) -> KafkaSinkBuilder:
        """What a failure may do to the records written; without it, NONE."""
        self._options["sink.delivery-guarantee"] = delivery_guarantee.text
        return self

    def set_transactional_id_prefix(self, transactional_id_prefix: str) -> KafkaSinkBuilder:
        """The transactional id, for EXACTLY_ONCE; no other job may use it."""
        self._options["sink.transactional-id-prefix"] = transactional_id_prefix
        return self

    def set_record_serializer(self, record_serializer: KafkaRecordSerializationSchema) -> KafkaSinkBuilder:
        """How a value becomes a record."""
        self._serializer = record_serializer
        return self

    def set_property(self, key: str, value: str) -> KafkaSinkBuilder:
        """A property of Kafka's producer, by its Java name."""
        self._properties[key] = value
        return self

    def set_kafka_producer_config(self, props: Mapping[str, str]) -> KafkaSinkBuilder:
        """Several properties."""
        self._properties |= props
        return self

    def build(self) -> KafkaSink:
        """The sink. Raises OptionsError without a serializer; all else is checked when it is used."""
        if self._serializer is None:
            hint = "set_record_serializer(KafkaRecordSerializationSchema.builder()...build())"
            raise OptionsError((Problem("a Kafka sink needs a record serializer", "KafkaSink", hint=hint),))
        return KafkaSink(self._options | client_options(self._properties), self._serializer)


def _initializer(given: object, where: str) -> KafkaOffsetsInitializer | ChosenOffsets:
    if isinstance(given, KafkaOffsetsInitializer):
        return given
    if isinstance(given, OwnOffsetsInitializer):
        return ChosenOffsets(given)
    hint = (
        "use the static methods of KafkaOffsetsInitializer, or an object with get_partition_offsets and "
        "get_auto_offset_reset_strategy"
    )
    raise UnsupportedError((Problem(f"{given!r} says no offsets", where, hint=hint),))


def _fitting(schema: SerializationSchema, stream: TypeInformation, sink: str) -> TypeInformation:
    """The type that is written: the schema's own, which the stream's must fit column by column."""
    wanted = schema.type_info
    same = wanted.single == stream.single and len(wanted.row.fields) == len(stream.row.fields)
    if not same or (wanted.single and wanted.logical != stream.logical):
        hint = f"map the stream to {wanted} first"
        reason = f"the serialization schema takes {wanted}, and the stream has {stream}"
        raise SchemaError((Problem(reason, where=f"sink '{sink}'", hint=hint),))
    return wanted


def _key_names(key: SerializationSchema, names: tuple[str, ...], stream: TypeInformation, sink: str) -> tuple[str, ...]:
    wanted = key.type_info.row.names
    if key.type_info.single != stream.single or not set(wanted) <= set(names):
        hint = f"use columns of {', '.join(names)}"
        reason = f"the key's serialization schema takes {key.type_info}, and the stream has {stream}"
        raise SchemaError((Problem(reason, where=f"sink '{sink}'", hint=hint),))
    return wanted
