"""Inspecting a cluster's transactions: which are open, who owns them, which partitions they hold back; ending them.

This needs Describe on the transactional ids and the topics. With Read on a topic, its leaders also list producers that
no coordinator knows (a hanging transaction). With Read on the progress topic, the owners are known.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any
from uuid import uuid4

from kafka.protocol.admin import DescribeProducersRequest
from kafka.protocol.producer import WriteTxnMarkersRequest

from penstock.clock import now_ms
from penstock.deadline import Deadline
from penstock.errors import AuthorizationError, ExecutionError, KafkaError
from penstock.kafka.faults import Action, fault_from_code
from penstock.kafka.leaders import PartitionInfo
from penstock.kafka.offsets import LATEST, list_offsets
from penstock.kafka.partitions import TopicPartition, format_partition
from penstock.kafka.produce import ProducerIdentity
from penstock.kafka.progress import TOPIC, ProgressRead, ProgressTopic, read_progress_of
from penstock.kafka.properties import READ_COMMITTED, READ_UNCOMMITTED
from penstock.kafka.session import Session, iter_partitions
from penstock.kafka.transactions import (
    TransactionClient,
    TransactionDescription,
    describe_transaction,
    list_transactions,
)

#: States of a transaction that holds readers back, by Kafka's names: open, and being ended.
OPEN_STATES = frozenset({"Ongoing", "PrepareCommit", "PrepareAbort", "PrepareEpochFence"})
_ONGOING = "Ongoing"
_STATE_TOPIC = "__transaction_state"


# --- transactions ----------------------------------------------------------------------------------------------


def find_transactions(
    session: Session, prefix: str = "", *, ended: bool = False, deadline: Deadline | None = None
) -> list[TransactionDescription]:
    """The open transactions of ids that start with ``prefix``, by id; with ``ended`` also the last ended ones.

    Lacks ids that may not be described: brokers do not list them, see :func:`explain_unlisted`.
    """
    deadline = deadline or session.deadline()
    found = []
    for transactional_id, state in sorted(list_transactions(session, deadline=deadline).items()):
        if transactional_id.startswith(prefix) and (ended or state in OPEN_STATES):
            seen = describe_transaction(session, transactional_id, deadline=deadline)
            if seen and (ended or is_open(seen)):
                found.append(seen)
    return found


def is_open(transaction: TransactionDescription) -> bool:
    """Whether it may hold readers back: it is open, or its end has not reached all of its partitions."""
    return transaction.state in OPEN_STATES


def age_ms(transaction: TransactionDescription) -> int | None:
    """The age of an open transaction in ms, by this machine's clock; None if it has ended."""
    if not is_open(transaction) or transaction.started_ms < 0:
        return None
    return max(0, now_ms() - transaction.started_ms)


def explain_unlisted(session: Session, prefix: str = "") -> str:
    """The reason why open transactions of ids with this prefix may not be listed; empty if all are listed.

    Describes an unused id, to find out whether all ids may be described.
    """
    deadline = session.deadline()
    lost = [partition for topic, partition in list_leaderless(session, deadline=deadline) if topic == _STATE_TOPIC]
    if lost:  # first: brokers do not know the coordinators of their ids
        numbers = ", ".join(map(str, lost))
        return f"partitions of '{_STATE_TOPIC}' have no leader ({numbers}), so their coordinators cannot be asked"
    try:
        describe_transaction(session, f"{prefix}{uuid4().hex}", deadline=deadline)
    except AuthorizationError:
        which = f"transactional ids that start with '{prefix}'" if prefix else "transactional ids"
        return (
            f"this principal may not describe all {which}, and brokers do not list the others; grant it Describe on "
            "them"
        )
    return ""


# --- partitions that are held back -----------------------------------------------------------------------------


@dataclass(frozen=True)
class Holder:
    """A producer with an open transaction in a partition.

    ``start_offset`` is the offset of the transaction's first record there, ``last_timestamp`` is the timestamp of the
    producer's last record, in ms; both are -1 if the topic may not be read. ``transaction`` is the coordinator's view;
    without it the transaction is hanging: no coordinator will ever end it. ``transactional_id`` is empty if no
    coordinator knows the producer id.
    """

    producer_id: int
    epoch: int
    start_offset: int
    last_timestamp: int
    coordinator_epoch: int
    transactional_id: str = ""
    transaction: TransactionDescription | None = None

    @property
    def hanging(self) -> bool:
        """Whether no coordinator has this transaction open. Certain only if :func:`explain_unlisted` is empty."""
        return self.transaction is None


