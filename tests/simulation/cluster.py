"""A Kafka cluster as a state machine: kafka-python's requests in, its answers out. Nothing in it waits.

What it knows and where it may differ from Kafka is told in docs/decisions/0025-simulated-protocol.md.
"""

from __future__ import annotations

import random
import struct
import uuid
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Protocol

from kafka.protocol.admin import CreateTopicsResponse, DescribeConfigsResponse, DescribeTransactionsResponse
from kafka.protocol.consumer import FetchResponse, ListOffsetsResponse, OffsetCommitResponse, OffsetFetchResponse
from kafka.protocol.metadata import ApiVersionsResponse, FindCoordinatorResponse, MetadataResponse
from kafka.protocol.producer import (
    AddOffsetsToTxnResponse,
    AddPartitionsToTxnResponse,
    EndTxnResponse,
    InitProducerIdResponse,
    ProduceResponse,
    TxnOffsetCommitResponse,
)

from tests.simulation.coordinator import CONCURRENT, FENCED, NONE, Coordinator, Place, Transaction
from tests.simulation.log import PartitionLog, Refusal
from tests.simulation.scheduler import Scheduler

__all__ = ["GROUPS", "Cluster", "Topic", "Watcher", "version_of"]

#: Where groups keep their offsets, as part of transactions too.
GROUPS: Place = ("__consumer_offsets", 0)

_PRODUCER = struct.Struct(">qh")
_PRODUCER_AT, _ATTRIBUTES_AT = 43, 21
_TRANSACTIONAL = 0x10
_UNKNOWN_TOPIC, _NO_LEADER, _NOT_LEADER, _NOT_COORDINATOR, _EXISTS = 3, 5, 6, 16, 36
_OUT_OF_RANGE, _INVALID_EPOCH, _NOT_FOUND, _UNSTABLE, _NOT_ENOUGH_REPLICAS = 1, 47, 105, 88, 19
_FENCED_LEADER, _UNKNOWN_LEADER = 74, 75
_LONGEST_TRANSACTION_MS = 900_000
#: The latest version of each request whose choice matters here.
_VERSIONS = {"Produce": 13, "EndTxn": 5, "TxnOffsetCommit": 5, "InitProducerId": 5, "AddPartitionsToTxn": 3}
_SETTINGS = {
    "cleanup.policy": "delete", "min.insync.replicas": "1", "max.message.bytes": "1048588",
    "unclean.leader.election.enable": "false", "retention.ms": "604800000", "retention.bytes": "-1",
}  # fmt: skip


def kind_of(request: Any) -> str:
    """The name of a request: EndTxn, say."""
    return type(request).__name__.removesuffix("Request")


def version_of(request: Any) -> int:
    """The version that client and broker agree on."""
    latest = _VERSIONS.get(kind_of(request), 0)
    asked = request._max_version
    return latest if asked is None else min(latest, asked)


class Watcher(Protocol):
    """Is told what the cluster decides, when it decides it."""

    def deciding(self, transaction: Transaction, commit: bool) -> None:
        """A transaction will end so; its records and offsets are still open."""
        ...

    def offsets_committed(self, group: str, offsets: dict[Place, int]) -> None:
        """A group's offsets are committed, in a transaction or without."""
        ...


@dataclass
class _Partition:
    leader: int
    leader_epoch: int = 0
    log: PartitionLog = field(default_factory=PartitionLog)


@dataclass
class Topic:
    """A topic and its partitions."""

    name: str
    id: uuid.UUID
    partitions: list[_Partition]
    settings: dict[str, str]


@dataclass
class _Pending:
    """Offsets of a producer's open transaction, by group."""

    epoch: int
    offsets: dict[str, dict[Place, Any]] = field(default_factory=dict)


