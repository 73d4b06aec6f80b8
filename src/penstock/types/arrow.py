"""Logical types to Arrow types, exactly as Spark 4 lays its columns out, and to Spark's DDL text."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import pyarrow as pa

from penstock.errors import RecordError
from penstock.types.logical import ArrayType, DataType, DecimalType, MapType, RowType, TimeType, root

#: By root: the Arrow type, and the type in Spark SQL.
_TYPES = {
    "BOOLEAN": (pa.bool_(), "BOOLEAN"),
    "TINYINT": (pa.int8(), "TINYINT"),
    "SMALLINT": (pa.int16(), "SMALLINT"),
    "INT": (pa.int32(), "INT"),
    "BIGINT": (pa.int64(), "BIGINT"),
    "FLOAT": (pa.float32(), "FLOAT"),
    "DOUBLE": (pa.float64(), "DOUBLE"),
    "DATE": (pa.date32(), "DATE"),
    "STRING": (pa.string(), "STRING"),
    "BYTES": (pa.binary(), "BINARY"),
    "TIMESTAMP": (pa.timestamp("us"), "TIMESTAMP_NTZ"),
    "TIMESTAMP_LTZ": (pa.timestamp("us", "UTC"), "TIMESTAMP"),
    "INTERVAL": (pa.int64(), "BIGINT"),
}


def arrow_type(logical: DataType) -> pa.DataType:
    """The Arrow type of a column: timestamps in microseconds (zone UTC for TIMESTAMP_LTZ), times in nanoseconds.
    Intervals, which are in queries only, are numbers of months or of microseconds."""
    match logical:
        case DecimalType(precision=precision, scale=scale):
            return pa.decimal128(precision, scale)
        case TimeType():
            return pa.time64("ns")
        case ArrayType(element=element):
            return pa.list_(pa.field("element", arrow_type(element)))
        case MapType(key=key, value=value):
            return pa.map_(arrow_type(key), arrow_type(value))
        case RowType(fields=fields):
            return pa.struct([pa.field(field.name, arrow_type(field.type)) for field in fields])
    return _find_simple(logical)[0]


@lru_cache(maxsize=1024)  # it is wanted for every batch
def arrow_schema(row: RowType) -> pa.Schema:
    """The Arrow schema of a table; every column nullable, as Flink's formats may leave a NOT NULL column null."""
    return pa.schema([pa.field(field.name, arrow_type(field.type)) for field in row.fields])


def python_values(column: pa.Array | pa.ChunkedArray) -> list[Any]:
    """The values of a column in Python. Raises RecordError for the first date or timestamp that Python cannot
    represent, with the number of its row in place of its offset."""
    try:
        return column.to_pylist()  # type: ignore[no-any-return]
    except OverflowError:
        row = next(row for row in range(len(column)) if not fits_python(column[row]))
    reason = f"a value of {column.type} is outside the years 1 to 9999, which Python's datetime has"
    raise RecordError(reason, offset=row, hint="CAST it to STRING, or leave such rows out with WHERE")


def fits_python(value: pa.Scalar) -> bool:
    """Whether Python can represent the value: not a date or timestamp outside the years 1 to 9999."""
    try:
        value.as_py()
    except OverflowError:
        return False
    return True


def spark_type(logical: DataType) -> str:
    """The type in Spark SQL."""
    match logical:
        case DecimalType(precision=precision, scale=scale):
            return f"DECIMAL({precision},{scale})"
        case TimeType(precision=precision):
            return f"TIME({min(precision, 6)})"
        case ArrayType(element=element):
            return f"ARRAY<{spark_type(element)}>"
        case MapType(key=key, value=value):
            return f"MAP<{spark_type(key)},{spark_type(value)}>"
        case RowType(fields=fields):
            return f"STRUCT<{','.join(f'{quote_name(field.name)}:{spark_type(field.type)}' for field in fields)}>"
    return _find_simple(logical)[1]


def _find_simple(logical: DataType) -> tuple[pa.DataType, str]:
    found = _TYPES.get(root(logical))
    if found is None:
        raise TypeError(f"no column has the type {logical}")
    return found


def spark_ddl(row: RowType) -> str:
    """The columns as Spark DDL text: ```id` BIGINT, `name` STRING``."""
    return ", ".join(f"{quote_name(field.name)} {spark_type(field.type)}" for field in row.fields)


def quote_name(name: str) -> str:
    """A column's name in Spark SQL: always quoted."""
    return "`" + name.replace("`", "``") + "`"
