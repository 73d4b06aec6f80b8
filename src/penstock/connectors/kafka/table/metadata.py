"""The metadata columns of Kafka tables: the parts of a record besides its key and value."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from penstock.types import (
    BIGINT,
    BYTES,
    INT,
    STRING,
    ArrayType,
    DataType,
    Field,
    MapType,
    RowType,
    TimestampType,
)

#: The prefix of the keys of metadata that the value's format reads.
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

#: Metadata key to the type that is written. ``__raw_key__`` and ``__raw_value__`` are a message's whole key and value,
#: NULL included, and replace those that the formats would make of the physical columns. ``__partition__``, which only
#: builders use, is the number of a message's partition; NULL leaves it to the partitioner.
WRITABLE: Mapping[str, DataType] = {
    **{key: READABLE[key] for key in ("topic", "headers", "header-list", "timestamp", "__raw_key__", "__raw_value__")},
    "__partition__": INT,
}


@dataclass(frozen=True)
class MetadataColumn:
    """A column of the table that holds the metadata ``key``. The engine casts it between ``native`` and ``type``."""

    name: str
    key: str
    type: DataType
    native: DataType


def with_metadata_types(row: RowType, metadata: Sequence[MetadataColumn]) -> RowType:
    """``row`` with its metadata columns in the types that Kafka has."""
    native = {column.name: column.native for column in metadata}
    fields = tuple(replace(each, type=native.get(each.name, each.type)) for each in row.fields)
    return replace(row, fields=fields)