class Cluster:
    """Brokers 1 to ``brokers``, which share their logs: what was acknowledged is never lost."""

    def __init__(self, scheduler: Scheduler, rng: random.Random, *, brokers: int, version: int, watcher: Watcher):
        self.id = "simulated"
        self.version = version
        self.nodes = list(range(1, brokers + 1))
        self.alive = set(self.nodes)
        self.topics: dict[str, Topic] = {}
        self.groups: dict[str, dict[Place, Any]] = {}
        self.coordinator = Coordinator(lambda: scheduler.now, lambda: self.version, self._end)
        self.slow_markers = 0.0
        self._scheduler, self._rng, self._watcher = scheduler, rng, watcher
        self._coordinators: dict[tuple[int, str], int] = {}
        self._pending: dict[int, _Pending] = {}
        self._group_epochs: dict[int, int] = {}
        self._ids = random.Random(7)

    # --- what the simulation does ---

    def create(self, name: str, partitions: int, **settings: str) -> Topic:
        """Make a topic."""
        nodes = sorted(self.alive)
        made = [_Partition(nodes[(len(self.topics) + number) % len(nodes)]) for number in range(partitions)]
        id_ = uuid.UUID(int=self._ids.getrandbits(128), version=4)
        self.topics[name] = Topic(name, id_, made, _SETTINGS | settings)
        return self.topics[name]

    def log(self, place: Place) -> PartitionLog:
        """The log of a partition."""
        return self.topics[place[0]].partitions[place[1]].log

    def places(self, topic: str) -> list[Place]:
        """The partitions of a topic."""
        return [(topic, number) for number in range(len(self.topics[topic].partitions))]

    def crash(self, node: int, seconds: float) -> None:
        """Take a broker away for some time; others lead what it led, as far as there are others."""
        self.alive.discard(node)
        self._scheduler.after(seconds, partial(self._start, node))
        others = sorted(self.alive)
        for topic in self.topics.values():
            for each in topic.partitions:
                if each.leader == node and others:
                    each.leader, each.leader_epoch = self._rng.choice(others), each.leader_epoch + 1
        for key, coordinator in self._coordinators.items():
            if coordinator == node and others:
                self._coordinators[key] = self._rng.choice(others)

    def heal(self) -> None:
        """All brokers are up, and quick."""
        self.alive = set(self.nodes)
        self.slow_markers = 0.0

    def _start(self, node: int) -> None:
        self.alive.add(node)

    def expire_all(self) -> None:
        """Let the time of every ongoing transaction be up."""
        for each in list(self.coordinator.known.values()):
            self.coordinator.expire(each, each.number)

    def open_transactions(self) -> list[str]:
        """What is open at present, in words."""
        found = [f"'{each.id}' is {each.state}" for each in self.coordinator.known.values() if _is_open(each.state)]
        for topic in self.topics.values():
            for number, each in enumerate(topic.partitions):
                found += [f"{topic.name}-{number} has an open transaction of {who}" for who in each.log.open]
        return found + [f"producer {id_} has pending offsets" for id_ in self._pending]

    def pending_offsets(self, producer_id: int) -> dict[str, dict[Place, int]]:
        """The offsets that a producer's open transaction would commit, by group."""
        found = self._pending.get(producer_id)
        offsets = found.offsets if found else {}
        return {group: {place: each[0] for place, each in of.items()} for group, of in offsets.items()}

    # --- the end of a transaction ---

    def _end(self, transaction: Transaction, commit: bool) -> None:
        self._watcher.deciding(transaction, commit)
        left = set(transaction.places)
        id_, epoch = transaction.producer_id, transaction.epoch
        for place in sorted(transaction.places):
            delay = self._rng.uniform(0.001, 0.02) + self._rng.random() * self.slow_markers
            self._scheduler.after(delay, partial(self._mark, transaction, place, left, id_, epoch, commit))
        if not left:
            self._scheduler.after(0.001, partial(self.coordinator.complete, transaction))

    def _mark(
        self, transaction: Transaction, place: Place, left: set[Place], id_: int, epoch: int, commit: bool
    ) -> None:
        if place == GROUPS:
            self._end_offsets(id_, epoch, commit)
        else:
            self.log(place).mark(id_, epoch, commit, int(self._scheduler.now * 1000))
        left.discard(place)
        if not left:
            self.coordinator.complete(transaction)

    def _end_offsets(self, id_: int, epoch: int, commit: bool) -> None:
        self._group_epochs[id_] = max(epoch, self._group_epochs.get(id_, -1))
        found = self._pending.pop(id_, None)
        if found and commit:
            for group, offsets in found.offsets.items():
                self._commit(group, offsets)

    def _commit(self, group: str, offsets: dict[Place, Any]) -> None:
        self.groups.setdefault(group, {}).update(offsets)
        self._watcher.offsets_committed(group, {place: each[0] for place, each in offsets.items()})

    # --- requests ---

    def answer(self, request: Any, node: int, sender: str = "") -> Any:
        """What broker ``node`` answers."""
        handler: Callable[..., Any] | None = getattr(self, f"_answer_{kind_of(request).lower()}", None)
        if handler is None:
            raise NotImplementedError(f"the simulated broker does not know {kind_of(request)}")
        return handler(request, node, sender)

    def refuse(self, request: Any, code: int) -> Any:
        """An answer that is this error, for every partition that was asked for; None where the API has none."""
        maker = _REFUSALS.get(kind_of(request))
        return maker(request, code) if maker else None

    def _led(self, topic: str, partition: int, node: int, leader_epoch: int = -1) -> _Partition:
        known = self.topics.get(topic)
        if known is None or partition >= len(known.partitions):
            raise Refusal(_UNKNOWN_TOPIC)
        found = known.partitions[partition]
        if found.leader != node:
            raise Refusal(_NOT_LEADER)
        if 0 <= leader_epoch < found.leader_epoch:
            raise Refusal(_FENCED_LEADER)
        if leader_epoch > found.leader_epoch:
            raise Refusal(_UNKNOWN_LEADER)
        return found

    def _coordinates(self, kind: int, key: str, node: int) -> None:
        if self._coordinator_of(kind, key) != node:
            raise Refusal(_NOT_COORDINATOR)

    def _coordinator_of(self, kind: int, key: str) -> int:
        if (kind, key) not in self._coordinators:
            self._coordinators[kind, key] = self._rng.choice(self.nodes)
        return self._coordinators[kind, key]

    # metadata

    def _answer_apiversions(self, _request: Any, _node: int, _sender: str) -> Any:
        Feature = ApiVersionsResponse.FinalizedFeatureKey
        levels = {"metadata.version": 29, "transaction.version": self.version}
        features = [
            Feature(name=name, max_version_level=level, min_version_level=level) for name, level in levels.items()
        ]
        return ApiVersionsResponse(error_code=NONE, api_keys=[], finalized_features=features)

    def _answer_metadata(self, request: Any, _node: int, _sender: str) -> Any:
        names = [each.name for each in request.topics] if request.topics is not None else sorted(self.topics)
        brokers = [
            MetadataResponse.MetadataResponseBroker(node_id=node, host=f"broker-{node}", port=9092, rack=None)
            for node in sorted(self.alive)
        ]
        return MetadataResponse(
            brokers=brokers,
            cluster_id=self.id,
            controller_id=1,
            error_code=NONE,
            topics=[self._described(n) for n in names],
        )

    def _described(self, name: str) -> Any:
        Described = MetadataResponse.MetadataResponseTopic
        topic = self.topics.get(name)
        if topic is None:
            return Described(error_code=_UNKNOWN_TOPIC, name=name, topic_id=None, is_internal=False, partitions=[])
        partitions = [
            Described.MetadataResponsePartition(
                error_code=NONE if each.leader in self.alive else _NO_LEADER, partition_index=number,
                leader_id=each.leader if each.leader in self.alive else -1, leader_epoch=each.leader_epoch,
                replica_nodes=list(self.nodes), isr_nodes=sorted(self.alive), offline_replicas=[],
            )
            for number, each in enumerate(topic.partitions)
        ]  # fmt: skip
        return Described(error_code=NONE, name=name, topic_id=topic.id, is_internal=False, partitions=partitions)

    def _answer_findcoordinator(self, request: Any, _node: int, _sender: str) -> Any:
        node = self._coordinator_of(request.key_type, request.key)
        found = FindCoordinatorResponse.Coordinator(
            key=request.key, node_id=node, host=f"broker-{node}", port=9092, error_code=NONE, error_message=None
        )
        return FindCoordinatorResponse(coordinators=[found])

    def _answer_describeconfigs(self, request: Any, _node: int, _sender: str) -> Any:
        Result = DescribeConfigsResponse.DescribeConfigsResult
        results = []
        for each in request.resources:
            if each.resource_type == 2 and each.resource_name not in self.topics:
                found, code = {}, _UNKNOWN_TOPIC
            elif each.resource_type == 2:
                found, code = self.topics[each.resource_name].settings, NONE
            else:
                found, code = {"transaction.max.timeout.ms": str(_LONGEST_TRANSACTION_MS)}, NONE
            wanted = each.configuration_keys
            configs = [
                Result.DescribeConfigsResourceResult(name=name, value=value)
                for name, value in found.items()
                if wanted is None or name in wanted
            ]
            results.append(
                Result(
                    error_code=code, error_message=None, resource_type=each.resource_type,
                    resource_name=each.resource_name, configs=configs,
                )
            )  # fmt: skip
        return DescribeConfigsResponse(results=results)

    def _answer_createtopics(self, request: Any, _node: int, _sender: str) -> Any:
        results = []
        for each in request.topics:
            code = _EXISTS if each.name in self.topics else NONE
            if not code:
                self.create(each.name, each.num_partitions, **{config.name: config.value for config in each.configs})
            results.append(
                CreateTopicsResponse.CreatableTopicResult(name=each.name, error_code=code, error_message=None)
            )
        return CreateTopicsResponse(topics=results)

    # logs

    def _answer_produce(self, request: Any, node: int, sender: str) -> Any:
        implicit = version_of(request) >= 12
        return self._each_partition_produced(
            request, lambda name, each: self._append(request.transactional_id, name, each, node, implicit, sender)
        )

    @staticmethod
    def _each_partition_produced(request: Any, append: Callable[[str, Any], int]) -> Any:
        Topic = ProduceResponse.TopicProduceResponse
        topics = []
        for topic in request.topic_data:
            partitions = []
            for each in topic.partition_data:
                try:
                    code, base = NONE, append(topic.name, each)
                except Refusal as refusal:
                    code, base = refusal.code, -1
                partitions.append(
                    Topic.PartitionProduceResponse(
                        index=each.index, error_code=code, base_offset=base, error_message=None
                    )
                )
            topics.append(Topic(name=topic.name, topic_id=topic.topic_id, partition_responses=partitions))
        return ProduceResponse(responses=topics)

    def _append(self, id_: str | None, name: str, each: Any, node: int, implicit: bool, sender: str) -> int:
        led = self._led(name, each.index, node)
        producer_id, epoch = _PRODUCER.unpack_from(each.records, _PRODUCER_AT)
        if each.records[_ATTRIBUTES_AT + 1] & _TRANSACTIONAL and not led.log.in_transaction(producer_id, epoch):
            try:
                self._join(id_ or "", producer_id, epoch, (name, each.index), implicit)
            except Refusal as refusal:
                raise Refusal(_as_producers_know_it(refusal.code, implicit)) from None
        return led.log.append(bytes(each.records), strict=implicit, sender=sender)

    def _join(self, id_: str, producer_id: int, epoch: int, place: Place, implicit: bool) -> None:
        """Add the partition to the transaction, or make sure that the client has added it."""
        if implicit:
            self._add(id_, producer_id, epoch, {place})
        else:
            self.coordinator.verify(id_, producer_id, epoch, place)

    def _add(self, id_: str, producer_id: int, epoch: int, places: set[Place]) -> None:
        known = self.coordinator.known.get(id_)
        before = known.number if known else 0
        self.coordinator.add(id_, producer_id, epoch, places)
        known = self.coordinator.known[id_]
        if known.number > before:
            # Brokers look for expired transactions every ten seconds.
            late = known.timeout_ms / 1000 + self._rng.uniform(0, 10)
            self._scheduler.after(late, partial(self.coordinator.expire, known, known.number))

    def _answer_listoffsets(self, request: Any, node: int, _sender: str) -> Any:
        Topic = ListOffsetsResponse.ListOffsetsTopicResponse
        topics = []
        for topic in request.topics:
            partitions = []
            for each in topic.partitions:
                code, offset, epoch = NONE, -1, -1
                try:
                    led = self._led(topic.name, each.partition_index, node, each.current_leader_epoch)
                    latest = led.log.stable if request.isolation_level else led.log.end
                    offset, epoch = (0 if each.timestamp == -2 else latest), led.leader_epoch
                except Refusal as refusal:
                    code = refusal.code
                partitions.append(
                    Topic.ListOffsetsPartitionResponse(
                        partition_index=each.partition_index,
                        error_code=code,
                        timestamp=-1,
                        offset=offset,
                        leader_epoch=epoch,
                    )
                )
            topics.append(Topic(name=topic.name, partitions=partitions))
        return ListOffsetsResponse(topics=topics)

    def _answer_fetch(self, request: Any, node: int, _sender: str) -> Any:
        Topic = FetchResponse.FetchableTopicResponse
        topics = []
        for topic in request.topics:
            partitions = [self._fetched(topic.topic, each, node, request) for each in topic.partitions]
            topics.append(Topic(topic="", topic_id=topic.topic_id, partitions=partitions))
        return FetchResponse(error_code=NONE, session_id=0, responses=topics)

    def _fetched(self, topic: str, each: Any, node: int, request: Any) -> Any:
        Data = FetchResponse.FetchableTopicResponse.PartitionData
        code, high, stable, records, aborted = NONE, -1, -1, b"", []
        try:
            log = self._led(topic, each.partition, node, each.current_leader_epoch).log
            if each.fetch_offset > log.end:
                raise Refusal(_OUT_OF_RANGE)
            committed = bool(request.isolation_level)
            records, found = log.read(each.fetch_offset, committed=committed, most=each.partition_max_bytes)
            aborted = [Data.AbortedTransaction(producer_id=id_, first_offset=first) for id_, first in found]
            high, stable = log.end, log.stable
        except Refusal as refusal:
            code = refusal.code
        return Data(
            partition_index=each.partition, error_code=code, high_watermark=high, last_stable_offset=stable,
            log_start_offset=0, aborted_transactions=aborted, preferred_read_replica=-1, records=records,
        )  # fmt: skip

    # transactions

    def _answer_initproducerid(self, request: Any, node: int, _sender: str) -> Any:
        code, id_, epoch = NONE, -1, -1
        try:
            if request.transactional_id is None:
                id_, epoch = self.coordinator.new_producer_id(), 0
            else:
                self._coordinates(1, request.transactional_id, node)
                id_, epoch = self.coordinator.init(
                    request.transactional_id,
                    request.transaction_timeout_ms,
                    request.producer_id,
                    request.producer_epoch,
                )
        except Refusal as refusal:
            code = refusal.code
        return InitProducerIdResponse(error_code=code, producer_id=id_, producer_epoch=epoch)

    def _answer_addpartitionstotxn(self, request: Any, node: int, _sender: str) -> Any:
        places = {(topic.name, number) for topic in request.v3_and_below_topics for number in topic.partitions}
        code = self._coordinated(
            request.v3_and_below_transactional_id, node,
            request.v3_and_below_producer_id, request.v3_and_below_producer_epoch, places,
        )  # fmt: skip
        return _added(request, code)

    def _answer_addoffsetstotxn(self, request: Any, node: int, _sender: str) -> Any:
        code = self._coordinated(request.transactional_id, node, request.producer_id, request.producer_epoch, {GROUPS})
        return AddOffsetsToTxnResponse(error_code=code)

    def _coordinated(self, id_: str, node: int, producer_id: int, epoch: int, places: set[Place]) -> int:
        try:
            self._coordinates(1, id_, node)
            self._add(id_, producer_id, epoch, places)
        except Refusal as refusal:
            return refusal.code
        return NONE

    def _answer_txnoffsetcommit(self, request: Any, node: int, _sender: str) -> Any:
        code = NONE
        try:
            self._coordinates(0, request.group_id, node)
            self._take_offsets(request, version_of(request) >= 5)
        except Refusal as refusal:
            code = refusal.code
        return _offsets_answered(TxnOffsetCommitResponse, request, code)

    def _take_offsets(self, request: Any, implicit: bool) -> None:
        id_, epoch = request.producer_id, request.producer_epoch
        pending = self._pending.get(id_)
        if pending is None or pending.epoch != epoch:
            try:
                self._join(request.transactional_id, id_, epoch, GROUPS, implicit)
            except Refusal as refusal:
                code = _INVALID_EPOCH if refusal.code == FENCED else refusal.code
                raise Refusal(code) from None
        if epoch < self._group_epochs.get(id_, -1):
            raise Refusal(_INVALID_EPOCH)
        self._group_epochs[id_] = epoch
        pending = self._pending.setdefault(id_, _Pending(epoch))
        pending.offsets.setdefault(request.group_id, {}).update(_offsets_of(request))

    def _answer_offsetcommit(self, request: Any, node: int, _sender: str) -> Any:
        code = NONE
        try:
            self._coordinates(0, request.group_id, node)
            self._commit(request.group_id, _offsets_of(request))
        except Refusal as refusal:
            code = refusal.code
        return _offsets_answered(OffsetCommitResponse, request, code)

    def _answer_offsetfetch(self, request: Any, node: int, _sender: str) -> Any:
        (group,) = request.groups
        Answer = OffsetFetchResponse.OffsetFetchResponseGroup
        Topic = Answer.OffsetFetchResponseTopics
        code = NONE if self._coordinator_of(0, group.group_id) == node else _NOT_COORDINATOR
        committed = self.groups.get(group.group_id, {})
        unstable = {
            place for each in self._pending.values() for place in each.offsets.get(group.group_id, {})
        } if request.require_stable else set()  # fmt: skip
        topics = []
        for topic in group.topics:
            partitions = []
            for number in topic.partition_indexes:
                place = (topic.name, number)
                offset, epoch, metadata = committed.get(place, (-1, -1, ""))
                partitions.append(
                    Topic.OffsetFetchResponsePartitions(
                        partition_index=number, committed_offset=offset, committed_leader_epoch=epoch,
                        metadata=metadata, error_code=_UNSTABLE if place in unstable else NONE,
                    )
                )  # fmt: skip
            topics.append(Topic(name=topic.name, partitions=partitions))
        return OffsetFetchResponse(groups=[Answer(group_id=group.group_id, topics=topics, error_code=code)])

    def _answer_endtxn(self, request: Any, node: int, _sender: str) -> Any:
        code, id_, epoch = NONE, -1, -1
        try:
            self._coordinates(1, request.transactional_id, node)
            id_, epoch = self.coordinator.end(
                request.transactional_id, request.producer_id, request.producer_epoch, request.committed,
                implicit=version_of(request) >= 5,
            )  # fmt: skip
        except Refusal as refusal:
            code = refusal.code
        return EndTxnResponse(error_code=code, producer_id=id_, producer_epoch=epoch)

    def _answer_describetransactions(self, request: Any, node: int, _sender: str) -> Any:
        return DescribeTransactionsResponse(
            transaction_states=[self._transaction(id_, node) for id_ in request.transactional_ids]
        )

    def _transaction(self, id_: str, node: int) -> Any:
        State = DescribeTransactionsResponse.TransactionState
        known = self.coordinator.known.get(id_)
        if self._coordinator_of(1, id_) != node or known is None:
            code = _NOT_FOUND if known is None and self._coordinator_of(1, id_) == node else _NOT_COORDINATOR
            return State(
                error_code=code, transactional_id=id_, transaction_state="", transaction_timeout_ms=-1,
                transaction_start_time_ms=-1, producer_id=-1, producer_epoch=-1, topics=[],
            )  # fmt: skip
        topics = [State.TopicData(topic=topic, partitions=[number]) for topic, number in sorted(known.places)]
        return State(
            error_code=NONE, transactional_id=id_, transaction_state=known.state,
            transaction_timeout_ms=known.timeout_ms, transaction_start_time_ms=int(known.started * 1000),
            producer_id=known.producer_id, producer_epoch=known.epoch, topics=topics,
        )  # fmt: skip


