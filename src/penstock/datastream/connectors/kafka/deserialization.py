"""How records of Kafka become the values of a stream."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from penstock.common import DeserializationSchema, TypeInformation, Types
from penstock.common.arrow_functions import ArrowFunction
from penstock.common.serialization import FormatDeserializationSchema
from penstock.datastream.connectors.kafka.records import RECORD, ConsumerRecord
from penstock.datastream.function_steps import Step
from penstock.datastream.functions import Function, RuntimeContext
from penstock.errors import Problem, RecordError, UnsupportedError

_PACKAGE = "org.apache.kafka.common.serialization."
#: Kafka's own deserializers and serializers, by their names without these words, and the types of their values.
KAFKAS_OWN: dict[str, Callable[[], TypeInformation]] = {
    "String": Types.STRING,
    "ByteArray": lambda: Types.PRIMITIVE_ARRAY(Types.BYTE()),
    "Bytes": lambda: Types.PRIMITIVE_ARRAY(Types.BYTE()),
    "Boolean": Types.BOOLEAN,
    "Short": Types.SHORT,
    "Integer": Types.INT,
    "Long": Types.LONG,
    "Float": Types.FLOAT,
    "Double": Types.DOUBLE,
}


class KafkaDeserializationSchema:
    """Reads whole records in Python: derive from it."""

    def deserialize(self, record: ConsumerRecord) -> Any:
        """The value of a record; None leaves it out. An error fails the job, and names the record."""
        raise NotImplementedError(f"{type(self).__name__} has no method 'deserialize'")

    def get_produced_type(self) -> TypeInformation:
        """The type of the values: by default values of any kind."""
        return Types.PICKLED_BYTE_ARRAY()

    def is_end_of_stream(self, next_element: Any) -> bool:
        """Whether the stream ends before a value. True fails the job: give the source an end instead."""
        return False

    def open(self, context: RuntimeContext) -> None:
        """Called before the first record of a task."""


class KafkaRecordDeserializationSchema(KafkaDeserializationSchema):
    """What ``KafkaSource.builder().set_deserializer`` takes: one of these static methods' results, or an object of a
    class of your own that derives from this one."""

    @staticmethod
    def value_only(deserializer: DeserializationSchema | str) -> KafkaRecordDeserializationSchema:
        """Reads the values of records: by a schema, or by one of Kafka's own deserializers, by the name of its class.
        Raises UnsupportedError for an unknown name."""
        if isinstance(deserializer, DeserializationSchema):
            return ValueOnly(deserializer)
        return ValueOnly(FormatDeserializationSchema(format="raw", type_info=kafkas_own(deserializer, "Deserializer")))

    @staticmethod
    def of(
        kafka_deserialization_schema: Any,
        type_info: TypeInformation | None = None,
    ) -> KafkaRecordDeserializationSchema:
        """Reads whole records: by a KafkaDeserializationSchema, by a function of a :class:`ConsumerRecord`, or by
        ``call_arrow`` with a function of record batches, whose columns have the names of its fields. Functions of
        values that are not pickled need ``type_info``. Raises UnsupportedError for anything else."""
        if isinstance(kafka_deserialization_schema, KafkaRecordDeserializationSchema):
            return kafka_deserialization_schema
        if isinstance(kafka_deserialization_schema, KafkaDeserializationSchema):
            return Whole(kafka_deserialization_schema, kafka_deserialization_schema.get_produced_type())
        if not callable(kafka_deserialization_schema) and not isinstance(kafka_deserialization_schema, ArrowFunction):
            hint = "give a KafkaDeserializationSchema, or a function"
            reason = f"{type(kafka_deserialization_schema).__name__} reads no records"
            raise UnsupportedError((Problem(reason, "KafkaRecordDeserializationSchema.of", hint=hint),))
        return Whole(kafka_deserialization_schema, type_info or Types.PICKLED_BYTE_ARRAY())


@dataclass(frozen=True)
class ValueOnly(KafkaRecordDeserializationSchema):
    """Reads values by a schema."""

    schema: DeserializationSchema

    def get_produced_type(self) -> TypeInformation:
        """The type of the values."""
        return self.schema.get_produced_type()


@dataclass(frozen=True)
class Whole(KafkaRecordDeserializationSchema):
    """Reads whole records by a schema or a function."""

    reader: Any
    info: TypeInformation

    def get_produced_type(self) -> TypeInformation:
        """The type of the values."""
        return self.info


class JsonDeserializationSchema(DeserializationSchema):
    """Values that are JSON, as dictionaries, lists and so on: values of any kind. A null message is left out."""

    def deserialize(self, message: bytes | None) -> Any:
        """The parsed message. Raises RecordError for one that is not JSON."""
        return _parsed(message, "the value")


class JSONKeyValueDeserializationSchema(KafkaDeserializationSchema):
    """Records whose keys and values are JSON, as a dictionary with ``key`` and ``value`` where they are there, and with
    ``metadata`` (``offset``, ``topic``, ``partition``) if ``include_metadata``."""

    def __init__(self, include_metadata: bool):
        self._metadata = include_metadata

    def deserialize(self, record: ConsumerRecord) -> dict[str, Any]:
        """The parsed record. Raises RecordError for a key or a value that is not JSON."""
        found: dict[str, Any] = {}
        if record.key is not None:
            found["key"] = _parsed(record.key, "the key")
        if record.value is not None:
            found["value"] = _parsed(record.value, "the value")
        if self._metadata:
            found["metadata"] = {"offset": record.offset, "topic": record.topic, "partition": record.partition}
        return found


def kafkas_own(name: Any, kind: str) -> TypeInformation:
    """The type of the values of one of Kafka's deserializers or serializers. Raises UnsupportedError for another."""
    text = (name if isinstance(name, str) else getattr(name, "__name__", str(name))).removeprefix(_PACKAGE)
    found = KAFKAS_OWN.get(text.removesuffix(kind)) if text.endswith(kind) else None
    if found is None:
        known = ", ".join(f"{each}{kind}" for each in KAFKAS_OWN)
        hint = f"penstock knows {known}; or give a schema"
        raise UnsupportedError((Problem(f"there is no {kind.lower()} '{text}'", hint=hint),))
    return found()


