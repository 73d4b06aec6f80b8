"""Logical types to Arrow types, exactly as Spark 4 lays its columns out, and to Spark's DDL text."""

from __future__ import annotations

import pyarrow as pa

from penstock.types.logical import (
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

_ARROW = {
    "BOOLEAN": pa.bool_(),
    "TINYINT": pa.int8(),
    "SMALLINT": pa.int16(),
    "INT": pa.int32(),
    "BIGINT": pa.int64(),
    "FLOAT": pa.float32(),
    "DOUBLE": pa.float64(),
    "DATE": pa.date32(),
}


def arrow_type(logical: DataType) -> pa.DataType:
    """The Arrow type of a column: timestamps in microseconds (zone UTC for TIMESTAMP_LTZ), times in nanoseconds."""
    match logical:
        case PrimitiveType(name=name):
            return _ARROW[name]
        case StringType():
            return pa.string()
        case BinaryType():
            return pa.binary()
        case DecimalType(precision=precision, scale=scale):
            return pa.decimal128(precision, scale)
        case TimeType():
            return pa.time64("ns")
        case TimestampType(local_zone=local):
            return pa.timestamp("us", "UTC" if local else None)
        case ArrayType(element=element):
            return pa.list_(pa.field("element", arrow_type(element)))
        case MapType(key=key, value=value):
            return pa.map_(arrow_type(key), arrow_type(value))
        case RowType(fields=fields):
            return pa.struct([pa.field(field.name, arrow_type(field.type)) for field in fields])
    raise TypeError(f"no Arrow type for {logical}")


def arrow_schema(row: RowType) -> pa.Schema:
    """The Arrow schema of a table; every column nullable, as Flink's formats may leave a NOT NULL column null."""
    return pa.schema([pa.field(field.name, arrow_type(field.type)) for field in row.fields])


def spark_type(logical: DataType) -> str:
    """The type in Spark SQL."""
    match logical:
        case PrimitiveType(name=name):
            return name
        case StringType():
            return "STRING"
        case BinaryType():
            return "BINARY"
        case DecimalType(precision=precision, scale=scale):
            return f"DECIMAL({precision},{scale})"
        case TimeType(precision=precision):
            return f"TIME({min(precision, 6)})"
        case TimestampType(local_zone=local):
            return "TIMESTAMP" if local else "TIMESTAMP_NTZ"
        case ArrayType(element=element):
            return f"ARRAY<{spark_type(element)}>"
        case MapType(key=key, value=value):
            return f"MAP<{spark_type(key)},{spark_type(value)}>"
        case RowType(fields=fields):
            return f"STRUCT<{','.join(f'{quoted_name(field.name)}:{spark_type(field.type)}' for field in fields)}>"
    raise TypeError(f"no Spark type for {logical}")


def spark_ddl(row: RowType) -> str:
    """The columns as Spark DDL text: ```id` BIGINT, `name` STRING``."""
    return ", ".join(f"{quoted_name(field.name)} {spark_type(field.type)}" for field in row.fields)


def quoted_name(name: str) -> str:
    """A column's name in Spark SQL: always quoted."""
    return "`" + name.replace("`", "``") + "`"
