"""The progress topic: which batch of a query was published last, and who publishes (rules 3 to 7 of exactly-once).

Records are JSON in a compacted topic. A query's progress has its transactional id as key and is written in the same
transaction as the batch; a claim has the id, a zero byte and ``claim`` as key, and says which run owns the id. A mark
(``mark``) is written before progress is read, outside of transactions, and proves the read to be as new
(:func:`read_present_progress`).

Progress is sealed with a secret that only the query's checkpoint holds (:class:`Seal`), so that a record that something
else put under the key is not taken for the query's own.
"""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import json
import os
import socket
import time
import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from typing import Any
from uuid import UUID

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.deadline import Deadline
from penstock.errors import (
    AbortableError,
    AuthorizationError,
    CheckpointError,
    FencedError,
    KafkaError,
    PossibleDataLossError,
    RetriableError,
    UnclaimedIdError,
    UnknownOutcomeError,
)
from penstock.kafka import batches, partitioner
from penstock.kafka.batches import ControlType, EncodedBatch, RecordTooLargeError
from penstock.kafka.compression import Codec
from penstock.kafka.fetch import Chunk, Fetcher, Range
from penstock.kafka.offsets import EARLIEST, LATEST, list_offsets
from penstock.kafka.produce import IMPLICIT_VERSION, Ack, Producer, ProducerIdentity
from penstock.kafka.properties import READ_UNCOMMITTED
from penstock.kafka.session import Session, TopicInfo
from penstock.kafka.topics import create_topic, topic_configs
from penstock.kafka.transactions import (
    State,
    TransactionClient,
    TransactionDescription,
    describe_transaction,
)

__all__ = [
    "Claim",
    "Decision",
    "Progress",
    "ProgressRead",
    "ProgressTopic",
    "Run",
    "Seal",
    "Skip",
    "TakeOver",
    "check_ahead",
    "claim",
    "decide",
    "ensure_progress_topic",
    "progress_batch",
    "read_present_progress",
    "read_progress",
    "read_progress_of",
    "record",
    "settle",
]

TOPIC = "__penstock_progress"
_CLAIM_KEY, _MARK_KEY = "\0claim", "\0mark"
_LAST_EPOCHS = 32_760
_CLAIM_ATTEMPTS = 3
#: How long a run that was fenced waits for the claim of the one that fenced it.
_CLAIM_SECONDS = 2.0
_DEFAULT_MAX_MESSAGE_BYTES = 1_048_588


# --- records ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Progress:
    """A batch that was published: the query's id, the batch's, and the source's offsets before and after it.

    Offsets are JSON values, compared by their canonical text. ``errors`` are counters since the query's first batch
    (rule 24). ``tables`` are the sinks whose rows are in the transaction, with their topics; none where that was not
    recorded.
    """

    query_id: str
    batch_id: int
    start: Any
    end: Any
    errors: Mapping[str, int] = field(default_factory=dict)
    tables: tuple[str, ...] = ()

    def __str__(self) -> str:
        end = "" if self.end is None else f" to {_canonical(self.end)}"
        return f"batch {self.batch_id} of query '{self.query_id}' (from {_canonical(self.start)}{end})"


@dataclass(frozen=True)
class Claim:
    """Who owns a transactional id: a run of a query, and the process that it runs in (start in ms since the epoch)."""

    run_id: str
    host: str
    pid: int
    started_ms: int

    @classmethod
    def mine(cls, run_id: str) -> Claim:
        """The claim of a run in this process."""
        return cls(run_id, socket.gethostname(), os.getpid(), time.time_ns() // 1_000_000)

    def __str__(self) -> str:
        started = time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(self.started_ms / 1000))
        return f"run {self.run_id} (process {self.pid} on {self.host}, started {started})"


@dataclass(frozen=True)
class Seal:
    """What a query marks its progress with: HMAC-SHA256 over id and record, by a secret that only its checkpoint holds.

    Whatever else can write to the progress topic, a row of a sink for one, knows the records there and not the secret.
    """

    query_id: str
    secret: str = field(repr=False)

    def of(self, transactional_id: str, fields: Mapping[str, Any]) -> str:
        """The seal of a record's fields, in hexadecimal."""
        text = f"{transactional_id}\0{_canonical(fields)}"
        return hmac.new(self.secret.encode(), text.encode(), hashlib.sha256).hexdigest()


