"""The work of writing tasks: encode rows to record batches, pass them on to the owners of partitions, publish them."""

from __future__ import annotations

import json
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import pyarrow as pa

from penstock.columns.buffers import binary_array, binary_parts
from penstock.connectors.kafka.sink.encoding import RowEncoder, describe_work
from penstock.connectors.kafka.sink.spec import KafkaSinkSpec
from penstock.kafka.produce import Producer, ProducerIdentity, SendCounts
from penstock.kafka.properties import ClientConfig
from penstock.kafka.record_batches import EncodedBatch
from penstock.kafka.reserved import is_out_of_reach
from penstock.kafka.session import session_for
from penstock.spi import KIND, Output, OutputRows, Task, WritableBytes, Writer, unpickle_text

#: What writing tasks yield. A record batch for the task that owns its partition has ``data``. An acknowledgement, one
#: per task and partition, has sequences instead. Rows with an empty topic count the records and bytes that a task has
#: encoded for the output whose number is ``partition``: so that nothing is lost unnoticed. Those of publishing tasks
#: have ``sends``, the JSON of the :class:`~penstock.kafka.produce.SendCounts` of the task. Rows of publishing tasks
#: have an ``attempt``.
WRITTEN = pa.schema(
    {
        "owner": pa.int32(),
        "topic": pa.string(),
        "partition": pa.int32(),
        "task": pa.int32(),
        "count": pa.int64(),
        "data": pa.binary(),
        "bytes": pa.int64(),
        "first_sequence": pa.int64(),
        "last_sequence": pa.int64(),
        "send_millis": pa.float64(),
        "sends": pa.binary(),
        "attempt": pa.int32(),
    }
)

_ROWS_BYTES = 1 << 20
#: Smaller record batches are copied before they are stamped: a stamp where they are mapped costs a page of memory until
#: the task ends.
_COPIED_BYTES = 64 << 10


@dataclass(frozen=True)
class KafkaOutput(Output):
    """One sink, and the client settings of its encoder."""

    spec: KafkaSinkSpec
    client: ClientConfig = field(kw_only=True)


@dataclass(frozen=True)
class WriteSpec:
    """The parameters of writing tasks, which other processes unpickle. ``client`` publishes, ``limits`` are the
    max.message.bytes of topics, and ``progress_topics`` are the job's, which no row may name. Branches with one
    number in ``works`` can be encoded together; those without one cannot."""

    branches: tuple[KafkaOutput, ...]
    client: ClientConfig
    limits: Mapping[str, int]
    progress_topics: tuple[str, ...] = ()
    works: Mapping[int, int] = field(default_factory=dict)


def number_works(branches: Sequence[KafkaOutput], limits: Mapping[str, int]) -> dict[int, int]:
    """Numbers for branches; those with one number can be encoded together (:func:`describe_work`)."""
    numbers: dict[object, int] = {}
    found = {}
    for branch, each in enumerate(branches):
        work = describe_work(each.spec, each.client, limits)
        if work is not None:
            found[branch] = numbers.setdefault(work, len(numbers))
    return found


@dataclass(frozen=True)
class OpenTransaction:
    """The transaction that tasks publish in."""

    transactional_id: str
    identity: ProducerIdentity


@dataclass(frozen=True)
class Instructions:
    """The driver's instructions for tasks that publish: in the ``transaction``, if there is one."""

    transaction: OpenTransaction | None = None


