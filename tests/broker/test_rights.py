"""A broker with ACLs: which rights exactly-once needs, and what it says where one of them is missing."""

from __future__ import annotations

import re
import time
import uuid
from collections.abc import Iterator
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest

from penstock.delivery import Progress
from penstock.errors import AuthorizationError
from penstock.kafka.offsets import LATEST, CommittedOffset, fetch_committed_offsets, list_offsets
from penstock.kafka.ownership import claim, settle, write_progress
from penstock.kafka.produce import Producer
from penstock.kafka.progress import ensure_progress_topic, read_progress
from penstock.kafka.properties import ClientConfig
from penstock.kafka.record_batches import encode
from penstock.kafka.session import Session
from penstock.kafka.topics import create_topic, read_topic_configs, transaction_version
from penstock.kafka.transactions import (
    State,
    TransactionClient,
    describe_transaction,
    list_transactions,
    transaction_timeout_ms,
)
from tests.acls import Right, grant, guarded_cluster

if TYPE_CHECKING:
    from kafka.admin import KafkaAdminClient

    from penstock_testing.services import KafkaCluster

USERS = [f"user-{number}" for number in range(1, 41)]
MOST_MS = 1_800_000


@dataclass
class Guarded:
    """A broker that lets nobody do anything without an ACL, and its administrator, who may do everything."""

    cluster: KafkaCluster
    admin: KafkaAdminClient
    root: Session
    version: int
    unused: list[str] = field(default_factory=lambda: list(USERS))
    sent: list[tuple[str, Future[Any]]] = field(default_factory=list)

    @property
    def refused(self) -> list[str]:
        """The kinds of the last session's requests that were refused (but readable settings, which are optional)."""
        return [kind for kind, answer in self.sent if kind != "DescribeConfigsRequest" and _denied(answer)]

    def login(self, *rights: Right) -> Session:
        """The session of a user of its own, who has these rights and no others."""
        user = self.unused.pop()
        grant(self.admin, user, rights)
        session = Session(ClientConfig.from_properties(self.cluster.client_settings(user)))
        self.sent = sent = []
        send = session.send

        def noted(request: Any, node: Any) -> Future[Any]:
            answer = send(request, node)
            sent.append((type(request).__name__, answer))
            return answer

        session.send = noted  # type: ignore[method-assign]
        return session


def _denied(answer: Future[Any]) -> bool:
    given = answer.done() and answer.exception() is None
    return given and re.search(r"error_code=(29|30|31|53)\b", repr(answer.result())) is not None


@pytest.fixture(scope="module", params=["2", pytest.param("0", marks=pytest.mark.slow)], ids=["version 2", "version 0"])
def guarded(request: pytest.FixtureRequest) -> Iterator[Guarded]:
    from kafka.admin import KafkaAdminClient

    properties = {"transaction_version": request.param, "transaction_max_timeout_ms": str(MOST_MS)}
    with (
        guarded_cluster(len(USERS), **properties) as cluster,
        KafkaAdminClient(bootstrap_servers=cluster.plain_bootstrap) as admin,
    ):
        root = Session(ClientConfig.from_properties({"bootstrap.servers": cluster.plain_bootstrap}))
        assert transaction_version(root) == int(request.param)
        yield Guarded(cluster, admin, root, int(request.param))
        root.close()


