"""Looking at a cluster's transactions: which are open, who owns them, whom they keep waiting; and ending them.

Looking needs Describe on the transactional ids and the topics. With Read on a topic its leaders also tell of producers
that no coordinator knows (a hanging transaction), and with Read on the progress topic the owners are known.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Any
from uuid import uuid4

from kafka.protocol.admin import DescribeProducersRequest
from kafka.protocol.producer import WriteTxnMarkersRequest

from penstock.deadline import Deadline
from penstock.errors import AuthorizationError, ExecutionError, KafkaError
from penstock.kafka.faults import Action, fault_of
from penstock.kafka.leaders import PartitionInfo
from penstock.kafka.offsets import LATEST, list_offsets
from penstock.kafka.produce import ProducerIdentity
from penstock.kafka.progress import TOPIC, ProgressRead, ProgressTopic, read_progress_of
from penstock.kafka.properties import READ_COMMITTED, READ_UNCOMMITTED
from penstock.kafka.session import Session, TopicPartition
from penstock.kafka.transactions import (
    TransactionClient,
    TransactionDescription,
    describe_transaction,
    list_transactions,
)

#: States of a transaction that holds readers back, by Kafka's names: in work, and being ended.
OPEN_STATES = frozenset({"Ongoing", "PrepareCommit", "PrepareAbort", "PrepareEpochFence"})
_ONGOING = "Ongoing"
_STATE_TOPIC = "__transaction_state"


# --- transactions ----------------------------------------------------------------------------------------------


def transactions(
    session: Session, prefix: str = "", *, ended: bool = False, deadline: Deadline | None = None
) -> list[TransactionDescription]:
    """The open transactions of ids that start with ``prefix``, by id; with ``ended`` also what ids did last.

    Ids that may not be described are left out: brokers do not list them, see :func:`blind_spot`.
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
    """Whether it may hold readers back: it is in work, or its end has not reached all of its partitions."""
    return transaction.state in OPEN_STATES


