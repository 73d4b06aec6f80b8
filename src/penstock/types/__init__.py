"""Logical types and row kinds, with conversions to Flink's type text, Arrow and Spark's DDL text."""

from penstock.types.arrow import arrow_schema, arrow_type, quote_name, spark_ddl, spark_type
from penstock.types.logical import (
    BIGINT,
    BOOLEAN,
    BYTES,
    DATE,
    DOUBLE,
    FLOAT,
    INT,
    NULL,
    SMALLINT,
    STRING,
    TINYINT,
    ArrayType,
    BinaryType,
    DataType,
    DecimalType,
    Field,
    IntervalType,
    MapType,
    NullType,
    PrimitiveType,
    RowKind,
    RowType,
    StringType,
    TimestampType,
    TimeType,
)
from penstock.types.parse import TypeReader, TypeToken, parse_columns, parse_type
