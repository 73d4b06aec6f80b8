"""Producing encoded record batches: each is stamped with producer id, epoch and sequence, and several are under way.

It keeps the rules of exactly-once delivery: one writer per partition, at most five unacknowledged batches per
partition and one per partition and request (rule "one writer per partition"), errors handled by the table of
:mod:`penstock.kafka.faults` (rule "each error has one action"), the protocol's version by the identity (rule "one
protocol version per transaction").
"""

from __future__ import annotations

import contextlib
import math
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from queue import Empty, SimpleQueue
from typing import Any, Self
from uuid import UUID
from weakref import WeakKeyDictionary

from kafka.protocol.producer import AddPartitionsToTxnRequest, InitProducerIdRequest, ProduceRequest

from penstock.deadline import Backoff, Deadline
from penstock.errors import AbortableError, KafkaError, PenstockError, RetriableError, StaleEpochError
from penstock.kafka.faults import (
    CLIENT_CODE,
    Action,
    Fault,
    KafkaFault,
    check_code,
    fault_from_code,
    fault_from_exception,
)
from penstock.kafka.partitions import TopicPartition, format_partition, group_by_topic
from penstock.kafka.record_batches import stamp
from penstock.kafka.session import TRANSACTION, Session
from penstock.kafka.wire import Node

_WINDOW = 5
#: This many bytes wait for more, or for the flush: a request to a broker has what is there for all of its partitions.
_WAITING_BYTES = 512 << 10
_SEQUENCES = 2**31
_OUT_OF_ORDER, _UNKNOWN_PRODUCER, _NOT_ATTEMPTED = 45, 59, 55
#: Answers of a leader whose followers do not answer: REQUEST_TIMED_OUT, and NOT_ENOUGH_REPLICAS before and after the
#: append.
_WITHOUT_FOLLOWERS = {7, 19, 20}
#: From this ``transaction.version`` on, brokers add partitions and offsets to transactions themselves (KIP-890).
IMPLICIT_VERSION = 2


@dataclass(frozen=True)
class ProducerIdentity:
    """A producer's id and epoch from InitProducerId, and the cluster's ``transaction.version`` at that time.

    The driver sends it to the tasks of a batch; all of them produce with it, each to its own partitions.
    """

    producer_id: int
    epoch: int
    transaction_version: int = 0


@dataclass(frozen=True)
class Ack:
    """The acknowledged records, batches and bytes of one partition, with their sequences and offsets.

    Sequences are -1 without idempotence. The offset is -1 if the broker did not send it (``acks=0``, or a batch that it
    had already).
    """

    topic: str
    partition: int
    first_sequence: int
    last_sequence: int
    records: int
    batches: int
    bytes: int
    base_offset: int


def next_sequence(sequence: int, records: int) -> int:
    """The sequence after ``records`` records; after 2^31-1 comes 0."""
    return (sequence + records) % _SEQUENCES


@dataclass
class SendCounts:
    """The requests of a producer: their number, the milliseconds until the answers came, and the milliseconds that the
    brokers delayed them (quotas), in total and at most. The batches that were acknowledged, with their records and
    bytes and the bytes of the largest, and the records that were sent again."""

    requests: int = 0
    latency: float = 0
    latency_max: float = 0
    throttled: float = 0
    throttled_max: float = 0
    batches: int = 0
    records: int = 0
    bytes: int = 0
    batch_max: int = 0
    retried: int = 0

    def count_request(self, latency: float, throttled: float) -> None:
        """Count an answer."""
        self.requests += 1
        self.latency += latency
        self.latency_max = max(self.latency_max, latency)
        self.throttled += throttled
        self.throttled_max = max(self.throttled_max, throttled)

    def count_batch(self, records: int, size: int) -> None:
        """Count a batch."""
        self.batches += 1
        self.records += records
        self.bytes += size
        self.batch_max = max(self.batch_max, size)

    def combine(self, other: SendCounts) -> SendCounts:
        """The counts of both."""
        return SendCounts(
            self.requests + other.requests,
            self.latency + other.latency,
            max(self.latency_max, other.latency_max),
            self.throttled + other.throttled,
            max(self.throttled_max, other.throttled_max),
            self.batches + other.batches,
            self.records + other.records,
            self.bytes + other.bytes,
            max(self.batch_max, other.batch_max),
            self.retried + other.retried,
        )


