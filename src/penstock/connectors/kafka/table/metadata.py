"""The metadata columns of Kafka tables: what a record has besides its key and value."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from penstock.types import (
    BIGINT,
    BYTES,
    INT,
    STRING,
    ArrayType,
    BinaryType,
    DataType,
    DecimalType,
    Field,
    MapType,
    PrimitiveType,
    RowType,
    StringType,
    TimestampType,
    spark_type,
)

__all__ = ["OF_VALUE", "READABLE", "WRITABLE", "MetadataColumn", "castable"]

#: What stands before the keys of what the value's format reads besides the row.
OF_VALUE = "value."

_TIMESTAMP = TimestampType(3, True)
_HEADER = RowType((Field("key", STRING), Field("value", BYTES)))

#: Metadata key to the type it has when it is read.
READABLE: Mapping[str, DataType] = {
    "topic": STRING.with_nullability(False),
    "partition": INT.with_nullability(False),
    "headers": MapType(STRING, BYTES, nullable=False),
    "header-list": ArrayType(_HEADER),
    "leader-epoch": INT,
    "offset": BIGINT.with_nullability(False),
    "timestamp": _TIMESTAMP.with_nullability(False),
    "timestamp-type": STRING.with_nullability(False),
    "__raw_key__": BYTES,
    "__raw_value__": BYTES,
}

#: Metadata key to the type that is written. ``__raw_key__`` and ``__raw_value__`` are a message's key and value as they
#: stand, NULL included, in place of what the formats would make of the physical columns.
WRITABLE: Mapping[str, DataType] = {
    key: READABLE[key] for key in ("topic", "headers", "header-list", "timestamp", "__raw_key__", "__raw_value__")
}


@dataclass(frozen=True)
class MetadataColumn:
    """A column of the table that holds the metadata ``key``, which is ``native``, cast to or from ``type``."""

    name: str
    key: str
    type: DataType
    native: DataType

    @property
    def cast(self) -> bool:
        """Whether Spark has to cast it."""
        return spark_type(self.type) != spark_type(self.native)


_NUMBERS = ("TINYINT", "SMALLINT", "INT", "BIGINT", "FLOAT", "DOUBLE")


def castable(source: DataType, target: DataType) -> bool:
    """Whether Flink's CAST accepts this pair, as far as metadata columns need it."""
    match source, target:
        case (PrimitiveType() | TimestampType() | BinaryType() | StringType(), StringType()):
            return True
        case (PrimitiveType(), PrimitiveType(name=name)):
            return name in _NUMBERS or source == target
        case (PrimitiveType(), DecimalType()) | (TimestampType(), TimestampType()):
            return True
        case (TimestampType(), PrimitiveType(name=name)):
            return name == "DATE"
        case (StringType() | BinaryType(), BinaryType()):
            return True
        case (ArrayType(element=one), ArrayType(element=other)):
            return castable(one, other)
        case (MapType(), MapType()):
            return castable(source.key, target.key) and castable(source.value, target.value)
        case (RowType(), RowType()):
            pairs = zip(source.fields, target.fields, strict=False)
            return len(source.fields) == len(target.fields) and all(castable(a.type, b.type) for a, b in pairs)
    return False
