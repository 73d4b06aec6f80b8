"""The Avro schema of a table, as Flink's AvroSchemaConverter derives it from the columns.

A nullable column is a union of null and its type, with the default null. Elements of arrays and maps always have the
legacy mapping of timestamps, as in Flink.
"""

from __future__ import annotations

from penstock.errors import Problem, SchemaError
from penstock.formats.avro.schema import Array, Map, Primitive, Record, RecordField, Schema, Union, field_path, parse
from penstock.types import (
    ArrayType,
    BinaryType,
    DataType,
    DecimalType,
    MapType,
    PrimitiveType,
    RowType,
    StringType,
    TimestampType,
    TimeType,
)

#: The full name of the record of a table's rows.
RECORD_NAME = "org.apache.flink.avro.generated.record"

_PRIMITIVES = {
    "BOOLEAN": Primitive("boolean"),
    "TINYINT": Primitive("int"),
    "SMALLINT": Primitive("int"),
    "INT": Primitive("int"),
    "BIGINT": Primitive("long"),
    "FLOAT": Primitive("float"),
    "DOUBLE": Primitive("double"),
    "DATE": Primitive("int", "date"),
}


def derive_schema(row: RowType, legacy: bool = True) -> Record:
    """The schema of a table's rows. ``legacy`` is ``timestamp_mapping.legacy``.

    Raises SchemaError with every column whose type or name Avro cannot express.
    """
    derivation = _Derivation()
    found = derivation.derive_record(row, RECORD_NAME, legacy, "")
    if derivation.problems:
        raise SchemaError(tuple(derivation.problems))
    return found


def parse_or_derive_record(row: RowType, schema: str | None, legacy: bool) -> Record:
    """The record in ``schema``, an Avro schema as JSON, or without one the record that is derived from the columns."""
    given = parse(schema) if schema else None
    return given if isinstance(given, Record) else derive_schema(row, legacy)


def _is_name(name: str) -> bool:
    plain = name.replace("_", "a")
    return plain.isalnum() and not plain[0].isdigit()


class _Derivation:
    def __init__(self) -> None:
        self.problems: list[Problem] = []
        self._records: dict[str, Record] = {}

    def _refuse(self, reason: str, path: str, hint: str = "") -> None:
        self.problems.append(Problem(reason, path, hint=hint))

    def derive_record(self, row: RowType, name: str, legacy: bool, path: str) -> Record:
        """The record of a row, under a full name."""
        fields = []
        for each in row.fields:
            inner = field_path(path, each.name)
            if not _is_name(each.name):
                self._refuse("an Avro name consists of letters, digits and '_', and does not start with a digit", inner)
            schema = self._derive_nullable(each.type, f"{name}_{each.name}", legacy, inner)
            fields.append(RecordField(each.name, schema, "null" if each.type.nullable else None))
        found = Record(name, tuple(fields))
        if self._records.setdefault(name, found) != found:
            reason = f"another record of the schema has the same name, {name.rpartition('.')[2]}, and other fields"
            self._refuse(reason, path, "rename one of the columns from which the name is made")
        return found

    def _derive_nullable(self, data_type: DataType, name: str, legacy: bool, path: str) -> Schema:
        found = self._derive_type(data_type, name, legacy, path)
        return Union((Primitive("null"), found)) if data_type.nullable else found

    def _derive_type(self, data_type: DataType, name: str, legacy: bool, path: str) -> Schema:
        match data_type:
            case PrimitiveType(name=primitive):
                return _PRIMITIVES[primitive]
            case StringType():
                return Primitive("string")
            case BinaryType():
                return Primitive("bytes")
            case DecimalType(precision=precision, scale=scale):
                return Primitive("bytes", "decimal", precision, scale)
            case TimeType(precision=precision):
                if precision > 3:
                    self._refuse(f"avro supports TIME with a precision of 0 to 3, not {precision}", path)
                return Primitive("int", "time-millis")
            case TimestampType():
                return self._derive_timestamp(data_type, legacy, path)
            case ArrayType(element=element):
                return Array(self._derive_nullable(element, name, True, path))
            case MapType(key=key, value=value):
                if not isinstance(key, StringType):
                    self._refuse("keys of Avro maps are strings; use STRING, VARCHAR or CHAR", path)
                return Map(self._derive_nullable(value, name, True, path))
            case RowType():
                return self.derive_record(data_type, name, legacy, path)
        raise TypeError(f"no Avro type for {data_type}")

    def _derive_timestamp(self, data_type: TimestampType, legacy: bool, path: str) -> Schema:
        if legacy and (data_type.local_zone or data_type.precision > 3):
            reason = f"the legacy mapping of timestamps has no {data_type.with_nullability(True)}"
            self._refuse(reason, path, "set timestamp_mapping.legacy to false, or use TIMESTAMP(3)")
        unit = "millis" if data_type.precision <= 3 else "micros" if data_type.precision <= 6 else "nanos"
        return Primitive("long", f"{'' if legacy or data_type.local_zone else 'local-'}timestamp-{unit}")
