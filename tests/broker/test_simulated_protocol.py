"""The same requests to a real broker and to the simulated one of tests/simulation: they must answer alike."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import pytest
from kafka.protocol.admin import DescribeTransactionsRequest
from kafka.protocol.consumer import FetchRequest, ListOffsetsRequest, OffsetFetchRequest
from kafka.protocol.producer import (
    AddOffsetsToTxnRequest,
    AddPartitionsToTxnRequest,
    EndTxnRequest,
    InitProducerIdRequest,
    ProduceRequest,
    TxnOffsetCommitRequest,
)

from penstock.kafka.offsets import fetch_committed_offsets
from penstock.kafka.properties import ClientConfig
from penstock.kafka.record_batches import read_batch_headers, stamp
from penstock.kafka.session import GROUP, TRANSACTION, Session
from penstock.kafka.topics import create_topic
from penstock.kafka.transactions import TransactionClient, describe_transaction
from tests.simulation.brokers import Brokers
from tests.simulation.cluster import Cluster
from tests.simulation.invariants import Invariants
from tests.simulation.log import record_batch
from tests.simulation.scheduler import Scheduler
from tests.waiting import eventually

if TYPE_CHECKING:
    from penstock_testing.services import KafkaCluster

_LOADING, _CONCURRENT = 14, 51


class RealBroker:
    """Asks a real broker."""

    def __init__(self, session: Session, topic: str, id_: str, group: str):
        self.session, self.topic, self.id, self.group = session, topic, id_, group
        create_topic(session, topic, partitions=1, replication=1)
        # From here on the coordinators are there.
        fetch_committed_offsets(session, group, [(topic, 0)])
        TransactionClient(session, id_ + "-before", 60_000).init()
        describe_transaction(session, id_)

    def ask(self, request: Any, kind: int | None) -> Any:
        """The answer of the leader (None) or the coordinator of this kind."""
        deadline = self.session.deadline()
        if kind is None:
            node: Any = self.session.partition(self.topic, 0, deadline).leader
        else:
            node = self.session.coordinator(kind, self.id if kind == TRANSACTION else self.group, deadline)
        return eventually(lambda: self._answer(request, node))

    def _answer(self, request: Any, node: Any) -> Any:
        answer = self.session.exchange(request, node, self.session.deadline())
        return None if getattr(answer, "error_code", 0) == _LOADING else answer

    def wait(self, condition: Callable[[], bool]) -> None:
        """Wait for the broker."""
        eventually(condition)


class SimulatedBroker:
    """Asks the simulated one."""

    def __init__(self, version: int, topic: str, id_: str, group: str):
        self.topic, self.id, self.group = topic, id_, group
        self._scheduler = Scheduler()
        watcher = Invariants((), "", "")
        watcher.deciding = lambda *_: None  # type: ignore[method-assign]
        watcher.offsets_committed = lambda *_: None  # type: ignore[method-assign]
        cluster = Cluster(self._scheduler, random.Random(1), brokers=1, version=version, watcher=watcher)
        cluster.create(topic, 1)
        self._brokers = Brokers(cluster)

    def ask(self, request: Any, _kind: int | None) -> Any:
        """The answer of the only broker."""
        return self._brokers.answer(request, 1)

    def wait(self, condition: Callable[[], bool]) -> None:
        """Let virtual time pass."""
        while not condition():
            self._scheduler.pass_time(0.5)


class Conversation:
    """What a client and a broker say to each other about one transactional id, producer ids as they came up."""

    def __init__(self, broker: RealBroker | SimulatedBroker, implicit: bool):
        self._broker, self._implicit = broker, implicit
        self._producer_ids: list[int] = []
        self.producer_id = self.epoch = -1

    def _known(self, producer_id: int) -> int:
        if producer_id >= 0 and producer_id not in self._producer_ids:
            self._producer_ids.append(producer_id)
        return self._producer_ids.index(producer_id) if producer_id >= 0 else -1

    def init(self, epoch: int | None = None, timeout_ms: int = 60_000) -> Any:
        """InitProducerId, with an epoch or without; whether it had to wait, and what came of it."""
        waited = False

        def ask() -> Any:
            return self._broker.ask(
                InitProducerIdRequest(
                    transactional_id=self._broker.id, transaction_timeout_ms=timeout_ms, max_version=5,
                    producer_id=-1 if epoch is None else self.producer_id,
                    producer_epoch=-1 if epoch is None else epoch,
                ),
                TRANSACTION,
            )  # fmt: skip

        answer = ask()
        if answer.error_code == _CONCURRENT:
            waited = True
            self.settled()
            answer = ask()
        if not answer.error_code:
            self.producer_id, self.epoch = answer.producer_id, answer.producer_epoch
        return waited, answer.error_code, self._known(answer.producer_id), answer.producer_epoch

    def add(self, epoch: int) -> Any:
        """AddPartitionsToTxn and AddOffsetsToTxn, where a client has to."""
        if self._implicit:
            return None
        Topic = AddPartitionsToTxnRequest.AddPartitionsToTxnTopic
        partitions = self._broker.ask(
            AddPartitionsToTxnRequest(
                v3_and_below_transactional_id=self._broker.id, v3_and_below_producer_id=self.producer_id,
                v3_and_below_producer_epoch=epoch, max_version=3,
                v3_and_below_topics=[Topic(name=self._broker.topic, partitions=[0])],
            ),
            TRANSACTION,
        )  # fmt: skip
        offsets = self._broker.ask(
            AddOffsetsToTxnRequest(
                transactional_id=self._broker.id, producer_id=self.producer_id, producer_epoch=epoch,
                group_id=self._broker.group, max_version=3,
            ),
            TRANSACTION,
        )  # fmt: skip
        (topic,) = partitions.results_by_topic_v3_and_below
        return topic.results_by_partition[0].partition_error_code, offsets.error_code

    def produce(self, epoch: int, sequence: int, records: int, stranger: bool = False) -> Any:
        """Produce a batch; error and offset."""
        batch = record_batch([(None, b"record")] * records, time.time_ns() // 1_000_000)
        data = bytearray(batch.data)
        producer_id = self.producer_id + 999 * stranger
        stamp(data, producer_id=producer_id, producer_epoch=epoch, base_sequence=sequence, transactional=True)
        Topic = ProduceRequest.TopicProduceData
        topic = Topic(
            name=self._broker.topic,
            topic_id=None,
            partition_data=[Topic.PartitionProduceData(index=0, records=bytes(data))],
        )
        versions = {"min_version": 12, "max_version": 12} if self._implicit else {"min_version": 3, "max_version": 11}
        answer = self._broker.ask(
            ProduceRequest(transactional_id=self._broker.id, acks=-1, timeout_ms=5000, topic_data=[topic], **versions),
            None,
        )
        each = answer.responses[0].partition_responses[0]
        return each.error_code, each.base_offset

    def offsets(self, epoch: int, offset: int) -> Any:
        """TxnOffsetCommit."""
        Topic = TxnOffsetCommitRequest.TxnOffsetCommitRequestTopic
        each = Topic.TxnOffsetCommitRequestPartition(
            partition_index=0, committed_offset=offset, committed_leader_epoch=-1, committed_metadata=""
        )
        versions = {"min_version": 5} if self._implicit else {"max_version": 4}
        answer = self._broker.ask(
            TxnOffsetCommitRequest(
                transactional_id=self._broker.id, group_id=self._broker.group, producer_id=self.producer_id,
                producer_epoch=epoch, generation_id=-1, member_id="", group_instance_id=None,
                topics=[Topic(name=self._broker.topic, partitions=[each])], **versions,
            ),
            GROUP,
        )  # fmt: skip
        return answer.topics[0].partitions[0].error_code

    def committed(self) -> Any:
        """OffsetFetch that asks for stable offsets; error and offset."""
        Group = OffsetFetchRequest.OffsetFetchRequestGroup
        topic = Group.OffsetFetchRequestTopics(name=self._broker.topic, partition_indexes=[0])
        answer = self._broker.ask(
            OffsetFetchRequest(
                group_id=self._broker.group, topics=[], require_stable=True, min_version=8, max_version=9,
                groups=[Group(group_id=self._broker.group, member_id=None, member_epoch=-1, topics=[topic])],
            ),
            GROUP,
        )  # fmt: skip
        (group,) = answer.groups
        if group.error_code:
            return group.error_code
        each = group.topics[0].partitions[0]
        return each.error_code, each.committed_offset

    def end(self, epoch: int, commit: bool, *, stranger: bool = False) -> Any:
        """EndTxn; error, producer id and epoch for what follows."""
        versions = {"min_version": 5} if self._implicit else {"max_version": 4}
        answer = self._broker.ask(
            EndTxnRequest(
                transactional_id=self._broker.id, producer_id=self.producer_id + 999 * stranger, producer_epoch=epoch,
                committed=commit, **versions,
            ),
            TRANSACTION,
        )  # fmt: skip
        if not answer.error_code and self._implicit:
            self.epoch = answer.producer_epoch
        self.settled()
        return answer.error_code, self._known(answer.producer_id), answer.producer_epoch

    def described(self) -> Any:
        """DescribeTransactions: error, state, producer id, epoch."""
        answer = self._broker.ask(DescribeTransactionsRequest(transactional_ids=[self._broker.id]), TRANSACTION)
        (found,) = answer.transaction_states
        if found.error_code:
            return found.error_code, ""
        return found.error_code, found.transaction_state, self._known(found.producer_id), found.producer_epoch

    def settled(self) -> None:
        """Wait until no markers are being written."""
        self._broker.wait(lambda: not self.described()[1].startswith("Prepare"))

    def expired(self) -> Any:
        """Wait until the coordinator has aborted the transaction."""
        self._broker.wait(lambda: self.described()[1] == "CompleteAbort")
        return self.described()

    def log(self) -> Any:
        """The partition's batches: offset, records, producer id, epoch, sequence, and what markers say; its ends."""
        Topic = FetchRequest.FetchTopic
        each = Topic.FetchPartition(partition=0, current_leader_epoch=-1, fetch_offset=0, partition_max_bytes=1 << 20)
        fetched = self._broker.ask(
            FetchRequest(
                replica_id=-1, max_wait_ms=100, min_bytes=1, max_bytes=1 << 20, isolation_level=0, session_id=0,
                session_epoch=-1, topics=[Topic(topic=self._broker.topic, topic_id=None, partitions=[each])],
                forgotten_topics_data=[], rack_id="", max_version=12,
            ),
            None,
        ).responses[0].partitions[0]  # fmt: skip
        heads = read_batch_headers(bytes(fetched.records))
        batches = [
            (
                int(head["base_offset"]), int(head["count"]), self._known(int(head["producer_id"])),
                int(head["producer_epoch"]), int(head["base_sequence"]), int(head["control_type"]),
            )
            for head in heads
        ]  # fmt: skip
        return batches, [self._latest(isolation) for isolation in (0, 1)]

    def _latest(self, isolation: int) -> int:
        Topic = ListOffsetsRequest.ListOffsetsTopic
        each = Topic.ListOffsetsPartition(partition_index=0, current_leader_epoch=-1, timestamp=-1)
        answer = self._broker.ask(
            ListOffsetsRequest(
                replica_id=-1, isolation_level=isolation, timeout_ms=5000, min_version=1, max_version=9,
                topics=[Topic(name=self._broker.topic, partitions=[each])],
            ),
            None,
        )  # fmt: skip
        return int(answer.topics[0].partitions[0].offset)