@dataclass(frozen=True)
class HeldBack:
    """A partition whose last stable offset is behind its high watermark: read_committed readers wait there.

    ``holders`` are the producers with a transaction open in it; the first one holds the offset. It is empty if the
    topic may not be read and no coordinator lists one.
    """

    topic: str
    partition: int
    last_stable_offset: int
    high_watermark: int
    holders: tuple[Holder, ...]

    @property
    def records(self) -> int:
        """The number of offsets that readers cannot reach."""
        return self.high_watermark - self.last_stable_offset


def find_held_back(
    session: Session, topics: Iterable[str] | None = None, *, deadline: Deadline | None = None
) -> list[HeldBack]:
    """The partitions of these topics, or of all topics, that an open transaction holds back, with its producers.

    For all topics, leaves out partitions without a leader; :func:`list_leaderless` lists them.
    """
    deadline = deadline or session.deadline()
    tps = _list_partitions(session, topics, deadline)
    ends = list_offsets(session, tps, LATEST, isolation=READ_UNCOMMITTED, deadline=deadline)
    # Requested after the ends, so that records written between the two requests do not look held back.
    stable = list_offsets(session, tps, LATEST, isolation=READ_COMMITTED, deadline=deadline)
    held = {
        tp: (at.offset, end.offset) for tp in tps if (at := stable[tp]) and (end := ends[tp]) and at.offset < end.offset
    }
    holders = _find_holders(session, held, deadline) if held else {}
    return [HeldBack(*tp, *held[tp], holders[tp]) for tp in sorted(holders)]


def list_leaderless(session: Session, *, deadline: Deadline | None = None) -> list[TopicPartition]:
    """Partitions without a leader, about which nothing is known."""
    topics = session.all_topics(deadline)
    return sorted(
        (name, each.partition) for name, info in topics.items() for each in info.partitions if each.leader < 0
    )


def _list_partitions(session: Session, topics: Iterable[str] | None, deadline: Deadline) -> list[TopicPartition]:
    if topics is not None:
        infos = {name: session.topic(name, deadline) for name in topics}
        return [(name, each.partition) for name, info in infos.items() for each in info.partitions]
    every = session.all_topics(deadline)
    return [(name, each.partition) for name, info in every.items() for each in info.partitions if each.leader >= 0]


def _find_holders(
    session: Session, tps: Iterable[TopicPartition], deadline: Deadline
) -> dict[TopicPartition, tuple[Holder, ...]]:
    """The producers with a transaction open in each of these partitions, without partitions where it has ended."""
    producers = _open_producers(session, tps, deadline)
    known = {
        (tp, each.producer_id): each for each in find_transactions(session, deadline=deadline) for tp in each.partitions
    }
    strangers = {
        tp for tp, found in producers.items() if any((tp, each.producer_id) not in known for each in found or ())
    }
    # Begun or ended between the two requests, or hanging: only a hanging one is still there, unchanged, afterwards.
    again = _open_producers(session, strangers, deadline)
    ids: dict[int, str] = {}
    holders: dict[TopicPartition, tuple[Holder, ...]] = {}
    for tp, found in producers.items():
        if found is None:
            listed = [each for (where, _), each in known.items() if where == tp]
            holders[tp] = tuple(
                Holder(each.producer_id, each.epoch, -1, -1, -1, each.transactional_id, each)
                for each in sorted(listed, key=lambda each: each.started_ms)
            )
            continue
        mine = []
        for each in found:
            transaction = known.get((tp, each.producer_id))
            if transaction is None and each not in (again.get(tp) or ()):
                continue
            if transaction is None and each.producer_id not in ids:
                states = list_transactions(session, producer_ids=[each.producer_id], deadline=deadline)
                ids[each.producer_id] = next(iter(states), "")
            name = transaction.transactional_id if transaction else ids[each.producer_id]
            mine.append(replace(each, transactional_id=name, transaction=transaction))
        if mine:
            holders[tp] = tuple(sorted(mine, key=lambda each: each.start_offset))
    return holders


def _open_producers(
    session: Session, tps: Iterable[TopicPartition], deadline: Deadline
) -> dict[TopicPartition, tuple[Holder, ...] | None]:
    """The producers with a transaction open in each partition, as its leader knows them; None without the right to ask.

    DescribeProducers needs Read on the topic (KIP-664), and brokers from 2.8 on.
    """
    Topic = DescribeProducersRequest.TopicRequest

    def build(group: Mapping[str, Sequence[PartitionInfo]]) -> Any:
        partitions = {topic: [each.partition for each in infos] for topic, infos in group.items()}
        topics = [Topic(name=topic, partition_indexes=indexes) for topic, indexes in partitions.items()]
        return DescribeProducersRequest(topics=topics)

    def read(answer: Any) -> Iterator[tuple[TopicPartition, int, tuple[Holder, ...] | None]]:
        for tp, each in iter_partitions(answer.topics):
            if fault_from_code(each.error_code).action is Action.DENIED:
                yield tp, 0, None
                continue
            open_producers = tuple(
                Holder(
                    producer.producer_id,
                    producer.producer_epoch,
                    producer.current_txn_start_offset,
                    producer.last_timestamp,
                    producer.coordinator_epoch,
                )
                for producer in each.active_producers
                if producer.current_txn_start_offset >= 0
            )
            yield tp, each.error_code, open_producers

    return session.ask_leaders("describing producers", tps, build, read, deadline)


