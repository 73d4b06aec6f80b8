"""A substitute for :class:`penstock.kafka.wire.Wire`: connections to the simulated brokers, with faults in requests
and answers."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from types import SimpleNamespace
from typing import Any, Protocol

import kafka.errors

from penstock.kafka.properties import ClientConfig
from penstock.kafka.wire import Node
from tests.simulation.brokers import Brokers, kind_of
from tests.simulation.cluster import Cluster
from tests.simulation.faults import Fault, Plan, error_of, name_of
from tests.simulation.scheduler import Answer, Scheduler

__all__ = ["Network", "SimulatedWire", "Witness"]

_CONNECTION_FAULTS = {Fault.LOST, Fault.LATE, Fault.CUT}


class Witness(Protocol):
    """Sees the requests of clients and the answers that they receive. A client is named by its ``client.id``."""

    def sent(self, sender: str, name: str, request: Any) -> None:
        """A client sends a request."""
        ...

    def received(self, sender: str, name: str, request: Any, answer: Any) -> None:
        """An answer has reached its client."""
        ...


@dataclass
class Network:
    """All that wires share. ``surroundings`` does what no wire can do: faults of brokers and drivers."""

    scheduler: Scheduler
    cluster: Cluster
    plan: Plan
    rng: random.Random
    witness: Witness
    surroundings: Callable[[Fault, str, int], None]
    progress_topic: str
    trace: list[tuple[float, str, str]] = field(default_factory=list)
    paused: dict[int, float] = field(default_factory=dict)
    requests: int = 0

    def __post_init__(self) -> None:
        self.brokers = Brokers(self.cluster)

    def note(self, who: str, what: str) -> None:
        """A line of the trace."""
        self.trace.append((self.scheduler.now, who, what))


@dataclass(eq=False)
class _Connection:
    node: Node
    letters: list[_Letter] = field(default_factory=list)
    open: bool = True
    #: Whether nothing that is written to it arrives any more.
    stalled: bool = False
    free_at: float = 0.0


@dataclass(eq=False)
class _Letter:
    name: str
    request: Any
    answer: Answer
    response: Any = None


class SimulatedWire:
    """The connections of one client."""

    def __init__(self, network: Network, config: ClientConfig):
        self._network = network
        self._sender = config.client_id
        self._timeout = config.request_timeout_ms / 1000
        self._connections: dict[Node, _Connection] = {}
        self._brokers: dict[Node, Any] = {}
        self._bootstrap = [
            SimpleNamespace(node_id=f"bootstrap-{number}", host=server, port=9092)
            for number, server in enumerate(config.bootstrap_servers)
        ]
        self.cluster = SimpleNamespace(
            brokers=lambda: list(self._brokers.values()), bootstrap_brokers=lambda: list(self._bootstrap)
        )

    def learn(self, metadata: Any) -> None:
        """Take over the brokers of a metadata answer."""
        self._brokers = {each.node_id: each for each in metadata.brokers}

    def address(self, node: Node) -> str:
        """``host:port`` of a broker."""
        return f"{node}:9092"

    def candidates(self) -> list[Node]:
        """Brokers that can be asked about anything."""
        return [*self._brokers, *(each.node_id for each in self._bootstrap)]

    def close(self) -> None:
        """The walk is over."""

    def send(self, request: Any, node: Node) -> Answer:
        """Send a request on its way."""
        network = self._network
        network.scheduler.actor()
        network.requests += 1
        name = name_of(request, network.progress_topic)
        if kind_of(request) == "Produce":
            for topic in request.topic_data:
                for each in topic.partition_data:
                    each.records = bytes(each.records)  # the sender may use the memory again
        fault = network.plan.verdict(name)
        where = self._where(node)
        network.note(self._sender, f"{_text(name, request)} to {node}" + (f"  [{fault.value}]" if fault else ""))
        if fault in {Fault.CRASH, Fault.BROKER_CRASH, Fault.BROKER_PAUSE} or (fault and fault in _SURROUNDINGS):
            network.surroundings(fault, self._sender, where)
            network.scheduler.actor()
        network.witness.sent(self._sender, name, request)
        letter = _Letter(name, request, Answer(network.scheduler))
        self._post(letter, node, where, fault)
        if fault is Fault.CRASH_AFTER:
            network.surroundings(fault, self._sender, where)
            network.scheduler.actor()
        return letter.answer

    def _where(self, node: Node) -> int:
        cluster = self._network.cluster
        return node if isinstance(node, int) else next(filter(cluster.answers, cluster.nodes), 1)

    # --- on the way ---

    def _post(self, letter: _Letter, node: Node, where: int, fault: Fault | None) -> None:
        scheduler, rng = self._network.scheduler, self._network.rng
        connection = self._connections.get(node)
        if connection is None or not connection.open:
            connection = self._connections[node] = _Connection(node)
        connection.letters.append(letter)
        latency = rng.uniform(0.0005, 0.005)
        if fault is Fault.CUT or not self._network.cluster.answers(where):
            scheduler.after(latency, partial(self._cut, connection))
            connection.stalled = True
            return
        scheduler.after(self._timeout, partial(self._time_out, connection, letter))
        if fault is Fault.LOST:
            connection.stalled = True
        if connection.stalled:
            return
        if fault is Fault.LATE:
            latency += self._timeout * rng.choice((rng.uniform(0.1, 0.9), rng.uniform(1.0, 3.0)))
        connection.free_at = max(connection.free_at, scheduler.now + latency)
        scheduler.after(connection.free_at - scheduler.now, partial(self._arrive, connection, letter, where, fault))

    def _arrive(self, connection: _Connection, letter: _Letter, where: int, fault: Fault | None) -> None:
        network = self._network
        pause = network.paused.get(where, 0.0) - network.scheduler.now
        if pause > 0:
            network.scheduler.after(pause, partial(self._arrive, connection, letter, where, fault))
            return
        if not network.cluster.answers(where):
            self._cut(connection)
            return
        answer = None
        if fault in {Fault.ERROR, Fault.ERROR_AFTER} and (code := error_of(letter.request, fault, network.rng)):
            answer = network.brokers.refuse(letter.request, code)
        if answer is None or fault is Fault.ERROR_AFTER:
            done = network.brokers.answer(letter.request, where, self._sender)
            answer = answer or done
        late = " (nobody waits for it)" if letter.answer.done() else ""
        network.note(f"broker {where}", f"{letter.name} of {self._sender}: {_outcome(answer)}{late}")
        if fault is Fault.UNANSWERED:
            connection.stalled = True
            return
        if fault is Fault.CUT_AFTER:
            self._cut(connection)
            return
        delay = network.rng.uniform(0.0005, 0.005)
        if fault is Fault.LATE_ANSWER:
            delay += self._timeout * network.rng.uniform(0.1, 1.5)
        network.scheduler.after(delay, partial(self._deliver, connection, letter, answer))

    def _deliver(self, connection: _Connection, letter: _Letter, answer: Any) -> None:
        if not connection.open or letter.answer.done():
            return
        letter.response = answer
        while connection.letters and connection.letters[0].response is not None:  # in the order of requests
            first = connection.letters.pop(0)
            if not first.answer.given_up:
                self._network.witness.received(self._sender, first.name, first.request, first.response)
            first.answer.set_result(first.response)

    def _time_out(self, connection: _Connection, letter: _Letter) -> None:
        if not letter.answer.done():
            self._fail(connection, kafka.errors.RequestTimedOutError())

    def _cut(self, connection: _Connection) -> None:
        self._fail(connection, kafka.errors.KafkaConnectionError("closed by the broker"))

    def _fail(self, connection: _Connection, error: Exception) -> None:
        connection.open = False
        letters, connection.letters = connection.letters, []
        for each in letters:
            each.answer.set_exception(error)


_SURROUNDINGS = {
    Fault.SLOW_MARKERS, Fault.EXPIRY, Fault.FOREIGN_ROW, Fault.SECOND_DRIVER, Fault.OTHER_VERSION, Fault.FORGOTTEN,
    Fault.PROGRESS_LOST, Fault.PROGRESS_RECREATED, Fault.CUT_OFF, Fault.ENLARGED,
}  # fmt: skip


# --- the trace ---


def _text(name: str, request: Any) -> str:
    kind = kind_of(request)
    if kind in {"EndTxn", "TxnOffsetCommit", "InitProducerId", "AddOffsetsToTxn"}:
        return f"{name} by {request.producer_id}/{request.producer_epoch}"
    if kind == "Produce":
        places = [
            f"{topic.name}-{each.index} {_producer(each.records)}"
            for topic in request.topic_data
            for each in topic.partition_data
        ]
        return f"{name} {', '.join(places)}"
    if kind in {"ListOffsets", "Fetch"}:
        topics = sorted({getattr(topic, "name", None) or topic.topic for topic in request.topics})
        return f"{name} of {', '.join(topics)}"
    return name


def _producer(records: bytes) -> str:
    producer_id, epoch = int.from_bytes(records[43:51], signed=True), int.from_bytes(records[51:53], signed=True)
    return f"by {producer_id}/{epoch} from sequence {int.from_bytes(records[53:57], signed=True)}"


def _outcome(answer: Any) -> str:
    codes = sorted(set(_codes(answer)))
    text = f"errors {codes}" if codes != [0] else "no error"
    if hasattr(answer, "producer_epoch"):
        text += f", producer {answer.producer_id}/{answer.producer_epoch}"
    if hasattr(answer, "transaction_states"):
        text += "".join(
            f", {each.transaction_state} {each.producer_id}/{each.producer_epoch}" for each in answer.transaction_states
        )
    return text


def _codes(answer: Any) -> list[int]:
    codes = [getattr(answer, "error_code", 0) or 0]
    for topic in getattr(answer, "responses", None) or getattr(answer, "topics", None) or ():
        parts = getattr(topic, "partition_responses", None) or getattr(topic, "partitions", None) or ()
        codes += [getattr(each, "error_code", 0) or 0 for each in parts]
    for topic in getattr(answer, "results_by_topic_v3_and_below", None) or ():
        codes += [each.partition_error_code for each in topic.results_by_partition]
    return codes
