"""Flink's types by PyFlink's names, and the types that Python's type hints mean."""

from __future__ import annotations

import types
from collections.abc import Mapping, Sequence
from datetime import date, datetime, time
from decimal import Decimal
from typing import Any, Union, get_args, get_origin

from penstock.types import (
    BIGINT,
    BOOLEAN,
    BYTES,
    DATE,
    DOUBLE,
    STRING,
    ArrayType,
    DataType,
    DecimalType,
    Field,
    MapType,
    RowType,
    TimestampType,
    TimeType,
    parse_type,
)

_HINTS: Mapping[Any, DataType] = {
    bool: BOOLEAN,
    int: BIGINT,
    float: DOUBLE,
    str: STRING,
    bytes: BYTES,
    Decimal: DecimalType(38, 18),
    date: DATE,
    time: TimeType(0),
    datetime: TimestampType(6),
}


def find_hinted_type(hint: Any) -> DataType | None:
    """The type that a Python type hint means: ``int`` is BIGINT, ``list[str]`` is ARRAY<STRING>. None for others."""
    origin, args = get_origin(hint), get_args(hint)
    if origin in (Union, types.UnionType):
        known = [each for each in args if each is not type(None)]
        return find_hinted_type(known[0]) if len(known) == 1 else None
    if origin in (list, Sequence) and len(args) == 1:
        element = find_hinted_type(args[0])
        return None if element is None else ArrayType(element)
    if origin in (dict, Mapping) and len(args) == 2:
        key, value = map(find_hinted_type, args)
        return None if key is None or value is None else MapType(key, value)
    try:
        return _HINTS.get(hint)
    except TypeError:  # a hint without a hash
        return None


def expect_type(given: DataType | str, role: str) -> DataType:
    """A type, or the one that a text such as ``'BIGINT'`` says. Raises TypeError for anything else, and SchemaError for
    another text."""
    if isinstance(given, str):
        return parse_type(given)
    if not isinstance(given, DataType):
        raise TypeError(f"{role} takes types such as DataTypes.BIGINT() or 'BIGINT', not {given!r}")
    return given


def _simple(text: str, nullable: bool) -> DataType:
    return parse_type(text).with_nullability(nullable)


class DataTypes:
    """Flink's types, by PyFlink's names."""

    @staticmethod
    def CHAR(length: int, nullable: bool = True) -> DataType:
        """``CHAR(length)``."""
        return _simple(f"CHAR({length})", nullable)

    @staticmethod
    def VARCHAR(length: int, nullable: bool = True) -> DataType:
        """``VARCHAR(length)``."""
        return _simple(f"VARCHAR({length})", nullable)

    @staticmethod
    def STRING(nullable: bool = True) -> DataType:
        """``STRING``."""
        return _simple("STRING", nullable)

    @staticmethod
    def BOOLEAN(nullable: bool = True) -> DataType:
        """``BOOLEAN``."""
        return _simple("BOOLEAN", nullable)

    @staticmethod
    def BINARY(length: int, nullable: bool = True) -> DataType:
        """``BINARY(length)``."""
        return _simple(f"BINARY({length})", nullable)

    @staticmethod
    def VARBINARY(length: int, nullable: bool = True) -> DataType:
        """``VARBINARY(length)``."""
        return _simple(f"VARBINARY({length})", nullable)

    @staticmethod
    def BYTES(nullable: bool = True) -> DataType:
        """``BYTES``."""
        return _simple("BYTES", nullable)

    @staticmethod
    def DECIMAL(precision: int, scale: int, nullable: bool = True) -> DataType:
        """``DECIMAL(precision, scale)``."""
        return _simple(f"DECIMAL({precision}, {scale})", nullable)

    @staticmethod
    def TINYINT(nullable: bool = True) -> DataType:
        """``TINYINT``."""
        return _simple("TINYINT", nullable)

    @staticmethod
    def SMALLINT(nullable: bool = True) -> DataType:
        """``SMALLINT``."""
        return _simple("SMALLINT", nullable)

    @staticmethod
    def INT(nullable: bool = True) -> DataType:
        """``INT``."""
        return _simple("INT", nullable)

    @staticmethod
    def BIGINT(nullable: bool = True) -> DataType:
        """``BIGINT``."""
        return _simple("BIGINT", nullable)

    @staticmethod
    def FLOAT(nullable: bool = True) -> DataType:
        """``FLOAT``."""
        return _simple("FLOAT", nullable)

    @staticmethod
    def DOUBLE(nullable: bool = True) -> DataType:
        """``DOUBLE``."""
        return _simple("DOUBLE", nullable)

    @staticmethod
    def DATE(nullable: bool = True) -> DataType:
        """``DATE``."""
        return _simple("DATE", nullable)

    @staticmethod
    def TIME(precision: int = 0, nullable: bool = True) -> DataType:
        """``TIME(precision)``."""
        return _simple(f"TIME({precision})", nullable)

    @staticmethod
    def TIMESTAMP(precision: int = 6, nullable: bool = True) -> DataType:
        """``TIMESTAMP(precision)``."""
        return _simple(f"TIMESTAMP({precision})", nullable)

    @staticmethod
    def TIMESTAMP_WITH_LOCAL_TIME_ZONE(precision: int = 6, nullable: bool = True) -> DataType:
        """``TIMESTAMP_LTZ(precision)``."""
        return _simple(f"TIMESTAMP_LTZ({precision})", nullable)

    TIMESTAMP_LTZ = TIMESTAMP_WITH_LOCAL_TIME_ZONE

    @staticmethod
    def ARRAY(element_type: DataType, nullable: bool = True) -> DataType:
        """``ARRAY<element_type>``."""
        return ArrayType(element_type).with_nullability(nullable)

    @staticmethod
    def MAP(key_type: DataType, value_type: DataType, nullable: bool = True) -> DataType:
        """``MAP<key_type, value_type>``."""
        return MapType(key_type, value_type).with_nullability(nullable)

    @staticmethod
    def ROW(row_fields: Sequence[Field | DataType] = (), nullable: bool = True) -> DataType:
        """``ROW<..>`` of fields, or of types, whose names are then f0, f1 and so on."""
        fields = (each if isinstance(each, Field) else Field(f"f{i}", each) for i, each in enumerate(row_fields))
        return RowType(tuple(fields)).with_nullability(nullable)

    @staticmethod
    def FIELD(name: str, data_type: DataType, description: str | None = None) -> Field:
        """A field of a ROW."""
        return Field(name, data_type)
