"""A Kafka cluster as a state machine: logs, leaders, coordinators, offsets of groups. Nothing in it waits.

What it knows and where it may differ from Kafka is described in docs/decisions/0025-simulated-protocol.md.
"""

from __future__ import annotations

import random
import struct
import uuid
from collections.abc import Mapping
from copy import deepcopy
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Protocol

from tests.simulation.coordinator import CONCURRENT, FENCED, Coordinator, TopicPartition, Transaction
from tests.simulation.log import PartitionLog, Refusal
from tests.simulation.scheduler import Scheduler

__all__ = ["GROUPS", "Cluster", "Topic", "Watcher"]

#: Where groups keep their offsets, as part of transactions too.
GROUPS: TopicPartition = ("__consumer_offsets", 0)

_PRODUCER = struct.Struct(">qh")
_PRODUCER_AT, _ATTRIBUTES_AT = 43, 21
_TRANSACTIONAL = 0x10
_UNKNOWN_TOPIC, _NOT_LEADER, _NOT_COORDINATOR = 3, 6, 16
_INVALID_EPOCH, _NOT_ENOUGH_REPLICAS, _FENCED_LEADER, _UNKNOWN_LEADER = 47, 19, 74, 75
_SETTINGS = {
    "cleanup.policy": "delete", "min.insync.replicas": "1", "max.message.bytes": "1048588",
    "unclean.leader.election.enable": "false", "retention.ms": "604800000", "retention.bytes": "-1",
}  # fmt: skip


class Watcher(Protocol):
    """Observes the decisions of the cluster when they are made."""

    def deciding(self, transaction: Transaction, commit: bool) -> None:
        """A transaction will end so; its records and offsets are still open."""
        ...

    def offsets_committed(self, group: str, offsets: dict[TopicPartition, int]) -> None:
        """A group's offsets are committed, in a transaction or without."""
        ...


@dataclass
class Partition:
    """A partition and who leads it."""

    leader: int
    leader_epoch: int = 0
    log: PartitionLog = field(default_factory=PartitionLog)


@dataclass
class Topic:
    """A topic and its partitions."""

    name: str
    id: uuid.UUID
    partitions: list[Partition]
    settings: dict[str, str]


@dataclass
class _Pending:
    """Offsets of a producer's open transaction, by group."""

    epoch: int
    offsets: dict[str, dict[TopicPartition, Any]] = field(default_factory=dict)


