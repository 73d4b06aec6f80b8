"""How the values of a stream become records of Kafka."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from penstock.common import Row, SerializationSchema, TypeInformation
from penstock.common.arguments import expect
from penstock.common.serialization import FormatSerializationSchema
from penstock.datastream.connectors.kafka.deserialization import kafkas_own
from penstock.datastream.connectors.kafka.records import (
    CREATED,
    HEADERS,
    KEY,
    PARTITION,
    TOPIC,
    VALUE,
    Header,
    ProducerRecord,
    header_rows,
    info_of,
)
from penstock.datastream.function_steps import Step
from penstock.datastream.functions import Function, RuntimeContext
from penstock.datastream.values import read_rows, rows_of
from penstock.errors import OptionsError, Problem, RecordError, UnsupportedError
from penstock.spi import Column

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class KafkaTopicSelector(ABC):
    """Chooses the topic of a value."""

    @abstractmethod
    def apply(self, data: Any) -> str:
        """The topic."""


class HeaderProvider(ABC):
    """Makes the headers of a value's record."""

    @abstractmethod
    def get_headers(self, data: Any) -> Sequence[Header] | Mapping[str, bytes | None]:
        """The headers, as pairs or by name."""


class FlinkKafkaPartitioner(ABC):
    """Chooses the partition of a record."""

    def open(self, parallel_instance_id: int, parallel_instances: int) -> None:  # noqa: B027
        """Called once in each writing task, with its number and how many there are."""

    @abstractmethod
    def partition(
        self, record: Any, key: bytes | None, value: bytes | None, target_topic: str, partitions: Sequence[int]
    ) -> int:
        """One of ``partitions``."""


class KafkaSerializationSchema:
    """Makes whole records in Python: derive from it."""

    def open(self, context: RuntimeContext) -> None:
        """Called before the first value of a task."""

    def serialize(self, element: Any, timestamp: int | None) -> ProducerRecord | None:
        """The record of a value, which has this timestamp in the stream (ms since 1970); None leaves it out."""
        raise NotImplementedError(f"{type(self).__name__} has no method 'serialize'")


class KafkaRecordSerializationSchema(KafkaSerializationSchema):
    """What ``KafkaSink.builder().set_record_serializer`` takes: that which :meth:`builder` builds, or an object of a
    class of your own that derives from this one."""

    @staticmethod
    def builder() -> KafkaRecordSerializationSchemaBuilder:
        """Begin a schema."""
        return KafkaRecordSerializationSchemaBuilder()


@dataclass(frozen=True)
class BuiltSerializationSchema(KafkaRecordSerializationSchema):
    """A builder's settings: the topic, or what chooses it, the schemas of value and key, and the rest."""

    topic: str
    selector: Any
    value: SerializationSchema
    key: SerializationSchema | None = None
    partitioner: Any = None
    headers: Any = None

    @property
    def parts(self) -> tuple[Column, ...]:
        """The parts of the record that functions make; none for a record of formats alone."""
        found = []
        if self.selector is not None:
            found.append(TOPIC)
        if self.key is not None and not isinstance(self.key, FormatSerializationSchema):
            found.append(KEY)
        if not isinstance(self.value, FormatSerializationSchema):
            found.append(VALUE)
        if self.headers is not None:
            found.append(HEADERS)
        return tuple(found)


_SCHEMA = "for example SimpleStringSchema(), or a class that derives from it"


