"""A broker that is cut off from the others, though not from clients, is asked first and answers as of former times."""

from __future__ import annotations

import random
from typing import Any

import pytest

from penstock.errors import RetriableError
from penstock.kafka.offsets import LATEST, LogOffset, list_offsets
from penstock.kafka.properties import ClientConfig
from penstock.kafka.session import Session
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
        config = ClientConfig.from_properties({"bootstrap.servers": "simulated:9092"})

        def run() -> None:
            session = Session(config)
            if read_in is not None:
                session.read_in("input", self.topic.id, {0: read_in})
            self.found = list_offsets(session, [PLACE], LATEST)[PLACE]

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
    with pytest.raises(RetriableError, match="'input', partition 0: nobody is known to lead it in leader epoch 2"):
        World().ask(2)