def progress_batch(
    topic: ProgressTopic, transactional_id: str, record: Progress | Claim
) -> tuple[int, memoryview, int]:
    """``record`` as an encoded batch of its own: partition, bytes, record count, as :meth:`Producer.submit` takes.

    Raises KafkaError for a record that is larger than the topic allows.
    """
    key = _key(transactional_id, type(record))
    fields = _fields(record)
    kind: dict[str, Any] = {"kind": type(record).__name__.lower(), "version": 1}
    if topic.seal is not None and isinstance(record, Progress):
        kind["seal"] = topic.seal.of(transactional_id, fields)
    value = _canonical(kind | fields)
    try:
        batch = _encoded(key, value.encode(), topic.partition_of(transactional_id), topic.max_message_bytes)
    except RecordTooLargeError as error:
        raise KafkaError(
            f"the progress of transactional id '{transactional_id}' makes a record of {error.size} bytes, above the "
            f"max.message.bytes of topic '{topic.name}', which is {topic.max_message_bytes}: it holds two offsets of "
            f"each source partition. Run kafka-configs.sh --bootstrap-server {topic.address} --alter --topic "
            f"{topic.name} --add-config max.message.bytes={2 * error.size}, and start the job again"
        ) from None
    return batch.partition, batch.data, batch.count


