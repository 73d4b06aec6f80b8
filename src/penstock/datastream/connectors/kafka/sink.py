"""``KafkaSink``, ``KafkaRecordSerializationSchema`` and their builders."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from penstock.common import SerializationSchema, TypeInformation
from penstock.datastream.connectors.base import DeliveryGuarantee, Sink
from penstock.datastream.tables import built_table, format_options, prefixed
from penstock.errors import OptionsError, Problem, SchemaError, UnsupportedError
from penstock.spi import TableDefinition


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
        """Raises UnsupportedError: a Python function cannot choose the topic of a record yet."""
        hint = "write to one topic per sink, or use SQL with a column STRING METADATA FROM 'topic'"
        raise UnsupportedError((Problem("topics cannot be chosen per record yet", "set_topic_selector", hint=hint),))

    def set_key_serialization_schema(
        self, key_serialization_schema: SerializationSchema
    ) -> KafkaRecordSerializationSchemaBuilder:
        """The schema of the key, which holds the columns of the value that this schema names."""
        self._key = key_serialization_schema
        return self

    def set_value_serialization_schema(
        self, value_serialization_schema: SerializationSchema
    ) -> KafkaRecordSerializationSchemaBuilder:
        """The schema of the message's value."""
        self._value = value_serialization_schema
        return self

    def build(self) -> KafkaRecordSerializationSchema:
        """The schema. Raises OptionsError for a topic or a schema of the value that is missing."""
        if self._topic and self._value is not None:
            return KafkaRecordSerializationSchema(self._topic, self._value, self._key)
        given = {"set_topic": self._topic, "set_value_serialization_schema": self._value}
        missing = [method for method, value in given.items() if not value]
        raise OptionsError(tuple(Problem("is required", each, "KafkaRecordSerializationSchema") for each in missing))


@dataclass(frozen=True)
class KafkaSink(Sink):
    """A sink of records, which keep the timestamps that they have in the stream."""

    writes_timestamps = True

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
        return built_table("sink", name, row, options)


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
        """What a failure may do to written records. Without it, NONE."""
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
        """The sink. Raises OptionsError without a serializer; everything else is checked when it is used."""
        if self._serializer is None:
            hint = "set_record_serializer(KafkaRecordSerializationSchema.builder()...build())"
            raise OptionsError((Problem("a Kafka sink needs a record serializer", "KafkaSink", hint=hint),))
        return KafkaSink(self._options | prefixed(self._properties), self._serializer)


def _fitting(schema: SerializationSchema, stream: TypeInformation, sink: str) -> TypeInformation:
    """The type that is written: the schema's own. The stream's type must fit it column by column."""
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