class Steps:
    """What an exactly-once job does to Kafka, from its start to the end of its second batch."""

    def __init__(self, root: Session):
        name = uuid.uuid4().hex[:8]
        self.root = root
        self.source, self.output, self.progress = f"in-{name}", f"out-{name}", f"progress-{name}"
        self.transactional_id, self.group = f"tx-{name}", f"group-{name}"
        create_topic(root, self.source)
        create_topic(root, self.output)
        ensure_progress_topic(root, self.progress, partitions=1)

    @property
    def listed(self) -> list[Right]:
        """The rights that docs/exactly-once.md lists, and the one to read the source."""
        return [
            ("TRANSACTIONAL_ID", self.transactional_id, "WRITE"),
            ("TRANSACTIONAL_ID", self.transactional_id, "DESCRIBE"),
            ("TOPIC", self.output, "WRITE"),
            ("TOPIC", self.output, "DESCRIBE"),
            ("TOPIC", self.progress, "READ"),
            ("TOPIC", self.progress, "WRITE"),
            ("TOPIC", self.progress, "DESCRIBE"),
            ("GROUP", self.group, "READ"),
            ("TOPIC", self.source, "READ"),
        ]

    def but(self, kind: str, which: str, *operations: str) -> list[Right]:
        """The listed rights without those on one resource."""
        name = getattr(self, which)
        return [each for each in self.listed if each not in {(kind, name, operation) for operation in operations}]

    def run(self, session: Session) -> AuthorizationError | None:
        """Everything; gives the error of adding the group's offsets, after which a batch goes on."""
        list_offsets(session, [(self.source, 0)], LATEST)
        session.topic(self.output, create=True)
        topic = ensure_progress_topic(session, self.progress)
        client = TransactionClient(session, self.transactional_id, transaction_timeout_ms(session))
        client.init()
        read_progress(session, topic, self.transactional_id)
        claim(session, client, topic, "run")
        self.batch(session, client)
        write_progress(session, client, topic, Progress("query", 0, {}, {"at": 1}))
        refused = None
        try:
            client.add_offsets(self.group, {(self.source, 0): CommittedOffset(7)})
        except AuthorizationError as error:
            refused = error
        client.commit()
        self.batch(session, client)
        client.abort()
        self.batch(session, client)
        client.state = State.UNKNOWN
        assert not settle(session, client, topic, Progress("query", 1, {"at": 1}, {"at": 2}), "run")
        assert describe_transaction(session, self.transactional_id) is not None
        assert list_transactions(session).keys() == {self.transactional_id}
        return refused

    def batch(self, session: Session, client: TransactionClient) -> None:
        client.begin()
        with Producer(session, client.identity, transactional_id=client.transactional_id) as producer:
            producer.submit(self.output, 0, *some_records())
            producer.flush()

    def committed(self) -> tuple[int | None, int]:
        """The group's offset, and whether batch 0 is visible: the records and control records before the last stable
        offset."""
        end = list_offsets(self.root, [(self.output, 0)], LATEST, isolation="read_committed")[self.output, 0]
        found = fetch_committed_offsets(self.root, self.group, [(self.source, 0)]).get((self.source, 0))
        assert end is not None
        return found and found.offset, end.offset


