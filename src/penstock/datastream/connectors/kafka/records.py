"""Records of Kafka, as user-defined schemas see and make them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from penstock.common.conversions import list_values
from penstock.common.typeinfo import RowTypeInfo
from penstock.connectors.kafka.table.metadata import READABLE
from penstock.datastream.values import OwnReading
from penstock.spi import Column, ColumnKind
from penstock.types import BYTES, INT, STRING, DataType, Field, RowType, TimestampType

#: A header's key and value.
Header = tuple[str, bytes | None]


@dataclass(frozen=True, slots=True)
class ConsumerRecord:
    """A record that was read. ``timestamp`` is in ms since 1970; ``timestamp_type`` is ``CreateTime``,
    ``LogAppendTime`` or ``NoTimestampType``; a key or a value that is not there is None."""

    topic: str
    partition: int
    offset: int
    timestamp: int
    timestamp_type: str
    key: bytes | None
    value: bytes | None
    headers: tuple[Header, ...]
    leader_epoch: int | None = None


@dataclass(frozen=True, slots=True)
class ProducerRecord:
    """A record to write. Without a ``partition`` the sink's partitioner chooses one, without a ``timestamp`` (in ms
    since 1970) it gets the time of writing."""

    topic: str
    value: bytes | None = None
    key: bytes | None = None
    partition: int | None = None
    timestamp: int | None = None
    headers: Sequence[Header] | Mapping[str, bytes | None] = ()


_READ = {
    "topic": ("topic", READABLE["topic"]),
    "partition": ("partition", READABLE["partition"]),
    "offset": ("offset", READABLE["offset"]),
    "timestamp": ("timestamp", READABLE["timestamp"]),
    "timestamp_type": ("timestamp-type", READABLE["timestamp-type"]),
    "key": ("__raw_key__", BYTES),
    "value": ("", BYTES),
    "headers": ("header-list", READABLE["header-list"]),
    "leader_epoch": ("leader-epoch", READABLE["leader-epoch"]),
}


class RecordInfo(RowTypeInfo, OwnReading):
    """The type of a source's whole records: columns with the names of :class:`ConsumerRecord`'s fields."""

    def __init__(self) -> None:
        fields = tuple(Field(name, kind.with_nullability(True)) for name, (_, kind) in _READ.items())
        super().__init__(RowType(fields))

    def read_columns(self, columns: Sequence[pa.Array]) -> list[Any]:
        """A ConsumerRecord of each row."""
        topics, partitions, offsets, timestamps, types, keys, values, headers, epochs = columns
        millis = [each // 1000 for each in timestamps.cast(pa.int64()).to_pylist()]
        pairs = [tuple((each["key"], each["value"]) for each in found or ()) for found in headers.to_pylist()]
        fields = (
            *map(list_values, (topics, partitions, offsets)),
            millis,
            *map(list_values, (types, keys, values)),
            pairs,
        )
        return [ConsumerRecord(*each) for each in zip(*fields, list_values(epochs), strict=True)]


RECORD = RecordInfo()
#: The columns of a table of whole records.
RECORD_COLUMNS = tuple(
    Column(name, kind, ColumnKind.METADATA, key) if key else Column(name, kind) for name, (key, kind) in _READ.items()
)

#: The parts of a written record that functions make, with the metadata that they are and their types.
TOPIC = Column("__topic", STRING, ColumnKind.METADATA, "topic")
PARTITION = Column("__partition_number", INT, ColumnKind.METADATA, "__partition__")
KEY = Column("__key", BYTES, ColumnKind.METADATA, "__raw_key__")
VALUE = Column("__value", BYTES, ColumnKind.METADATA, "__raw_value__")
HEADERS = Column("__headers", READABLE["header-list"], ColumnKind.METADATA, "header-list")
CREATED = Column("__created", TimestampType(3, True), ColumnKind.METADATA, "timestamp")


def header_rows(headers: Sequence[Header] | Mapping[str, bytes | None]) -> list[tuple[str, bytes | None]]:
    """Headers as the values of a column."""
    return list(headers.items()) if isinstance(headers, Mapping) else [(key, value) for key, value in headers]


def info_of(columns: Sequence[Column]) -> RowTypeInfo:
    """The type of rows of these columns."""
    kinds: list[tuple[str, DataType]] = [(each.name, each.type) for each in columns]
    return RowTypeInfo(RowType(tuple(Field(name, kind) for name, kind in kinds)))
