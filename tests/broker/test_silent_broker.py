"""One of three brokers is down, and the others do not know it yet: nothing that they can tell waits for it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from kafka.protocol.admin import CreateTopicsRequest, DescribeQuorumRequest

from penstock.connectors.kafka.factory import KafkaConnector
from penstock.connectors.kafka.sink.committer import KafkaCommitter
from penstock.errors import OptionsError
from penstock.kafka.properties import ClientConfig
from penstock.kafka.session import TRANSACTION, Session
from penstock.kafka.topics import max_transaction_timeout_ms
from penstock.kafka.transactions import describe_transaction, transaction_timeout_ms
from penstock.spi import Column, Output, TableDefinition
from penstock.types import STRING
from penstock_testing.services import KafkaCluster
from tests.committers import context_of

MAXIMUM_MS = 1_234_567


@pytest.fixture(scope="module")
def brokers() -> Iterator[KafkaCluster]:
    """Brokers that are told of a dead one after ten minutes, so that whatever succeeds has not waited for that. What
    the transaction coordinators write, a silent follower holds up for two seconds instead of thirty."""
    properties = {
        "broker.session.timeout.ms": "600000",
        "replica.lag.time.max.ms": "2000",
        "transaction.max.timeout.ms": str(MAXIMUM_MS),
    }
    with KafkaCluster(3, properties=properties) as cluster:
        yield cluster


@pytest.fixture
def cluster(brokers: KafkaCluster) -> Iterator[KafkaCluster]:
    """The brokers, which all run again after the test."""
    yield brokers
    for node in brokers.nodes:
        if node in brokers.processes:
            brokers.resume(node)
        else:
            brokers.restart(node)


@pytest.fixture
def session(cluster: KafkaCluster) -> Iterator[Session]:
    session = Session(ClientConfig.from_properties(cluster.client_settings()))
    yield session
    session.close()


def create_on(session: Session, name: str, nodes: list[int], **configs: str) -> None:
    """A topic of one partition with these replicas, of which the first leads."""
    Topic = CreateTopicsRequest.CreatableTopic
    place = Topic.CreatableReplicaAssignment(partition_index=0, broker_ids=nodes)
    settings = [Topic.CreatableTopicConfig(name=key.replace("_", "."), value=value) for key, value in configs.items()]
    topic = Topic(name=name, num_partitions=-1, replication_factor=-1, assignments=[place], configs=settings)
    session.ask_any(
        "creating a topic",
        lambda: CreateTopicsRequest(topics=[topic], timeout_ms=30_000, validate_only=False),
        lambda answer: answer.topics[0].error_code,
    )
    session.topic(name)


def active_controller(session: Session) -> int:
    """The node that replicas in sync are told of, and coordinators wait for."""
    Topic = DescribeQuorumRequest.TopicData
    partition = Topic.PartitionData(partition_index=0)
    return session.ask_any(
        "asking for the active controller",
        lambda: DescribeQuorumRequest(topics=[Topic(topic_name="__cluster_metadata", partitions=[partition])]),
        lambda answer: int(answer.topics[0].partitions[0].leader_id),
    )


@pytest.mark.parametrize("fault", ["paused", pytest.param("killed", marks=pytest.mark.slow)])
def test_a_start_does_not_wait_for_a_broker_that_it_does_not_need(
    cluster: KafkaCluster, session: Session, fault: str
) -> None:
    """The leaders, the coordinator and the controller are others: only what is good to know could have come from the
    silent one."""
    coordinator = session.coordinator(TRANSACTION, f"{fault}-job", session.deadline())
    controller = active_controller(session)
    victim = next(node for node in cluster.nodes if node not in {coordinator, controller})
    other = next(node for node in cluster.nodes if node not in {coordinator, victim})
    assert isinstance(coordinator, int)
    out, progress = f"{fault}-out", f"{fault}-progress"
    for name, configs in {out: {}, progress: {"cleanup_policy": "compact"}}.items():
        create_on(session, name, [other, coordinator], min_insync_replicas="1", **configs)
    options = {
        "connector": "kafka",
        "topic": out,
        "properties.bootstrap.servers": cluster.bootstrap,
        "format": "raw",
        "sink.delivery-guarantee": "exactly-once",
        "sink.transactional-id-prefix": fault,
    }
    spec = KafkaConnector().sink(TableDefinition("t", (Column("v", STRING),), options))
    if fault == "paused":
        cluster.pause(victim)
    else:
        cluster.kill(victim)
    committer = KafkaCommitter([Output(0, "t", spec, spec.schema)], context_of(progress))
    committer.open()
    session.metadata([], session.deadline())
    assert victim in session.brokers(), "the others know by now that it is down"
    found = describe_transaction(session, f"{fault}-job")
    assert found is not None
    assert found.timeout_ms == MAXIMUM_MS  # what the two others say


def test_without_any_answer_the_time_out_is_a_quarter_of_an_hour(cluster: KafkaCluster, session: Session) -> None:
    assert max_transaction_timeout_ms(session) == MAXIMUM_MS
    with pytest.raises(OptionsError, match=str(MAXIMUM_MS)):
        transaction_timeout_ms(session, 2 * MAXIMUM_MS)
    for node in cluster.nodes:
        cluster.pause(node)
    assert transaction_timeout_ms(session) == 900_000
    assert transaction_timeout_ms(session, 2 * MAXIMUM_MS) == 2 * MAXIMUM_MS  # the coordinator will refuse it