def some_records() -> tuple[memoryview, int]:
    (batch,) = encode(
        keys=None,
        values=pa.array([b"a record"], pa.binary()),
        timestamps=np.full(1, time.time_ns() // 1_000_000),
        partitions=np.zeros(1, np.int32),
    )
    return batch.data, batch.count


class TestExactlyOnce:
    def test_the_rights_that_are_listed_are_enough(self, guarded: Guarded) -> None:
        steps = Steps(guarded.root)
        session = guarded.login(*steps.listed)
        assert steps.run(session) is None
        assert guarded.refused == []
        # Three batches, of which the first was committed, each with a control record.
        assert steps.committed() == (7, 6)
        # The settings of topics and brokers may not be read: they are optional.
        assert read_topic_configs(session, [steps.output]) is None
        assert transaction_timeout_ms(session) == 900_000
        session.close()

    def test_describe_comes_with_read_or_write(self, guarded: Guarded) -> None:
        steps = Steps(guarded.root)
        session = guarded.login(*(each for each in steps.listed if each[2] != "DESCRIBE"))
        assert steps.run(session) is None
        assert guarded.refused == []
        session.close()

    def test_settings_are_read_where_that_is_granted(self, guarded: Guarded) -> None:
        steps = Steps(guarded.root)
        more = [("TOPIC", steps.output, "DESCRIBE_CONFIGS"), ("CLUSTER", "kafka-cluster", "DESCRIBE_CONFIGS")]
        session = guarded.login(*steps.listed, *more)
        assert read_topic_configs(session, [steps.output], ["cleanup.policy"]) == {
            steps.output: {"cleanup.policy": "delete"}
        }
        assert transaction_timeout_ms(session) == MOST_MS
        session.close()

    @pytest.mark.parametrize(
        ("kind", "which", "operations", "expected"),
        [
            ("TRANSACTIONAL_ID", "transactional_id", ["WRITE"], "grant the principal Write and Describe on the"),
            ("TRANSACTIONAL_ID", "transactional_id", ["WRITE", "DESCRIBE"], "grant the principal Write and Describe"),
            ("TOPIC", "output", ["WRITE"], "grant the principal Write on the topic"),
            ("TOPIC", "output", ["WRITE", "DESCRIBE"], "grant the principal Describe on the topic"),
            ("TOPIC", "progress", ["READ"], "grant the principal Read on the topic"),
            ("TOPIC", "progress", ["WRITE"], "grant the principal Write on the topic"),
            ("TOPIC", "progress", ["READ", "WRITE", "DESCRIBE"], "grant Read, Write and Describe on it"),
            ("TOPIC", "source", ["READ"], "grant the principal Describe on the topic"),
        ],
        ids=lambda each: " and ".join(each) if isinstance(each, list) else each if str(each).islower() else "",
    )
    def test_one_that_is_missing_gives_one_error_that_names_it(
        self, guarded: Guarded, kind: str, which: str, operations: list[str], expected: str
    ) -> None:
        steps = Steps(guarded.root)
        session = guarded.login(*steps.but(kind, which, *operations))
        with pytest.raises(AuthorizationError) as raised:
            steps.run(session)
        assert getattr(steps, which) in str(raised.value)
        assert expected in str(raised.value)
        assert not raised.value.retriable
        assert len(guarded.refused) == 1  # and was not asked for again
        assert steps.committed() == (None, 0)
        session.close()

    @pytest.mark.parametrize(
        ("kind", "which", "operation", "expected"),
        [
            ("GROUP", "group", "READ", "grant the principal Read on the group"),
            ("TOPIC", "source", "READ", "grant the principal Read on the topic"),
        ],
        ids=["group", "source"],
    )
    @pytest.mark.rule("group offsets join the transaction")
    def test_without_the_right_to_commit_offsets_the_batch_goes_on(
        self, guarded: Guarded, kind: str, which: str, operation: str, expected: str
    ) -> None:
        steps = Steps(guarded.root)
        session = guarded.login(*steps.but(kind, which, operation), (kind, getattr(steps, which), "DESCRIBE"))
        refused = steps.run(session)
        assert expected in str(refused)
        assert getattr(steps, which) in str(refused)
        assert len(guarded.refused) == 1
        assert steps.committed() == (None, 6)
        session.close()

    def test_a_progress_topic_that_is_missing_needs_create_or_the_command(self, guarded: Guarded) -> None:
        steps = Steps(guarded.root)
        missing = f"missing-{steps.progress}"
        session = guarded.login(("TOPIC", missing, "READ"), ("TOPIC", missing, "WRITE"))
        with pytest.raises(AuthorizationError, match=rf"Create on the topic.*kafka-topics\.sh .*--topic {missing} "):
            ensure_progress_topic(session, missing)
        assert guarded.refused == ["CreateTopicsRequest"]
        session.close()
        session = guarded.login(("TOPIC", missing, "READ"), ("TOPIC", missing, "CREATE"))
        assert ensure_progress_topic(session, missing, partitions=3).partitions == 3
        session.close()


class TestDescribing:
    """What is shown to who may describe some transactional ids."""

    def test_it_needs_describe_and_nothing_else(self, guarded: Guarded) -> None:
        steps, other = Steps(guarded.root), Steps(guarded.root)
        for each in (steps, other):
            owner = guarded.login(*each.listed)
            each.run(owner)
            owner.close()
        session = guarded.login(("TRANSACTIONAL_ID", steps.transactional_id, "DESCRIBE"))
        seen = describe_transaction(session, steps.transactional_id)
        assert seen is not None
        assert seen.transactional_id == steps.transactional_id
        assert list_transactions(session).keys() == {steps.transactional_id}
        with pytest.raises(AuthorizationError, match=f"'{other.transactional_id}'.* Describe on the transactional id"):
            describe_transaction(session, other.transactional_id)
        session.close()


class TestAtLeastOnce:
    @pytest.mark.rule("producer ids are scarce")
    def test_idempotence_needs_write_on_the_topic_and_nothing_on_the_cluster(self, guarded: Guarded) -> None:
        steps = Steps(guarded.root)
        session = guarded.login(("TOPIC", steps.output, "WRITE"))
        with Producer(session) as producer:
            producer.submit(steps.output, 0, *some_records())
            producer.flush()
            assert producer.acks()[0].first_sequence == 0
        assert guarded.refused == []
        assert steps.committed() == (None, 1)
        session.close()

    def test_without_any_topic_to_write_to_that_is_said(self, guarded: Guarded) -> None:
        steps = Steps(guarded.root)
        session = guarded.login(("TOPIC", steps.output, "DESCRIBE"))
        with pytest.raises(AuthorizationError, match=r"a producer id.* Write on the sink's topics"):
            Producer(session)
        assert guarded.refused == ["InitProducerIdRequest"]
        session.close()

    def test_another_topic_to_write_to_does_not_help(self, guarded: Guarded) -> None:
        steps = Steps(guarded.root)
        session = guarded.login(("TOPIC", steps.output, "DESCRIBE"), ("TOPIC", steps.source, "WRITE"))
        with Producer(session) as producer:
            producer.submit(steps.output, 0, *some_records())
            with pytest.raises(AuthorizationError, match=f"'{steps.output}', partition 0.* Write on the topic"):
                producer.flush()
        assert guarded.refused == ["ProduceRequest"]
        session.close()
