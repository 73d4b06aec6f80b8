"""A client of one Kafka cluster: it finds leaders and coordinators, and retries requests until a deadline."""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future
from concurrent.futures import wait as wait_for
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar
from uuid import UUID

from kafka.protocol.metadata import FindCoordinatorRequest, MetadataRequest

from penstock.deadline import Backoff, Deadline
from penstock.errors import KafkaError, RetriableError
from penstock.kafka.faults import (
    CLIENT_CODE,
    Action,
    Fault,
    KafkaFault,
    check_code,
    fault_from_code,
    fault_from_exception,
)
from penstock.kafka.leaders import Leaders, PartitionInfo
from penstock.kafka.partitions import TopicPartition, format_partition
from penstock.kafka.properties import ClientConfig
from penstock.kafka.reachability import explain_unreachable, is_of_connection
from penstock.kafka.wire import Node, Wire
from penstock.notices import PATIENCE_SECONDS, Notice, tell

T = TypeVar("T")

#: Types of coordinators.
GROUP = 0
TRANSACTION = 1

#: Makes a kafka-python request, a new one for each attempt.
Build = Callable[[], Any]

_NOT_THERE = fault_from_code(3)
_NO_LEADER = fault_from_code(5)
#: How long a topic may be unknown before it counts as missing: a new topic takes a moment to be known to all brokers.
_UNKNOWN_TOPIC_SECONDS = 3.0
#: How long a broker may be silent before another one gets a request that any broker can answer.
_SILENCE_SECONDS = 2.0
#: How long a silent broker is then asked after all others.
_SILENCE_REMEMBERED_SECONDS = 30.0


@dataclass(frozen=True)
class TopicInfo:
    """A topic. ``topic_id`` differs from the id of a deleted topic with the same name; None on brokers below 2.8."""

    name: str
    topic_id: UUID | None
    partitions: tuple[PartitionInfo, ...]
    internal: bool


def iter_partitions(topics: Iterable[Any]) -> Iterator[tuple[TopicPartition, Any]]:
    """The partitions in an answer, with their entries."""
    for topic in topics:
        for each in topic.partitions:
            yield (topic.name, int(each.partition_index)), each