@dataclass(eq=False)
class _Batch:
    data: bytearray | memoryview
    records: int
    ordinal: int
    expires: float = math.inf
    sequence: int = -1
    failures: int = 0


@dataclass(eq=False)
class _Lane:
    """The batches of one partition: ``waiting`` to be sent, ``under_way``, ``failed`` and to be sent again."""

    tp: TopicPartition
    backoff: Backoff
    waiting: deque[_Batch] = field(default_factory=deque)
    under_way: list[_Batch] = field(default_factory=list)
    failed: list[_Batch] = field(default_factory=list)
    last_fault: Fault | None = None
    last_detail: str = ""
    not_before: float = 0.0
    ack: Ack | None = None
    #: Ordinals of the first and last batch that were acknowledged.
    first: float = float("inf")
    last: int = -1

    @property
    def busy(self) -> bool:
        return bool(self.waiting or self.under_way or self.failed)

    @property
    def name(self) -> str:
        return format_partition(self.tp)

    def acknowledge(self, batch: _Batch, base_offset: int) -> None:
        """Count a batch. One that was sent again may come after later ones."""
        ack = self.ack or Ack(*self.tp, batch.sequence, -1, 0, 0, 0, base_offset)
        if batch.ordinal < self.first:
            self.first = batch.ordinal
            ack = replace(ack, first_sequence=batch.sequence, base_offset=base_offset)
        if batch.ordinal > self.last:
            self.last = batch.ordinal
            last = -1 if batch.sequence < 0 else next_sequence(batch.sequence, batch.records - 1)
            ack = replace(ack, last_sequence=last)
        self.ack = replace(
            ack, records=ack.records + batch.records, batches=ack.batches + 1, bytes=ack.bytes + len(batch.data)
        )


@dataclass(eq=False)
class _Flight:
    node: Node
    batches: dict[TopicPartition, _Batch]
    names: dict[UUID | None, str]
    answer: Future[Any]
    sent: float


