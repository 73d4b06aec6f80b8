"""``KafkaSink`` and its builder."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from penstock.common import TypeInformation
from penstock.common.arguments import expect
from penstock.common.serialization import FormatSerializationSchema
from penstock.datastream.connectors.base import DeliveryGuarantee, Sink
from penstock.datastream.connectors.kafka.records import CREATED, HEADERS, KEY, PARTITION, TOPIC, VALUE
from penstock.datastream.connectors.kafka.serialization import (
    BuiltSerializationSchema,
    ElementPartitioner,
    KafkaSerializationSchema,
    write_steps,
    written_info,
)
from penstock.datastream.function_steps import Step
from penstock.datastream.tables import built_table, format_options, prefixed
from penstock.errors import OptionsError, Problem, SchemaError, UnsupportedError
from penstock.spi import TableDefinition
from penstock.types import RowType

#: The pattern of a table whose rows name their topics.
_ANY = ".*"


@dataclass(frozen=True)
class KafkaSink(Sink):
    """A sink of records, which keep the timestamps that they have in the stream."""

    options: Mapping[str, str] = field(repr=False)  # may hold passwords
    serializer: KafkaSerializationSchema

    parallel = True

    @staticmethod
    def builder() -> KafkaSinkBuilder:
        """Begin a sink."""
        return KafkaSinkBuilder()

    @property
    def writes_timestamps(self) -> bool:  # type: ignore[override]
        """Whether records keep the timestamps of the stream: unless the serializer makes whole records."""
        return isinstance(self.serializer, BuiltSerializationSchema)

    def steps(self, stream: TypeInformation) -> tuple[Step, ...]:
        """The functions that make the records' parts."""
        return write_steps(self.serializer, stream)

    def table(self, name: str, stream: TypeInformation, job_name: str) -> TableDefinition:
        """The table that ``stream`` is written to. Without a transactional id prefix, exactly-once derives
        ``<job name>-<sink name>`` and warns, because two jobs of one name would then stop each other.
        """
        options = dict(self.options)
        exactly_once = options.get("sink.delivery-guarantee") == DeliveryGuarantee.EXACTLY_ONCE.text
        if exactly_once and "sink.transactional-id-prefix" not in options:
            options["sink.transactional-id-prefix"] = derived = f"{job_name}-{name}"
            warnings.warn(
                f"sink '{name}' writes exactly-once without set_transactional_id_prefix: using '{derived}'; "
                "no other job may have the same job and sink name",
                stacklevel=2,
            )
        if not isinstance(self.serializer, BuiltSerializationSchema):
            options |= {"topic-pattern": _ANY, "format": "raw"}
            table = built_table("sink", name, RowType(()), options)
            return replace(table, columns=(TOPIC, PARTITION, KEY, VALUE, HEADERS, CREATED))
        return _built(self.serializer, options, name, stream)


def _built(
    schema: BuiltSerializationSchema, options: dict[str, str], name: str, stream: TypeInformation
) -> TableDefinition:
    """The table of a schema that a builder has built."""
    options |= {"topic-pattern": _ANY} if schema.selector is not None else {"topic": schema.topic}
    row = stream.row
    if isinstance(schema.value, FormatSerializationSchema):
        row = written_info(schema.value, _fitting(schema.value, stream, name)).row
        options |= format_options(schema.value, "format", "")
    else:
        options["format"] = "raw"
    if isinstance(schema.key, FormatSerializationSchema):
        options["key.fields"] = ";".join(_key_names(schema.key, row.names, stream, name))
        options |= format_options(schema.key, "key.format", "key.")
    objects = {}
    if schema.partitioner is not None:
        objects["sink.partitioner"] = ElementPartitioner(schema.partitioner, stream)
    table = built_table("sink", name, row, options, objects)
    return replace(table, columns=(*table.columns, *schema.parts))


