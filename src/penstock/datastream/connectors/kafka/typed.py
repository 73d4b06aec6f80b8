"""Keys and values as Flink's serializers write them."""

from __future__ import annotations

from typing import Any

from penstock.common import ExecutionConfig, SerializationSchema, TypeInformation, Types
from penstock.common.serialization import TypeInformationSerializationSchema
from penstock.datastream.connectors.kafka.deserialization import KafkaDeserializationSchema
from penstock.datastream.connectors.kafka.records import ConsumerRecord


class TypeInformationKeyValueSerializationSchema(KafkaDeserializationSchema):
    """Records whose keys and values are as Flink's serializers write them, as pairs: for sources, and for
    :class:`FlinkKafkaProducer`. A record without a key, or without a value, is a pair with None in its place.
    ``execution_config`` is not needed. Raises UnsupportedError for a type whose bytes only Java knows."""

    def __init__(
        self,
        key_type_info: TypeInformation,
        value_type_info: TypeInformation,
        execution_config: ExecutionConfig | None = None,
    ):
        self._info = Types.TUPLE([key_type_info, value_type_info])
        self._key = TypeInformationSerializationSchema(key_type_info)
        self._value = TypeInformationSerializationSchema(value_type_info)

    def deserialize(self, record: ConsumerRecord) -> tuple[Any, Any]:
        """The pair of a record. Raises RecordError for bytes that cannot be read as their type."""
        return self._key.deserialize(record.key), self._value.deserialize(record.value)

    def get_produced_type(self) -> TypeInformation:
        """The type of the pairs."""
        return self._info

    def serialize_key(self, element: Any) -> bytes | None:
        """The key of a pair's record. Raises RecordError for a value of another type."""
        return _written(self._key, element[0])

    def serialize_value(self, element: Any) -> bytes | None:
        """The value of a pair's record. Raises RecordError for a value of another type."""
        return _written(self._value, element[1])

    def parts(self) -> tuple[SerializationSchema, SerializationSchema]:
        """The schemas of the keys and of the values of pairs."""
        return _Part(self._key, 0), _Part(self._value, 1)


class _Part(SerializationSchema):
    """Writes one half of pairs."""

    def __init__(self, schema: TypeInformationSerializationSchema, position: int):
        self._schema, self._position = schema, position

    def serialize(self, element: Any) -> bytes | None:
        """The bytes of the half, None for None."""
        return _written(self._schema, element[self._position])


def _written(schema: TypeInformationSerializationSchema, value: Any) -> bytes | None:
    return None if value is None else schema.serialize(value)