class KafkaRecordSerializationSchemaBuilder:
    """Builds a :class:`KafkaRecordSerializationSchema`. Required: a topic, or a selector of topics, and the value's
    schema."""

    def __init__(self) -> None:
        self._topic = ""
        self._selector: Any = None
        self._value: SerializationSchema | None = None
        self._key: SerializationSchema | None = None
        self._partitioner: Any = None
        self._headers: Any = None

    def set_topic(self, topic: str) -> KafkaRecordSerializationSchemaBuilder:
        """The topic to write."""
        self._topic = topic
        return self

    def set_topic_selector(
        self, topic_selector: Callable[[Any], str] | KafkaTopicSelector
    ) -> KafkaRecordSerializationSchemaBuilder:
        """What chooses the topic of each value. Raises UnsupportedError for anything but a function or a
        KafkaTopicSelector."""
        self._selector = _method(topic_selector, "apply", "set_topic_selector")
        return self

    def set_key_serialization_schema(
        self, key_serialization_schema: SerializationSchema
    ) -> KafkaRecordSerializationSchemaBuilder:
        """The schema of the key. One of a format holds the columns of the value that it names; one of your own is given
        the value."""
        self._key = expect(key_serialization_schema, SerializationSchema, "set_key_serialization_schema", _SCHEMA)
        return self

    def set_value_serialization_schema(
        self, value_serialization_schema: SerializationSchema
    ) -> KafkaRecordSerializationSchemaBuilder:
        """The schema of the message's value."""
        self._value = expect(value_serialization_schema, SerializationSchema, "set_value_serialization_schema", _SCHEMA)
        return self

    def set_kafka_key_serializer(self, key_serializer: Any) -> KafkaRecordSerializationSchemaBuilder:
        """One of Kafka's own serializers for the key, by the name of its class."""
        return self.set_key_serialization_schema(_kafkas_own(key_serializer))

    def set_kafka_value_serializer(self, value_serializer: Any) -> KafkaRecordSerializationSchemaBuilder:
        """One of Kafka's own serializers for the value, by the name of its class."""
        return self.set_value_serialization_schema(_kafkas_own(value_serializer))

    def set_partitioner(self, partitioner: Any) -> KafkaRecordSerializationSchemaBuilder:
        """What chooses the partition of each record: a :class:`FlinkKafkaPartitioner`, or a function with the arguments
        of its method. Without it Kafka's own, by the key."""
        self._partitioner = _method(partitioner, "partition", "set_partitioner") and partitioner
        return self

    def set_header_provider(self, header_provider: Any) -> KafkaRecordSerializationSchemaBuilder:
        """What makes the headers of each record: a :class:`HeaderProvider`, or a function of the value."""
        self._headers = _method(header_provider, "get_headers", "set_header_provider")
        return self

    def build(self) -> KafkaRecordSerializationSchema:
        """The schema. Raises OptionsError for a topic or a schema of the value that is missing, and for a topic beside
        a selector."""
        where, problems = "KafkaRecordSerializationSchema", []
        if not self._topic and self._selector is None:
            problems.append(Problem("is required", "set_topic", where, "or set_topic_selector"))
        if self._topic and self._selector is not None:
            problems.append(
                Problem("cannot be combined with set_topic", "set_topic_selector", where, "keep one of them")
            )
        if self._value is None:
            problems.append(Problem("is required", "set_value_serialization_schema", where))
        if problems or self._value is None:
            raise OptionsError(tuple(problems))
        return BuiltSerializationSchema(
            self._topic, self._selector, self._value, self._key, self._partitioner, self._headers
        )


def write_steps(schema: KafkaSerializationSchema, stream: TypeInformation) -> tuple[Step, ...]:
    """The functions that make a sink's rows of the values of a stream."""
    if not isinstance(schema, BuiltSerializationSchema):
        info = info_of((TOPIC, PARTITION, KEY, VALUE, HEADERS, CREATED))
        return (Step("process", RecordMaker(schema), info, "process_element", "Serialize"),)
    if not schema.parts:
        value = schema.value if isinstance(schema.value, FormatSerializationSchema) else None
        if value is None or value.wire is None:
            return ()
        return (Step("map", value.converts, value.wire, "map", "Serialize"),)
    row = written_info(schema.value, stream).row.fields
    columns = (*(Column(each.name, each.type) for each in row), *schema.parts)
    return (Step("map", PartMaker(schema, stream), info_of(columns), "map", "Serialize"),)


def written_info(schema: SerializationSchema, stream: TypeInformation) -> TypeInformation:
    """The type of the rows that the format of a schema is given for the values of a stream."""
    wire = schema.wire if isinstance(schema, FormatSerializationSchema) else None
    return wire or stream