class _BatchSender(Writer):
    """Encodes the rows of a task to record batches, followed by the task's counts."""

    def __init__(self, spec: WriteSpec, task: Task):
        self._task = task
        self._encoders = _Encoders(spec, task)
        self._counts = _Counts()
        #: What waits to be yielded: the rows, and the bytes of each.
        self._rows: list[dict[str, Any]] = []
        self._data: list[memoryview] = []
        self._size = 0

    def write(self, output: int, rows: pa.RecordBatch, hidden: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        yield from self.write_outputs(((output, rows, hidden),))

    def write_outputs(self, parts: Sequence[OutputRows]) -> Iterator[pa.RecordBatch]:
        yield from self._send(self._encoders.encode(parts))

    def add_output(self, number: int, output: Output) -> None:
        self._encoders.add_output(number, output)

    def finish(self) -> Iterator[pa.RecordBatch]:
        yield from self._send(self._encoders.finish())
        yield _to_batch([*self._rows, *self._counts.rows(self._task.number)], self._data)

    def _send(self, encoded: Iterable[tuple[int, str, EncodedBatch]]) -> Iterator[pa.RecordBatch]:
        for branch, topic, batch in encoded:
            row = {
                "owner": _choose_owner(topic, batch.partition),
                "topic": topic,
                "partition": batch.partition,
                "task": self._task.number,
                "count": batch.count,
            }
            self._rows.append(row)
            self._data.append(batch.data)
            self._counts.add(branch, batch.count, len(batch.data))
            self._size += len(batch.data)
            if self._size >= _ROWS_BYTES:
                yield _to_batch(self._rows, self._data)
                self._rows, self._data, self._size = [], [], 0


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
                "count": records,
                "bytes": size,
                "send_millis": send_millis,
                "sends": counted,
            }
            for branch, (records, size) in self._of.items()
        ]


def publish(
    spec: WriteSpec, task: Task, encoded: Iterable[pa.RecordBatch], writable: WritableBytes
) -> Iterator[pa.RecordBatch]:
    """Publish record batches that writers have passed on, in their order, and yield the acknowledgements. Producers
    stamp them in place: large ones where they are mapped."""
    counts = _Counts()
    with _producer(spec, task) as producer:
        for table in encoded:
            columns = [table.column(name).to_pylist() for name in ("topic", "partition", "count", "bytes")]
            column = table.column("data")
            ends = binary_parts(column)[1].tolist()
            data = writable(column.buffers()[2])
            for row, (topic, partition, count, size) in enumerate(zip(*columns, strict=True)):
                if topic:
                    piece = data[ends[row] : ends[row + 1]]
                    producer.submit(topic, partition, bytearray(piece) if len(piece) < _COPIED_BYTES else piece, count)
                else:
                    counts.add(partition, count, size)
        producer.flush()
        yield _report_acks(producer, task, counts)


class _Publisher(Writer):
    """Encodes the rows of a task and publishes them at once: the task is the only writer of its partitions, or does not
    have to be."""

    def __init__(self, spec: WriteSpec, task: Task):
        self._task = task
        self._encoders = _Encoders(spec, task)
        self._counts = _Counts()
        self._producer = _producer(spec, task)

    def write(self, output: int, rows: pa.RecordBatch, hidden: pa.RecordBatch) -> Iterable[pa.RecordBatch]:
        return self.write_outputs(((output, rows, hidden),))

    def write_outputs(self, parts: Sequence[OutputRows]) -> Iterable[pa.RecordBatch]:
        self._submit(self._encoders.encode(parts))
        return ()

    def add_output(self, number: int, output: Output) -> None:
        self._encoders.add_output(number, output)

    def finish(self) -> Iterator[pa.RecordBatch]:
        self._submit(self._encoders.finish())
        self._producer.flush()
        yield _report_acks(self._producer, self._task, self._counts)

    def close(self) -> None:
        self._producer.close()

    def _submit(self, encoded: Iterable[tuple[int, str, EncodedBatch]]) -> None:
        for branch, topic, batch in encoded:
            self._counts.add(branch, batch.count, len(batch.data))
            self._producer.submit(topic, batch.partition, batch.data, batch.count)


def open_writer(spec: WriteSpec, task: Task) -> Writer:
    """The writer of a task: publishes as the driver's instructions say; without them it encodes for the owners of
    partitions."""
    return _Publisher(spec, task) if task.instructions else _BatchSender(spec, task)


def _producer(spec: WriteSpec, task: Task) -> Producer:
    """The producer of a task, with the driver's instructions."""
    instructions: Instructions = unpickle_text(task.instructions)
    transaction = instructions.transaction
    identity, name = (transaction.identity, transaction.transactional_id) if transaction else (None, None)
    return Producer(session_for(spec.client), identity, transactional_id=name, abandoned=task.abandoned)


