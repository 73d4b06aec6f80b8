"""One walk: a job, a cluster and what goes wrong, all drawn from a seed; until the input is copied or a rule broken."""

from __future__ import annotations

import concurrent.futures
import contextlib
import itertools
import json
import queue
import random
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from penstock.errors import CheckpointError, DefinitionError, FencedError, PenstockError, PossibleDataLossError
from penstock.kafka import wire
from penstock.kafka.batches import stamp
from penstock.kafka.progress import ProgressTopic
from penstock.kafka.session import close_sessions
from tests.simulation import scheduler as simulated
from tests.simulation.cluster import Cluster
from tests.simulation.driver import QUERY, TRANSACTIONAL_ID, Checkpoint, ConcurrentUpdateError, Driver, Pipeline
from tests.simulation.faults import Fault, Plan, random_plan
from tests.simulation.invariants import Invariants, owner_of
from tests.simulation.log import record_batch
from tests.simulation.scheduler import Actor, Scheduler, StuckError
from tests.simulation.wire import Network, SimulatedWire

__all__ = ["Found", "Setting", "random_setting", "walk"]

PROGRESS_TOPIC = "__penstock_progress"
#: So many starts meet faults; then everything is well, and the job has to finish.
_TROUBLED_STARTS = 4
_HEALTHY_STARTS = 3
#: So long it takes until what went wrong before is over, markers that are on their way say.
_RECOVERY_SECONDS = 200.0


@dataclass(frozen=True)
class Setting:
    """What a walk is about, apart from its faults."""

    pipeline: Pipeline
    partitions: int
    progress_partitions: int | None
    brokers: int
    version: int
    #: The transactional id prefix of each start; of all that follow, the last one. A second driver may have another.
    prefixes: tuple[str, ...] = ("walk",)
    #: The last batch that another query has published under the id: its checkpoint was deleted.
    published_before: int | None = None
    #: From before which start the checkpoint is that another start, and those after it, find.
    restored: tuple[int, int] | None = None


@dataclass
class Found:
    """What a walk came to."""

    seed: int
    plan: Plan
    violations: list[str]
    outcomes: list[str] = field(default_factory=list)
    transitions: set[tuple[str, str]] = field(default_factory=set)
    requests: int = 0
    trace: list[tuple[float, str, str]] = field(default_factory=list)

    def __str__(self) -> str:
        lines = [f"seed {self.seed}: {self.plan}"]
        lines += [f"{at:10.3f}  {who:22} {what}" for at, who, what in self.trace]
        lines += [f"violated: {each}" for each in self.violations]
        return "\n".join(lines)


def random_setting(rng: random.Random) -> Setting:
    """A setting as a seed has it: small jobs, for small numbers hold every order of events."""
    timeout = rng.choice((1_000, 5_000, 30_000))
    properties = {
        "bootstrap.servers": "simulated:9092",
        "request.timeout.ms": str(timeout),
        "default.api.timeout.ms": str(2 * timeout),
        "delivery.timeout.ms": str(rng.choice((2, 4)) * timeout),
    }
    if rng.random() < 0.4:
        properties["transaction.timeout.ms"] = str(rng.choice((timeout, 3 * timeout, 10 * timeout)))
    per_batch = rng.choice((1, 3, 6))
    pipeline = Pipeline(
        records=per_batch * rng.randint(2, 3) - rng.randint(0, per_batch - 1),
        per_batch=per_batch,
        tasks=rng.choice((1, 1, 2, 3)),
        parallelism=rng.choice((1, 2)),
        topics=("out",),
        keyed=rng.random() < 0.5,
        group=rng.choice(("", "group")),
        progress_topic=PROGRESS_TOPIC,
        properties=tuple(properties.items()),
    )
    return Setting(
        pipeline,
        partitions=rng.choice((1, 2, 3)),
        progress_partitions=rng.choice((None, 1, 2)),
        brokers=rng.choice((1, 2)),
        version=rng.choice((2, 2, 0)),
        prefixes=rng.choice(
            (*[("walk",)] * 5, ("walk", "run"), ("walk", "run", "walk"), ("walk", "run", "run", "walk"))
        ),
        published_before=rng.choice((None, None, None, None, 0, 7)),
    )


@contextlib.contextmanager
def _installed(network: Network, rng: random.Random) -> Iterator[None]:
    """penstock's modules with virtual time, simulated wires and a random that repeats itself."""
    stands_for: dict[int, Any] = {
        id(time): simulated.VirtualTime(network.scheduler),
        id(random): rng,
        id(wire.Wire): partial(SimulatedWire, network),
        id(queue.SimpleQueue): partial(simulated.Queue, network.scheduler),
        id(concurrent.futures.wait): partial(simulated.wait_for, network.scheduler),
    }
    changes = [
        (module, name, stands_for[id(value)])
        for module in [each for name, each in sys.modules.items() if name.startswith("penstock.")]
        for name, value in vars(module).items()
        if id(value) in stands_for
    ]
    kept = [(module, name, getattr(module, name)) for module, name, _ in changes]
    try:
        for module, name, value in changes:
            setattr(module, name, value)
        yield
    finally:
        close_sessions()
        for module, name, value in kept:
            setattr(module, name, value)


