"""The work of writing tasks: encode rows to record batches, hand them to the owners of partitions, publish them."""

from __future__ import annotations

import json
import mmap
import zlib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import nullcontext
from dataclasses import asdict, dataclass, field
from typing import Any

import pyarrow as pa

from penstock.connectors.kafka.sink.encoding import RowEncoder
from penstock.connectors.kafka.sink.spec import KafkaSinkSpec
from penstock.kafka.produce import Producer, ProducerIdentity, SendCounts
from penstock.kafka.properties import ClientConfig
from penstock.kafka.record_batches import EncodedBatch
from penstock.kafka.reserved import is_out_of_reach
from penstock.kafka.session import session_for
from penstock.spi import Output, ScratchFile, Task, outputs_in, unpickled, without_dead_letters

#: The output of writing tasks. A record batch for the task that owns its partition has ``data``, or the ``file`` and
#: ``position`` of its ``bytes``. An acknowledgement, one per task and partition, has sequences instead. Rows with an
#: empty topic count the records and bytes that a task has encoded for the output whose number is ``partition``: so that
#: nothing is lost unnoticed. Those of publishing tasks have ``sends``, the JSON of the
#: :class:`~penstock.kafka.produce.SendCounts` of the task. Rows of publishing tasks have an ``attempt``.
WRITTEN = pa.schema(
    {
        "owner": pa.int32(),
        "topic": pa.string(),
        "partition": pa.int32(),
        "task": pa.int32(),
        "ordinal": pa.int32(),
        "count": pa.int64(),
        "data": pa.binary(),
        "file": pa.string(),
        "position": pa.int64(),
        "bytes": pa.int64(),
        "first_sequence": pa.int64(),
        "last_sequence": pa.int64(),
        "send_millis": pa.float64(),
        "sends": pa.binary(),
        "attempt": pa.int32(),
    }
)

#: The order in which an owner publishes: by reading task, and within a task by row. A task of a job with state counts
#: its rows from 0 for each part of its keys, which may be mixed.
PUBLISHING_ORDER = ("task", "ordinal")

_ROWS_BYTES = 4 << 20


@dataclass(frozen=True)
class KafkaOutput(Output):
    """One sink, and the client settings of its encoder."""

    spec: KafkaSinkSpec
    client: ClientConfig = field(kw_only=True)


@dataclass(frozen=True)
class WriteSpec:
    """The parameters of writing tasks, which other processes unpickle. ``client`` publishes, ``limits`` are the
    max.message.bytes of topics, and ``progress_topics`` are those of the job, which no row may name."""

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
    """The driver's instructions for the tasks of one Spark job: to publish ``at_once``, in the ``transaction`` if there
    is one, or else to encode batches for the owners of their partitions, which find them in the ``folder`` when all
    tasks run on one machine."""

    at_once: bool = False
    transaction: OpenTransaction | None = None
    folder: str = ""