class KafkaSinkBuilder:
    """Builds a :class:`KafkaSink`. Required: bootstrap servers and a record serializer."""

    def __init__(self) -> None:
        self._options: dict[str, str] = {"connector": "kafka"}
        self._properties: dict[str, str] = {}
        self._serializer: KafkaSerializationSchema | None = None

    def set_bootstrap_servers(self, bootstrap_servers: str) -> KafkaSinkBuilder:
        """Brokers to ask first, as host:port, joined by commas."""
        return self.set_property("bootstrap.servers", bootstrap_servers)

    def set_delivery_guarantee(self, delivery_guarantee: DeliveryGuarantee) -> KafkaSinkBuilder:
        """What a failure may do to written records. Without it, NONE."""
        self._options["sink.delivery-guarantee"] = expect(
            delivery_guarantee,
            DeliveryGuarantee,
            "set_delivery_guarantee",
            "for example DeliveryGuarantee.EXACTLY_ONCE",
        ).text
        return self

    def set_transactional_id_prefix(self, transactional_id_prefix: str) -> KafkaSinkBuilder:
        """The transactional id, for EXACTLY_ONCE; no other job may use it."""
        self._options["sink.transactional-id-prefix"] = transactional_id_prefix
        return self

    def set_record_serializer(self, record_serializer: Any) -> KafkaSinkBuilder:
        """How a value becomes a record: a KafkaRecordSerializationSchema, or a KafkaSerializationSchema. Raises
        UnsupportedError for anything else."""
        if not isinstance(record_serializer, KafkaSerializationSchema):
            hint = "KafkaRecordSerializationSchema.builder()...build(), or a class that derives from it"
            reason = f"{type(record_serializer).__name__} makes no records"
            raise UnsupportedError((Problem(reason, "set_record_serializer", hint=hint),))
        self._serializer = record_serializer
        return self

    def set_property(self, key: str, value: str) -> KafkaSinkBuilder:
        """A property of Kafka's producer, by its Java name."""
        self._properties[key] = value
        return self

    def set_kafka_producer_config(self, props: Mapping[str, str]) -> KafkaSinkBuilder:
        """Several properties."""
        self._properties |= expect(props, Mapping, "set_kafka_producer_config", "{'acks': 'all'}")
        return self

    def build(self) -> KafkaSink:
        """The sink. Raises OptionsError without a serializer; everything else is checked when it is used."""
        if self._serializer is None:
            hint = "set_record_serializer(KafkaRecordSerializationSchema.builder()...build())"
            raise OptionsError((Problem("a Kafka sink needs a record serializer", "KafkaSink", hint=hint),))
        properties = dict(self._properties)
        for key in ("key.serializer", "value.serializer"):
            if key in properties:
                del properties[key]
                warnings.warn(
                    f"the property '{key}' is overridden, as in Flink: records are written as bytes", stacklevel=2
                )
        return KafkaSink(self._options | prefixed(properties), self._serializer)


def _fitting(schema: FormatSerializationSchema, stream: TypeInformation, sink: str) -> TypeInformation:
    """The schema's own type. The stream's must fit it column by column."""
    wanted = schema.type_info
    same = wanted.single == stream.single and len(wanted.row.fields) == len(stream.row.fields)
    if not same or (wanted.single and wanted.logical != stream.logical):
        hint = f"map the stream to {wanted} first"
        reason = f"the serialization schema takes {wanted}, and the stream has {stream}"
        raise SchemaError((Problem(reason, where=f"sink '{sink}'", hint=hint),))
    return wanted


def _key_names(
    key: FormatSerializationSchema, names: tuple[str, ...], stream: TypeInformation, sink: str
) -> tuple[str, ...]:
    wanted = key.type_info.row.names
    if key.type_info.single != stream.single or not set(wanted) <= set(names):
        hint = f"use columns of {', '.join(names)}"
        reason = f"the key's serialization schema takes {key.type_info}, and the stream has {stream}"
        raise SchemaError((Problem(reason, where=f"sink '{sink}'", hint=hint),))
    return wanted
