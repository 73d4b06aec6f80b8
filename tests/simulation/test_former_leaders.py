"""A broker that is cut off from the others, though not from clients, is asked first and answers as of former times."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest

from penstock.connectors.kafka.factory import KafkaConnector
from penstock.connectors.kafka.source.positions import Position
from penstock.connectors.kafka.source.starts_and_stops import resolve_start
from penstock.errors import RetriableError
from penstock.kafka.offsets import LATEST, LogOffset, list_offsets
from penstock.kafka.produce import Producer
from penstock.kafka.progress import ensure_progress_topic
from penstock.kafka.progress.records import encode_record
from penstock.kafka.properties import ClientConfig
from penstock.kafka.session import Session
from penstock.spi import Column, TableDefinition
from penstock.types import BYTES
from tests.simulation.cluster import Cluster
from tests.simulation.faults import Plan
from tests.simulation.invariants import Invariants
from tests.simulation.log import record_batch
from tests.simulation.scheduler import Scheduler
from tests.simulation.setting import PROGRESS_TOPIC
from tests.simulation.walk import _installed
from tests.simulation.wire import Network

PLACE = ("input", 0)
DEPOSED = 1


class World:
    """Three brokers: the first led a partition in epoch 0 and is cut off, another leads it in epoch 1, with more."""

    def __init__(self) -> None:
        self.scheduler, rng = Scheduler(), random.Random(0)
        invariants = Invariants(("out",), PROGRESS_TOPIC, "")
        self.cluster = Cluster(self.scheduler, rng, brokers=3, version=2, watcher=invariants)
        invariants.cluster = self.cluster
        self.topic = self.cluster.create("input", 1)
        (partition,) = self.topic.partitions
        assert partition.leader == DEPOSED
        self.network = Network(self.scheduler, self.cluster, Plan(), rng, invariants, lambda *_: None, PROGRESS_TOPIC)
        self.cluster.cut_off(DEPOSED, 1000)
        later = record_batch([(None, b"later")])
        self.cluster.append(None, PLACE, later.data, partition.leader, implicit=False)
        self._rng = rng

    def ask(self, read_in: int | None) -> Any:
        """The end of the log, for a client that knows the partition to have been read in this epoch."""

        def run(session: Session) -> Any:
            if read_in is not None:
                session.note_epochs("input", self.topic.id, {0: read_in})
            return list_offsets(session, [PLACE], LATEST)[PLACE]

        return self.run(run)

    def produce(self) -> Any:
        """Where a record is put, by a client that knows of no epoch."""

        def run(session: Session) -> Any:
            record = encode_record(b"key", b"value", 0)
            with Producer(session, plain=True) as producer:
                producer.submit("input", record.partition, record.data, record.count)
                producer.flush()
                return producer.acks()

        return self.run(run)

    def start(self, offset: int, epoch: int) -> tuple[Any, list[str]]:
        """Where a job starts whose group has committed this, and what it warns of."""
        self.cluster.groups["group"] = {PLACE: (offset, epoch, "")}
        options = {
            "connector": "kafka", "topic": "input", "format": "raw", "scan.startup.mode": "group-offsets",
            "properties.group.id": "group", "properties.auto.offset.reset": "earliest",
            "properties.bootstrap.servers": "simulated:9092",
        }  # fmt: skip
        scan = KafkaConnector().scan(TableDefinition("t", (Column("value", BYTES),), options))
        warned: list[str] = []
        return self.run(lambda session: resolve_start(session, scan, warn=warned.append).at[PLACE]), warned

    def run(self, what: Callable[[Session], Any]) -> Any:
        """What comes of it, in simulated time."""
        config = ClientConfig.from_properties({"bootstrap.servers": "simulated:9092"})

        def run() -> None:
            self.found = what(Session(config))

        with _installed(self.network, self._rng):
            try:
                actor = self.scheduler.spawn("client", run)
                self.scheduler.run(lambda: actor.done)
            finally:
                self.scheduler.kill_all()
        if actor.error is not None:
            raise actor.error
        return self.found


def test_who_knows_of_no_later_leader_believes_the_one_that_answers() -> None:
    """No client can do better; that this one answers wrongly is what the other tests stand on."""
    assert World().ask(None) == LogOffset(0, -1, 0)


def test_another_broker_is_asked_who_leads_where_the_first_tells_of_a_former_leader() -> None:
    assert World().ask(1) == LogOffset(1, -1, 1)


def test_where_nobody_tells_of_the_leader_that_is_looked_for_the_answer_is_an_error() -> None:
    with pytest.raises(RetriableError, match="'input', partition 0: no leader is known since leader epoch 2"):
        World().ask(2)


def test_a_record_that_the_leader_cannot_replicate_is_sent_to_the_one_that_others_tell_of() -> None:
    """Long before it is given up: a broker that nobody follows is asked last who leads."""
    world = World()
    (ack,) = world.produce()
    assert ack.base_offset == 1
    assert world.scheduler.now < 10


def test_a_group_that_read_in_a_later_epoch_than_the_first_broker_tells_of_is_not_reset() -> None:
    assert World().start(1, 1) == (Position(1, 1), [])


def test_a_group_s_epoch_that_none_of_the_brokers_knows_of_is_dropped_with_a_warning() -> None:
    """The topic of this name in which it was committed is gone."""
    found, warned = World().start(1, 7)
    assert found == Position(1, -1)
    assert [text.partition(",")[0] for text in warned] == ["topic 'input'"]


def test_a_group_s_epoch_is_not_dropped_where_half_of_the_brokers_do_not_answer(monkeypatch: Any) -> None:
    """The one that answers has an empty log, and would have the job read everything once more."""
    world, ask = World(), Session.known_epochs

    def answered_by_one(*asked: Any) -> Any:
        world.cluster.alive.clear()
        epochs = ask(*asked)
        assert [each[PLACE] for each in epochs] == [0]
        return epochs

    monkeypatch.setattr(Session, "known_epochs", answered_by_one)
    with pytest.raises(RetriableError, match="no leader is known since leader epoch 1"):
        world.start(1, 1)


def test_a_progress_topic_that_one_broker_does_not_know_is_not_taken_for_lost() -> None:
    """It was made after that broker was cut off. What is lost for good, a user is asked to adopt."""
    world = World()
    topic = world.cluster.create(PROGRESS_TOPIC, 1)
    with pytest.raises(RetriableError, match="Another broker knows the topic"):
        world.run(lambda session: ensure_progress_topic(session, PROGRESS_TOPIC, topic_id=topic.id))
