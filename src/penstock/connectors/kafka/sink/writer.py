"""What writing tasks do: encode rows to record batches, hand them to the partition's owner, publish them."""

from __future__ import annotations

import json
import mmap
import uuid
import zlib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import nullcontext
from dataclasses import astuple, dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from penstock.connectors.kafka.sink.encoding import RowEncoder
from penstock.connectors.kafka.sink.spec import KafkaSinkSpec
from penstock.kafka.batches import EncodedBatch
from penstock.kafka.produce import Producer, ProducerIdentity
from penstock.kafka.properties import ClientConfig
from penstock.kafka.reserved import is_out_of_reach
from penstock.kafka.session import session_for
from penstock.spi import DEAD_LETTER, HIDDEN, KIND, Task
from penstock.types import RowKind

#: What writing tasks give. An encoded record batch on its way to the task that owns its partition has ``data``, or
#: the ``file`` and ``position`` where its ``bytes`` are. An acknowledgement, one per task and partition, has sequences
#: instead. Rows with an empty topic count the records and bytes that a task has encoded, one row for each branch, whose
#: number is in ``partition``, so that nothing can get lost on the way unnoticed. What a publishing task gives has its
#: ``attempt``.
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
        pa.field("send_millis", pa.float64()),
        pa.field("attempt", pa.int32()),
    ]
)

#: The order in which an owner publishes: that of the reading tasks, and within a task that of its rows.
PUBLISHING_ORDER = ("task", "ordinal")

_ROWS_BYTES = 4 << 20


@dataclass(frozen=True)
class KafkaOutput:
    """One sink, the client settings it encodes with, and where its rows are: a struct column of the frame, or (None)
    the frame's own columns, those of the names ``columns`` in the order of the sink's."""

    sink: KafkaSinkSpec
    client: ClientConfig
    column: str | None
    columns: tuple[str, ...]


@dataclass(frozen=True)
class WriteSpec:
    """All that writing tasks need to know; goes to other processes by pickling. ``client`` publishes; ``limits`` are
    the max.message.bytes of topics; ``progress_topics`` are the job's, which no row may name."""

    branches: tuple[KafkaOutput, ...]
    client: ClientConfig
    limits: Mapping[str, int]
    progress_topics: tuple[str, ...] = ()


@dataclass(frozen=True)
class OpenTransaction:
    """The transaction that tasks publish in."""

    transactional_id: str
    identity: ProducerIdentity


@dataclass(frozen=True)
class Instructions:
    """What the driver tells the tasks of one Spark job: either the transaction to publish in, or the folder, on the one
    machine where all tasks run, in which to leave encoded batches for the owners of their partitions."""

    transaction: OpenTransaction | None = None
    folder: str = ""

    def to_text(self) -> str:
        """As the property of a Spark job."""
        transaction = self.transaction and (self.transaction.transactional_id, *astuple(self.transaction.identity))
        return json.dumps([transaction, self.folder])

    @classmethod
    def from_text(cls, text: str) -> Instructions:
        """What :meth:`to_text` said; nothing when the driver said nothing."""
        if not text:
            return cls()
        transaction, folder = json.loads(text)
        if transaction is None:
            return cls(None, folder)
        transactional_id, *identity = transaction
        return cls(OpenTransaction(transactional_id, ProducerIdentity(*identity)), folder)