class _Walk:
    def __init__(self, seed: int, setting: Setting | None, plan: Plan | None):
        rng = random.Random(seed)
        self.setting = setting or random_setting(rng)
        self.plan = plan or random_plan(rng)
        self.scheduler = Scheduler()
        pipeline = self.setting.pipeline
        self.invariants = Invariants(pipeline.topics, PROGRESS_TOPIC, pipeline.group)
        self.cluster = Cluster(
            self.scheduler, rng, brokers=self.setting.brokers, version=self.setting.version, watcher=self.invariants
        )
        self.invariants.cluster = self.cluster
        self.cluster.create("input", 1)
        for topic in pipeline.topics:
            self.cluster.create(topic, self.setting.partitions)
        before = self.setting.published_before
        if self.setting.progress_partitions or before is not None:
            settings = {"cleanup.policy": "compact"}
            self.cluster.create(PROGRESS_TOPIC, self.setting.progress_partitions or 1, **settings)
        self.network = Network(
            self.scheduler, self.cluster, self.plan, rng, self.invariants, self._surround, PROGRESS_TOPIC
        )
        self.checkpoint = Checkpoint(self.invariants.planned.__setitem__)
        self.rng = rng
        self.strangers = itertools.count(70)
        if before is not None:
            self._publish_as_another_query(before)
        self.prefix = ""
        self.found = Found(seed, self.plan, self.invariants.violations, trace=self.network.trace)
        self.drivers: dict[str, tuple[Driver, Actor]] = {}
        self.finished = False

    # --- drivers ---

    def run(self) -> None:
        with _installed(self.network, self.rng):
            try:
                self._run()
            except StuckError as stuck:
                self.invariants.broken(str(stuck))
            finally:
                self.scheduler.kill_all()
        self.found.transitions = self.cluster.coordinator.visited
        self.found.requests = self.network.requests

    def _run(self) -> None:
        for start in range(_TROUBLED_STARTS + _HEALTHY_STARTS):
            if start == _TROUBLED_STARTS:
                self._heal()
                self.scheduler.pass_time(_RECOVERY_SECONDS)
            prefixes = self.setting.prefixes
            self.prefix = prefixes[min(start, len(prefixes) - 1)]
            self._start()
            self.scheduler.run(self._is_quiet)
            if self.finished:
                break
        else:
            self.invariants.broken(f"the job does not finish: {self.found.outcomes[-1]}")
        self._heal()
        self.scheduler.drain()
        self.invariants.at_the_end(self.setting.pipeline.records)

    def _heal(self) -> None:
        self.plan.heal()
        self.cluster.heal()
        self.network.paused.clear()
        self.network.note("", "from here on nothing goes wrong")

    def _is_quiet(self) -> bool:
        return all(actor.done for _, actor in self.drivers.values())

    def _restore(self) -> None:
        taken, put_back = self.setting.restored or (-1, -1)
        if len(self.drivers) == taken:
            self.snapshot = deepcopy((self.checkpoint.documents, self.checkpoint.offsets, self.checkpoint.commits))
        if len(self.drivers) == put_back:
            self.checkpoint.documents, self.checkpoint.offsets, self.checkpoint.commits = self.snapshot
            self.network.note("", "an older checkpoint is restored")

    def _start(self) -> None:
        self._restore()
        name = f"driver-{len(self.drivers) + 1}"
        driver = Driver(
            name,
            self.prefix,
            self.setting.pipeline,
            self.checkpoint,
            self.invariants,
            self.scheduler,
            self.plan,
            self.rng,
        )
        self.network.note(name, "starts")
        actor = self.scheduler.spawn(name, driver.run)
        self.drivers[name] = driver, actor
        actor.when_done(partial(self._ended, driver, actor))

    def _ended(self, driver: Driver, actor: Actor) -> None:
        error = actor.error
        for warning in driver.warnings:
            self.network.note(driver.name, f"warned: {warning}")
        if actor.killed:
            outcome = "crashed"
        elif error is None:
            outcome, self.finished = "finished", True
        else:
            outcome = type(error).__name__
        self.found.outcomes.append(outcome)
        self.network.note(driver.name, f"{outcome}: {error}" if error else outcome)
        if error is not None:
            self._judge(driver, error)

    def _judge(self, driver: Driver, error: BaseException) -> None:
        """An error that no fault of a walk explains is a finding."""
        alone = Fault.SECOND_DRIVER.value not in self.plan.hits
        if isinstance(error, CheckpointError | PossibleDataLossError | DefinitionError):
            self.invariants.broken(f"{driver.name} cannot reconcile checkpoint and progress: {error}")
        elif not isinstance(error, PenstockError | ConcurrentUpdateError):
            self.invariants.broken(f"{driver.name} has an error of its own: {error!r}")
        elif isinstance(error, FencedError) and alone and not error.restartable:
            self.invariants.broken(f"{driver.name} takes itself for fenced, but there is no other: {error}")
        elif "cannot become" in str(error):
            self.invariants.broken(f"{driver.name} trips over its own state: {error}")

    # --- faults that no wire can do ---

    def _surround(self, fault: Fault, sender: str, node: int) -> None:
        if fault in {Fault.CRASH, Fault.CRASH_AFTER}:
            self._crash(owner_of(sender))
        elif fault is Fault.BROKER_CRASH:
            self.cluster.crash(node, self.rng.uniform(1.0, 60.0))
        elif fault is Fault.BROKER_PAUSE:
            self.network.paused[node] = self.scheduler.now + self.rng.uniform(0.5, 60.0)
        elif fault is Fault.CUT_OFF:
            self.cluster.cut_off(node, self.rng.uniform(1.0, 60.0))
        elif fault is Fault.SLOW_MARKERS:
            self.cluster.slow_markers = self.rng.choice((1.0, 20.0, 100.0))
        elif fault is Fault.EXPIRY:
            self.cluster.expire_all()
        elif fault is Fault.OTHER_VERSION:
            self.cluster.version = 2 - self.cluster.version
        elif fault is Fault.FORGOTTEN:
            self.cluster.forget()
        elif fault is Fault.FOREIGN_ROW:
            self._write_foreign_row()
        elif fault in {Fault.PROGRESS_LOST, Fault.PROGRESS_ANEW}:
            self.cluster.empty(PROGRESS_TOPIC, anew=fault is Fault.PROGRESS_ANEW)
        elif fault is Fault.SECOND_DRIVER:
            self.prefix = self.rng.choice((self.prefix, self.setting.prefixes[0], "copy"))
            self._start()

    def _crash(self, name: str) -> None:
        """A driver is gone at once; of its tasks some go on for a while."""
        driver, actor = self.drivers[name]
        self.network.note(name, "crashes")
        actor.kill()
        for task in driver.jobs.running:
            if not task.done:
                self.scheduler.after(self.rng.choice((0.0, 0.0, self.rng.uniform(0.0, 5.0))), task.kill)

    def _publish_as_another_query(self, batch: int) -> None:
        """What the progress topic holds when the job's checkpoint was deleted."""
        topic = ProgressTopic(PROGRESS_TOPIC, None, len(self.cluster.places(PROGRESS_TOPIC)))
        log = self.cluster.log((PROGRESS_TOPIC, topic.partition_of(TRANSACTIONAL_ID.decode())))
        data, producer_id = bytearray(record_batch([(TRANSACTIONAL_ID, _unsealed("another", batch))]).data), 69
        stamp(data, producer_id=producer_id, producer_epoch=0, base_sequence=0, transactional=True)
        log.append(bytes(data), strict=True)
        log.mark(producer_id, 0, True, 0)

    def _write_foreign_row(self) -> None:
        """A row of somebody else, forged progress among them, outside of a transaction or in one that is committed."""
        if PROGRESS_TOPIC not in self.cluster.topics:
            return
        value = self.rng.choice((b"a row", b"{}", _unsealed(QUERY, 7)))
        data = bytearray(record_batch([(self.rng.choice((b"somebody", TRANSACTIONAL_ID)), value)]).data)
        log, producer_id = self.cluster.log(self.rng.choice(self.cluster.places(PROGRESS_TOPIC))), next(self.strangers)
        transactional = self.rng.random() < 0.7
        if transactional:
            epoch = 0
            stamp(data, producer_id=producer_id, producer_epoch=epoch, base_sequence=0, transactional=True)
        log.append(bytes(data), strict=True)
        if transactional:
            open_for = self.rng.choice((0.0, self.rng.uniform(0.0, 100.0)))
            self.scheduler.after(open_for, partial(log.mark, producer_id, epoch, self.rng.random() < 0.5, 0))


def _unsealed(query: str, batch: int) -> bytes:
    """A progress record of something that does not know the job's secret."""
    start, end = {"sources": [None]}, {"sources": [{"topics": {"input": {"0": 999}}}]}
    record = {"query_id": query, "batch_id": batch, "start": start, "end": end, "errors": {}}
    return json.dumps({"kind": "progress", "version": 1} | record).encode()


def walk(seed: int, *, setting: Setting | None = None, plan: Plan | None = None) -> Found:
    """Run the walk of a seed. ``setting`` and ``plan`` replace what the seed would draw."""
    made = _Walk(seed, setting, plan)
    made.run()
    return made.found


def count(found: Sequence[Found]) -> dict[str, Counter[str]]:
    """Outcomes, faults and transitions of many walks."""
    return {
        "outcomes": Counter(each for one in found for each in one.outcomes),
        "faults": sum((Counter(one.plan.hits) for one in found), Counter()),
        "transitions": Counter(f"{before} -> {after}" for one in found for before, after in one.transitions),
    }