class Producer:
    """Sends encoded batches to partitions that no other producer writes to with the same identity. For one thread.

    With ``identity`` and ``transactional_id`` the batches belong to the open transaction, which the driver ends.
    Without them delivery is at least once, according to ``acks`` and ``enable.idempotence``; the idempotent producer id
    is kept for the life of the process (rule "producer ids are scarce"). ``plain`` batches have no producer id and are
    acknowledged by all in-sync replicas, regardless of these options.

    It gives up, with AbortableError, when it waits and ``abandoned`` says that the result is not wanted any more.

    Errors: AbortableError if the transaction must be aborted and the batch retried, RetriableError after
    ``delivery.timeout.ms``, AuthorizationError, or KafkaError if the write cannot succeed. After an error the producer
    cannot be used any more; close it.
    """

    def __init__(
        self,
        session: Session,
        identity: ProducerIdentity | None = None,
        *,
        transactional_id: str | None = None,
        plain: bool = False,
        abandoned: Callable[[], bool] = lambda: False,
    ):
        if (identity is None) != (transactional_id is None):
            raise KafkaError("a transactional producer needs both an identity and a transactional id")
        config = session.config
        self._session = session
        self._transactional_id = transactional_id
        self._acks = -1 if transactional_id or plain else config.acks
        self._lease: _Lease | None = None
        if identity is None and config.enable_idempotence and not plain:
            self._lease = _borrow(session)
            identity = self._lease.identity
        self._identity = identity
        self._window = min(_WINDOW, config.max_in_flight_requests_per_connection) if identity else 1 << 30
        self._lanes: dict[TopicPartition, _Lane] = {}
        self._queued: dict[TopicPartition, _Lane] = {}  # lanes with waiting batches
        self._added: set[TopicPartition] = set()
        self._flights: dict[Node, int] = {}
        self._landed: SimpleQueue[_Flight] = SimpleQueue()
        self._sequences: dict[TopicPartition, int] = self._lease.sequences if self._lease else {}
        #: Bytes and batches that are not acknowledged.
        self._bytes = self._open = 0
        #: The batches among them that wait for more, and their bytes.
        self._held: list[tuple[_Lane, _Batch]] = []
        self._waiting = 0
        self._ordinal = 0
        self._abandoned = abandoned
        self._failure: PenstockError | None = None
        #: The seconds until the last answer.
        self.latency: float | None = None
        #: The counts so far.
        self.counts = SendCounts()

    # --- for callers ---

    def submit(self, topic: str, partition: int, data: bytearray | memoryview, records: int) -> None:
        """Send one encoded record batch. It is stamped in place, so the caller must not change it any more.

        Returns at once unless ``buffer.memory`` bytes wait to be acknowledged. A few bytes are sent with those that
        follow, or by :meth:`flush`.
        """
        self._raise_failure()
        tp = (topic, partition)
        lane = self._lanes.get(tp)
        if lane is None:
            lane = self._lanes[tp] = _Lane(tp, self._session.backoff())
        batch = _Batch(data, records, self._ordinal)
        self._ordinal += 1
        self._bytes += len(data)
        self._waiting += len(data)
        self._open += 1
        self._stamp(tp, batch)
        self._held.append((lane, batch))
        lane.waiting.append(batch)
        self._queued[tp] = lane
        if self._waiting <= _WAITING_BYTES and self._bytes <= self._session.config.buffer_memory:
            return
        can_send = any(self._has_room(self._session.known_leader(*held.tp)) for held, _ in self._held)
        self._begin()
        with self._remember_error():
            if can_send:  # else it is sent after the answers to what is under way
                self._send()
            while self._receive(0.0):
                self._send()
            while self._bytes > self._session.config.buffer_memory and self._open:
                self._step(None)

    def flush(self, deadline: Deadline | None = None) -> None:
        """Wait until everything is acknowledged. The default deadline is each batch's ``delivery.timeout.ms``."""
        self._raise_failure()
        self._begin()
        with self._remember_error():
            while self._open:
                self._step(deadline)

    def acks(self) -> tuple[Ack, ...]:
        """The acknowledged records so far, per partition."""
        return tuple(lane.ack for _, lane in sorted(self._lanes.items()) if lane.ack)

    def close(self) -> None:
        """Drop batches that are not acknowledged; call :meth:`flush` first to keep them."""
        clean = self._failure is None and not self._open
        if self._lease and clean:
            _give_back(self._session, self._lease)
        self._lease = None
        self._failure = self._failure or KafkaError("the producer is closed")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _raise_failure(self) -> None:
        if self._failure is not None:
            raise self._failure

    @contextlib.contextmanager
    def _remember_error(self) -> Iterator[None]:
        """Keeps the first error, and refuses all calls after it: a gap in the sequences cannot be closed."""
        try:
            yield
        except KafkaFault as raised:
            self._failure = raised.fault.error("producing", raised.detail)
            raise self._failure from raised.__cause__
        except PenstockError as error:
            self._failure = error
            raise
        except BaseException:
            self._failure = KafkaError("producing was interrupted")
            raise

    # --- sending ---

    def _begin(self) -> None:
        """Wait no longer for more bytes. The time to deliver those that have waited begins now."""
        expires = time.monotonic() + self._session.config.delivery_timeout_ms / 1000
        for _, batch in self._held:
            batch.expires = expires
        self._held.clear()
        self._waiting = 0

    def _stamp(self, tp: TopicPartition, batch: _Batch) -> None:
        if self._identity is None:
            return
        batch.sequence = self._sequences.get(tp, 0)
        self._sequences[tp] = next_sequence(batch.sequence, batch.records)
        stamp(
            batch.data,
            producer_id=self._identity.producer_id,
            producer_epoch=self._identity.epoch,
            base_sequence=batch.sequence,
            transactional=self._transactional_id is not None,
        )

    def _step(self, deadline: Deadline | None) -> None:
        """Send the batches that may be sent, then wait for an answer or until more may be sent."""
        if self._abandoned():
            raise AbortableError("producing was given up")
        self._send()
        now = time.monotonic()
        if deadline and deadline.passed:
            raise self._timeout_error(next(lane for lane in self._lanes.values() if lane.busy), f"within {deadline}")
        alarms = [lane.not_before for lane in self._queued.values() if lane.not_before > now]
        alarms += [deadline.at] if deadline else []
        wait = min(alarms, default=now + 1.0) - now
        self._receive(min(1.0, max(0.001, wait)))

    def _send(self) -> None:
        """Requests to every broker, each with at most one batch of a partition, as far as the windows allow."""
        while groups := self._next_requests():
            for node, lanes in groups.items():
                self._add_partitions(lanes)
                batches = {lane.tp: lane.waiting.popleft() for lane in lanes}
                for lane in lanes:
                    lane.under_way.append(batches[lane.tp])
                    if not lane.waiting:
                        del self._queued[lane.tp]
                ids = {topic: self._session.topic(topic).topic_id for topic, _ in batches}
                names: dict[UUID | None, str] = {each: topic for topic, each in ids.items() if each is not None}
                answer = self._session.send(self._build_request(batches, ids), node)
                flight = _Flight(node, batches, names, answer, time.monotonic())
                self._flights[node] = self._flights.get(node, 0) + 1
                flight.answer.add_done_callback(lambda _, flight=flight: self._landed.put(flight))  # type: ignore[misc]

    def _next_requests(self) -> dict[Node, list[_Lane]]:
        now = time.monotonic()
        config = self._session.config
        limit = f"within delivery.timeout.ms ({config.delivery_timeout_ms} ms)"
        groups: dict[Node, list[_Lane]] = {}
        sizes: dict[Node, int] = {}
        full: set[Node] = set()
        if self._lease and self._lease.spoilt:
            return groups
        for lane in self._queued.values():
            # A partition with a failed batch waits for the answers to all of its batches under way (rule "one writer
            # per partition").
            if lane.failed or len(lane.under_way) >= self._batch_window(lane):
                continue
            batch = lane.waiting[0]
            if batch.expires <= now:
                raise self._timeout_error(lane, limit)
            if lane.not_before > now:
                continue
            try:
                node = self._session.known_leader(*lane.tp)
                if node is None:
                    node = self._session.partition(*lane.tp, Deadline.until(batch.expires)).leader
            except KafkaFault as raised:
                self._put_off(lane, raised.fault, raised.detail)
                continue
            except RetriableError as error:
                lane.last_fault = Fault(CLIENT_CODE, "its leader is not known", Action.REFRESH)
                lane.last_detail = str(error)
                raise self._timeout_error(lane, limit) from error
            size = sizes.get(node, 0) + len(batch.data)
            if not self._has_room(node) or (node in groups and size > config.max_request_size):
                if node not in full:
                    full.add(node)
                    if len(full) == len(self._session.brokers()):
                        break  # thousands of partitions may be queued
                continue
            groups.setdefault(node, []).append(lane)
            sizes[node] = size
        return groups

    def _has_room(self, node: Node | None) -> bool:
        """Whether a broker may get one more request; one that is not known yet may."""
        limit = self._session.config.max_in_flight_requests_per_connection
        return node is None or self._flights.get(node, 0) < limit

    def _batch_window(self, lane: _Lane) -> int:
        """The number of batches of a partition that may be unacknowledged.

        A broker that does not know our producer id accepts any sequence as the first. If a leader under election
        refuses the first batch and accepts the second, the first one would come after it. (In a transaction that is a
        gap in the sequences, and the batch is retried.)
        """
        return 1 if self._lease and lane.tp not in self._lease.begun else self._window

    def _build_request(self, batches: dict[TopicPartition, _Batch], topic_ids: dict[str, UUID | None]) -> Any:
        Topic = ProduceRequest.TopicProduceData
        Partition = Topic.PartitionProduceData
        topics = [
            Topic(
                name=name,
                topic_id=topic_ids[name],
                partition_data=[Partition(index=index, records=batches[name, index].data) for index in indexes],
            )
            for name, indexes in group_by_topic(batches).items()
        ]
        versions = {"min_version": 3}
        if self._identity and self._transactional_id:
            implicit = self._identity.transaction_version >= IMPLICIT_VERSION
            versions = {"min_version": 12} if implicit else {"min_version": 3, "max_version": 11}
        return ProduceRequest(
            transactional_id=self._transactional_id,
            acks=self._acks,
            timeout_ms=self._session.config.request_timeout_ms,
            topic_data=topics,
            **versions,
        )

    def _add_partitions(self, lanes: list[_Lane]) -> None:
        """Below transaction.version 2, adds partitions to the transaction before their first batch (rule "one protocol
        version per transaction")."""
        identity, transactional_id = self._identity, self._transactional_id
        if identity is None or transactional_id is None or identity.transaction_version >= IMPLICIT_VERSION:
            return
        new = sorted(lane.tp for lane in lanes if lane.tp not in self._added)
        if not new:
            return
        label = "adding to the transaction: " + ", ".join(f"{topic}-{partition}" for topic, partition in new)
        Topic = AddPartitionsToTxnRequest.AddPartitionsToTxnTopic
        topics = [Topic(name=name, partitions=partitions) for name, partitions in group_by_topic(new).items()]

        def build() -> Any:
            return AddPartitionsToTxnRequest(
                v3_and_below_transactional_id=transactional_id,
                v3_and_below_producer_id=identity.producer_id,
                v3_and_below_producer_epoch=identity.epoch,
                v3_and_below_topics=topics,
                max_version=3,
            )

        def check(answer: Any) -> None:
            for topic in answer.results_by_topic_v3_and_below:
                for each in topic.results_by_partition:
                    fault = fault_from_code(each.partition_error_code)
                    if fault.action is Action.OUTCOME:
                        raise StaleEpochError(f"{label}: {fault.name}")
                    if fault.code != _NOT_ATTEMPTED:
                        check_code(fault.code, format_partition((topic.name, each.partition_index)), "Write")

        self._session.ask_coordinator(label, TRANSACTION, transactional_id, build, check)
        self._added.update(new)

    # --- answers ---

    def _receive(self, seconds: float) -> bool:
        """Wait for one answer and process it; False if none came."""
        try:
            flight = self._landed.get(seconds > 0, seconds or None)
        except Empty:
            return False
        self._flights[flight.node] -= 1
        self.latency = time.monotonic() - flight.sent
        error, throttled = flight.answer.exception(), 0
        if error is not None:
            fault, detail = fault_from_exception(error)
            if fault.action.retriable:
                self._session.forget_topics(topic for topic, _ in flight.batches)
            results = dict.fromkeys(flight.batches, (fault, detail, -1))
        elif self._acks == 0:
            results = dict.fromkeys(flight.batches, (fault_from_code(0), "", -1))
        else:
            results = self._read_results(flight)
            throttled = flight.answer.result().throttle_time_ms
            if any(fault.code in _WITHOUT_FOLLOWERS for fault, _, _ in results.values()):
                self._session.avoid(flight.node)
        self.counts.count_request(self.latency * 1000, throttled)
        for tp, batch in flight.batches.items():
            missing = (Fault(CLIENT_CODE, "not in the answer", Action.REFRESH), "", -1)
            self._settle(self._lanes[tp], batch, *results.get(tp, missing))
        return True

    def _read_results(self, flight: _Flight) -> dict[TopicPartition, tuple[Fault, str, int]]:
        results = {}
        for topic in flight.answer.result().responses:
            for each in topic.partition_responses:
                tp = (topic.name or flight.names.get(topic.topic_id, ""), int(each.index))
                results[tp] = (fault_from_code(each.error_code), each.error_message or "", int(each.base_offset))
        return results

    def _settle(self, lane: _Lane, batch: _Batch, fault: Fault, detail: str, base_offset: int) -> None:
        lane.under_way.remove(batch)
        followed_a_failure = fault.code == _OUT_OF_ORDER and bool(lane.failed)
        if fault.action in {Action.NONE, Action.ACKNOWLEDGED}:
            self._bytes -= len(batch.data)
            self._open -= 1
            self.counts.count_batch(batch.records, len(batch.data))
            if self._lease:
                self._lease.begun.add(lane.tp)
            lane.acknowledge(batch, base_offset if fault.action is Action.NONE else -1)
            lane.backoff.attempts = 0
        elif fault.action.retriable or followed_a_failure:
            lane.failed.append(batch)
            if not followed_a_failure:
                lane.last_fault, lane.last_detail = fault, detail
                if fault.action is Action.REFRESH:
                    self._session.forget_topics([lane.tp[0]])
            batch.failures += 1
            self.counts.retried += batch.records
            if batch.failures > self._session.config.retries:
                raise self._timeout_error(lane, f"after {self._session.config.retries} retries")
        elif self._lease and fault.code in {_OUT_OF_ORDER, _UNKNOWN_PRODUCER}:
            lane.failed.append(batch)
            lane.last_fault, lane.last_detail = fault, detail
            self._lease.spoilt = True
        else:
            raise self._delivery_error(lane, batch, fault, detail)
        if lane.failed and not lane.under_way:
            lane.waiting.extendleft(sorted(lane.failed, key=lambda each: -each.ordinal))
            lane.failed.clear()
            self._queued[lane.tp] = lane
            self._put_off(lane, lane.last_fault or fault, lane.last_detail)
        if self._lease and self._lease.spoilt and not any(each.under_way for each in self._lanes.values()):
            self._start_over()

    def _put_off(self, lane: _Lane, fault: Fault, detail: str) -> None:
        lane.last_fault, lane.last_detail = fault, detail
        lane.not_before = time.monotonic() + lane.backoff.next()

    def _start_over(self) -> None:
        """Take a new producer id, as a broker has forgotten ours, and send unacknowledged batches with it.

        For at-least-once only: the broker can no longer tell whether it has these batches already.
        """
        self._lease = _new_lease(self._session)
        self._identity, self._sequences = self._lease.identity, self._lease.sequences
        for lane in self._lanes.values():
            for batch in lane.waiting:
                self._stamp(lane.tp, batch)

    def _delivery_error(self, lane: _Lane, batch: _Batch, fault: Fault, detail: str) -> PenstockError:
        label = f"writing {batch.records} records ({len(batch.data)} bytes) to {lane.name}"
        if fault.action is Action.OUTCOME:
            return StaleEpochError(f"{label}: {fault.name}")
        return fault.lacking("Write").error(label, detail)

    def _timeout_error(self, lane: _Lane, limit: str) -> PenstockError:
        detail = f" ({lane.last_detail})" if lane.last_detail else ""
        fault = f", at last {lane.last_fault.name}{detail}" if lane.last_fault else ""
        text = f"writing to {lane.name}: not acknowledged {limit}{fault}; check that its leader is up"
        return AbortableError(text) if self._transactional_id else RetriableError(text)