def _choose_owner(topic: str, partition: int) -> int:
    """The number of the task, modulo their count, that publishes a partition: the same in all tasks, even if they know
    different numbers of partitions."""
    return zlib.crc32(topic.encode()) % 1_000_000 + partition


class _Encoders:
    """Encodes the rows of all outputs: record batches, each with the number of its output and its topic."""

    def __init__(self, spec: WriteSpec, task: Task):
        self._spec, self._task = spec, task
        self._session = session_for(spec.client)
        self._outputs = dict(enumerate(spec.branches))
        #: Outputs with one number can be encoded together.
        self._works = dict(spec.works)
        #: The numbers, below zero, of the work of tables that are found while the job runs.
        self._found_works: dict[object, int] = {}
        #: Of the outputs that have had rows.
        self._encoders: dict[int, RowEncoder] = {}
        #: The number of partitions of each topic, asked once in a task.
        self._partitions: dict[str, int] = {}

    def add_output(self, number: int, output: Output) -> None:
        """Take rows of a table that was found while the job runs."""
        client = next(each.client for each in self._spec.branches if each.spec.tables)
        self._outputs[number] = found = KafkaOutput(**vars(output), client=client)
        work = describe_work(found.spec, client, self._spec.limits)
        if work is not None:
            self._works[number] = self._found_works.setdefault(work, -1 - len(self._found_works))

    def encode(self, parts: Sequence[OutputRows]) -> Iterator[tuple[int, str, EncodedBatch]]:
        """Take rows, and give the batches that are full."""
        self._describe_topics(output for output, _, _ in parts if output not in self._encoders)
        together: dict[tuple[int, bool], list[OutputRows]] = {}
        times = Counter(output for output, _, _ in parts)
        for output, rows, hidden in parts:
            encoder = self._encoder(output)
            if output in self._works and rows.num_rows and times[output] == 1 < len(parts):
                work = self._works[output], KIND in hidden.schema.names
                together.setdefault(work, []).append((output, rows, hidden))
                continue
            for topic, encoded in encoder.encode(rows, hidden):
                yield output, topic, encoded
        for (number_of_work, _), members in together.items():
            works = [(self._encoder(output), rows, hidden) for output, rows, hidden in members]
            # What is written to tables that were found is counted for all of them together.
            for number, topic, encoded in RowEncoder.encode_together(works, share_topics=number_of_work < 0):
                yield members[number][0], topic, encoded

    def finish(self) -> Iterator[tuple[int, str, EncodedBatch]]:
        """The batches that are left."""
        for output, encoder in self._encoders.items():
            for topic, encoded in encoder.finish():
                yield output, topic, encoded

    def _encoder(self, output: int) -> RowEncoder:
        if output not in self._encoders:
            sink, limits = self._outputs[output], self._spec.limits
            self._encoders[output] = RowEncoder(
                sink.spec, sink.client, self._count_partitions, limits, self._task, self._is_reserved
            )
        return self._encoders[output]

    def _describe_topics(self, outputs: Iterable[int]) -> None:
        """Ask for the topics of several outputs in one request. One that is not there yet is asked for when it has
        rows."""
        topics = {topic for output in outputs for topic in self._outputs[output].spec.topics}
        if len(topics) > 1:
            self._session.topics(topics, fresh=False)

    def _count_partitions(self, topic: str) -> int:
        if topic not in self._partitions:
            self._partitions[topic] = len(self._session.topic(topic).partitions)
        return self._partitions[topic]

    def _is_reserved(self, topic: str) -> bool:
        return is_out_of_reach(self._session, topic, self._spec.progress_topics)


def _report_acks(producer: Producer, task: Task, counts: _Counts) -> pa.RecordBatch:
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
    return _to_batch([{**row, "attempt": task.attempt} for row in rows])


def _to_batch(rows: list[dict[str, Any]], data: Sequence[memoryview] = ()) -> pa.RecordBatch:
    """Rows of :data:`WRITTEN`; the first ones have ``data``."""
    batch = pa.RecordBatch.from_pylist(rows, schema=WRITTEN)
    column = binary_array([*data, *[b""] * (len(rows) - len(data))])
    return batch.set_column(WRITTEN.names.index("data"), WRITTEN.field("data"), column)