def script(talk: Conversation) -> Iterator[tuple[str, Any]]:
    """Everything that the simulation's drivers may come to ask, in order and out of it."""
    yield "an id that is not known", talk.described()
    yield "taken", talk.init()
    yield "described", talk.described()
    yield "a commit of nothing", talk.end(0, True)
    yield "added", talk.add(0)
    yield "written", talk.produce(0, 0, 2)
    yield "repeated", talk.produce(0, 0, 2)
    yield "with a gap", talk.produce(0, 5, 1)
    yield "written again", talk.produce(0, 2, 1)
    yield "with a later epoch", talk.produce(1, 0, 1)
    yield "of another producer", talk.produce(0, 0, 1, stranger=True)
    yield "offsets", talk.offsets(0, 3)
    yield "offsets of an open transaction", talk.committed()
    yield "in work", talk.described()
    yield "the end that another producer asks for", talk.end(0, True, stranger=True)
    yield "the log before", talk.log()
    yield "committed", talk.end(0, True)
    yield "described as committed", talk.described()
    yield "the offsets", talk.committed()
    yield "the log after", talk.log()
    yield "committed again", talk.end(0, True)
    yield "aborted after that", talk.end(0, False)
    yield "late, the next", talk.produce(0, 3, 1)
    yield "late, a repetition", talk.produce(0, 2, 1)
    yield "late offsets", talk.offsets(0, 4)
    yield "described after what came late", talk.described()
    yield "a new epoch", talk.init(talk.epoch)
    before = talk.epoch - 1
    yield "asked for again", talk.init(before)
    yield "added in the new epoch", talk.add(talk.epoch)
    yield "not from the beginning", talk.produce(talk.epoch, 3, 1)
    yield "described after that", talk.described()
    yield "from the beginning", talk.produce(talk.epoch, 0, 1)
    yield "aborted", talk.end(talk.epoch, False)
    yield "described as aborted", talk.described()
    yield "a new epoch after the abort", talk.init(talk.epoch)
    fenced = talk.epoch
    yield "added before being fenced", talk.add(fenced)
    yield "written before being fenced", talk.produce(fenced, 0, 1)
    yield "asked for with one's own epoch in work", talk.init(fenced)
    yield "taken over", talk.init()
    yield "the fenced one writes", talk.produce(fenced, 1, 1)
    yield "the fenced one repeats", talk.produce(fenced, 0, 1)
    yield "the fenced one adds", talk.add(fenced)
    yield "the fenced one's offsets", talk.offsets(fenced, 9)
    yield "the fenced one takes a new epoch", talk.init(fenced)
    yield "the fenced one commits", talk.end(fenced, True)
    yield "the fenced one aborts", talk.end(fenced, False)
    yield "described after the fenced one", talk.described()
    yield "taken for a short time", talk.init(timeout_ms=1000)
    expired = talk.epoch
    yield "added for a short time", talk.add(expired)
    yield "written for a short time", talk.produce(expired, 0, 1)
    yield "expired", talk.expired()
    yield "written after its time", talk.produce(expired, 1, 1)
    yield "committed after its time", talk.end(expired, True)
    yield "aborted after its time", talk.end(expired, False)
    yield "taken in the end", talk.init()
    yield "the log in the end", talk.log()
    yield "the offsets in the end", talk.committed()


@pytest.mark.parametrize("version", [2, 0])
def test_the_simulated_broker_answers_as_a_real_one(version: int, request: pytest.FixtureRequest) -> None:
    broker: KafkaCluster = request.getfixturevalue("kafka" if version else "older")
    session = Session(ClientConfig.from_properties({"bootstrap.servers": broker.bootstrap}))
    names = (f"simulated-{version}", f"simulated-{version}-id", f"simulated-{version}-group")
    try:
        real = list(script(Conversation(RealBroker(session, *names), version == 2)))
    finally:
        session.close()
    simulated = list(script(Conversation(SimulatedBroker(version, *names), version == 2)))
    differences = [(mine[0], his[1], mine[1]) for mine, his in zip(simulated, real, strict=True) if mine != his]
    assert not differences, "\n".join(
        f"{what}: {his} of the real broker, simulated {mine}" for what, his, mine in differences
    )