def encode_rows(spec: WriteSpec, folder: str, task: Task, rows: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Encode rows to record batches, followed by the task's counts. With ``folder`` their bytes go to a file there.
    Raises ExecutionError if it takes no more."""
    pending: list[dict[str, Any]] = []
    counts = _Counts()
    size = 0
    with ScratchFile(folder) if folder else nullcontext() as file:  # readers see its batches when it is closed
        for ordinal, (branch, topic, batch) in enumerate(_encoded(spec, task, rows)):
            row = {
                "owner": _owner(topic, batch.partition),
                "topic": topic,
                "partition": batch.partition,
                "task": task.number,
                "ordinal": ordinal,
                "count": batch.count,
            }
            if file is None:
                row["data"] = batch.data
            else:
                row |= {"file": str(file.path), "position": file.append(batch.data), "bytes": len(batch.data)}
            pending.append(row)
            counts.add(branch, batch.count, len(batch.data))
            size += len(batch.data)
            if size >= _ROWS_BYTES:
                yield _written(pending)
                pending, size = [], 0
    yield _written([*pending, *counts.rows(task.number)])


class _Counts:
    """Records and bytes that a task has encoded, or has received encoded, by output."""

    def __init__(self) -> None:
        self._of: dict[int, tuple[int, int]] = {}

    def add(self, branch: int, records: int, size: int) -> None:
        """Add records with ``size`` bytes in all."""
        before = self._of.get(branch, (0, 0))
        self._of[branch] = (before[0] + records, before[1] + size)

    def rows(
        self, task: int, send_millis: float | None = None, sends: SendCounts | None = None
    ) -> list[dict[str, Any]]:
        """The counts as rows of :data:`WRITTEN`; any owner may get them."""
        counted = None if sends is None else json.dumps(asdict(sends)).encode()
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
                "sends": counted,
            }
            for branch, (records, size) in self._of.items()
        ]


def publish(
    spec: WriteSpec, transaction: OpenTransaction | None, task: Task, encoded: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Publish encoded batches, sorted by :data:`PUBLISHING_ORDER`, and yield the acknowledgements."""
    counts = _Counts()
    files: dict[str, memoryview] = {}
    with _producer(spec, transaction, task) as producer:
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
    """A writable copy of a file's bytes, without effect on the file: producers stamp batches in place."""
    with open(file, "rb") as opened:
        return memoryview(mmap.mmap(opened.fileno(), 0, access=mmap.ACCESS_COPY))


def encode_rows_and_publish(
    spec: WriteSpec, transaction: OpenTransaction | None, task: Task, rows: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Encode rows and publish them at once, in a task that is the only writer of its partitions, or does not have to
    be."""
    counts = _Counts()
    with _producer(spec, transaction, task) as producer:
        for branch, topic, batch in _encoded(spec, task, rows):
            counts.add(branch, batch.count, len(batch.data))
            producer.submit(topic, batch.partition, batch.data, batch.count)
        producer.flush()
        yield _acknowledged(producer, task, counts)


def stage_rows(spec: WriteSpec, task: Task, rows: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The stage of reading tasks whose rows may have owners: publish them at once where the driver's instructions say
    so, else encode them for the owners of their partitions."""
    instructions: Instructions = unpickled(task.instructions) if task.instructions else Instructions()
    if instructions.at_once:
        return encode_rows_and_publish(spec, instructions.transaction, task, rows)
    return encode_rows(spec, instructions.folder or task.folder, task, rows)


def _producer(spec: WriteSpec, transaction: OpenTransaction | None, task: Task) -> Producer:
    identity, name = (transaction.identity, transaction.transactional_id) if transaction else (None, None)
    return Producer(session_for(spec.client), identity, transactional_id=name, abandoned=task.abandoned)


def _owner(topic: str, partition: int) -> int:
    """The number of the task, modulo their count, that publishes a partition: the same in all tasks, even if they know
    different numbers of partitions."""
    return zlib.crc32(topic.encode()) % 1_000_000 + partition


def _encoded(spec: WriteSpec, task: Task, rows: Iterable[pa.RecordBatch]) -> Iterator[tuple[int, str, EncodedBatch]]:
    """Record batches, each with the number of its output and its topic."""
    session = session_for(spec.client)

    def partitions(topic: str) -> int:
        return len(session.topic(topic).partitions)

    def reserved(topic: str) -> bool:
        return is_out_of_reach(session, topic, spec.progress_topics)

    encoders = [
        RowEncoder(branch.spec, branch.client, partitions, spec.limits, task, reserved) for branch in spec.branches
    ]
    for batch in rows:
        kept = without_dead_letters(batch)
        for number, branch in outputs_in(batch, spec.branches):
            part, hidden = branch.rows(kept if branch.column is None else batch)
            for topic, encoded in encoders[number].encode(part, hidden):
                yield number, topic, encoded
    for number, encoder in enumerate(encoders):
        for topic, encoded in encoder.finish():
            yield number, topic, encoded


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
    rows += counts.rows(task.number, millis, producer.counts)
    return _written([{**row, "attempt": task.attempt} for row in rows])


def _written(rows: list[dict[str, Any]]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist(rows, schema=WRITTEN)
