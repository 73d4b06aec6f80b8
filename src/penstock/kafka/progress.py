"""The progress topic: which batch of a query was published last, and who publishes (rules 3 to 7 of exactly-once).

Records are JSON in a compacted topic. A query's progress has its transactional id as key and is written in the same
transaction as the batch; a claim has the id, a zero byte and ``claim`` as key, and says which run owns the id.
"""

from __future__ import annotations

import json
import os
import socket
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.errors import (
    AuthorizationError,
    CheckpointError,
    FencedError,
    KafkaError,
    PossibleDataLossError,
    TransactionExpiredError,
)
from penstock.kafka import batches, partitioner
from penstock.kafka.batches import ControlType
from penstock.kafka.deadline import Deadline
from penstock.kafka.fetch import Chunk, Fetcher, Range
from penstock.kafka.offsets import EARLIEST, LATEST, list_offsets
from penstock.kafka.produce import Producer, ProducerIdentity
from penstock.kafka.properties import READ_UNCOMMITTED
from penstock.kafka.session import Session
from penstock.kafka.topics import create_topic, topic_configs
from penstock.kafka.transactions import State, TransactionClient, TransactionDescription, describe_transaction

__all__ = [
    "Claim",
    "Decision",
    "Progress",
    "ProgressRead",
    "ProgressTopic",
    "Run",
    "Skip",
    "TakeOver",
    "claim",
    "decide",
    "ensure_progress_topic",
    "progress_batch",
    "read_progress",
    "record",
    "settle",
]

TOPIC = "__penstock_progress"
_CLAIM_KEY = "\0claim"
_LAST_EPOCHS = 32_760


# --- records ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Progress:
    """A batch that was published: the query's id, the batch's, and the source's offsets before and after it.

    Offsets are JSON values, compared by their canonical text. ``errors`` are counters since the query's first batch
    (rule 24).
    """

    query_id: str
    batch_id: int
    start: Any
    end: Any
    errors: Mapping[str, int] = field(default_factory=dict)

    def __str__(self) -> str:
        span = f"from {_canonical(self.start)} to {_canonical(self.end)}"
        return f"batch {self.batch_id} of query '{self.query_id}' ({span})"


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


