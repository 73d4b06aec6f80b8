"""Flink's logical types as frozen values. ``str()`` of a type is its Flink SQL text."""

from __future__ import annotations

import enum
from dataclasses import dataclass, field, replace
from typing import TypeVar

MAX_LENGTH = 2**31 - 1
#: The most digits of a DECIMAL.
MAX_PRECISION = 38
_T = TypeVar("_T", bound="DataType")


class RowKind(enum.IntEnum):
    """How a row changes its table, as in Flink's changelogs."""

    INSERT = 0
    UPDATE_BEFORE = 1
    UPDATE_AFTER = 2
    DELETE = 3

    @property
    def short(self) -> str:
        """``+I``, ``-U``, ``+U`` or ``-D``."""
        return ("+I", "-U", "+U", "-D")[self]


@dataclass(frozen=True, kw_only=True)
class DataType:
    """The root of all logical types. ``nullable`` is part of a type's identity, as in Flink."""

    nullable: bool = True

    def text(self) -> str:
        """The type in Flink SQL, without its nullability."""
        raise NotImplementedError

    def __str__(self) -> str:
        return self.text() if self.nullable else f"{self.text()} NOT NULL"

    def with_nullability(self: _T, nullable: bool) -> _T:
        """The same type, nullable or not."""
        return self if self.nullable == nullable else replace(self, nullable=nullable)


@dataclass(frozen=True)
class PrimitiveType(DataType):
    """A type without parameters: BOOLEAN, the integers, FLOAT, DOUBLE, DATE."""

    name: str

    def text(self) -> str:
        return self.name


@dataclass(frozen=True)
class StringType(DataType):
    """CHAR(n), VARCHAR(n) and STRING, which is VARCHAR of the largest length."""

    length: int = MAX_LENGTH
    fixed: bool = False

    def text(self) -> str:
        if self.fixed:
            return f"CHAR({self.length})"
        return "STRING" if self.length == MAX_LENGTH else f"VARCHAR({self.length})"


@dataclass(frozen=True)
class BinaryType(DataType):
    """BINARY(n), VARBINARY(n) and BYTES, which is VARBINARY of the largest length."""

    length: int = MAX_LENGTH
    fixed: bool = False

    def text(self) -> str:
        if self.fixed:
            return f"BINARY({self.length})"
        return "BYTES" if self.length == MAX_LENGTH else f"VARBINARY({self.length})"


@dataclass(frozen=True)
class DecimalType(DataType):
    """DECIMAL(precision, scale); Flink's default is (10, 0)."""

    precision: int = 10
    scale: int = 0

    def text(self) -> str:
        return f"DECIMAL({self.precision}, {self.scale})"


@dataclass(frozen=True)
class TimeType(DataType):
    """TIME(p), a time of day without zone."""

    precision: int = 0

    def text(self) -> str:
        return f"TIME({self.precision})"


@dataclass(frozen=True)
class TimestampType(DataType):
    """TIMESTAMP(p), a local date and time, or with ``local_zone`` TIMESTAMP_LTZ(p), a point in time."""

    precision: int = 6
    local_zone: bool = False

    def text(self) -> str:
        return f"{'TIMESTAMP_LTZ' if self.local_zone else 'TIMESTAMP'}({self.precision})"


@dataclass(frozen=True)
class ArrayType(DataType):
    """ARRAY<element>."""

    element: DataType

    def text(self) -> str:
        return f"ARRAY<{self.element}>"


@dataclass(frozen=True)
class MapType(DataType):
    """MAP<key, value>. Spark has no null keys. With ``multiset`` it was declared as MULTISET<key>: the value is the
    number of times that the key occurs."""

    key: DataType
    value: DataType
    multiset: bool = field(default=False, compare=False)

    def text(self) -> str:
        if self.multiset:
            return f"MULTISET<{self.key}>"
        return f"MAP<{self.key}, {self.value}>"


@dataclass(frozen=True)
class Field:
    """One named column of a row."""

    name: str
    type: DataType
    comment: str = field(default="", compare=False)

    def __str__(self) -> str:
        quoted = self.name.replace("`", "``")
        return f"`{quoted}` {self.type}"


@dataclass(frozen=True)
class RowType(DataType):
    """ROW<name type, ...>; also the schema of a table."""

    fields: tuple[Field, ...]

    def text(self) -> str:
        return f"ROW<{', '.join(str(field) for field in self.fields)}>"

    @property
    def names(self) -> tuple[str, ...]:
        """The columns' names, in order."""
        return tuple(field.name for field in self.fields)

    def field(self, name: str) -> Field | None:
        """The column of that name (case matters, as in Flink), or None."""
        return next((field for field in self.fields if field.name == name), None)

    def select(self, names: tuple[str, ...]) -> RowType:
        """The row of just these columns, in this order. Raises KeyError for an unknown name."""
        by_name = {field.name: field for field in self.fields}
        return replace(self, fields=tuple(by_name[name] for name in names))

    def without_prefix(self, prefix: str) -> RowType:
        """The row with ``prefix`` removed from every name that has it."""
        return replace(self, fields=tuple(Field(each.name.removeprefix(prefix), each.type) for each in self.fields))


@dataclass(frozen=True)
class NullType(DataType):
    """The type of an untyped NULL. Never the type of a column."""

    def text(self) -> str:
        return "NULL"


@dataclass(frozen=True)
class IntervalType(DataType):
    """An interval of months, or of days and seconds. Never the type of a table's column."""

    months: bool

    def text(self) -> str:
        return "INTERVAL MONTH" if self.months else "INTERVAL SECOND(3)"


def root(data_type: DataType) -> str:
    """The root of a type, which decides its casts: INT, DECIMAL, STRING (also of CHAR and VARCHAR), ..."""
    match data_type:
        case PrimitiveType(name=name):
            return name
        case BinaryType():
            return "BYTES"
        case TimestampType(local_zone=True):
            return "TIMESTAMP_LTZ"
    return type(data_type).__name__.removesuffix("Type").upper()


BOOLEAN = PrimitiveType("BOOLEAN")
TINYINT = PrimitiveType("TINYINT")
SMALLINT = PrimitiveType("SMALLINT")
INT = PrimitiveType("INT")
BIGINT = PrimitiveType("BIGINT")
FLOAT = PrimitiveType("FLOAT")
DOUBLE = PrimitiveType("DOUBLE")
DATE = PrimitiveType("DATE")
#: The types without parameters, by name.
PRIMITIVES = {each.name: each for each in (BOOLEAN, TINYINT, SMALLINT, INT, BIGINT, FLOAT, DOUBLE, DATE)}
STRING = StringType()
NULL = NullType()
BYTES = BinaryType()