def age_ms(transaction: TransactionDescription) -> int | None:
    """How long an open transaction has been open, in ms, by this machine's clock; None for one that has ended."""
    if not is_open(transaction) or transaction.started_ms < 0:
        return None
    return max(0, time.time_ns() // 1_000_000 - transaction.started_ms)


def blind_spot(session: Session, prefix: str = "", *, deadline: Deadline | None = None) -> str:
    """Why transactions of ids with this prefix may be open and not be listed, in words; empty when all are listed.

    Whether all of them may be described is tried with an id that nobody has.
    """
    deadline = deadline or session.deadline()
    lost = [partition for topic, partition in without_leader(session, deadline=deadline) if topic == _STATE_TOPIC]
    if lost:  # first: whoever is asked for the coordinator of an id of theirs has no answer
        numbers = ", ".join(map(str, lost))
        return f"partitions of '{_STATE_TOPIC}' have no leader ({numbers}), so that their coordinators cannot be asked"
    try:
        describe_transaction(session, f"{prefix}{uuid4().hex}", deadline=deadline)
    except AuthorizationError:
        which = f"transactional ids that start with '{prefix}'" if prefix else "transactional ids"
        return (
            f"not all {which} may be described by this principal, and brokers do not list the others; grant it "
            "Describe on them"
        )
    return ""


# --- partitions that are held back -----------------------------------------------------------------------------


@dataclass(frozen=True)
class Holder:
    """A producer with an open transaction in a partition.

    ``start_offset`` is that of the transaction's first record there, ``last_timestamp`` that of the producer's last
    record, in ms, as the record has it; both are -1 where the topic may not be read. ``transaction`` is what the
    coordinator says; without it the transaction is hanging: no coordinator will ever end it. ``transactional_id`` is
    empty where no coordinator knows the producer id.
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
        """Whether no coordinator has this transaction open. Only as true as :func:`blind_spot` is empty."""
        return self.transaction is None


@dataclass(frozen=True)
class HeldBack:
    """A partition whose last stable offset is behind its high watermark: read_committed readers wait there.

    ``holders`` are the producers with a transaction open in it, the one that holds the offset first. None are known
    where the topic may not be read and no coordinator tells of one.
    """

    topic: str
    partition: int
    last_stable_offset: int
    high_watermark: int
    holders: tuple[Holder, ...]

    @property
    def records(self) -> int:
        """How many offsets readers are held back by."""
        return self.high_watermark - self.last_stable_offset


def held_back(
    session: Session, topics: Iterable[str] | None = None, *, deadline: Deadline | None = None
) -> list[HeldBack]:
    """The partitions of these topics, or of all topics, that an open transaction holds back, and who does it.

    Of all topics, partitions that have no leader are left out; :func:`without_leader` names them.
    """
    deadline = deadline or session.deadline()
    places = _partitions(session, topics, deadline)
    ends = list_offsets(session, places, LATEST, isolation=READ_UNCOMMITTED, deadline=deadline)
    # Asked for after the ends: what is written between the two questions does not look held back.
    stable = list_offsets(session, places, LATEST, isolation=READ_COMMITTED, deadline=deadline)
    held = {
        place: (at.offset, end.offset)
        for place in places
        if (at := stable[place]) and (end := ends[place]) and at.offset < end.offset
    }
    holders = _holders(session, held, deadline) if held else {}
    return [HeldBack(*place, *held[place], holders[place]) for place in sorted(holders)]


def without_leader(session: Session, *, deadline: Deadline | None = None) -> list[TopicPartition]:
    """Partitions that no broker leads at present, so that nothing can be said about them."""
    topics = session.all_topics(deadline)
    return sorted(
        (name, each.partition) for name, info in topics.items() for each in info.partitions if each.leader < 0
    )


def _partitions(session: Session, topics: Iterable[str] | None, deadline: Deadline) -> list[TopicPartition]:
    if topics is not None:
        infos = {name: session.topic(name, deadline) for name in topics}
        return [(name, each.partition) for name, info in infos.items() for each in info.partitions]
    every = session.all_topics(deadline)
    return [(name, each.partition) for name, info in every.items() for each in info.partitions if each.leader >= 0]


def _holders(
    session: Session, places: Iterable[TopicPartition], deadline: Deadline
) -> dict[TopicPartition, tuple[Holder, ...]]:
    """Who has a transaction open in each of these partitions, leaving out partitions where it has ended meanwhile."""
    producers = _open_producers(session, places, deadline)
    known = {
        (place, each.producer_id): each
        for each in transactions(session, deadline=deadline)
        for place in each.partitions
    }
    strangers = {
        place
        for place, found in producers.items()
        if any((place, each.producer_id) not in known for each in found or ())
    }
    # Begun or ended between the two questions, or hanging: only the latter is still there, unchanged, afterwards.
    again = _open_producers(session, strangers, deadline)
    ids: dict[int, str] = {}
    holders: dict[TopicPartition, tuple[Holder, ...]] = {}
    for place, found in producers.items():
        if found is None:
            told = [each for (where, _), each in known.items() if where == place]
            holders[place] = tuple(
                Holder(each.producer_id, each.epoch, -1, -1, -1, each.transactional_id, each)
                for each in sorted(told, key=lambda each: each.started_ms)
            )
            continue
        mine = []
        for each in found:
            transaction = known.get((place, each.producer_id))
            if transaction is None and each not in (again.get(place) or ()):
                continue
            if transaction is None and each.producer_id not in ids:
                listed = list_transactions(session, producer_ids=[each.producer_id], deadline=deadline)
                ids[each.producer_id] = next(iter(listed), "")
            name = transaction.transactional_id if transaction else ids[each.producer_id]
            mine.append(replace(each, transactional_id=name, transaction=transaction))
        if mine:
            holders[place] = tuple(sorted(mine, key=lambda each: each.start_offset))
    return holders


def _open_producers(
    session: Session, places: Iterable[TopicPartition], deadline: Deadline
) -> dict[TopicPartition, tuple[Holder, ...] | None]:
    """The producers with a transaction open in each partition, as its leader knows them; None where it may not tell.

    DescribeProducers needs Read on the topic (KIP-664), and brokers from 2.8 on.
    """

    def build(group: Sequence[tuple[str, PartitionInfo]]) -> Any:
        return DescribeProducersRequest(
            topics=[
                DescribeProducersRequest.TopicRequest(
                    name=topic, partition_indexes=[info.partition for _, info in infos]
                )
                for topic, infos in groupby(group, lambda each: each[0])
            ]
        )

    def read(answer: Any) -> Iterator[tuple[TopicPartition, int, tuple[Holder, ...] | None]]:
        for topic in answer.topics:
            for each in topic.partitions:
                place = (topic.name, int(each.partition_index))
                if fault_of(each.error_code).action is Action.DENIED:
                    yield place, 0, None
                    continue
                yield (
                    place,
                    each.error_code,
                    tuple(
                        Holder(
                            producer.producer_id,
                            producer.producer_epoch,
                            producer.current_txn_start_offset,
                            producer.last_timestamp,
                            producer.coordinator_epoch,
                        )
                        for producer in each.active_producers
                        if producer.current_txn_start_offset >= 0
                    ),
                )

    return session.ask_leaders("describing producers", places, build, read, deadline)


# --- owners ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Owners:
    """What the progress topic says about transactional ids; ``unknown`` is why it says nothing, else empty."""

    reads: Mapping[str, ProgressRead]
    unknown: str = ""

    def of(self, transactional_id: str) -> ProgressRead:
        """Claim and progress of an id; empty where there are none."""
        return self.reads.get(transactional_id) or ProgressRead()


def owners(
    session: Session, transactional_ids: Iterable[str], topic: str = TOPIC, *, deadline: Deadline | None = None
) -> Owners:
    """Who claimed these ids, and what was last published under them, in one pass over the progress topic.

    Never raises because of the progress topic: without it, or without Read on it, owners are not known.
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


def abort_transaction(
    session: Session, transaction: TransactionDescription, *, deadline: Deadline | None = None
) -> ProducerIdentity:
    """Abort this open transaction by taking its id over, and wait until all of its partitions know. Fences the owner.

    Needs Write on the transactional id. Raises KafkaError when it is not this transaction that is open now, and
    RetriableError when its end takes longer than the deadline.
    """
    now = describe_transaction(session, transaction.transactional_id, deadline=deadline)
    if now is None or _same(now) != _same(transaction):
        raise KafkaError(
            f"transactional id '{transaction.transactional_id}' has not been touched: the transaction that was open "
            f"has ended meanwhile (now: {now.state if now else 'unknown to the coordinator'}); look again"
        )
    if now.state != _ONGOING:
        raise KafkaError(
            f"transactional id '{now.transactional_id}' has not been touched: its transaction is being ended already "
            f"({now.state}); look again in a moment"
        )
    return TransactionClient(session, now.transactional_id, now.timeout_ms).init(deadline)


def _same(transaction: TransactionDescription) -> tuple[int, int, int]:
    return transaction.producer_id, transaction.epoch, transaction.started_ms


def abort_hanging(session: Session, held: HeldBack, holder: Holder, *, deadline: Deadline | None = None) -> None:
    """Write the abort marker of a hanging transaction into its partition, as ``kafka-transactions.sh abort`` does.

    Needs Alter or ClusterAction on the cluster. The caller has made sure that :func:`blind_spot` is empty: the marker
    of a transaction that is in work would tear it. Raises KafkaError when this one is not, or no longer, hanging.
    """
    deadline = deadline or session.deadline()
    place = (held.topic, held.partition)
    now = [
        (each.producer_id, each.start_offset)
        for found in held_back(session, [held.topic], deadline=deadline)
        for each in found.holders
        if each.hanging and (found.topic, found.partition) == place
    ]
    if (holder.producer_id, holder.start_offset) not in now:
        raise KafkaError(
            f"topic '{held.topic}', partition {held.partition} has not been touched: producer {holder.producer_id} has "
            f"no hanging transaction there that begins at offset {holder.start_offset}; look again"
        )
    Marker = WriteTxnMarkersRequest.WritableTxnMarker

    def build(group: Sequence[tuple[str, PartitionInfo]]) -> Any:
        marker = Marker(
            producer_id=holder.producer_id,
            producer_epoch=holder.epoch,
            transaction_result=False,
            topics=[Marker.WritableTxnMarkerTopic(name=held.topic, partition_indexes=[held.partition])],
            # A leader refuses an epoch below the last one that it has seen of this producer; -1 is none.
            coordinator_epoch=max(0, holder.coordinator_epoch),
        )
        return WriteTxnMarkersRequest(markers=[marker])

    def read(answer: Any) -> Iterator[tuple[TopicPartition, int, None]]:
        for marker in answer.markers:
            for topic in marker.topics:
                for each in topic.partitions:
                    yield (topic.name, int(each.partition_index)), each.error_code, None

    session.ask_leaders("aborting a hanging transaction", [place], build, read, deadline)