# --- owners ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Owners:
    """The content of the progress topic for transactional ids; ``unknown`` is the reason if it could not be read."""

    reads: Mapping[str, ProgressRead]
    unknown: str = ""

    def find_progress(self, transactional_id: str) -> ProgressRead:
        """Claim and progress of an id; empty if there are none."""
        return self.reads.get(transactional_id) or ProgressRead()


def read_owners(
    session: Session, transactional_ids: Iterable[str], topic: str = TOPIC, *, deadline: Deadline | None = None
) -> Owners:
    """The claims of these ids and their last published batches, in one pass over the progress topic.

    Without the progress topic, or without Read on it, nothing is raised and the owners are not known.
    """
    ids = tuple(transactional_ids)
    if not ids:
        return Owners({})
    try:
        info = session.topics([topic], deadline).get(topic)
        if info is None:
            return Owners({}, f"progress topic '{topic}' does not exist")
        found = ProgressTopic(topic, info.topic_id, len(info.partitions))
        return Owners(read_progress_of(session, found, ids, deadline=deadline))
    except ExecutionError as error:
        return Owners({}, f"progress topic '{topic}' cannot be read: {error}")


# --- ending ----------------------------------------------------------------------------------------------------


def abort_transaction(session: Session, transaction: TransactionDescription) -> ProducerIdentity:
    """Abort this open transaction by taking its id over, and wait until all of its partitions know. Fences the owner.

    Needs Write on the transactional id. Raises KafkaError if this transaction is no longer the open one, and
    RetriableError if its end takes longer than ``default.api.timeout.ms``.
    """
    now = describe_transaction(session, transaction.transactional_id)
    if now is None or _identify(now) != _identify(transaction):
        raise KafkaError(
            f"the transaction of '{transaction.transactional_id}' was not aborted: it has ended meanwhile (now: "
            f"{now.state if now else 'unknown to the coordinator'}); list the transactions again"
        )
    if now.state != _ONGOING:
        raise KafkaError(
            f"the transaction of '{now.transactional_id}' was not aborted: it is already being ended ({now.state}); "
            "list the transactions again in a moment"
        )
    return TransactionClient(session, now.transactional_id, now.timeout_ms).init()


def _identify(transaction: TransactionDescription) -> tuple[int, int, int]:
    return transaction.producer_id, transaction.epoch, transaction.started_ms


def abort_hanging(session: Session, held: HeldBack, holder: Holder) -> None:
    """Write the abort marker of a hanging transaction into its partition, as ``kafka-transactions.sh abort`` does.

    Needs Alter or ClusterAction on the cluster. The caller has made sure that :func:`explain_unlisted` is empty: a
    marker would end a transaction in use halfway. Raises KafkaError if this one is not, or no longer, hanging.
    """
    deadline = session.deadline()
    tp = (held.topic, held.partition)
    now = [
        (each.producer_id, each.start_offset)
        for found in find_held_back(session, [held.topic], deadline=deadline)
        for each in found.holders
        if each.hanging and (found.topic, found.partition) == tp
    ]
    if (holder.producer_id, holder.start_offset) not in now:
        raise KafkaError(
            f"{format_partition(tp)}: nothing was aborted: producer {holder.producer_id} has no hanging transaction "
            f"there that begins at offset {holder.start_offset}; list the transactions again"
        )
    Marker = WriteTxnMarkersRequest.WritableTxnMarker

    def build(group: Mapping[str, Sequence[PartitionInfo]]) -> Any:
        marker = Marker(
            producer_id=holder.producer_id,
            producer_epoch=holder.epoch,
            transaction_result=False,
            topics=[Marker.WritableTxnMarkerTopic(name=held.topic, partition_indexes=[held.partition])],
            # A leader refuses an epoch below the last one that it has seen from this producer; -1 means none.
            coordinator_epoch=max(0, holder.coordinator_epoch),
        )
        return WriteTxnMarkersRequest(markers=[marker])

    def read(answer: Any) -> Iterator[tuple[TopicPartition, int, None]]:
        for marker in answer.markers:
            for partition, each in iter_partitions(marker.topics):
                yield partition, each.error_code, None

    session.ask_leaders("aborting a hanging transaction", [tp], build, read, deadline)