def encode_rows(spec: WriteSpec, folder: str, task: Task, rows: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Rows to encoded batches, the task's counts last. With ``folder`` their bytes are left in a file there."""
    pending: list[dict[str, Any]] = []
    counts = _Counts()
    size = 0
    with _Spool(folder) if folder else nullcontext() as spool:
        for ordinal, (branch, topic, batch) in enumerate(_encoded(spec, task, rows)):
            row = {
                "owner": _owner(topic, batch.partition),
                "topic": topic,
                "partition": batch.partition,
                "task": task.number,
                "ordinal": ordinal,
                "count": batch.count,
            }
            pending.append(row | (spool.add(batch.data) if spool else {"data": batch.data}))
            counts.add(branch, batch.count, len(batch.data))
            size += len(batch.data)
            if size >= _ROWS_BYTES:
                yield _written(pending)
                pending, size = [], 0
    yield _written([*pending, *counts.rows(task.number)])


class _Counts:
    """Records and bytes that a task has encoded, or that were encoded for it, by branch."""

    def __init__(self) -> None:
        self._of: dict[int, tuple[int, int]] = {}

    def add(self, branch: int, records: int, size: int) -> None:
        """Count so many records of so many bytes."""
        before = self._of.get(branch, (0, 0))
        self._of[branch] = (before[0] + records, before[1] + size)

    def rows(self, task: int, send_millis: float | None = None) -> list[dict[str, Any]]:
        """Their rows; any owner may have them."""
        return [
            {
                "owner": 0,
                "topic": "",
                "partition": branch,
                "task": task,
                "ordinal": -1,
                "count": records,
                "bytes": size,
                "send_millis": send_millis,
            }
            for branch, (records, size) in self._of.items()
        ]


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
    spec: WriteSpec, transaction: OpenTransaction | None, task: Task, encoded: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Encoded batches, sorted by :data:`PUBLISHING_ORDER`, to the brokers; gives what they acknowledged."""
    counts = _Counts()
    files: dict[str, memoryview] = {}
    with _producer(spec, transaction) as producer:
        for table in encoded:
            columns = [table.column(name).to_pylist() for name in ("topic", "partition", "count", "file", "position")]
            sizes = table.column("bytes").to_pylist()
            for row, (topic, partition, count, file, position) in enumerate(zip(*columns, strict=True)):
                if not topic:
                    counts.add(partition, count, sizes[row])
                elif file:
                    if file not in files:
                        files[file] = _mapped(file)
                    producer.submit(topic, partition, files[file][position : position + sizes[row]], count)
                else:
                    producer.submit(topic, partition, bytearray(table.column("data")[row].as_buffer()), count)
        producer.flush()
        yield _acknowledged(producer, task, counts)


def _mapped(file: str) -> memoryview:
    """A file's bytes, which may be written to without changing the file: batches are stamped in place."""
    with open(file, "rb") as opened:
        return memoryview(mmap.mmap(opened.fileno(), 0, access=mmap.ACCESS_COPY))


def encode_rows_and_publish(
    spec: WriteSpec, transaction: OpenTransaction | None, task: Task, rows: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Rows straight to the brokers, for a task that is the only writer of its partitions, or needs not be."""
    counts = _Counts()
    with _producer(spec, transaction) as producer:
        for branch, topic, batch in _encoded(spec, task, rows):
            counts.add(branch, batch.count, len(batch.data))
            producer.submit(topic, batch.partition, batch.data, batch.count)
        producer.flush()
        yield _acknowledged(producer, task, counts)


def stage_rows(spec: WriteSpec, task: Task, rows: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """What a reading task does with its rows under exactly-once: publish them when the driver told it the transaction,
    else encode them for the owners of their partitions."""
    told = Instructions.from_text(task.instructions)
    if told.transaction is not None:
        return encode_rows_and_publish(spec, told.transaction, task, rows)
    return encode_rows(spec, told.folder, task, rows)


def _producer(spec: WriteSpec, transaction: OpenTransaction | None) -> Producer:
    session = session_for(spec.client)
    if transaction is None:
        return Producer(session)
    return Producer(session, transaction.identity, transactional_id=transaction.transactional_id)


def _owner(topic: str, partition: int) -> int:
    """A number that tells which task publishes a partition: the same in every task, whatever it knows of the topic."""
    return zlib.crc32(topic.encode()) % 1_000_000 + partition


def _encoded(spec: WriteSpec, task: Task, rows: Iterable[pa.RecordBatch]) -> Iterator[tuple[int, str, EncodedBatch]]:
    """Record batches, each with the number of its branch and its topic."""
    session = session_for(spec.client)

    def partitions(topic: str) -> int:
        return len(session.topic(topic).partitions)

    def reserved(topic: str) -> bool:
        return is_out_of_reach(session, topic, spec.progress_topics)

    encoders = [
        RowEncoder(branch.sink, branch.client, partitions, spec.limits, task, reserved) for branch in spec.branches
    ]
    for batch in rows:
        kept = _without_dead_letters(batch)
        for number, (branch, encoder) in enumerate(zip(spec.branches, encoders, strict=True)):
            names = list(branch.sink.schema.names)
            if branch.column is None:
                columns, hidden = [kept.column(name) for name in branch.columns], _hidden(kept)
            else:
                struct = batch.column(branch.column)
                chosen = struct.is_valid()
                columns, hidden = struct.filter(chosen).flatten(), _hidden(batch).filter(chosen)
            part = pa.RecordBatch.from_arrays(columns, names=names)
            places, offsets = (hidden.column(name) for name in HIDDEN.names)
            for topic, encoded in encoder.encode(part, places, offsets, _kinds(hidden)):
                yield number, topic, encoded


def _without_dead_letters(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The rows that are a table's."""
    if DEAD_LETTER not in batch.schema.names:
        return batch
    letters = batch.column(DEAD_LETTER)
    return batch if letters.null_count == len(letters) else batch.filter(letters.is_null())


def _hidden(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Where rows came from and, as the last column if there is one, their kinds."""
    return batch.select([*HIDDEN.names, KIND] if KIND in batch.schema.names else list(HIDDEN.names))


def _kinds(hidden: pa.RecordBatch) -> NDArray[np.int8] | None:
    """What :func:`_hidden` has of kinds."""
    if KIND not in hidden.schema.names:
        return None
    kinds: NDArray[np.int8] = hidden.column(KIND).fill_null(int(RowKind.INSERT)).to_numpy(zero_copy_only=False)
    return kinds


def _acknowledged(producer: Producer, task: Task, counts: _Counts) -> pa.RecordBatch:
    rows = [
        {
            "topic": ack.topic,
            "partition": ack.partition,
            "task": task.number,
            "count": ack.records,
            "bytes": ack.bytes,
            "first_sequence": ack.first_sequence,
            "last_sequence": ack.last_sequence,
        }
        for ack in producer.acks()
    ]
    millis = None if producer.latency is None else producer.latency * 1000
    rows += counts.rows(task.number, millis)
    return _written([{**row, "attempt": task.attempt} for row in rows])


def _written(rows: list[dict[str, Any]]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist(rows, schema=WRITTEN)
