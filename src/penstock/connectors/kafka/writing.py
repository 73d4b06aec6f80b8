"""What writing tasks do: encode rows to record batches, hand them to the partition's owner, publish them."""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

import pyarrow as pa

from penstock.connectors.kafka.encoding import RowEncoder
from penstock.connectors.kafka.sink import KafkaSink
from penstock.kafka.batches import EncodedBatch
from penstock.kafka.produce import Ack, Producer, ProducerIdentity
from penstock.kafka.properties import ClientConfig
from penstock.kafka.session import session_for
from penstock.spi import Task

__all__ = [
    "ACKNOWLEDGED",
    "ACKNOWLEDGED_DDL",
    "ENCODED",
    "ENCODED_DDL",
    "ENCODED_ORDER",
    "Branch",
    "Transaction",
    "WriteSpec",
    "encode_rows",
    "encode_rows_and_publish",
    "publish",
]

#: Encoded record batches on their way to the task that owns their partition. One row per task has an empty topic and
#: counts what that task has encoded, so that nothing can get lost on the way unnoticed.
ENCODED = pa.schema(
    [
        pa.field("owner", pa.int32()),
        pa.field("topic", pa.string()),
        pa.field("partition", pa.int32()),
        pa.field("task", pa.int32()),
        pa.field("ordinal", pa.int32()),
        pa.field("count", pa.int64()),
        pa.field("data", pa.binary()),
    ]
)

#: :data:`ENCODED` in Spark's words.
ENCODED_DDL = "owner INT, topic STRING, partition INT, task INT, ordinal INT, count BIGINT, data BINARY"

#: The order in which an owner publishes: that of the reading tasks, and within a task that of its rows.
ENCODED_ORDER = ("task", "ordinal")

#: What the brokers acknowledged, one row per task and partition; a row without a topic tells what a task encoded.
ACKNOWLEDGED = pa.schema(
    [
        pa.field("topic", pa.string()),
        pa.field("partition", pa.int32()),
        pa.field("first_sequence", pa.int64()),
        pa.field("last_sequence", pa.int64()),
        pa.field("records", pa.int64()),
        pa.field("bytes", pa.int64()),
        pa.field("encoded", pa.int64()),
    ]
)

#: :data:`ACKNOWLEDGED` in Spark's words.
ACKNOWLEDGED_DDL = (
    "topic STRING, partition INT, first_sequence BIGINT, last_sequence BIGINT, records BIGINT, bytes BIGINT, "
    "encoded BIGINT"
)

_ROWS_BYTES = 4 << 20


@dataclass(frozen=True)
class Branch:
    """One sink, the client settings it encodes with, and where its rows are: a struct column of the frame, or (None)
    the frame's own columns, those of the names ``columns`` in the order of the sink's."""

    sink: KafkaSink
    client: ClientConfig
    column: str | None
    columns: tuple[str, ...]


@dataclass(frozen=True)
class WriteSpec:
    """All that writing tasks need to know; goes to other processes by pickling. ``client`` publishes; ``limits`` are
    the max.message.bytes of topics."""

    branches: tuple[Branch, ...]
    client: ClientConfig
    limits: Mapping[str, int]


@dataclass(frozen=True)
class Transaction:
    """The transaction that tasks publish in."""

    transactional_id: str
    identity: ProducerIdentity


def encode_rows(spec: WriteSpec, task: Task, rows: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Rows to batches of :data:`ENCODED`, the task's count last."""
    pending: list[tuple[int, str, int, int, int, int, memoryview]] = []
    size = records = ordinal = 0
    for topic, batch in _encoded(spec, task, rows):
        pending.append(
            (_owner(topic, batch.partition), topic, batch.partition, task.number, ordinal, batch.count, batch.data)
        )
        ordinal += 1
        records += batch.count
        size += len(batch.data)
        if size >= _ROWS_BYTES:
            yield _table(pending)
            pending, size = [], 0
    pending.append((0, "", -1, task.number, ordinal, records, memoryview(b"")))
    yield _table(pending)


def publish(
    spec: WriteSpec, transaction: Transaction | None, encoded: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Batches of :data:`ENCODED`, sorted by :data:`ENCODED_ORDER`, to the brokers; gives :data:`ACKNOWLEDGED`."""
    counted = 0
    with _producer(spec, transaction) as producer:
        for table in encoded:
            columns = (table.column(name).to_pylist() for name in ("topic", "partition", "count"))
            for row, (topic, partition, count) in enumerate(zip(*columns, strict=True)):
                if not topic:
                    counted += count
                    continue
                producer.submit(topic, partition, bytearray(table.column("data")[row].as_buffer()), count)
        producer.flush()
        yield _acknowledged(producer.acks(), counted)


def encode_rows_and_publish(
    spec: WriteSpec, transaction: Transaction | None, task: Task, rows: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Rows straight to the brokers, for a task that is the only writer of its partitions, or needs not be."""
    counted = 0
    with _producer(spec, transaction) as producer:
        for topic, batch in _encoded(spec, task, rows):
            producer.submit(topic, batch.partition, batch.data, batch.count)
            counted += batch.count
        producer.flush()
        yield _acknowledged(producer.acks(), counted)


def _producer(spec: WriteSpec, transaction: Transaction | None) -> Producer:
    session = session_for(spec.client)
    if transaction is None:
        return Producer(session)
    return Producer(session, transaction.identity, transactional_id=transaction.transactional_id)


def _owner(topic: str, partition: int) -> int:
    """A number that tells which task publishes a partition: the same in every task, whatever it knows of the topic."""
    return zlib.crc32(topic.encode()) % 1_000_000 + partition


def _encoded(spec: WriteSpec, task: Task, rows: Iterable[pa.RecordBatch]) -> Iterator[tuple[str, EncodedBatch]]:
    session = session_for(spec.client)

    def partitions(topic: str) -> int:
        return len(session.topic(topic).partitions)

    encoders = [RowEncoder(branch.sink, branch.client, partitions, spec.limits, task) for branch in spec.branches]
    for batch in rows:
        places, offsets = batch.column("__place"), batch.column("__offset")
        for branch, encoder in zip(spec.branches, encoders, strict=True):
            names = list(branch.sink.schema.names)
            if branch.column is None:
                columns, where = [batch.column(name) for name in branch.columns], (places, offsets)
            else:
                struct = batch.column(branch.column)
                chosen = struct.is_valid()
                columns = struct.filter(chosen).flatten()
                where = (places.filter(chosen), offsets.filter(chosen))
            yield from encoder.encode(pa.RecordBatch.from_arrays(columns, names=names), *where)


def _table(rows: list[tuple[int, str, int, int, int, int, memoryview]]) -> pa.RecordBatch:
    columns = zip(*rows, strict=True)
    arrays = [pa.array(column, field.type) for column, field in zip(columns, ENCODED, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=ENCODED)


def _acknowledged(acks: tuple[Ack, ...], encoded: int) -> pa.RecordBatch:
    rows = [
        (ack.topic, ack.partition, ack.first_sequence, ack.last_sequence, ack.records, ack.bytes, 0) for ack in acks
    ]
    rows.append(("", -1, 0, 0, 0, 0, encoded))
    columns = zip(*rows, strict=True)
    arrays = [pa.array(column, field.type) for column, field in zip(columns, ACKNOWLEDGED, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=ACKNOWLEDGED)