class Session:
    """One client of one cluster. Made by :func:`session_for`, which shares it within the process.

    Thread-safe. Every operation takes a :class:`Deadline` (default: ``default.api.timeout.ms`` from now) that
    bounds it with all its retries. It raises only subclasses of :class:`penstock.errors.ExecutionError`.
    """

    def __init__(self, config: ClientConfig):
        self.config = config
        self.cluster_id: str | None = None
        self._wire = Wire(config)
        self._lock = threading.Lock()
        self._topics: dict[str, tuple[float, TopicInfo]] = {}
        self._coordinators: dict[tuple[int, str], Node] = {}
        self._brokers_known = False
        self._leaders = Leaders()
        self._faults: dict[Node, KafkaFault] = {}  # the last one of each
        self._silent: dict[Node, float] = {}  # since when other brokers are asked first

    def close(self) -> None:
        """Close all connections. Pending operations fail."""
        self._wire.close()

    def deadline(self, ms: float | None = None) -> Deadline:
        """A deadline ``ms`` milliseconds from now; without it, ``default.api.timeout.ms``."""
        return Deadline.after(self.config.default_api_timeout_ms if ms is None else ms)

    def backoff(self) -> Backoff:
        """New waits between attempts, as configured."""
        return Backoff(self.config.retry_backoff_ms, self.config.retry_backoff_max_ms)

    def address(self, node: Node) -> str:
        """``host:port`` of a broker."""
        return self._wire.address(node)

    # --- one request, one answer ---

    def send(self, request: Any, node: Node) -> Future[Any]:
        """Send a kafka-python request to one broker and return at once; :meth:`wait` takes the future.

        Requests to one broker leave in the order they are sent. Brokers must be known: call :meth:`topic`,
        :meth:`brokers` or :meth:`coordinator` first.
        """
        return self._wire.send(request, node)

    def wait(self, answer: Future[Any], deadline: Deadline, node: Node | None = None) -> Any:
        """The answer to a request. Raises :class:`KafkaFault` if its connection fails or the time is up."""
        try:
            return answer.result(deadline.left)
        except TimeoutError:
            fault = Fault(CLIENT_CODE, "no answer", Action.REFRESH)
            raise KafkaFault(fault, f"none within {deadline}{self._at(node)}") from None
        except Exception as error:
            fault, detail = fault_from_exception(error)
            raise KafkaFault(fault, f"{detail}{self._at(node)}".strip()) from error

    def exchange(self, request: Any, node: Node, deadline: Deadline) -> Any:
        """Send and wait: one attempt. Raises :class:`KafkaFault`."""
        return self.wait(self.send(request, node), deadline, node)

    def _at(self, node: Node | None) -> str:
        if node is None:
            return ""
        name = "bootstrap server" if isinstance(node, str) else f"node {node}"
        return f" at {name} {self._wire.address(node)}"

    # --- trying again ---

    def retrying(self, label: str, deadline: Deadline, step: Callable[[], T]) -> T:
        """Repeat ``step`` while it raises a :class:`KafkaFault` that another attempt may resolve.

        Raises the error of any other fault at once, and :class:`RetriableError` with the last fault if the deadline
        would pass.
        """
        backoff, began, reported = self.backoff(), time.monotonic(), not self._brokers_known
        while True:
            try:
                return step()
            except RetriableError as error:  # a step with its own retries gave up
                raise RetriableError(f"{label}: {error}") from error.__cause__
            except KafkaFault as raised:
                if not raised.fault.action.retriable:
                    raise raised.fault.error(label, raised.detail) from raised.__cause__
                wait = backoff.next()
                if deadline.left <= wait:
                    last = f"{raised.fault.name} ({raised.detail})" if raised.detail else raised.fault.name
                    hint = raised.fault.hint or "check that the brokers are up and reachable from here"
                    reason = f"{label}: no success within {deadline}, at last {last}; {hint}"
                    raise RetriableError(reason) from raised.__cause__
                if not reported and is_of_connection(raised.fault) and time.monotonic() - began > PATIENCE_SECONDS:
                    reported = True
                    found = explain_unreachable({"": raised})
                    tell(f"{label}: {raised.detail}: {found}. Trying for another {round(deadline.left)} s")
                time.sleep(wait)

    def ask_any(self, label: str, build: Build, check: Callable[[Any], T], deadline: Deadline | None = None) -> T:
        """Ask any broker. ``check`` turns the answer into the result, or raises :class:`KafkaFault`.

        If a broker is silent for a few seconds, the next one is asked as well. So the same request may be carried out
        twice.
        """
        deadline = deadline or self.deadline()
        self.brokers(deadline)
        return self.retrying(label, deadline, lambda: check(self._ask_first_that_answers(build, deadline)[1]))

    def _ask_first_that_answers(self, build: Build, deadline: Deadline) -> tuple[Node, Any]:
        failure: KafkaFault | None = None
        left = self._list_candidates()
        asked: dict[Future[Any], Node] = {}
        while left or asked:
            if left:
                node = left.pop(0)
                asked[self.send(build(), node)] = node
            wait_for(asked, min(deadline.left, _SILENCE_SECONDS) if left else deadline.left, FIRST_COMPLETED)
            answered = [answer for answer in asked if answer.done()]
            if not answered and left:
                continue
            # Without an answer the time is up: the wait for any of them raises the fault.
            for answer in answered or list(asked)[:1]:
                node = asked.pop(answer)
                try:
                    result = self.wait(answer, deadline, node)
                except KafkaFault as raised:
                    if not raised.fault.action.retriable:
                        raise
                    self._faults[node] = raised
                    # The fault of a broker at its own address says more than the fault of a bootstrap address.
                    failure = raised if failure is None or isinstance(node, int) else failure
                    self._silent[node] = time.monotonic()
                else:
                    self._silent.pop(node, None)
                    self._silent.update(dict.fromkeys(asked.values(), time.monotonic()))
                    return node, result
            if deadline.passed:
                break
        raise failure or KafkaFault(_NO_LEADER)

    def _list_candidates(self) -> list[Node]:
        """Brokers that can answer general requests, those that were silent recently last."""
        long_ago = time.monotonic() - _SILENCE_REMEMBERED_SECONDS
        return sorted(self._wire.candidates(), key=lambda node: self._silent.get(node, long_ago) > long_ago)

    def ask_node(
        self, label: str, node: Node, build: Build, check: Callable[[Any], T], deadline: Deadline | None = None
    ) -> T:
        """Ask one broker, with retries until the deadline."""
        deadline = deadline or self.deadline()
        return self.retrying(label, deadline, lambda: check(self.exchange(build(), node, deadline)))

    def ask_coordinator(
        self, label: str, type: int, key: str, build: Build, check: Callable[[Any], T], deadline: Deadline | None = None
    ) -> T:
        """Ask the coordinator of a group (:data:`GROUP`) or transactional id (:data:`TRANSACTION`), which may move."""
        deadline = deadline or self.deadline()

        def step() -> T:
            node = self.coordinator(type, key, deadline)
            try:
                return check(self.exchange(build(), node, deadline))
            except KafkaFault as raised:
                if raised.fault.action in {Action.COORDINATOR, Action.REFRESH}:
                    self.forget_coordinator(type, key)
                raise

        return self.retrying(label, deadline, step)

    def ask_leaders(
        self,
        label: str,
        partitions: Iterable[TopicPartition],
        build: Callable[[Mapping[str, Sequence[PartitionInfo]]], Any],
        read: Callable[[Any], Iterator[tuple[TopicPartition, int, T]]],
        deadline: Deadline | None = None,
    ) -> dict[TopicPartition, T]:
        """Send one request to each broker that leads some of the partitions, all at once. Retries those that fail.

        ``build`` takes the partitions by topic. ``read`` yields (partition, error code, result) for an answer. Raises
        an error that names the first partition whose error cannot be retried.
        """
        deadline = deadline or self.deadline()
        left, found = set(partitions), dict[TopicPartition, T]()

        def step() -> None:
            failure: KafkaFault | None = None
            by_leader: dict[Node, dict[str, list[PartitionInfo]]] = {}
            for topic, partition in sorted(left):
                info = self.partition(topic, partition, deadline)
                by_leader.setdefault(info.leader, {}).setdefault(topic, []).append(info)
            asked = [(node, group, self.send(build(group), node)) for node, group in by_leader.items()]
            for node, group, answer in asked:
                try:
                    results = list(read(self.wait(answer, deadline, node)))
                except KafkaFault as raised:
                    self.forget_topics(group)
                    failure = raised
                    continue
                for tp, code, result in results:
                    fault = fault_from_code(code)
                    if fault.action is Action.NONE:
                        found[tp] = result
                        left.discard(tp)
                        continue
                    if fault.action is Action.REFRESH:
                        self.forget_topics([tp[0]])
                    failure = KafkaFault(fault.lacking("Describe"), format_partition(tp))
                    if not fault.action.retriable:
                        raise failure
            if left:
                raise failure or KafkaFault(_NO_LEADER, "an answer lacks partitions")

        if left:
            self.retrying(label, deadline, step)
        return found

    # --- brokers ---

    def brokers(self, deadline: Deadline | None = None) -> list[int]:
        """Ids of the brokers. The first call connects to a bootstrap address."""
        if not self._brokers_known:
            self.metadata([], deadline or self.deadline())
        return [broker.node_id for broker in self._wire.cluster.brokers()]

    def metadata(self, topics: Sequence[str] | None, deadline: Deadline, create: bool = False) -> Any:
        """New metadata of these topics, or of all topics if None."""
        wanted = None if topics is None else [MetadataRequest.MetadataRequestTopic(name=name) for name in topics]

        def step() -> tuple[Node, Any]:
            return self._ask_first_that_answers(
                lambda: MetadataRequest(topics=wanted, allow_auto_topic_creation=create), deadline
            )

        if self._brokers_known:
            node, answer = self.retrying("asking for metadata", deadline, step)
        else:
            node, answer = self._ask_cluster(step, deadline)
        with self._lock:
            self._wire.learn(answer)
            self._brokers_known = bool(answer.brokers)
            self.cluster_id = answer.cluster_id
            if any(
                self._leaders.is_former(topic.topic_id, each.partition_index, each.leader_epoch)
                for topic in answer.topics
                for each in topic.partitions
            ):
                self._silent[node] = time.monotonic()  # it knows less than the others
        return answer

    def _ask_cluster(self, step: Callable[[], T], deadline: Deadline) -> T:
        """The first answer of the cluster. Tells after a few seconds that there is none yet, and why."""
        addresses, began = ",".join(self.config.bootstrap_servers), time.monotonic()

        def reasons() -> str:
            nodes = [each for each in self._wire.candidates() if isinstance(each, str)]
            return explain_unreachable({self.address(node): self._faults.get(node) for node in nodes})

        def news() -> str:
            return f"Kafka at {addresses} is not reached yet: {reasons()}. Trying for another {round(deadline.left)} s"

        try:
            with Notice(news, deadline):
                return self.retrying(f"connecting to {addresses}", deadline, step)
        except RetriableError as error:
            tried = round(time.monotonic() - began, 1)
            raise RetriableError(
                f"Kafka at {addresses} was not reached in {tried:g} s: {reasons()}"
            ) from error.__cause__

    # --- topics ---

    def topics(
        self, names: Iterable[str], deadline: Deadline | None = None, *, create: bool = False, fresh: bool = True
    ) -> dict[str, TopicInfo]:
        """The topics of these names that exist.

        ``create`` allows brokers to create missing topics, if they are set to. Raises AuthorizationError, which names a
        topic that may not be described.
        """
        deadline = deadline or self.deadline()
        names = list(dict.fromkeys(names))
        found = {} if fresh else {name: info for name in names if (info := self._find_cached(name))}
        missing = [name for name in names if name not in found]
        if not missing:
            return found

        def step() -> dict[str, TopicInfo]:
            seen = {}
            for topic in self.metadata(missing, deadline, create).topics:
                fault = fault_from_code(topic.error_code)
                if fault.action is Action.NONE:
                    seen[topic.name] = self._learn(topic)
                elif fault != _NOT_THERE:
                    raise KafkaFault(fault.lacking("Describe"), f"topic '{topic.name}'")
            return seen

        return found | self.retrying("describing topics", deadline, step)

    def all_topics(self, deadline: Deadline | None = None) -> dict[str, TopicInfo]:
        """Every topic that may be described."""
        topics = self.metadata(None, deadline or self.deadline()).topics
        return {topic.name: self._learn(topic) for topic in topics if topic.error_code in {0, 5, 9}}

    def topic(
        self,
        name: str,
        deadline: Deadline | None = None,
        *,
        create: bool = False,
        exists: bool = False,
        partition: int = 0,
    ) -> TopicInfo:
        """One topic, from the cache if the entry is young enough.

        Raises KafkaError if it does not exist or has no partition of this number. This takes a few seconds, because a
        new topic is not known to all brokers at once; the whole deadline for one that ``exists`` for certain.
        """
        deadline = deadline or self.deadline()
        believed = deadline if exists else Deadline.after(min(deadline.left, _UNKNOWN_TOPIC_SECONDS) * 1000)
        backoff = self.backoff()
        while True:
            found = self.topics([name], deadline, create=create, fresh=backoff.attempts > 0).get(name)
            if found and any(each.partition == partition for each in found.partitions):
                return found
            wait = backoff.next()
            if believed.left <= wait:
                where = ",".join(self.config.bootstrap_servers)
                if not found:
                    raise KafkaError(f"topic '{name}' does not exist on {where}; create it, or check its name")
                count = len(found.partitions)
                raise KafkaError(f"topic '{name}' on {where} has no partition {partition}; it has {count}, from 0")
            time.sleep(wait)

    def partition(self, topic: str, partition: int, deadline: Deadline) -> PartitionInfo:
        """A partition with a leader. Raises a :class:`KafkaFault` that can be retried if it has none at present."""
        found = self.topic(topic, deadline, partition=partition).partitions
        info = next(each for each in found if each.partition == partition)
        if info.leader < 0:
            self.forget_topics([topic])
            since = f": no leader is known since leader epoch {info.leader_epoch}" if info.leader_epoch >= 0 else ""
            raise KafkaFault(_NO_LEADER, format_partition((topic, partition)) + since)
        return info

    def known_leader(self, topic: str, partition: int) -> Node | None:
        """The leader of a partition as far as it is known without asking: what :meth:`partition` would give."""
        info = self._find_cached(topic)
        if info is None or partition >= len(info.partitions):
            return None
        found = info.partitions[partition]
        return found.leader if found.partition == partition and found.leader >= 0 else None

    def note_epochs(self, topic: str, topic_id: UUID, epochs: Mapping[int, int]) -> None:
        """Note the leader epochs in which partitions of a topic were read: leaders of earlier epochs are not asked."""
        with self._lock:
            if self._leaders.note_epochs(topic_id, epochs):
                self._topics.pop(topic, None)

    def known_epochs(self, topics: Iterable[str], deadline: Deadline) -> list[dict[TopicPartition, int]]:
        """The leader epochs of these topics' partitions, by broker. Asks all brokers at once, and leaves out those
        that do not answer in time."""
        wanted = [MetadataRequest.MetadataRequestTopic(name=name) for name in sorted(set(topics))]
        build = partial(MetadataRequest, topics=wanted, allow_auto_topic_creation=False)
        epochs = []
        for node, answer in [(node, self.send(build(), node)) for node in self.brokers(deadline)]:
            with contextlib.suppress(KafkaFault):
                there = self.wait(answer, deadline, node).topics
                tps = [(topic.name, each) for topic in there for each in topic.partitions]
                epochs.append({(name, int(each.partition_index)): int(each.leader_epoch) for name, each in tps})
        return epochs

    def forget_topics(self, names: Iterable[str]) -> None:
        """Drop these topics from the cache."""
        with self._lock:
            for name in names:
                self._topics.pop(name, None)

    def avoid(self, node: Node) -> None:
        """Ask other brokers before this one for a while: it may be cut off from them without noticing."""
        self._silent[node] = time.monotonic()

    def _find_cached(self, name: str) -> TopicInfo | None:
        with self._lock:
            learned, info = self._topics.get(name, (0.0, None))
        return info if time.monotonic() - learned < self.config.metadata_max_age_ms / 1000 else None

    def _learn(self, topic: Any) -> TopicInfo:
        described = [
            PartitionInfo(
                each.partition_index,
                each.leader_id if each.error_code in {0, 9} else -1,
                each.leader_epoch,
                tuple(each.replica_nodes),
                tuple(each.isr_nodes),
            )
            for each in sorted(topic.partitions, key=lambda each: int(each.partition_index))
        ]
        with self._lock:
            partitions = tuple(self._leaders.choose_latest(topic.topic_id, each) for each in described)
            info = TopicInfo(topic.name, topic.topic_id or None, partitions, bool(topic.is_internal))
            self._topics[info.name] = (time.monotonic(), info)
        return info

    # --- coordinators ---

    def coordinator(self, type: int, key: str, deadline: Deadline) -> Node:
        """The broker that coordinates a group or a transactional id."""
        with self._lock:
            known = self._coordinators.get((type, key))
        if known is not None:
            return known

        def check(answer: Any) -> int:
            found = answer.coordinators[0] if answer.coordinators else answer
            check_code(found.error_code, found.error_message or "")
            return int(found.node_id)

        name = "group" if type == GROUP else "transactional id"
        node = self.ask_any(
            f"finding the coordinator of {name} '{key}'",
            lambda: FindCoordinatorRequest(key=key, key_type=type, coordinator_keys=[key]),
            check,
            deadline,
        )
        if node not in self.brokers(deadline):
            self.metadata([], deadline)
        with self._lock:
            self._coordinators[type, key] = node
        return node

    def forget_coordinator(self, type: int, key: str) -> None:
        """Look the coordinator up again the next time."""
        with self._lock:
            self._coordinators.pop((type, key), None)


# --- one session per process and configuration -----------------------------------------------------------------

_pool: dict[tuple[int, ClientConfig], Session] = {}
_pool_lock = threading.Lock()


def session_for(config: ClientConfig) -> Session:
    """The session of this process for a configuration. A forked process gets its own session."""
    with _pool_lock:
        key = (os.getpid(), config)
        if key not in _pool:
            _pool[key] = Session(config)
        return _pool[key]


def close_sessions() -> None:
    """Close every session of this process."""
    with _pool_lock:
        mine = [key for key in _pool if key[0] == os.getpid()]
        sessions = [_pool.pop(key) for key in mine]
    for session in sessions:
        with contextlib.suppress(OSError):
            session.close()


def _reset_after_fork() -> None:
    # The parent's sessions stay in the pool: closing them here would write to the parent's connections.
    global _pool_lock  # noqa: PLW0603 - another thread of the parent may have held it
    _pool_lock = threading.Lock()


os.register_at_fork(after_in_child=_reset_after_fork)