def read_steps(schema: KafkaRecordDeserializationSchema) -> tuple[Step, ...]:
    """The functions that make values of the rows that a source reads."""
    info = schema.get_produced_type()
    if isinstance(schema, ValueOnly):
        if isinstance(schema.schema, FormatDeserializationSchema):
            converts = schema.schema.converts
            return (Step("map", converts, info, "map", "Deserialize"),) if converts else ()
        return (Step("present", DeserializeFunction(schema.schema), info, "map", "Deserialize"),)
    reader = schema.reader if isinstance(schema, Whole) else schema
    if isinstance(reader, ArrowFunction):
        return (Step("map", reader, info, name="Deserialize"),)
    function = DeserializeFunction(reader) if isinstance(reader, KafkaDeserializationSchema) else reader
    return (Step("present", function, info, "map", "Deserialize"),)


def read_info(schema: KafkaRecordDeserializationSchema) -> TypeInformation:
    """The type of the rows that a source reads."""
    if not isinstance(schema, ValueOnly):
        return RECORD
    if isinstance(schema.schema, FormatDeserializationSchema):
        return schema.schema.wire or schema.get_produced_type()
    return Types.PRIMITIVE_ARRAY(Types.BYTE())


class DeserializeFunction(Function):
    """A user-defined schema as a function."""

    def __init__(self, schema: Any):
        self._schema = schema
        ends = getattr(type(schema), "is_end_of_stream", None)
        known = (DeserializationSchema.is_end_of_stream, KafkaDeserializationSchema.is_end_of_stream)
        self._ends = ends is not None and ends not in known

    def open(self, runtime_context: RuntimeContext) -> None:
        """Open the schema."""
        opens = getattr(self._schema, "open", None)
        if opens is not None:
            opens(runtime_context)

    def map(self, record: Any) -> Any:
        """The value of a record, or None."""
        value = self._schema.deserialize(record)
        if self._ends and value is not None and self._schema.is_end_of_stream(value):
            reason = f"{type(self._schema).__name__}.is_end_of_stream says that the stream ends before this record"
            raise RecordError(reason, hint="give the source an end by set_bounded")
        return value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, DeserializeFunction) and other._schema is self._schema

    def __hash__(self) -> int:
        return hash(id(self._schema))


def _parsed(text: bytes | None, part: str) -> Any:
    if text is None:
        return None
    try:
        return json.loads(text)
    except ValueError as error:
        reason = f"{part} is not JSON: {error}"
        raise RecordError(reason, hint="look at the record") from error
