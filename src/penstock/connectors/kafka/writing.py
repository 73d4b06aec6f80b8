"""What writing tasks do: encode rows to record batches, hand them to the partition's owner, publish them."""

from __future__ import annotations

import json
import mmap
import uuid
import zlib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import astuple, dataclass
from pathlib import Path
from typing import Any, Self
from weakref import WeakKeyDictionary

import pyarrow as pa

from penstock.connectors.kafka.encoding import RowEncoder
from penstock.connectors.kafka.sink import KafkaSink
from penstock.kafka.batches import EncodedBatch
from penstock.kafka.produce import Ack, Producer, ProducerIdentity
from penstock.kafka.properties import ClientConfig
from penstock.kafka.session import Session, session_for
from penstock.spi import Task

__all__ = [
    "PUBLISHING_ORDER",
    "WRITTEN",
    "WRITTEN_DDL",
    "Branch",
    "Told",
    "Transaction",
    "WriteSpec",
    "encode_rows",
    "encode_rows_and_publish",
    "publish",
    "stage_rows",
]

#: What writing tasks give. An encoded record batch on its way to the task that owns its partition has ``data``, or
#: the ``file`` and ``position`` where its ``bytes`` are. An acknowledgement, one per task and partition, has sequences
#: instead. One row per task has an empty topic and counts what that task has encoded, so that nothing can get lost on
#: the way unnoticed.
WRITTEN = pa.schema(
    [
        pa.field("owner", pa.int32()),
        pa.field("topic", pa.string()),
        pa.field("partition", pa.int32()),
        pa.field("task", pa.int32()),
        pa.field("ordinal", pa.int32()),
        pa.field("count", pa.int64()),
        pa.field("data", pa.binary()),
        pa.field("file", pa.string()),
        pa.field("position", pa.int64()),
        pa.field("bytes", pa.int64()),
        pa.field("first_sequence", pa.int64()),
        pa.field("last_sequence", pa.int64()),
    ]
)

#: :data:`WRITTEN` in Spark's words.
WRITTEN_DDL = (
    "owner INT, topic STRING, partition INT, task INT, ordinal INT, count BIGINT, data BINARY, file STRING, "
    "position BIGINT, bytes BIGINT, first_sequence BIGINT, last_sequence BIGINT"
)

#: The order in which an owner publishes: that of the reading tasks, and within a task that of its rows.
PUBLISHING_ORDER = ("task", "ordinal")

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
    the max.message.bytes of topics; ``awaited``: tasks wait until the brokers have acknowledged their records."""

    branches: tuple[Branch, ...]
    client: ClientConfig
    limits: Mapping[str, int]
    awaited: bool = True


@dataclass(frozen=True)
class Transaction:
    """The transaction that tasks publish in."""

    transactional_id: str
    identity: ProducerIdentity


@dataclass(frozen=True)
class Told:
    """What the driver tells the tasks of one Spark job: either the transaction to publish in, or the folder, on the one
    machine where all tasks run, in which to leave encoded batches for the owners of their partitions."""

    transaction: Transaction | None = None
    folder: str = ""

    def to_text(self) -> str:
        """As the property of a Spark job."""
        transaction = self.transaction and (self.transaction.transactional_id, *astuple(self.transaction.identity))
        return json.dumps([transaction, self.folder])

    @classmethod
    def from_text(cls, text: str) -> Told:
        """What :meth:`to_text` said; nothing when the driver said nothing."""
        if not text:
            return cls()
        transaction, folder = json.loads(text)
        if transaction is None:
            return cls(None, folder)
        transactional_id, *identity = transaction
        return cls(Transaction(transactional_id, ProducerIdentity(*identity)), folder)


def encode_rows(spec: WriteSpec, folder: str, task: Task, rows: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Rows to encoded batches, the task's count last. With ``folder`` their bytes are left in a file there."""
    pending: list[dict[str, Any]] = []
    size = records = 0
    with _Spool(folder) if folder else nullcontext() as spool:
        for ordinal, (topic, batch) in enumerate(_encoded(spec, task, rows)):
            row = {
                "owner": _owner(topic, batch.partition),
                "topic": topic,
                "partition": batch.partition,
                "task": task.number,
                "ordinal": ordinal,
                "count": batch.count,
            }
            pending.append(row | (spool.add(batch.data) if spool else {"data": batch.data}))
            records += batch.count
            size += len(batch.data)
            if size >= _ROWS_BYTES:
                yield _written(pending)
                pending, size = [], 0
    yield _written([*pending, _count(task.number, records)])