def _is_open(state: str) -> bool:
    return state == "Ongoing" or state.startswith("Prepare")


def _as_producers_know_it(code: int, implicit: bool) -> int:
    """Errors of the coordinator in an answer to Produce."""
    if code == FENCED:
        return _INVALID_EPOCH
    return _NOT_ENOUGH_REPLICAS if code == CONCURRENT and not implicit else code


def _offsets_of(request: Any) -> dict[Place, Any]:
    return {
        (topic.name, each.partition_index): (
            each.committed_offset, each.committed_leader_epoch, each.committed_metadata or "",
        )
        for topic in request.topics
        for each in topic.partitions
    }  # fmt: skip


# --- errors as answers ---


def _added(request: Any, code: int) -> Any:
    Topic = AddPartitionsToTxnResponse.AddPartitionsToTxnTopicResult
    topics = [
        Topic(
            name=topic.name,
            results_by_partition=[
                Topic.AddPartitionsToTxnPartitionResult(partition_index=number, partition_error_code=code)
                for number in topic.partitions
            ],
        )
        for topic in request.v3_and_below_topics
    ]
    return AddPartitionsToTxnResponse(results_by_topic_v3_and_below=topics)


def _offsets_answered(kind: Any, request: Any, code: int) -> Any:
    Topic = getattr(kind, f"{kind.__name__}Topic")
    Partition = getattr(Topic, f"{kind.__name__}Partition")
    topics: Iterable[Any] = [
        Topic(
            name=topic.name,
            partitions=[Partition(partition_index=each.partition_index, error_code=code) for each in topic.partitions],
        )
        for topic in request.topics
    ]
    return kind(topics=topics)


def _produced(request: Any, code: int) -> Any:
    def refuse(_name: str, _each: Any) -> int:
        raise Refusal(code)

    return Cluster._each_partition_produced(request, refuse)


_REFUSALS: dict[str, Callable[[Any, int], Any]] = {
    "InitProducerId": lambda _, code: InitProducerIdResponse(error_code=code, producer_id=-1, producer_epoch=-1),
    "EndTxn": lambda _, code: EndTxnResponse(error_code=code, producer_id=-1, producer_epoch=-1),
    "AddOffsetsToTxn": lambda _, code: AddOffsetsToTxnResponse(error_code=code),
    "AddPartitionsToTxn": _added,
    "TxnOffsetCommit": partial(_offsets_answered, TxnOffsetCommitResponse),
    "Produce": _produced,
}
