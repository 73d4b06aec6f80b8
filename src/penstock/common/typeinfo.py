"""Type information, as PyFlink writes it, over logical types."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

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
    ArrayType,
    DataType,
    DecimalType,
    Field,
    MapType,
    RowType,
    StringType,
    TimestampType,
    TimeType,
)

#: The column that a stream of single values has.
SINGLE = "f0"


@dataclass(frozen=True)
class TypeInformation:
    """The type of a stream's values."""

    logical: DataType

    @property
    def row(self) -> RowType:
        """The columns that such a stream has: a row's own, or the one column ``f0``."""
        if isinstance(self.logical, RowType):
            return replace(self.logical, nullable=False)
        return RowType((Field(SINGLE, self.logical),), nullable=False)

    @property
    def single(self) -> bool:
        """Whether values travel by themselves, outside a row."""
        return not isinstance(self.logical, RowType)

    def __str__(self) -> str:
        return str(self.logical)


@dataclass(frozen=True)
class RowTypeInfo(TypeInformation):
    """The type of rows."""

    def get_field_names(self) -> list[str]:
        """The names, in order."""
        return list(self.row.names)

    def get_field_types(self) -> list[TypeInformation]:
        """The types, in order."""
        return [of(field.type) for field in self.row.fields]


def of(logical: DataType) -> TypeInformation:
    """The type information of a logical type."""
    return RowTypeInfo(logical) if isinstance(logical, RowType) else TypeInformation(logical)


class Types:
    """Makes type information."""

    @staticmethod
    def STRING() -> TypeInformation:
        """Text."""
        return of(STRING)

    @staticmethod
    def BYTE() -> TypeInformation:
        """TINYINT."""
        return of(TINYINT)

    @staticmethod
    def BOOLEAN() -> TypeInformation:
        """True or false."""
        return of(BOOLEAN)

    @staticmethod
    def SHORT() -> TypeInformation:
        """SMALLINT."""
        return of(SMALLINT)

    @staticmethod
    def INT() -> TypeInformation:
        """32 bits."""
        return of(INT)

    @staticmethod
    def LONG() -> TypeInformation:
        """64 bits: BIGINT."""
        return of(BIGINT)

    @staticmethod
    def FLOAT() -> TypeInformation:
        """Single precision."""
        return of(FLOAT)

    @staticmethod
    def DOUBLE() -> TypeInformation:
        """Double precision."""
        return of(DOUBLE)

    @staticmethod
    def CHAR() -> TypeInformation:
        """One character."""
        return of(StringType(1, True))

    @staticmethod
    def BIG_INT() -> TypeInformation:
        """The largest whole number that fits: DECIMAL(38, 0)."""
        return of(DecimalType(38, 0))

    @staticmethod
    def BIG_DEC() -> TypeInformation:
        """Flink's type for any decimal: DECIMAL(38, 18)."""
        return of(DecimalType(38, 18))

    @staticmethod
    def INSTANT() -> TypeInformation:
        """A point in time: TIMESTAMP_LTZ(6)."""
        return of(TimestampType(6, True))

    @staticmethod
    def SQL_DATE() -> TypeInformation:
        """A day."""
        return of(DATE)

    @staticmethod
    def SQL_TIME() -> TypeInformation:
        """A time of day."""
        return of(TimeType(0))

    @staticmethod
    def SQL_TIMESTAMP() -> TypeInformation:
        """A local date and time: TIMESTAMP(6)."""
        return of(TimestampType(6))

    @staticmethod
    def ROW(field_types: Sequence[TypeInformation]) -> RowTypeInfo:
        """A row of columns ``f0``, ``f1``, ..."""
        return Types.ROW_NAMED([f"f{index}" for index in range(len(field_types))], field_types)

    @staticmethod
    def ROW_NAMED(field_names: Sequence[str], field_types: Sequence[TypeInformation]) -> RowTypeInfo:
        """A row of named columns."""
        if len(field_names) != len(field_types):
            raise TypeError(f"{len(field_names)} names for {len(field_types)} types")
        columns = zip(field_names, field_types, strict=True)
        return RowTypeInfo(RowType(tuple(Field(name, info.logical) for name, info in columns)))

    @staticmethod
    def TUPLE(field_types: Sequence[TypeInformation]) -> RowTypeInfo:
        """A row of columns ``f0``, ``f1``, ..."""
        return Types.ROW(field_types)

    @staticmethod
    def MAP(key_type_info: TypeInformation, value_type_info: TypeInformation) -> TypeInformation:
        """A map."""
        return of(MapType(key_type_info.logical, value_type_info.logical))

    @staticmethod
    def LIST(element_type_info: TypeInformation) -> TypeInformation:
        """An array."""
        return of(ArrayType(element_type_info.logical))

    @staticmethod
    def PRIMITIVE_ARRAY(element_type: TypeInformation) -> TypeInformation:
        """An array without nulls; of bytes it is BYTES."""
        if element_type.logical == TINYINT:
            return of(BYTES)
        return of(ArrayType(element_type.logical.with_nullability(False)))

    @staticmethod
    def BASIC_ARRAY(element_type: TypeInformation) -> TypeInformation:
        """An array."""
        return Types.LIST(element_type)

    @staticmethod
    def OBJECT_ARRAY(element_type: TypeInformation) -> TypeInformation:
        """An array."""
        return Types.LIST(element_type)