class _Spool:
    """A file of a task's encoded batches."""

    def __init__(self, folder: str):
        self._path = Path(folder) / uuid.uuid4().hex
        self._position = 0

    def __enter__(self) -> Self:
        self._file = self._path.open("xb")
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def add(self, data: memoryview) -> dict[str, Any]:
        """Append a batch; the fields of its row. Seen by readers once the file is closed."""
        self._file.write(data)
        self._position += len(data)
        return {"file": str(self._path), "position": self._position - len(data), "bytes": len(data)}


def publish(
    spec: WriteSpec, transaction: Transaction | None, encoded: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Encoded batches, sorted by :data:`PUBLISHING_ORDER`, to the brokers; gives what they acknowledged."""
    counted = 0
    files: dict[str, memoryview] = {}
    with _producer(spec, transaction) as producer:
        for table in encoded:
            columns = [table.column(name).to_pylist() for name in ("topic", "partition", "count", "file", "position")]
            sizes = table.column("bytes").to_pylist()
            for row, (topic, partition, count, file, position) in enumerate(zip(*columns, strict=True)):
                if not topic:
                    counted += count
                elif file:
                    if file not in files:
                        files[file] = _mapped(file)
                    producer.submit(topic, partition, files[file][position : position + sizes[row]], count)
                else:
                    producer.submit(topic, partition, bytearray(table.column("data")[row].as_buffer()), count)
        producer.flush()
        yield _acknowledged(producer.acks(), -1, counted)


def _mapped(file: str) -> memoryview:
    """A file's bytes, which may be written to without changing the file: batches are stamped in place."""
    with open(file, "rb") as opened:
        return memoryview(mmap.mmap(opened.fileno(), 0, access=mmap.ACCESS_COPY))


def encode_rows_and_publish(
    spec: WriteSpec, transaction: Transaction | None, task: Task, rows: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Rows straight to the brokers, for a task that is the only writer of its partitions, or needs not be.

    Where acknowledgements are not awaited, the count row has the bytes, and an error is raised by whichever task of
    this process comes next.
    """
    counted = size = 0
    with _producer(spec, transaction) as producer:
        for topic, batch in _encoded(spec, task, rows):
            counted += batch.count
            size += len(batch.data)
            producer.submit(topic, batch.partition, batch.data, batch.count)
        if spec.awaited:
            producer.flush()
            yield _acknowledged(producer.acks(), task.number, counted)
        else:
            producer.hand_over()
            yield _written([_count(task.number, counted) | {"bytes": size}])


def stage_rows(spec: WriteSpec, task: Task, rows: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """What a reading task does with its rows under exactly-once: publish them when the driver told it the transaction,
    else encode them for the owners of their partitions."""
    told = Told.from_text(task.told)
    if told.transaction is not None:
        return encode_rows_and_publish(spec, told.transaction, task, rows)
    return encode_rows(spec, told.folder, task, rows)


#: Producers of this process whose acknowledgements nobody waits for.
_unawaited: WeakKeyDictionary[Session, Producer] = WeakKeyDictionary()


@contextmanager
def _producer(spec: WriteSpec, transaction: Transaction | None) -> Iterator[Producer]:
    session = session_for(spec.client)
    if transaction is not None:
        made = Producer(session, transaction.identity, transactional_id=transaction.transactional_id)
    else:
        made = Producer(session) if spec.awaited or session not in _unawaited else _unawaited.pop(session)
    if spec.awaited:
        with made as producer:
            yield producer
        return
    try:
        yield made
    except BaseException:
        made.close()
        raise
    _unawaited[session] = made


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


def _acknowledged(acks: tuple[Ack, ...], task: int, encoded: int) -> pa.RecordBatch:
    rows = [
        {
            "topic": ack.topic,
            "partition": ack.partition,
            "task": task,
            "count": ack.records,
            "bytes": ack.bytes,
            "first_sequence": ack.first_sequence,
            "last_sequence": ack.last_sequence,
        }
        for ack in acks
    ]
    return _written([*rows, _count(task, encoded)])


def _count(task: int, records: int) -> dict[str, Any]:
    """The row that counts what a task has encoded; any owner may have it."""
    return {"owner": 0, "topic": "", "task": task, "ordinal": -1, "count": records}


def _written(rows: list[dict[str, Any]]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist(rows, schema=WRITTEN)