def progress_batch(
    topic: ProgressTopic, transactional_id: str, record: Progress | Claim
) -> tuple[int, memoryview, int]:
    """``record`` as an encoded batch of its own: partition, bytes, record count, as :meth:`Producer.submit` takes."""
    key = _key(transactional_id, type(record))
    kind = {"kind": type(record).__name__.lower(), "version": 1}
    value = _canonical(kind | {name: getattr(record, name) for name in record.__dataclass_fields__})
    (batch,) = batches.encode(
        keys=pa.array([key], pa.binary()),
        values=pa.array([value.encode()], pa.binary()),
        timestamps=np.array([time.time_ns() // 1_000_000], np.int64),
        partitions=np.array([topic.partition_of(transactional_id)], np.int32),
    )
    return batch.partition, batch.data, batch.count


def _key(transactional_id: str, kind: type[Progress | Claim]) -> bytes:
    return (transactional_id + (_CLAIM_KEY if kind is Claim else "")).encode()


def _canonical(value: Any) -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def _parse(kind: type[Progress | Claim], value: bytes | None, where: str) -> Progress | Claim:
    try:
        found = json.loads(value or b"")
        return kind(**{name: found[name] for name in kind.__dataclass_fields__})
    except (ValueError, KeyError, TypeError):
        raise CheckpointError(
            f"{where}: the record is none of penstock's; check that nothing else writes to this topic"
        ) from None


# --- the topic -------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class ProgressTopic:
    """The progress topic of a cluster. ``warnings`` says what makes it less durable than it could be."""

    name: str
    topic_id: UUID | None
    partitions: int
    warnings: tuple[str, ...] = ()

    def partition_of(self, transactional_id: str) -> int:
        """Where an id's records are written: both kinds in one partition, so that their order is known."""
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
        if info is None and topic_id is not None:
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
            "and created again, or this is another cluster. Check the cluster, or go on with --adopt-progress"
        )
    settings = (topic_configs(session, [name], ["cleanup.policy", "min.insync.replicas"], deadline=deadline) or {}).get(
        name, {}
    )
    address = session.config.bootstrap_servers[0]
    policy = settings.get("cleanup.policy", "compact")
    if policy != "compact":
        raise KafkaError(
            f"progress topic '{name}' has cleanup.policy={policy}, which deletes progress; run kafka-configs.sh "
            f"--bootstrap-server {address} --alter --topic {name} --add-config cleanup.policy=compact"
        )
    warnings = []
    fewest = min(len(each.replicas) for each in info.partitions)
    if fewest < replication:
        warnings.append(f"progress topic '{name}' has {fewest} replicas; {replication} are possible")
    if fewest >= 3 and settings.get("min.insync.replicas") == "1":
        warnings.append(f"progress topic '{name}' has min.insync.replicas=1; 2 are safer")
    return ProgressTopic(name, info.topic_id, len(info.partitions), tuple(warnings))


def _settings(replication: int) -> dict[str, str]:
    return {
        "cleanup.policy": "compact",
        "min.insync.replicas": "2" if replication >= 3 else "1",
        # Every batch leaves a record, and every start reads them all: compact early and often.
        "segment.ms": "600000",
        "min.cleanable.dirty.ratio": "0.1",
    }


# --- reading ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class ProgressRead:
    """What the progress topic holds about a transactional id.

    ``progress`` and ``claim`` are the last committed records. ``latest_claim`` is the last one written, whatever
    became of its transaction: whoever wrote it owned the id then.
    """

    progress: Progress | None = None
    claim: Claim | None = None
    latest_claim: Claim | None = None


def read_progress(
    session: Session, topic: ProgressTopic, transactional_id: str, *, deadline: Deadline | None = None
) -> ProgressRead:
    """Read what was published last (rule 4). Definite after InitProducerId: then no transaction of the id is open.

    Reads up to the high watermark without regard to open transactions, and pairs our records with the control
    markers of their producer, so that another id's open transaction hides nothing. Raises RetriableError, never
    takes a time-out for the end.
    """
    deadline = deadline or session.deadline()
    name = topic.name
    places = [(name, partition) for partition in range(topic.partitions)]
    starts, ends = (
        list_offsets(session, places, at, isolation=READ_UNCOMMITTED, deadline=deadline) for at in (EARLIEST, LATEST)
    )
    ranges = []
    for place in places:
        start, end = starts[place], ends[place]
        if start and end and start.offset < end.offset:
            ranges.append(Range(*place, start.offset, end.offset, topic.topic_id))
    readers = [_Reader(transactional_id) for _ in ranges]
    for chunk in Fetcher(session, ranges, isolation=READ_UNCOMMITTED):
        readers[chunk.range].take(chunk)
    # Where partitions were added, older records stay where they were: the partition written to now comes first.
    home = topic.partition_of(transactional_id)
    found = [
        reader for each, reader in sorted(zip(ranges, readers, strict=True), key=lambda pair: pair[0].partition != home)
    ]
    progress = [each.committed[Progress] for each in found if Progress in each.committed]
    claims = [each.committed[Claim] for each in found if Claim in each.committed]
    latest = [each.latest_claim for each in found if each.latest_claim]
    return ProgressRead(
        progress[0] if progress else None,  # type: ignore[arg-type]
        claims[0] if claims else None,  # type: ignore[arg-type]
        latest[0] if latest else None,
    )


class _Reader:
    """Follows one partition of the progress topic for one transactional id."""

    def __init__(self, transactional_id: str):
        self.committed: dict[type[Progress | Claim], Progress | Claim] = {}
        self.latest_claim: Claim | None = None
        self._kinds = {_key(transactional_id, Progress): Progress, _key(transactional_id, Claim): Claim}
        self._open: list[tuple[int, int, Progress | Claim]] = []

    def take(self, chunk: Chunk) -> None:
        where = f"topic '{chunk.topic}', partition {chunk.partition}"
        heads = batches.batch_headers(chunk.records, where=where)
        heads = heads[heads["base_offset"] < chunk.end]
        records = batches.scan(
            chunk.records, start_offset=chunk.start, end_offset=chunk.end, check_crcs=False, where=where
        )
        ours = np.flatnonzero(pc.is_in(records.keys, value_set=pa.array(list(self._kinds), pa.binary())))
        events: list[tuple[int, Any]] = [(int(records.offsets[row]), int(row)) for row in ours]
        markers = heads[heads["control_type"] != ControlType.NONE]
        events += [(int(marker["base_offset"]), marker) for marker in markers]
        for offset, event in sorted(events, key=lambda each: each[0]):
            if not isinstance(event, int):
                self._end(event)
                continue
            kind = self._kinds[records.keys[event].as_py()]
            record = _parse(kind, records.values[event].as_py(), f"{where}, offset {offset}")
            if isinstance(record, Claim):
                self.latest_claim = record
            head = heads[int(np.searchsorted(heads["base_offset"], offset, side="right")) - 1]
            if head["is_transactional"]:
                self._open.append((int(head["producer_id"]), int(head["producer_epoch"]), record))
            else:
                self.committed[kind] = record

    def _end(self, marker: Any) -> None:
        """A transaction's end. Since transaction.version 2 its marker may carry a later epoch than its records."""
        still_open = []
        for producer_id, epoch, record in self._open:
            if producer_id != marker["producer_id"] or epoch > marker["producer_epoch"]:
                still_open.append((producer_id, epoch, record))
            elif marker["control_type"] == ControlType.COMMIT:
                self.committed[type(record)] = record
        self._open = still_open


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
    """Publish the batch; ``warning`` names the query that published with this id before."""

    warning: str


Decision = Run | Skip | TakeOver


def decide(
    record: Progress | None, query_id: str, batch_id: int, start: Any, end: Any, adopt: bool = False
) -> Decision:
    """What to do with a batch, given what the progress topic holds (the table of rule 5).

    ``adopt`` goes on although progress is missing. Raises PossibleDataLossError when a batch was published with
    other offsets or progress is behind, CheckpointError when the checkpoint is older or foreign; both name both
    positions.
    """
    batch = Progress(query_id, batch_id, start, end)
    if record is None:
        if batch_id == 0 or adopt:
            return Run()
        raise CheckpointError(
            f"the checkpoint goes on with {batch}, but the progress topic holds nothing: progress was lost, or the "
            "transactional id prefix was changed. Set the former prefix, or go on with --adopt-progress"
        )
    if record.query_id != query_id:
        if batch_id == 0:
            return TakeOver(f"{batch} takes over a transactional id that last published {record}")
        raise CheckpointError(
            f"the checkpoint goes on with {batch}, but the last published is {record}: another query used this "
            "transactional id since. Give each query a name or a prefix of its own"
        )
    if record.batch_id == batch_id - 1:
        return Run()
    if record.batch_id == batch_id:
        if _canonical([record.start, record.end]) == _canonical([start, end]):
            return Skip(record)
        raise PossibleDataLossError(
            f"the checkpoint replays {batch}, but what was published is {record}: the checkpoint is not the one that "
            "was published from. Restore the checkpoint that belongs to it"
        )
    if record.batch_id > batch_id:
        raise CheckpointError(
            f"the checkpoint goes on with {batch}, but {record} was published already: an older checkpoint was "
            "restored. Restore the latest one"
        )
    raise PossibleDataLossError(
        f"the checkpoint goes on with {batch}, but the last published is {record}: progress was lost, or the "
        "checkpoint belongs to something else. Check the progress topic and the checkpoint"
    )


# --- owning and settling ---------------------------------------------------------------------------------------


def claim(
    session: Session, client: TransactionClient, topic: ProgressTopic, run_id: str, *, deadline: Deadline | None = None
) -> Claim:
    """Commit a claim in a transaction of its own, so that whoever is fenced can name the winner (rule 3)."""
    mine = Claim.mine(run_id)
    client.begin(deadline)
    record(session, client, topic, mine, deadline=deadline)
    client.commit(deadline)
    return mine


def record(
    session: Session,
    client: TransactionClient,
    topic: ProgressTopic,
    what: Progress | Claim,
    *,
    deadline: Deadline | None = None,
) -> None:
    """Write ``what`` to the progress topic as part of the client's open transaction, and wait until it is there."""
    with Producer(session, client.identity, transactional_id=client.transactional_id) as producer:
        producer.submit(topic.name, *progress_batch(topic, client.transactional_id, what))
        producer.flush(deadline)


def settle(
    session: Session,
    client: TransactionClient,
    topic: ProgressTopic,
    query_id: str,
    batch_id: int,
    run_id: str,
    *,
    deadline: Deadline | None = None,
) -> None:
    """Find out what became of a transaction whose end had no definite answer (rule 16).

    Returns when batch ``batch_id`` was committed. Raises TransactionExpiredError when it was not and may be redone
    (the client is ready for it), and FencedError, naming the winner, when another run owns the id; then nothing of
    the winner's was disturbed. After RetriableError it may be called again.
    """
    lost = client.identity
    read = read_progress(session, topic, client.transactional_id, deadline=deadline)
    seen = describe_transaction(session, client.transactional_id, deadline=deadline)
    winner = read.latest_claim
    if winner and winner.run_id != run_id:
        client.settled(fenced=True)
        raise FencedError(
            f"transactional id '{client.transactional_id}' was taken over by {winner}; stop one of the two"
        )
    if seen and _taken_over(seen, lost):
        client.settled(fenced=True)
        raise FencedError(
            f"transactional id '{client.transactional_id}' was taken over by a producer that left no claim (producer "
            f"id {seen.producer_id}, epoch {seen.epoch}); look for another client with this transactional id"
        )
    if client.state is State.UNKNOWN:  # else an earlier call got as far as this
        client.settled(fenced=False)
    # Nobody else owns it. Taking a new epoch ends whatever is still open, and only then progress is definite.
    client.init(deadline)
    read = read_progress(session, topic, client.transactional_id, deadline=deadline)
    if read.latest_claim and read.latest_claim.run_id != run_id:
        # A copy came in between and may have published; it is fenced now as we are, and both stop.
        raise FencedError(
            f"transactional id '{client.transactional_id}' was taken over by {read.latest_claim} while the outcome of "
            "a transaction was looked up, and taken back; both are stopped: start one of the two again"
        )
    progress = read.progress
    if progress and (progress.query_id, progress.batch_id) == (query_id, batch_id):
        return
    if progress and (progress.query_id != query_id or progress.batch_id > batch_id):
        raise FencedError(
            f"transactional id '{client.transactional_id}' has published batch {progress.batch_id} of query "
            f"'{progress.query_id}' meanwhile, so another instance runs or ran; stop one of the two"
        )
    raise TransactionExpiredError(
        f"the transaction of batch {batch_id} of query '{query_id}' was not committed; nothing of it was published. "
        "If this repeats, raise transaction.timeout.ms or make batches smaller"
    )


def _taken_over(seen: TransactionDescription, lost: ProducerIdentity) -> bool:
    """Whether the coordinator's state is somebody else's doing.

    Our own commit and the broker's time-out leave the epoch as it was or one higher, with a transaction that is being
    ended or has ended; InitProducerId by somebody else leaves it two higher, or one higher with nothing ended.
    """
    if lost.epoch >= _LAST_EPOCHS:
        return False  # the coordinator changes the producer id by itself when epochs run out
    if seen.producer_id != lost.producer_id or seen.epoch > lost.epoch + 1:
        return True
    return seen.epoch == lost.epoch + 1 and seen.state in {"Empty", "Ongoing"}
