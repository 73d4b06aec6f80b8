"""Rows as Avro records: the formats ``avro`` and ``avro-confluent``, under PyFlink's and Flink's names."""

from __future__ import annotations

from collections.abc import Mapping

from penstock.common import TypeInformation
from penstock.common.serialization import FormatDeserializationSchema, FormatSerializationSchema
from penstock.common.typeinfo import from_logical
from penstock.datastream.refusals import lookup
from penstock.errors import Problem, SchemaError
from penstock.formats.avro.schema import Array, Enum, Fixed, Map, Primitive, Record, Schema, Union, parse
from penstock.java_gateway import without_java
from penstock.types import (
    BIGINT,
    BOOLEAN,
    BYTES,
    DATE,
    DOUBLE,
    FLOAT,
    INT,
    STRING,
    ArrayType,
    DataType,
    DecimalType,
    Field,
    MapType,
    RowType,
    TimestampType,
    TimeType,
)

__getattr__ = lookup("formats.avro")

__all__ = [
    "AvroRowDeserializationSchema",
    "AvroRowSerializationSchema",
    "ConfluentRegistryAvroDeserializationSchema",
    "ConfluentRegistryAvroSerializationSchema",
]

_PRIMITIVES: Mapping[str, DataType] = {
    "boolean": BOOLEAN,
    "int": INT,
    "long": BIGINT,
    "float": FLOAT,
    "double": DOUBLE,
    "bytes": BYTES,
    "string": STRING,
}
_LOGICAL: Mapping[str, DataType] = {
    "date": DATE,
    "time-millis": TimeType(3),
    "time-micros": TimeType(6),
    "timestamp-millis": TimestampType(3, True),
    "timestamp-micros": TimestampType(6, True),
    "local-timestamp-millis": TimestampType(3),
    "local-timestamp-micros": TimestampType(6),
}


class AvroRowDeserializationSchema(FormatDeserializationSchema):
    """Reads Avro records, which all have the schema ``avro_schema_string``, into rows. Raises UnsupportedError for the
    name of a Java class."""

    def __init__(self, record_class: str | None = None, avro_schema_string: str | None = None):
        info, options = _plain(record_class, avro_schema_string)
        super().__init__(format="avro", type_info=info, options=options)


class AvroRowSerializationSchema(FormatSerializationSchema):
    """Writes rows as Avro records of the schema ``avro_schema_string``. Raises UnsupportedError for the name of a Java
    class."""

    def __init__(self, record_class: str | None = None, avro_schema_string: str | None = None):
        info, options = _plain(record_class, avro_schema_string)
        super().__init__(format="avro", type_info=info, options=options)


class ConfluentRegistryAvroDeserializationSchema(FormatDeserializationSchema):
    """Reads Avro records whose schemas are in a schema registry, into rows of a schema of the reader's."""

    @staticmethod
    def for_generic(
        avro_schema_string: str, schema_registry_url: str, registry_configs: Mapping[str, str] | None = None
    ) -> ConfluentRegistryAvroDeserializationSchema:
        """Reads rows of ``avro_schema_string``. ``registry_configs`` are properties of Confluent's client."""
        info, options = _confluent(avro_schema_string, schema_registry_url, "", registry_configs)
        return ConfluentRegistryAvroDeserializationSchema(format="avro-confluent", type_info=info, options=options)


class ConfluentRegistryAvroSerializationSchema(FormatSerializationSchema):
    """Writes rows as Avro records whose schema is registered in a schema registry."""

    @staticmethod
    def for_generic(
        subject: str,
        avro_schema_string: str,
        schema_registry_url: str,
        registry_configs: Mapping[str, str] | None = None,
    ) -> ConfluentRegistryAvroSerializationSchema:
        """Writes rows of ``avro_schema_string``, which is registered under ``subject``."""
        info, options = _confluent(avro_schema_string, schema_registry_url, subject, registry_configs)
        return ConfluentRegistryAvroSerializationSchema(format="avro-confluent", type_info=info, options=options)


def _plain(record_class: str | None, schema: str | None) -> tuple[TypeInformation, tuple[tuple[str, str], ...]]:
    if schema is None and record_class is None:
        raise TypeError("give an 'avro_schema_string'")
    if schema is None:
        raise without_java("record_class", "give an 'avro_schema_string'")
    return info_of(schema), (("schema", schema), ("timestamp_mapping.legacy", "false"))


def _confluent(
    schema: str, url: str, subject: str, configs: Mapping[str, str] | None
) -> tuple[TypeInformation, tuple[tuple[str, str], ...]]:
    properties = {f"properties.{key}": str(value) for key, value in (configs or {}).items()}
    options = {"url": url, "schema": schema, "timestamp_mapping.legacy": "false", **properties}
    if subject:
        options["subject"] = subject
    return info_of(schema), tuple(sorted(options.items()))


def info_of(schema: str) -> TypeInformation:
    """The type of the rows of an Avro schema, which is one of a record. Raises SchemaError for another, and for unions
    of several types."""
    found = parse(schema)
    if not isinstance(found, Record):
        raise SchemaError((Problem("expected the schema of a record", "avro_schema_string"),))
    return from_logical(_logical(found, "").with_nullability(True))


def _logical(schema: Schema, where: str) -> DataType:
    """The type of the values of a schema, NOT NULL unless it is a union with null."""
    match schema:
        case Union(branches=branches):
            others = [each for each in branches if each != Primitive("null")]
            if len(others) != 1:
                reason = f"{where}: a union of {len(others)} types has no type of a column"
                raise SchemaError((Problem(reason, "avro_schema_string", hint="give each branch its own field"),))
            return _logical(others[0], where).with_nullability(len(others) < len(branches))
        case Record(fields=fields):
            found: DataType = RowType(
                tuple(Field(each.name, _logical(each.type, f"{where}.{each.name}".strip("."))) for each in fields)
            )
        case Array(items=items):
            found = ArrayType(_logical(items, f"{where}[]"))
        case Map(values=values):
            found = MapType(STRING.with_nullability(False), _logical(values, f"{where}{{}}"))
        case Enum():
            found = STRING
        case Fixed() | Primitive():
            found = _of_primitive(schema, where)
    return found.with_nullability(False)


def _of_primitive(schema: Fixed | Primitive, where: str) -> DataType:
    if schema.logical == "decimal":
        return DecimalType(schema.precision, schema.scale)
    if isinstance(schema, Fixed):
        return BYTES
    if schema.logical in _LOGICAL:
        return _LOGICAL[schema.logical]
    if schema.type not in _PRIMITIVES:
        raise SchemaError((Problem(f"{where}: {schema.type} has no type of a column", "avro_schema_string"),))
    return _PRIMITIVES[schema.type]