# --- idempotent producer ids, kept for the life of the process -------------------------------------------------


@dataclass(eq=False)
class _Lease:
    """A producer id, the next sequence of each partition, and the partitions with an acknowledged batch. One producer
    uses it at a time."""

    identity: ProducerIdentity
    sequences: dict[TopicPartition, int] = field(default_factory=dict)
    begun: set[TopicPartition] = field(default_factory=set)
    spoilt: bool = False


_free: WeakKeyDictionary[Session, list[_Lease]] = WeakKeyDictionary()
_free_lock = threading.Lock()


def _borrow(session: Session) -> _Lease:
    with _free_lock:
        leases = _free.setdefault(session, [])
        if leases:
            return leases.pop()
    return _new_lease(session)


def _give_back(session: Session, lease: _Lease) -> None:
    if not lease.spoilt:
        with _free_lock:
            _free.setdefault(session, []).append(lease)


def _new_lease(session: Session) -> _Lease:
    def build() -> Any:
        return InitProducerIdRequest(
            transactional_id=None, transaction_timeout_ms=_SEQUENCES - 1, producer_id=-1, producer_epoch=-1
        )

    def check(answer: Any) -> _Lease:
        fault = fault_from_code(answer.error_code)
        if fault.action is Action.DENIED:  # since 2.8 the right to write to any topic is enough
            hint = "grant the principal Write on the sink's topics; below Kafka 2.8, IdempotentWrite on the cluster"
            raise KafkaFault(replace(fault, hint=hint))
        check_code(answer.error_code)
        return _Lease(ProducerIdentity(answer.producer_id, answer.producer_epoch))

    return session.ask_any("asking for a producer id", build, check)
