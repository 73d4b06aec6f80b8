"""The columns of a table by the schema of Kafka Connect that its messages contain."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from penstock.formats.debezium_json import connect_values as values
from penstock.formats.debezium_json.connect_values import Convert
from penstock.types import (
    BIGINT,
    BOOLEAN,
    BYTES,
    DATE,
    DOUBLE,
    FLOAT,
    INT,
    SMALLINT,
    STRING,
    TINYINT,
    DataType,
    DecimalType,
    Field,
    RowType,
    TimestampType,
    TimeType,
)
from penstock.types.logical import MAX_PRECISION


@dataclass(frozen=True)
class ConnectType:
    """The type of a column, and how its values are read: as ``wire`` from JSON, of which ``convert`` makes values of
    the type. JSON has values of other types as they are. ``expects`` is what a value has to be, for people."""

    type: DataType
    wire: DataType | None = None
    convert: Convert | None = None
    expects: str = ""


#: The types of Kafka Connect in JSON; arrays, maps and structs are texts.
_PLAIN = {
    "int8": TINYINT,
    "int16": SMALLINT,
    "int32": INT,
    "int64": BIGINT,
    "float": FLOAT,
    "float32": FLOAT,
    "double": DOUBLE,
    "float64": DOUBLE,
    "boolean": BOOLEAN,
    "bytes": BYTES,
}
_CONNECT, _TIME = "org.apache.kafka.connect.data", "io.debezium.time"
_DAYS = ConnectType(DATE, INT, values.read_days, "days since 1970-01-01")
_MILLIS_OF_DAY = ConnectType(TimeType(3), INT, values.read_millis_of_day, "milliseconds of a day")
_MILLIS = ConnectType(TimestampType(3), BIGINT, values.read_millis, "milliseconds since 1970")
_MICROS = ConnectType(TimestampType(6), BIGINT, values.read_micros, "microseconds since 1970")
_NANOS = ConnectType(TimestampType(6), BIGINT, values.read_nanos, "nanoseconds since 1970")
_POINT = ConnectType(TimestampType(6, local_zone=True), STRING, values.read_zoned, "a time with its offset from UTC")
_SCALED_ROW = RowType((Field("scale", INT), Field("value", BYTES)))
#: The types with a name, each with the type that it is written as. A TIME has three digits after the second, and no
#: durations, so those with more of either are texts.
_NAMED = {
    (f"{_TIME}.Date", "int32"): _DAYS,
    (f"{_CONNECT}.Date", "int32"): _DAYS,
    (f"{_TIME}.Time", "int32"): _MILLIS_OF_DAY,
    (f"{_CONNECT}.Time", "int32"): _MILLIS_OF_DAY,
    (f"{_TIME}.MicroTime", "int64"): ConnectType(STRING, BIGINT, values.write_micros_of_day, "microseconds of a day"),
    (f"{_TIME}.NanoTime", "int64"): ConnectType(STRING, BIGINT, values.write_nanos_of_day, "nanoseconds of a day"),
    (f"{_TIME}.Timestamp", "int64"): _MILLIS,
    (f"{_CONNECT}.Timestamp", "int64"): _MILLIS,
    (f"{_TIME}.MicroTimestamp", "int64"): _MICROS,
    (f"{_TIME}.NanoTimestamp", "int64"): _NANOS,
    (f"{_TIME}.ZonedTimestamp", "string"): _POINT,
    ("io.debezium.data.VariableScaleDecimal", "struct"): ConnectType(
        STRING, _SCALED_ROW, values.write_scaled, "the scale and the base64 of a decimal"
    ),
}


@dataclass(frozen=True)
class ConnectColumn:
    """A column of a schema."""

    name: str
    type: ConnectType


@lru_cache(maxsize=1024)  # messages repeat it
def read_columns(schema: bytes) -> tuple[ConnectColumn, ...]:
    """The columns of the rows before and after changes, by the JSON text of the messages' schema; none if it is not a
    schema of changes."""
    try:
        document = json.loads(schema)
    except (ValueError, RecursionError):
        return ()
    images = {each["field"]: each for each in _list_fields(document)}
    found: dict[str, ConnectColumn] = {}
    for image in ("after", "before"):
        for each in _list_fields(images.get(image)):
            found.setdefault(each["field"], ConnectColumn(each["field"], find_type(each)))
    return tuple(found.values())


def _list_fields(document: object) -> list[dict[str, Any]]:
    fields = document.get("fields") if isinstance(document, dict) else None
    given = fields if isinstance(fields, list) else []
    return [each for each in given if isinstance(each, dict) and isinstance(each.get("field"), str)]


def find_type(schema: Mapping[str, Any]) -> ConnectType:
    """The type for one of Kafka Connect, by its name if that is known."""
    kind, name = schema.get("type"), schema.get("name")
    if (name, kind) == (f"{_CONNECT}.Decimal", "bytes"):
        return _find_decimal(schema.get("parameters"))
    return _NAMED.get((str(name), str(kind))) or ConnectType(_PLAIN.get(str(kind), STRING))


def _find_decimal(parameters: object) -> ConnectType:
    """The type of decimals whose unscaled numbers are bytes; text for those that a DECIMAL does not hold."""
    given = parameters if isinstance(parameters, dict) else {}
    try:
        scale, precision = int(given.get("scale", 0)), int(given.get("connect.decimal.precision", MAX_PRECISION))
    except (TypeError, ValueError):
        return ConnectType(BYTES)
    expects = "the base64 of a decimal"
    if 0 <= scale <= precision <= MAX_PRECISION and precision:
        decimal = DecimalType(precision, scale)
        return ConnectType(decimal, BYTES, values.read_decimals, f"{expects} that fits {decimal}")
    return ConnectType(STRING, BYTES, values.decimal_writer(scale), expects)