class PartMaker(Function):
    """Makes the parts of a record that functions make, beside the columns of its value."""

    def __init__(self, schema: BuiltSerializationSchema, stream: TypeInformation):
        self._schema = schema
        self._stream = stream

    def open(self, runtime_context: RuntimeContext) -> None:
        """Open the user-defined schemas."""
        for each in (self._schema.key, self._schema.value, getattr(self._schema.value, "converts", None)):
            opens = getattr(each, "open", None)
            if opens is not None:
                opens(runtime_context)

    def map(self, element: Any) -> tuple[Any, ...]:
        """The columns of a value, and the parts of its record."""
        schema = self._schema
        converts = getattr(schema.value, "converts", None)
        written = converts.map(element) if converts else element
        (row,) = rows_of(written_info(schema.value, self._stream), [written])
        made: dict[Column, Callable[[], Any]] = {
            TOPIC: lambda: schema.selector(element),
            KEY: lambda: schema.key and schema.key.serialize(element),
            VALUE: lambda: schema.value.serialize(element),
            HEADERS: lambda: header_rows(schema.headers(element)),
        }
        return (*row, *(made[part]() for part in schema.parts))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PartMaker) and (other._schema, other._stream) == (self._schema, self._stream)

    def __hash__(self) -> int:
        return hash(self._stream)


class RecordMaker(Function):
    """Makes whole records by a user-defined schema."""

    def __init__(self, schema: KafkaSerializationSchema):
        self._schema = schema

    def open(self, runtime_context: RuntimeContext) -> None:
        """Open the schema."""
        self._schema.open(runtime_context)

    def process_element(self, element: Any, context: Any) -> list[tuple[Any, ...]]:
        """The columns of the record of a value, or nothing."""
        record: Any = self._schema.serialize(element, context.timestamp())
        if record is None:
            return []
        if not isinstance(record, ProducerRecord):
            reason = f"{type(self._schema).__name__}.serialize returned {type(record).__name__}"
            raise RecordError(reason, hint="return a ProducerRecord, or None")
        created = None if record.timestamp is None else _instant(record.timestamp)
        headers = header_rows(record.headers)
        return [(record.topic, record.partition, record.key, record.value, headers, created)]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, RecordMaker) and other._schema is self._schema

    def __hash__(self) -> int:
        return hash(id(self._schema))


@dataclass(frozen=True)
class ElementPartitioner:
    """A user-defined partitioner as the connector calls it: with rows of the table, which become values again."""

    partitioner: Any
    info: TypeInformation

    def open(self, task: int, tasks: int) -> None:
        """Open the partitioner."""
        opens = getattr(self.partitioner, "open", None)
        if opens is not None:
            opens(task, tasks)

    def partition(
        self, record: Row, key: bytes | None, value: bytes | None, target_topic: str, partitions: Sequence[int]
    ) -> int:
        """The partition of a row."""
        chooses = getattr(self.partitioner, "partition", self.partitioner)
        (element,) = read_rows(self.info, [Row(*list(record)[: len(self.info.row.fields)])])
        found: int = chooses(element, key, value, target_topic, partitions)
        return found

    def __str__(self) -> str:
        kind = self.partitioner if hasattr(self.partitioner, "__qualname__") else type(self.partitioner)
        return str(kind.__qualname__)


def _method(given: Any, name: str, call: str) -> Any:
    """The method of an object, or the function. Raises UnsupportedError for anything else."""
    found = getattr(given, name, given)
    if not callable(found):
        hint = f"give a function, or an object with a method '{name}'"
        raise UnsupportedError((Problem(f"{type(given).__name__} cannot be called", call, hint=hint),))
    return found


def _kafkas_own(serializer: Any) -> SerializationSchema:
    return FormatSerializationSchema(format="raw", type_info=kafkas_own(serializer, "Serializer"))


def _instant(millis: int) -> datetime:
    try:
        return _EPOCH + timedelta(milliseconds=millis)
    except OverflowError:
        reason = f"the timestamp of a ProducerRecord, {millis} ms, is outside the years 1 to 9999"
        raise RecordError(reason, hint="give milliseconds since 1970") from None
