"""``KafkaSource`` and its builder."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from penstock.common import DeserializationSchema, TypeInformation
from penstock.common.arguments import expect
from penstock.common.serialization import ByteArraySchema, FormatDeserializationSchema
from penstock.connectors.kafka.table.offsets import format_partitions
from penstock.datastream.connectors.base import Source
from penstock.datastream.connectors.kafka.deserialization import (
    KafkaRecordDeserializationSchema,
    ValueOnly,
    read_info,
    read_steps,
)
from penstock.datastream.connectors.kafka.offsets import (
    ChosenOffsets,
    KafkaOffsetResetStrategy,
    KafkaOffsetsInitializer,
    KafkaTopicPartition,
    OwnOffsetsInitializer,
)
from penstock.datastream.connectors.kafka.records import RECORD, RECORD_COLUMNS
from penstock.datastream.function_steps import Step
from penstock.datastream.tables import built_table, format_options, prefixed
from penstock.errors import OptionsError, Problem, UnsupportedError
from penstock.spi import TableDefinition

#: Properties that Flink's builder overrides, with what applies.
_OVERRIDDEN = {
    "key.deserializer": "keys are read as bytes",
    "value.deserializer": "values are read as bytes",
    "auto.offset.reset.strategy": "the initializer of the starting offsets decides",
}


@dataclass(frozen=True)
class KafkaSource(Source):
    """A source of records. ``type_info`` is the type of the values that they are read as."""

    options: Mapping[str, str] = field(repr=False)  # may hold passwords
    schema: KafkaRecordDeserializationSchema
    objects: Mapping[str, ChosenOffsets] = field(default_factory=dict)

    timestamps = True
    parallel = True

    @staticmethod
    def builder() -> KafkaSourceBuilder:
        """Begin a source."""
        return KafkaSourceBuilder()

    @property
    def type_info(self) -> TypeInformation:
        """The type of the values."""
        return self.schema.get_produced_type()

    @property
    def read_info(self) -> TypeInformation:
        """The type of the rows that are read."""
        return read_info(self.schema)

    def table(self, name: str) -> TableDefinition:
        """The table that is read."""
        plain = self.schema.schema if isinstance(self.schema, ValueOnly) else None
        reads = plain if isinstance(plain, FormatDeserializationSchema) else ByteArraySchema()
        table = built_table(
            "source",
            name,
            self.read_info.row,
            {**self.options, **format_options(reads, "format", "")},
            self.objects,
        )
        return replace(table, columns=RECORD_COLUMNS) if self.read_info is RECORD else table

    def steps(self) -> tuple[Step, ...]:
        """The functions that make values of the rows."""
        return read_steps(self.schema)


_PARTITIONS = "{KafkaTopicPartition('orders', 0)}"


class KafkaSourceBuilder:
    """Builds a :class:`KafkaSource`. Required: bootstrap servers, topics, a pattern or partitions, and a deserializer.

    A :class:`KafkaOffsetsInitializer` decides where it starts and stops, or an object of your own: see
    ``penstock.datastream.connectors.kafka.offsets``.
    """

    def __init__(self) -> None:
        self._options: dict[str, str] = {"connector": "kafka"}
        self._properties: dict[str, str] = {}
        self._partitions: frozenset[KafkaTopicPartition] = frozenset()
        self._start: KafkaOffsetsInitializer | ChosenOffsets | None = None
        self._stop: KafkaOffsetsInitializer | ChosenOffsets | None = None
        self._schema: KafkaRecordDeserializationSchema | None = None

    def set_bootstrap_servers(self, bootstrap_servers: str) -> KafkaSourceBuilder:
        """Brokers to ask first, as host:port, joined by commas."""
        return self.set_property("bootstrap.servers", bootstrap_servers)

    def set_group_id(self, group_id: str) -> KafkaSourceBuilder:
        """The consumer group whose offsets are read and committed."""
        return self.set_property("group.id", group_id)

    def set_topics(self, *topics: str) -> KafkaSourceBuilder:
        """The topics to read."""
        names = (expect(each, str, "set_topics", "set_topics('a', 'b')") for each in topics)
        self._options["topic"] = ";".join(names)
        return self

    def set_topic_pattern(self, topic_pattern: str) -> KafkaSourceBuilder:
        """A regular expression that matches the whole name of every topic to read."""
        self._options["topic-pattern"] = topic_pattern
        return self

    def set_partitions(self, partitions: set[KafkaTopicPartition]) -> KafkaSourceBuilder:
        """The partitions to read, instead of whole topics. The source does not look for new ones."""
        given = expect(partitions, Iterable, "set_partitions", _PARTITIONS)
        self._partitions = frozenset(expect(each, KafkaTopicPartition, "set_partitions", _PARTITIONS) for each in given)
        return self

    def set_starting_offsets(
        self, starting_offsets_initializer: KafkaOffsetsInitializer | OwnOffsetsInitializer
    ) -> KafkaSourceBuilder:
        """Where to start. Without it, the source starts at the earliest offsets."""
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
        match stop:
            case KafkaOffsetsInitializer(mode="earliest-offset"):
                hint = "latest(), committed_offsets(), timestamp(...) or offsets(...)"
                reason = "a source that stops where it starts reads nothing"
                raise UnsupportedError((Problem(reason, "earliest", hint=hint),))
            case KafkaOffsetsInitializer(
                mode="specific-offsets", reset=KafkaOffsetResetStrategy.LATEST | KafkaOffsetResetStrategy.NONE
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
        self._schema = KafkaRecordDeserializationSchema.value_only(deserialization_schema)
        return self

    def set_deserializer(self, record_deserializer: Any) -> KafkaSourceBuilder:
        """How a record is read: a :class:`KafkaRecordDeserializationSchema`. Raises UnsupportedError for anything
        else."""
        if not isinstance(record_deserializer, KafkaRecordDeserializationSchema):
            hint = "for example KafkaRecordDeserializationSchema.of(function)"
            reason = f"{type(record_deserializer).__name__} reads no records"
            raise UnsupportedError((Problem(reason, "set_deserializer", hint=hint),))
        self._schema = record_deserializer
        return self

    def set_dead_letter_topic(self, topic: str) -> KafkaSourceBuilder:
        """The topic for records that cannot be read, which otherwise end the job: ``scan.dead-letter.topic``."""
        self._options["scan.dead-letter.topic"] = topic
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
        self._properties |= expect(props, Mapping, "set_properties", "{'isolation.level': 'read_committed'}")
        return self

    def build(self) -> KafkaSource:
        """The source. Raises OptionsError without a deserializer; everything else is checked when it is used."""
        if self._schema is None:
            hint = "for example set_value_only_deserializer(SimpleStringSchema())"
            raise OptionsError((Problem("a Kafka source needs a deserializer", "KafkaSource", hint=hint),))
        properties = {key: str(value) for key, value in self._properties.items()}
        self._override(properties)
        options = {**self._options, **self._read_only()}
        objects: dict[str, ChosenOffsets] = {}
        for scope, given in (("scan.startup", self._start), ("scan.bounded", self._stop)):
            if isinstance(given, KafkaOffsetsInitializer):
                options |= given.options(scope)
            elif given is not None:
                objects[f"{scope}.mode"] = given
        reset = self._start.reset if self._start is not None else None
        if reset is not None:  # the initializer overrides the property, as in Flink
            asked = properties.pop("auto.offset.reset", reset.name.lower())
            if asked.strip().lower() != reset.name.lower():
                _overridden("auto.offset.reset", f"the initializer of the starting offsets says {reset.name.lower()}")
            if reset is not KafkaOffsetResetStrategy.NONE:
                properties["auto.offset.reset"] = reset.name.lower()
        return KafkaSource(options | prefixed(properties), self._schema, objects)

    def _override(self, properties: dict[str, str]) -> None:
        """Remove the properties that Flink's builder overrides, and warn of them."""
        for key in _OVERRIDDEN.keys() & properties.keys():
            del properties[key]
            _overridden(key, _OVERRIDDEN[key])
        key = "partition.discovery.interval.ms"
        if self._stop is not None and int(properties.get(key, -1)) >= 0:
            _overridden(key, "a source with an end looks for no new partitions")

    def _read_only(self) -> dict[str, str]:
        """The options for a set of partitions. Raises OptionsError if topics were named too."""
        if not self._partitions:
            return {}
        if not self._options.keys().isdisjoint(("topic", "topic-pattern")):
            hint = "leave them out: set_partitions names the topics"
            reason = "cannot be combined with set_topics or set_topic_pattern"
            raise OptionsError((Problem(reason, "set_partitions", "KafkaSource", hint),))
        topics = sorted({each.topic for each in self._partitions})
        return {"topic": ";".join(topics), "scan.partitions": format_partitions(self._partitions)}


def _initializer(given: object, method: str) -> KafkaOffsetsInitializer | ChosenOffsets:
    if isinstance(given, KafkaOffsetsInitializer):
        return given
    if isinstance(given, OwnOffsetsInitializer):
        return ChosenOffsets(given)
    hint = (
        "use the static methods of KafkaOffsetsInitializer, or an object with get_partition_offsets and "
        "get_auto_offset_reset_strategy"
    )
    raise UnsupportedError((Problem(f"{given!r} does not give offsets", method, hint=hint),))


def _overridden(key: str, why: str) -> None:
    warnings.warn(f"the property '{key}' is overridden, as in Flink: {why}", stacklevel=4)