class Cluster:
    """Brokers 1 to ``brokers``, which share their logs: what was acknowledged is never lost. Only a broker that is cut
    off from the others answers from what it knew before."""

    def __init__(self, scheduler: Scheduler, rng: random.Random, *, brokers: int, version: int, watcher: Watcher):
        self.id = "simulated"
        self.version = version
        self.nodes = list(range(1, brokers + 1))
        self.alive = set(self.nodes)
        self.topics: dict[str, Topic] = {}
        self.groups: dict[str, dict[TopicPartition, Any]] = {}
        self.coordinator = Coordinator(lambda: scheduler.now, lambda: self.version, self._end)
        self.slow_markers = 0.0
        self._scheduler, self._rng, self._watcher = scheduler, rng, watcher
        self._coordinators: dict[tuple[int, str], int] = {}
        self._apart: dict[int, dict[str, Topic]] = {}
        self._pending: dict[int, _Pending] = {}
        self._group_epochs: dict[int, int] = {}
        self._ids = random.Random(7)

    # --- what the simulation does ---

    def create(self, name: str, partitions: int, **settings: str) -> Topic:
        """Make a topic."""
        nodes = sorted(self.alive) or self.nodes
        made = [Partition(nodes[(len(self.topics) + number) % len(nodes)]) for number in range(partitions)]
        id_ = uuid.UUID(int=self._ids.getrandbits(128), version=4)
        self.topics[name] = Topic(name, id_, made, _SETTINGS | settings)
        return self.topics[name]

    def empty(self, name: str, *, recreated: bool, partitions: int | None = None) -> None:
        """Remove a topic's records; with ``recreated`` it gets a new id and ``partitions``."""
        before = self.topics[name]
        after = self.create(name, partitions or len(before.partitions), **before.settings)
        if not recreated:
            after.id = before.id
            for now, then in zip(after.partitions, before.partitions, strict=True):
                now.leader, now.leader_epoch = then.leader, then.leader_epoch

    def enlarge(self, name: str, partitions: int) -> None:
        """Add partitions to a topic, up to so many."""
        topic, nodes = self.topics[name], sorted(self.alive) or self.nodes
        while len(topic.partitions) < partitions:
            topic.partitions.append(Partition(self._rng.choice(nodes)))

    def log(self, place: TopicPartition) -> PartitionLog:
        """The log of a partition."""
        return self.topics[place[0]].partitions[place[1]].log

    def places(self, topic: str) -> list[TopicPartition]:
        """The partitions of a topic."""
        return [(topic, number) for number in range(len(self.topics[topic].partitions))]

    def crash(self, node: int, seconds: float) -> None:
        """Take a broker away for some time; others lead what it led, as far as there are others."""
        self.alive.discard(node)
        self._scheduler.after(seconds, partial(self._start, node))
        self._hand_over(node)

    def cut_off(self, node: int, seconds: float) -> None:
        """Part a broker from the others, not from clients. It goes on answering reads, as the leader that it was, and
        cannot acknowledge anything; meanwhile others lead. Without others nothing happens."""
        if node in self._apart or not self.alive - {node}:
            return
        self._apart[node] = deepcopy(self.topics)
        self.alive.discard(node)
        self._scheduler.after(seconds, partial(self._join_again, node))
        self._hand_over(node)

    def _join_again(self, node: int) -> None:
        self._apart.pop(node, None)
        self.alive.add(node)

    def answers(self, node: int) -> bool:
        """Whether a broker answers clients."""
        return node in self.alive or node in self._apart

    def known_to(self, node: int) -> Mapping[str, Topic]:
        """The topics as a broker knows them."""
        return self._apart.get(node, self.topics)

    def alive_to(self, node: int) -> set[int]:
        """The brokers that are up, as a broker knows it."""
        return set(self.nodes) if node in self._apart else self.alive

    def _hand_over(self, node: int) -> None:
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
        self._apart.clear()
        self.slow_markers = 0.0

    def _start(self, node: int) -> None:
        self.alive.add(node)

    def expire_all(self) -> None:
        """Let the time of every ongoing transaction be up."""
        for each in list(self.coordinator.known.values()):
            self.coordinator.expire(each, each.number)

    def forget(self) -> None:
        """What brokers do with ids and producers that were idle for days."""
        idle = [each for each in self.coordinator.known.values() if not _is_open(each.state)]
        for each in idle:
            del self.coordinator.known[each.id]
        for topic in self.topics.values():
            for partition in topic.partitions:
                partition.log.forget()

    def open_transactions(self) -> list[str]:
        """What is open at present, in words."""
        found = [f"'{each.id}' is {each.state}" for each in self.coordinator.known.values() if _is_open(each.state)]
        for topic in self.topics.values():
            for number, each in enumerate(topic.partitions):
                found += [f"{topic.name}-{number} has an open transaction of {who}" for who in each.log.open]
        return found + [f"producer {id_} has pending offsets" for id_ in self._pending]

    def pending_offsets(self, producer_id: int) -> dict[str, dict[TopicPartition, int]]:
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
        self,
        transaction: Transaction,
        place: TopicPartition,
        left: set[TopicPartition],
        id_: int,
        epoch: int,
        commit: bool,
    ) -> None:
        if place == GROUPS:
            self._end_offsets(id_, epoch, commit)
        elif place[1] < len(self.topics[place[0]].partitions):  # else it was created again with fewer
            self.log(place).mark(id_, epoch, commit, int(self._scheduler.now * 1000))
        left.discard(place)
        if not left:
            self.coordinator.complete(transaction)

    def _end_offsets(self, id_: int, epoch: int, commit: bool) -> None:
        self._group_epochs[id_] = max(epoch, self._group_epochs.get(id_, -1))
        found = self._pending.pop(id_, None)
        if found and commit:
            for group, offsets in found.offsets.items():
                self.commit_offsets(group, offsets)

    # --- what requests ask for ---

    def led(self, topic: str, partition: int, node: int, leader_epoch: int = -1) -> Partition:
        """A partition that this broker leads. Raises Refusal."""
        known = self.known_to(node).get(topic)
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

    def check_coordinator(self, kind: int, key: str, node: int) -> None:
        """Raises Refusal when this broker does not coordinate the group (kind 0) or transactional id (kind 1)."""
        if self.coordinator_of(kind, key) != node or node in self._apart:
            raise Refusal(_NOT_COORDINATOR)

    def coordinator_of(self, kind: int, key: str) -> int:
        """The broker that coordinates a group (kind 0) or a transactional id (kind 1)."""
        if (kind, key) not in self._coordinators:
            self._coordinators[kind, key] = self._rng.choice(self.nodes)
        return self._coordinators[kind, key]

    def append(
        self, id_: str | None, place: TopicPartition, records: bytes, node: int, *, implicit: bool, sender: str = ""
    ) -> int:
        """Append a client's batch; its offset. ``implicit``: the partition joins the transaction by itself."""
        led = self.led(*place, node)
        if node in self._apart:
            raise Refusal(_NOT_ENOUGH_REPLICAS)
        producer_id, epoch = _PRODUCER.unpack_from(records, _PRODUCER_AT)
        if records[_ATTRIBUTES_AT + 1] & _TRANSACTIONAL and not led.log.in_transaction(producer_id, epoch):
            try:
                self._join(id_ or "", producer_id, epoch, place, implicit)
            except Refusal as refusal:
                raise Refusal(_as_producers_know_it(refusal.code, implicit)) from None
        return led.log.append(records, strict=implicit, sender=sender)

    def _join(self, id_: str, producer_id: int, epoch: int, place: TopicPartition, implicit: bool) -> None:
        """Add the partition to the transaction, or make sure that the client has added it."""
        if implicit:
            self.add(id_, producer_id, epoch, {place})
        else:
            self.coordinator.verify(id_, producer_id, epoch, place)

    def add(self, id_: str, producer_id: int, epoch: int, places: set[TopicPartition]) -> None:
        """Make partitions part of a transaction, whose time begins to run."""
        known = self.coordinator.known.get(id_)
        before = known.number if known else 0
        self.coordinator.add(id_, producer_id, epoch, places)
        known = self.coordinator.known[id_]
        if known.number > before:
            # Brokers look for expired transactions every ten seconds.
            late = known.timeout_ms / 1000 + self._rng.uniform(0, 10)
            self._scheduler.after(late, partial(self.coordinator.expire, known, known.number))

    def take_offsets(
        self, id_: str, group: str, producer_id: int, epoch: int, offsets: dict[TopicPartition, Any], *, implicit: bool
    ) -> None:
        """Keep a group's offsets until the transaction ends."""
        pending = self._pending.get(producer_id)
        if pending is None or pending.epoch != epoch:
            try:
                self._join(id_, producer_id, epoch, GROUPS, implicit)
            except Refusal as refusal:
                raise Refusal(_INVALID_EPOCH if refusal.code == FENCED else refusal.code) from None
        if epoch < self._group_epochs.get(producer_id, -1):
            raise Refusal(_INVALID_EPOCH)
        self._group_epochs[producer_id] = epoch
        pending = self._pending.setdefault(producer_id, _Pending(epoch))
        pending.offsets.setdefault(group, {}).update(offsets)

    def commit_offsets(self, group: str, offsets: dict[TopicPartition, Any]) -> None:
        """A group's offsets are committed."""
        self.groups.setdefault(group, {}).update(offsets)
        self._watcher.offsets_committed(group, {place: each[0] for place, each in offsets.items()})

    def unstable(self, group: str) -> set[TopicPartition]:
        """The partitions of which open transactions hold offsets of a group."""
        return {place for each in self._pending.values() for place in each.offsets.get(group, {})}


def _is_open(state: str) -> bool:
    return state == "Ongoing" or state.startswith("Prepare")


def _as_producers_know_it(code: int, implicit: bool) -> int:
    """Errors of the coordinator in an answer to Produce."""
    if code == FENCED:
        return _INVALID_EPOCH
    return _NOT_ENOUGH_REPLICAS if code == CONCURRENT and not implicit else code
