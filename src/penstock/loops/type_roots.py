"""Type roots: compiled loops tell types apart by these numbers."""

from __future__ import annotations

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

#: Numeric types come first: integers up to BIGINT, all numbers up to DECIMAL. Loops that read only flat columns see
#: OTHER in place of ROW, ARRAY and MAP.
TINYINT, SMALLINT, INT, BIGINT, FLOAT, DOUBLE, DECIMAL = 0, 1, 2, 3, 4, 5, 6
BOOLEAN, STRING, BYTES, DATE, TIME, TIMESTAMP, TIMESTAMP_LTZ, OTHER = 7, 8, 9, 10, 11, 12, 13, 14
ROW, ARRAY, MAP = 15, 16, 17


_ROOTS = {
    "BOOLEAN": BOOLEAN,
    "TINYINT": TINYINT,
    "SMALLINT": SMALLINT,
    "INT": INT,
    "BIGINT": BIGINT,
    "FLOAT": FLOAT,
    "DOUBLE": DOUBLE,
    "DATE": DATE,
}


#: The digits after the second that a TIME keeps, as in Flink.
TIME_DIGITS = 3


def time_digits(data_type: TimeType) -> int:
    """The digits after the second that a TIME keeps: as declared, at most :data:`TIME_DIGITS`."""
    return min(data_type.precision, TIME_DIGITS)


def describe_root(data_type: DataType) -> tuple[int, int, int]:
    """Type root, precision and scale of a column for the compiled loops."""
    match data_type:
        case PrimitiveType(name=name):
            return _ROOTS[name], 0, 0
        case DecimalType(precision=precision, scale=scale):
            return DECIMAL, precision, scale
        case StringType():
            return STRING, 0, 0
        case BinaryType():
            return BYTES, 0, 0
        case TimeType():
            return TIME, time_digits(data_type), 0
        case TimestampType(local_zone=local):
            return TIMESTAMP_LTZ if local else TIMESTAMP, 0, 0
    return OTHER, 0, 0


def nested_root(data_type: DataType) -> int:
    """The type root, including rows, arrays and maps."""
    match data_type:
        case RowType():
            return ROW
        case ArrayType():
            return ARRAY
        case MapType():
            return MAP
    return describe_root(data_type)[0]
