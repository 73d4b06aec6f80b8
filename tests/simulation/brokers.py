"""Kafka's protocol in front of the simulated cluster: kafka-python's requests in, its answers out."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

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

from tests.simulation.cluster import GROUPS, Cluster, Topic
from tests.simulation.coordinator import NONE, TopicPartition
from tests.simulation.log import Refusal

__all__ = ["Brokers", "kind_of", "version_of"]

_UNKNOWN_TOPIC, _NO_LEADER, _NOT_COORDINATOR, _EXISTS = 3, 5, 16, 36
_OUT_OF_RANGE, _NOT_FOUND, _UNSTABLE = 1, 105, 88
_LONGEST_TRANSACTION_MS = 900_000
#: The latest version of each request whose choice matters here.
_VERSIONS = {"Produce": 13, "EndTxn": 5, "TxnOffsetCommit": 5, "InitProducerId": 5, "AddPartitionsToTxn": 3}


def kind_of(request: Any) -> str:
    """The name of a request: EndTxn, say."""
    return type(request).__name__.removesuffix("Request")


def version_of(request: Any) -> int:
    """The version that client and broker agree on."""
    latest = _VERSIONS.get(kind_of(request), 0)
    asked = request._max_version
    return latest if asked is None else min(latest, asked)


class Brokers:
    """What the brokers of a cluster answer."""

    def __init__(self, cluster: Cluster):
        self._cluster = cluster

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

    # metadata

    def _answer_apiversions(self, _request: Any, _node: int, _sender: str) -> Any:
        Feature = ApiVersionsResponse.FinalizedFeatureKey
        levels = {"metadata.version": 29, "transaction.version": self._cluster.version}
        features = [
            Feature(name=name, max_version_level=level, min_version_level=level) for name, level in levels.items()
        ]
        return ApiVersionsResponse(error_code=NONE, api_keys=[], finalized_features=features)

    def _answer_metadata(self, request: Any, node: int, _sender: str) -> Any:
        known, alive = self._cluster.known_to(node), self._cluster.alive_to(node)
        names = [each.name for each in request.topics] if request.topics is not None else sorted(known)
        brokers = [
            MetadataResponse.MetadataResponseBroker(node_id=each, host=f"broker-{each}", port=9092, rack=None)
            for each in sorted(alive)
        ]
        return MetadataResponse(
            brokers=brokers,
            cluster_id=self._cluster.id,
            controller_id=1,
            error_code=NONE,
            topics=[self._described(name, known.get(name), alive) for name in names],
        )

    def _described(self, name: str, topic: Topic | None, alive: set[int]) -> Any:
        Described = MetadataResponse.MetadataResponseTopic
        if topic is None:
            return Described(error_code=_UNKNOWN_TOPIC, name=name, topic_id=None, is_internal=False, partitions=[])
        partitions = [
            Described.MetadataResponsePartition(
                error_code=NONE if each.leader in alive else _NO_LEADER, partition_index=number,
                leader_id=each.leader if each.leader in alive else -1, leader_epoch=each.leader_epoch,
                replica_nodes=list(self._cluster.nodes), isr_nodes=sorted(alive), offline_replicas=[],
            )
            for number, each in enumerate(topic.partitions)
        ]  # fmt: skip
        return Described(error_code=NONE, name=name, topic_id=topic.id, is_internal=False, partitions=partitions)

    def _answer_findcoordinator(self, request: Any, _node: int, _sender: str) -> Any:
        node = self._cluster.coordinator_of(request.key_type, request.key)
        found = FindCoordinatorResponse.Coordinator(
            key=request.key, node_id=node, host=f"broker-{node}", port=9092, error_code=NONE, error_message=None
        )
        return FindCoordinatorResponse(coordinators=[found])

    def _answer_describeconfigs(self, request: Any, _node: int, _sender: str) -> Any:
        Result = DescribeConfigsResponse.DescribeConfigsResult
        results = []
        for each in request.resources:
            if each.resource_type == 2 and each.resource_name not in self._cluster.topics:
                found, code = {}, _UNKNOWN_TOPIC
            elif each.resource_type == 2:
                found, code = self._cluster.topics[each.resource_name].settings, NONE
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
            code = _EXISTS if each.name in self._cluster.topics else NONE
            if not code:
                self._cluster.create(
                    each.name, each.num_partitions, **{config.name: config.value for config in each.configs}
                )
            results.append(
                CreateTopicsResponse.CreatableTopicResult(name=each.name, error_code=code, error_message=None)
            )
        return CreateTopicsResponse(topics=results)

    # logs

    def _answer_produce(self, request: Any, node: int, sender: str) -> Any:
        implicit, id_ = version_of(request) >= 12, request.transactional_id

        def append(name: str, each: Any) -> int:
            place = name, each.index
            return self._cluster.append(id_, place, bytes(each.records), node, implicit=implicit, sender=sender)

        return _each_partition_produced(request, append)

    def _answer_listoffsets(self, request: Any, node: int, _sender: str) -> Any:
        Topic = ListOffsetsResponse.ListOffsetsTopicResponse
        topics = []
        for topic in request.topics:
            partitions = []
            for each in topic.partitions:
                code, offset, epoch = NONE, -1, -1
                try:
                    led = self._cluster.led(topic.name, each.partition_index, node, each.current_leader_epoch)
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
            log = self._cluster.led(topic, each.partition, node, each.current_leader_epoch).log
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
                id_, epoch = self._cluster.coordinator.new_producer_id(), 0
            else:
                self._cluster.check_coordinator(1, request.transactional_id, node)
                id_, epoch = self._cluster.coordinator.init(
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

    def _coordinated(self, id_: str, node: int, producer_id: int, epoch: int, places: set[TopicPartition]) -> int:
        try:
            self._cluster.check_coordinator(1, id_, node)
            self._cluster.add(id_, producer_id, epoch, places)
        except Refusal as refusal:
            return refusal.code
        return NONE

    def _answer_txnoffsetcommit(self, request: Any, node: int, _sender: str) -> Any:
        code = NONE
        try:
            self._cluster.check_coordinator(0, request.group_id, node)
            self._cluster.take_offsets(
                request.transactional_id, request.group_id, request.producer_id, request.producer_epoch,
                _offsets_of(request), implicit=version_of(request) >= 5,
            )  # fmt: skip
        except Refusal as refusal:
            code = refusal.code
        return _offsets_answered(TxnOffsetCommitResponse, request, code)

    def _answer_offsetcommit(self, request: Any, node: int, _sender: str) -> Any:
        code = NONE
        try:
            self._cluster.check_coordinator(0, request.group_id, node)
            self._cluster.commit_offsets(request.group_id, _offsets_of(request))
        except Refusal as refusal:
            code = refusal.code
        return _offsets_answered(OffsetCommitResponse, request, code)

    def _answer_offsetfetch(self, request: Any, node: int, _sender: str) -> Any:
        (group,) = request.groups
        Answer = OffsetFetchResponse.OffsetFetchResponseGroup
        Topic = Answer.OffsetFetchResponseTopics
        code = NONE if self._cluster.coordinator_of(0, group.group_id) == node else _NOT_COORDINATOR
        committed = self._cluster.groups.get(group.group_id, {})
        unstable = self._cluster.unstable(group.group_id) if request.require_stable else set()
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
            self._cluster.check_coordinator(1, request.transactional_id, node)
            id_, epoch = self._cluster.coordinator.end(
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
        known = self._cluster.coordinator.known.get(id_)
        if self._cluster.coordinator_of(1, id_) != node or known is None:
            code = _NOT_FOUND if known is None and self._cluster.coordinator_of(1, id_) == node else _NOT_COORDINATOR
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


def _offsets_of(request: Any) -> dict[TopicPartition, Any]:
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
                Topic.PartitionProduceResponse(index=each.index, error_code=code, base_offset=base, error_message=None)
            )
        topics.append(Topic(name=topic.name, topic_id=topic.topic_id, partition_responses=partitions))
    return ProduceResponse(responses=topics)


def _produced(request: Any, code: int) -> Any:
    def refuse(_name: str, _each: Any) -> int:
        raise Refusal(code)

    return _each_partition_produced(request, refuse)


_REFUSALS: dict[str, Callable[[Any, int], Any]] = {
    "InitProducerId": lambda _, code: InitProducerIdResponse(error_code=code, producer_id=-1, producer_epoch=-1),
    "EndTxn": lambda _, code: EndTxnResponse(error_code=code, producer_id=-1, producer_epoch=-1),
    "AddOffsetsToTxn": lambda _, code: AddOffsetsToTxnResponse(error_code=code),
    "AddPartitionsToTxn": _added,
    "TxnOffsetCommit": partial(_offsets_answered, TxnOffsetCommitResponse),
    "Produce": _produced,
}