def _encoded(key: bytes, value: bytes, partition: int, largest: int = _DEFAULT_MAX_MESSAGE_BYTES) -> EncodedBatch:
    (batch,) = batches.encode(
        keys=pa.array([key], pa.binary()),
        values=pa.array([value], pa.binary()),
        timestamps=np.array([time.time_ns() // 1_000_000], np.int64),
        partitions=np.array([partition], np.int32),
        # The offsets of each source partition stand in it twice, and are much alike: without compression a source
        # of 11,000 partitions would be too large for a topic with Kafka's default of max.message.bytes.
        codec=Codec.ZSTD,
        max_batch_bytes=largest,
    )
    return batch


def _key(transactional_id: str, kind: type[Progress | Claim]) -> bytes:
    return (transactional_id + (_CLAIM_KEY if kind is Claim else "")).encode()


def _fields(record: Progress | Claim) -> dict[str, Any]:
    fields = {name: getattr(record, name) for name in record.__dataclass_fields__}
    return {name: value for name, value in fields.items() if name != _OPTIONAL or value}


#: A field of progress that is left out where it says nothing.
_OPTIONAL = "tables"
_JSON_TYPES: Mapping[str, type] = {
    "query_id": str,
    "batch_id": int,
    "errors": dict,
    "tables": list,
    "run_id": str,
    "host": str,
    "pid": int,
    "started_ms": int,
}


def _canonical(value: Any) -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


class _NotBelievedError(Exception):
    """A record that is none of the query's, and why."""


def _parse(kind: type[Progress | Claim], transactional_id: str, value: bytes | None, seal: Seal | None) -> Any:
    """A record's Progress or Claim. Progress that says to be the query's own must have its seal."""
    try:
        found = json.loads(value or b"")
        fields = {name: found[name] for name in kind.__dataclass_fields__ if name != _OPTIONAL}
        if kind is Progress and _OPTIONAL in found:
            fields[_OPTIONAL] = found[_OPTIONAL]
        for name, each in fields.items():
            if not isinstance(each, _JSON_TYPES.get(name, object)):
                raise TypeError(name)
    except (ValueError, KeyError, TypeError):
        raise _NotBelievedError("is not one of penstock's") from None
    if _OPTIONAL in fields:
        fields[_OPTIONAL] = tuple(fields[_OPTIONAL])
    if seal is not None and kind is Progress and fields["query_id"] == seal.query_id:
        given = str(found.get("seal", ""))
        if not hmac.compare_digest(given.encode(), seal.of(transactional_id, fields).encode()):
            raise _NotBelievedError("says to be this query's and does not have its seal")
    return kind(**fields)


# --- the topic -------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class ProgressTopic:
    """The progress topic of a cluster. ``warnings`` says what makes it less durable than it could be; ``seal`` marks
    what a query writes, and without it all records are believed, which is for looking at them."""

    name: str
    topic_id: UUID | None
    partitions: int
    warnings: tuple[str, ...] = ()
    max_message_bytes: int = _DEFAULT_MAX_MESSAGE_BYTES
    seal: Seal | None = None
    #: Where commands in messages find the cluster.
    address: str = "HOST:PORT"

    def partition_of(self, transactional_id: str) -> int:
        """Where an id's records are written: all kinds in one partition, so that their order is known."""
        key = pa.array([transactional_id.encode()], pa.binary())
        return int(partitioner.by_key(key, self.partitions, fallback=0)[0])


def ensure_progress_topic(
    session: Session,
    name: str = TOPIC,
    *,
    partitions: int = 8,
    topic_id: UUID | None = None,
    deadline: Deadline | None = None,
) -> ProgressTopic:
    """The progress topic, created where it is missing, verified where it is there (rule 7).

    ``topic_id`` is the id that the checkpoint knows. Raises CheckpointError when the topic is another one,
    KafkaError when it would lose progress (not compacted), and an error with the command to run when it is missing
    and may not be created.
    """
    deadline = deadline or session.deadline()
    replication = min(3, len(session.brokers(deadline)))
    try:
        info = session.topics([name], deadline).get(name)
        if info is None and topic_id is not None and (info := _looked_for(session, name, deadline)) is None:
            raise CheckpointError(
                f"progress topic '{name}' is gone, and with it the knowledge of what was published; the checkpoint "
                f"knows it as {topic_id}. Check the cluster, or go on with --adopt-progress"
            )
        if info is None:
            create_topic(
                session,
                name,
                partitions=partitions,
                replication=replication,
                configs=_settings(replication),
                deadline=deadline,
            )
            info = session.topic(name, deadline)
    except RetriableError:
        raise
    except KafkaError as error:
        options = " ".join(f"--config {key}={value}" for key, value in _settings(replication).items())
        hint = (
            f"progress topic '{name}' is missing or may not be used. To create it, run: kafka-topics.sh "
            f"--bootstrap-server {session.config.bootstrap_servers[0]} --create --topic {name} --partitions "
            f"{partitions} --replication-factor {replication} {options}; and grant Read, Write and Describe on it"
        )
        cls = AuthorizationError if isinstance(error, AuthorizationError) else KafkaError
        raise cls(f"{error}. {hint}") from error
    if topic_id is not None and info.topic_id is not None and info.topic_id != topic_id:
        raise CheckpointError(
            f"progress topic '{name}' has id {info.topic_id}, the checkpoint knows it as {topic_id}: it was deleted "
            "and created again, and with it the knowledge of what was published is gone. Check the cluster, or go on "
            "with --adopt-progress"
        )
    keys = ["cleanup.policy", "unclean.leader.election.enable", "min.insync.replicas", "max.message.bytes"]
    settings = (topic_configs(session, [name], keys, deadline=deadline) or {}).get(name, {})
    address = session.config.bootstrap_servers[0]
    for key, wanted, harm in _VITAL:
        if settings.get(key, wanted) != wanted:
            raise KafkaError(
                f"progress topic '{name}' has {key}={settings[key]}, which {harm}; run kafka-configs.sh "
                f"--bootstrap-server {address} --alter --topic {name} --add-config {key}={wanted}"
            )
    warnings = []
    fewest = min(len(each.replicas) for each in info.partitions)
    if fewest < replication:
        warnings.append(f"progress topic '{name}' has {fewest} replicas; {replication} are possible")
    if fewest >= 3 and settings.get("min.insync.replicas") == "1":
        warnings.append(f"progress topic '{name}' has min.insync.replicas=1; 2 are safer")
    largest = int(settings.get("max.message.bytes", _DEFAULT_MAX_MESSAGE_BYTES))
    return ProgressTopic(name, info.topic_id, len(info.partitions), tuple(warnings), largest, address=address)


def _looked_for(session: Session, name: str, deadline: Deadline) -> TopicInfo | None:
    """A topic that one broker did not know: it may have been the first to answer after a restart."""
    session.forget_topics([name])
    try:
        return session.topic(name, deadline)
    except RetriableError:
        raise
    except KafkaError as error:
        if any(session.told_epochs([name], deadline)):
            raise RetriableError(f"{error}. Another broker knows of it: look whether all brokers are well") from error
        return None


#: Settings without which progress gets lost and nobody notices, so that a batch is published twice.
_VITAL = (
    ("cleanup.policy", "compact", "deletes progress"),
    ("unclean.leader.election.enable", "false", "lets a replica lead that lacks progress which was committed"),
)


def _settings(replication: int) -> dict[str, str]:
    return {
        **{key: wanted for key, wanted, _ in _VITAL},
        "min.insync.replicas": "2" if replication >= 3 else "1",
        # Every batch leaves a record, and every start reads them all: compact early and often.
        "segment.ms": "600000",
        "min.cleanable.dirty.ratio": "0.1",
    }


# --- reading ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class ProgressRead:
    """What the progress topic holds about a transactional id.

    ``progress`` and ``claim`` are the last committed records. ``latest_claim`` is the last one written, whatever became
    of its transaction: whoever wrote it owned the id then, as the producer ``latest_claimant``. ``ignored`` says which
    records under the id's keys are not believed, and why; ``marks`` are those that were seen, with their partitions.
    """

    progress: Progress | None = None
    claim: Claim | None = None
    latest_claim: Claim | None = None
    latest_claimant: ProducerIdentity | None = None
    ignored: tuple[str, ...] = ()
    marks: frozenset[tuple[int, bytes]] = frozenset()


def read_present_progress(
    session: Session, topic: ProgressTopic, transactional_id: str, *, deadline: Deadline | None = None
) -> ProgressRead:
    """Read what was published last, from brokers that are in charge (rule 4). Definite after InitProducerId.

    A leader that is cut off from the other brokers, or has just continued after a pause, does not know that there is
    another one by now: it answers reads from its old log, which may lack the end of our transaction. It cannot
    acknowledge a record. So a mark is written first, and no read is believed that lacks it. Raises RetriableError when
    no such read is to be had in time, and what :func:`read_progress` raises.
    """
    deadline = deadline or session.deadline()
    mark = uuid.uuid4().hex.encode()
    batch = _encoded((transactional_id + _MARK_KEY).encode(), mark, topic.partition_of(transactional_id))
    with Producer(session, plain=True) as producer:
        producer.submit(topic.name, batch.partition, batch.data, batch.count)
        producer.flush(deadline)
    backoff = session.backoff()
    while True:
        read = read_progress(session, topic, transactional_id, deadline=deadline)
        if (batch.partition, mark) in read.marks:
            return read
        session.forget_topics([topic.name])
        wait = backoff.next()
        if deadline.left <= wait:
            raise RetriableError(
                f"progress of transactional id '{transactional_id}' was read from a broker that lacks what topic "
                f"'{topic.name}' was just given: it may be cut off from the other brokers. Check their network"
            )
        time.sleep(wait)


def read_progress(
    session: Session, topic: ProgressTopic, transactional_id: str, *, deadline: Deadline | None = None
) -> ProgressRead:
    """Read what was published last, for looking at it; :func:`read_present_progress` is for deciding by it.

    Reads up to the high watermark without regard to open transactions, and pairs our records with the control
    markers of their producer, so that another id's open transaction hides nothing. Raises RetriableError, never
    takes a time-out for the end, and CheckpointError for a topic that was created anew.
    """
    return read_progress_of(session, topic, [transactional_id], deadline=deadline)[transactional_id]


def read_progress_of(
    session: Session, topic: ProgressTopic, transactional_ids: Iterable[str], *, deadline: Deadline | None = None
) -> dict[str, ProgressRead]:
    """What :func:`read_progress` reads, for several ids in one pass over the topic."""
    ids = tuple(dict.fromkeys(transactional_ids))
    name = topic.name
    # A query with a new checkpoint writes elsewhere if the topic was enlarged since.
    info = session.topics([name], deadline).get(name)
    if info and info.topic_id and topic.topic_id and info.topic_id != topic.topic_id:
        raise CheckpointError(
            f"progress topic '{name}' has id {info.topic_id}, and had {topic.topic_id} before: it was deleted and "
            "created again, and with it the knowledge of what was published is gone. Check the cluster"
        )
    count = max(topic.partitions, len(info.partitions) if info else 0)
    places = [(name, partition) for partition in range(count)]
    starts, ends = (
        list_offsets(session, places, at, isolation=READ_UNCOMMITTED, deadline=deadline) for at in (EARLIEST, LATEST)
    )
    ranges = []
    for place in places:
        start, end = starts[place], ends[place]
        if start and end and start.offset < end.offset:
            ranges.append(Range(*place, start.offset, end.offset, topic.topic_id))
    readers = [_Reader(each.partition, ids, topic.seal) for each in ranges]
    for chunk in Fetcher(session, ranges, isolation=READ_UNCOMMITTED):
        readers[chunk.range].take(chunk)
    return {each: _found(each, readers) for each in ids}


def _found(transactional_id: str, readers: Sequence[_Reader]) -> ProgressRead:
    def last(found: Iterable[_Written | None]) -> _Written | None:
        return reduce(_later, filter(None, found), None)

    progress = last(each.committed.get((transactional_id, Progress)) for each in readers)
    claim = last(each.committed.get((transactional_id, Claim)) for each in readers)
    latest = last(each.latest_claims.get(transactional_id) for each in readers)
    return ProgressRead(
        progress.record if progress else None,  # type: ignore[arg-type]
        claim.record if claim else None,  # type: ignore[arg-type]
        latest.record if latest else None,  # type: ignore[arg-type]
        latest.by if latest else None,
        tuple(reason for each in readers for reason in each.ignored.get(transactional_id, ())),
        frozenset((each.partition, mark) for each in readers for mark in each.marks.get(transactional_id, ())),
    )


@dataclass(frozen=True)
class _Written:
    """A record, who wrote it (producer id -1: outside transactions), and its timestamp in ms."""

    record: Progress | Claim
    by: ProducerIdentity
    timestamp: int


def _later(one: _Written | None, other: _Written) -> _Written:
    """Of two records of one id and kind in different partitions, the one that was written later.

    The records of one checkpoint stay in one partition, also when the topic is enlarged. A query with a new checkpoint
    may write to another one. Offsets of different partitions have no order; batch ids of one query have, and so have
    the epochs of one producer id, which rise with every transaction and every owner. Only where both differ do
    timestamps decide: a wrong clock can then make :func:`decide` meet another query's record and stop, or go on with
    our own.
    """
    if one is None:
        return other
    a, b = one.record, other.record
    if isinstance(a, Progress) and isinstance(b, Progress) and a.query_id == b.query_id:
        return one if a.batch_id > b.batch_id else other
    if one.by.producer_id == other.by.producer_id:
        return one if one.by.epoch > other.by.epoch else other
    return one if one.timestamp > other.timestamp else other


#: A transactional id, and which of its two kinds of record.
_Kind = tuple[str, type[Progress | Claim]]


class _Reader:
    """Follows one partition of the progress topic for some transactional ids."""

    def __init__(self, partition: int, transactional_ids: Sequence[str], seal: Seal | None):
        self.partition = partition
        self.committed: dict[_Kind, _Written] = {}
        self.latest_claims: dict[str, _Written] = {}
        self.ignored: dict[str, list[str]] = {}
        self.marks: dict[str, set[bytes]] = {}
        self._seal = seal
        self._marked = {(each + _MARK_KEY).encode(): each for each in transactional_ids}
        self._kinds: dict[bytes, _Kind] = {
            _key(each, kind): (each, kind) for each in transactional_ids for kind in (Progress, Claim)
        }
        self._open: list[tuple[_Kind, _Written]] = []

    def take(self, chunk: Chunk) -> None:
        where = f"topic '{chunk.topic}', partition {chunk.partition}"
        heads = batches.batch_headers(chunk.records, where=where)
        heads = heads[heads["base_offset"] < chunk.end]
        events: list[tuple[int, Any]] = []
        for records in batches.scan_slices(
            chunk.records, start_offset=chunk.start, end_offset=chunk.end, check_crcs=False, where=where
        ):
            keys = pa.array([*self._kinds, *self._marked], pa.binary())
            ours = np.flatnonzero(pc.is_in(records.keys, value_set=keys))
            events += [
                (int(records.offsets[row]), (records.keys[row].as_py(), records.values[row].as_py())) for row in ours
            ]
        markers = heads[heads["control_type"] != ControlType.NONE]
        events += [(int(marker["base_offset"]), marker) for marker in markers]
        for offset, event in sorted(events, key=lambda each: each[0]):
            if not isinstance(event, tuple):
                self._end(event)
                continue
            key, value = event
            if key in self._marked:
                self.marks.setdefault(self._marked[key], set()).add(value)
                continue
            transactional_id, kind = self._kinds[key]
            head = heads[int(np.searchsorted(heads["base_offset"], offset, side="right")) - 1]
            try:
                if not head["is_transactional"]:
                    raise _NotBelievedError("was written outside of a transaction")
                record = _parse(kind, transactional_id, value, self._seal)
            except _NotBelievedError as reason:
                text = f"{where}, offset {offset}: the record {reason}; find out what else writes to this topic"
                self.ignored.setdefault(transactional_id, []).append(text)
                continue
            by = ProducerIdentity(int(head["producer_id"]), int(head["producer_epoch"]))
            written = _Written(record, by, int(head["max_timestamp"]))
            if kind is Claim:
                self.latest_claims[transactional_id] = written
            self._open.append(((transactional_id, kind), written))

    def _end(self, marker: Any) -> None:
        """A transaction's end. Since transaction.version 2 its marker may carry a later epoch than its records."""
        still_open = []
        for kind, written in self._open:
            if written.by.producer_id != marker["producer_id"] or written.by.epoch > marker["producer_epoch"]:
                still_open.append((kind, written))
            elif marker["control_type"] == ControlType.COMMIT and not self._repeats(kind, written):
                self.committed[kind] = written
        self._open = still_open

    def _repeats(self, kind: _Kind, written: _Written) -> bool:
        """Whether a record says less than what the same query has committed before: a copy of one of its records."""
        known = self.committed.get(kind)
        old, new = known and known.record, written.record
        return (
            isinstance(old, Progress)
            and isinstance(new, Progress)
            and (old.query_id == new.query_id and old.batch_id > new.batch_id)
        )


# --- deciding --------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Run:
    """Publish the batch."""


@dataclass(frozen=True)
class Skip:
    """The batch was committed already: do everything but publish (rule 6). ``record`` says what was committed."""

    record: Progress


@dataclass(frozen=True)
class TakeOver:
    """Publish the batch; ``warning`` says whose progress, or which, is given up with it."""

    warning: str


Decision = Run | Skip | TakeOver


def decide(
    record: Progress | None, query_id: str, batch_id: int, start: Any, end: Any, adopt: bool = False
) -> Decision:
    """What to do with a batch, given what the progress topic holds (the table of rule 5).

    ``adopt`` goes on although progress is missing or behind. Raises PossibleDataLossError when a batch was published
    with other offsets, when this one does not begin where the one before it ended, or when progress is behind;
    CheckpointError when the checkpoint is older or foreign. Both name both positions.
    """
    batch = Progress(query_id, batch_id, start, end)
    if record is None:
        if batch_id == 0:
            return Run()
        if adopt:
            return TakeOver(f"{batch} is published although its progress is lost: a second time, if it was committed")
        raise CheckpointError(
            f"the checkpoint goes on with {batch}, but the progress topic holds nothing: progress was lost, or the "
            "sink came to the job with this batch. Check the topic, or go on with --adopt-progress, if you are sure "
            "that the batch was not published"
        )
    check_ahead(record, batch)
    if record.query_id != query_id:
        return TakeOver(f"{batch} takes over a transactional id that last published {record}")
    if record.batch_id == batch_id - 1:
        # One entry of Spark's offset log holds both, so they differ only in a log that is not the one published from.
        if _canonical(record.end) == _canonical(start):
            return Run()
        raise PossibleDataLossError(
            f"the checkpoint goes on with {batch}, but what was published before it is {record}, which ends elsewhere: "
            "the checkpoint is not the one that was published from. Restore the checkpoint that belongs to it"
        )
    if record.batch_id == batch_id:
        if _canonical([record.start, record.end]) == _canonical([start, end]):
            return Skip(record)
        raise PossibleDataLossError(
            f"the checkpoint replays {batch}, but what was published is {record}: the checkpoint is not the one that "
            "was published from. Restore the checkpoint that belongs to it"
        )
    if adopt:
        return TakeOver(f"{batch} is published although the last published is {record}: what is between is not known")
    raise PossibleDataLossError(
        f"the checkpoint goes on with {batch}, but the last published is {record}: progress was lost, the checkpoint "
        "belongs to something else, or the job ran without this sink for a while. Check the progress topic and the "
        "checkpoint, or go on with --adopt-progress, if you are sure that the checkpoint is right"
    )


def check_ahead(record: Progress, batch: Progress) -> None:
    """Raises CheckpointError for progress beyond ``batch``, with which the checkpoint goes on, and for that of another
    query, unless the batch is this one's first. Where the batch begins and ends does not matter."""
    if record.query_id != batch.query_id and batch.batch_id > 0:
        raise CheckpointError(
            f"the checkpoint goes on with {batch}, but the last published is {record}: another query used this "
            "transactional id since. Give each query a name or a prefix of its own, and start this one with a new "
            "checkpoint"
        )
    if record.query_id == batch.query_id and record.batch_id > batch.batch_id:
        raise CheckpointError(
            f"the checkpoint goes on with {batch}, but {record} was published already: an older checkpoint was "
            "restored. Restore the latest one"
        )


# --- owning and settling ---------------------------------------------------------------------------------------


def claim(
    session: Session, client: TransactionClient, topic: ProgressTopic, run_id: str, *, deadline: Deadline | None = None
) -> Claim:
    """Commit a claim in a transaction of its own, so that whoever is fenced can name the winner (rule 3).

    A claim that the broker aborts is made again. Raises FencedError, naming the winner, when another run took the id
    over since it was ours, and AuthorizationError when progress may be written but not read.
    """
    deadline = deadline or session.deadline()
    mine, since = Claim.mine(run_id), client.identity
    failure: Exception | None = None
    for _ in range(_CLAIM_ATTEMPTS):
        try:
            client.begin(deadline)
            written = record(session, client, topic, mine, deadline=deadline)
            client.commit(deadline)
            _check_readable(session, topic, written)
            return mine
        except (AbortableError, UnknownOutcomeError) as error:
            failure = error
        if client.state is not State.UNKNOWN:
            with contextlib.suppress(UnknownOutcomeError):
                client.abort(deadline)
        if client.state is State.UNKNOWN:
            found = _retake(session, client, topic, run_id, since, deadline).claim
            client.settled(fenced=False)
            if found == mine:
                return mine
    raise RetriableError(f"transactional id '{client.transactional_id}' cannot be claimed: {failure}") from failure


def record(
    session: Session,
    client: TransactionClient,
    topic: ProgressTopic,
    what: Progress | Claim,
    *,
    deadline: Deadline | None = None,
) -> Ack:
    """Write ``what`` to the progress topic as part of the client's open transaction, and wait until it is there."""
    with Producer(session, client.identity, transactional_id=client.transactional_id) as producer:
        producer.submit(topic.name, *progress_batch(topic, client.transactional_id, what))
        producer.flush(deadline)
        (ack,) = producer.acks()
    return ack


def _check_readable(session: Session, topic: ProgressTopic, written: Ack) -> None:
    """Read a record back. Nothing is read of a topic that is empty: without the right to read, a first run would
    publish, and only the second one fail."""
    if written.base_offset >= 0:  # else a repetition was acknowledged, without its offset
        place = Range(topic.name, written.partition, written.base_offset, written.base_offset + 1, topic.topic_id)
        for _ in Fetcher(session, [place], isolation=READ_UNCOMMITTED):
            pass


def settle(
    session: Session,
    client: TransactionClient,
    topic: ProgressTopic,
    batch: Progress,
    run_id: str,
    *,
    adopt: bool = False,
    deadline: Deadline | None = None,
) -> bool:
    """Find out whether ``batch`` was committed, whose transaction had no definite end (rule 16). If it was not, nothing
    of it was published.

    Progress is read after InitProducerId, and only then the client is ready for the next transaction. Whatever is
    raised leaves the outcome unknown, but for FencedError, which names the winner when another run owns the id, and for
    what :func:`decide` raises. After RetriableError it may be called again. Without ``deadline`` each step has
    ``default.api.timeout.ms``.
    """
    read = _retake(session, client, topic, run_id, None, deadline)
    progress = read.progress
    if progress and progress.batch_id > batch.batch_id and progress.query_id == batch.query_id:
        client.settled(fenced=True)
        raise FencedError(
            f"transactional id '{client.transactional_id}' has published batch {progress.batch_id} of query "
            f"'{progress.query_id}' meanwhile, so another instance runs or ran; stop one of the two"
        )
    decision = decide(progress, batch.query_id, batch.batch_id, batch.start, batch.end, adopt)
    if not isinstance(decision, Skip) and (read.claim is None or read.claim.run_id != run_id):
        raise CheckpointError(
            f"whether {batch} was published is not known: topic '{topic.name}' does not hold the claim of this run any "
            "more, so that it has lost records, and perhaps this batch's. Check the topic; before the job is started "
            "again, see which records of the batch are in the output"
        )
    client.settled(fenced=False)
    return isinstance(decision, Skip)


def _retake(
    session: Session,
    client: TransactionClient,
    topic: ProgressTopic,
    run_id: str,
    since: ProducerIdentity | None,
    deadline: Deadline | None,
) -> ProgressRead:
    """Take the id again after a transaction whose end had no definite answer, unless it has another owner by now;
    gives what progress says then, which is definite. For ``since`` see :func:`_winner`.

    The client's state stays unknown, but for FencedError, which names the winner: what that does is not disturbed,
    unless it comes just in between.
    """
    name, lost = client.transactional_id, client.identity
    patience, backoff = None, session.backoff()
    while True:
        # In this order: whoever has committed when the coordinator is asked has its claim in the log that is read.
        seen = describe_transaction(session, name, deadline=deadline)
        read = read_progress(session, topic, name, deadline=deadline)
        winner = _winner(read, run_id, since, seen.producer_id if seen else lost.producer_id)
        if winner is not None:
            client.settled(fenced=True)
            raise _fenced(name, winner)
        # An InitProducerId of ours that had no answer looks like another's when it arrives: then only claims tell.
        if client.init_lost or not (seen and _taken_over(seen, lost, committing=client.commit_asked)):
            break
        patience = patience or Deadline.after(_CLAIM_SECONDS * 1000)
        if patience.passed:  # until then it may be about to make its claim
            read = read_present_progress(session, topic, name, deadline=deadline)
            client.settled(fenced=True)
            winner = _winner(read, run_id, since, seen.producer_id)
            if winner is not None:
                raise _fenced(name, winner)
            raise UnclaimedIdError(
                f"transactional id '{name}' was taken over by a producer that left no claim (producer id "
                f"{seen.producer_id}, epoch {seen.epoch}): another client with this transactional id, or the job's "
                f"former run{_who(read.latest_claim, run_id)}, if it lives or if a request of it came late. Look for "
                "such a client; if there is none, start the job again"
            )
        time.sleep(backoff.next())
    # Nobody else owns it. Taking a new epoch ends whatever is still open, and only then progress is definite.
    owned = client.init(deadline)
    read = read_present_progress(session, topic, name, deadline=deadline)
    winner = _winner(read, run_id, since, owned.producer_id)
    if winner is not None:
        # A copy came in between and may have published; it is fenced now as we are, and both stop.
        client.settled(fenced=True)
        raise FencedError(
            f"transactional id '{name}' was taken over by {winner} while the outcome of a transaction was looked up, "
            "and taken back; both are stopped: start one of the two again"
        )
    return read


def _fenced(transactional_id: str, winner: Claim) -> FencedError:
    return FencedError(f"transactional id '{transactional_id}' was taken over by {winner}; stop one of the two")


def _who(claim: Claim | None, run_id: str) -> str:
    return "" if claim is None or claim.run_id == run_id else f" ({claim})"


def _winner(read: ProgressRead, run_id: str, since: ProducerIdentity | None, producer_id: int) -> Claim | None:
    """The claim of another run than ``run_id`` that took the id over after us.

    ``since`` is None once our own claim is committed: whatever is later than that is a winner's. Before, the latest
    claim may be a former owner's, with an epoch that is not above the one we took over with, ``since``, or with a
    producer id that is neither that one's nor the coordinator's present one, ``producer_id``.
    """
    claim, by = read.latest_claim, read.latest_claimant
    if claim is None or by is None or claim.run_id == run_id:
        return None
    if since is None:
        return claim
    later = by.epoch > since.epoch if by.producer_id == since.producer_id else by.producer_id == producer_id
    return claim if later else None


def _taken_over(seen: TransactionDescription, lost: ProducerIdentity, *, committing: bool) -> bool:
    """Whether the coordinator's state is somebody else's doing. ``committing``: we have asked for a commit.

    Our own commit and the broker's time-out leave the epoch as it was or one higher, with a transaction that is being
    ended or has ended; InitProducerId by somebody else leaves it two higher, or one higher with nothing ended. Below
    transaction.version 2 our own commit never leaves it higher.
    """
    if lost.epoch >= _LAST_EPOCHS:
        return False  # the coordinator changes the producer id by itself when epochs run out
    if seen.producer_id != lost.producer_id or seen.epoch > lost.epoch + 1:
        return True
    theirs = {"Empty", "Ongoing"}
    if not committing or lost.transaction_version < IMPLICIT_VERSION:
        theirs |= {"PrepareCommit", "CompleteCommit"}
    return seen.epoch == lost.epoch + 1 and seen.state in theirs
