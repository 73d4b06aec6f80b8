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
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial
from types import ModuleType
from typing import Any

from penstock.errors import CheckpointError, DefinitionError, FencedError, PenstockError, PossibleDataLossError
from penstock.kafka import wire
from penstock.kafka.progress import ProgressTopic
from penstock.kafka.record_batches import stamp
from penstock.kafka.session import close_sessions
from tests.simulation import scheduler as simulated
from tests.simulation.checkpoint import OTHER_QUERY, QUERY, Checkpoint, ConcurrentUpdateError
from tests.simulation.cluster import Cluster
from tests.simulation.driver import TRANSACTIONAL_ID, Driver, Start
from tests.simulation.faults import Fault, Plan, random_plan
from tests.simulation.invariants import Invariants, owner_of
from tests.simulation.ledger import Run
from tests.simulation.log import record_batch
from tests.simulation.scheduler import Actor, Scheduler, StuckError
from tests.simulation.setting import PROGRESS_TOPIC, Company, Setting, at_start, random_setting
from tests.simulation.wire import Network, SimulatedWire

__all__ = ["Found", "count", "walk"]

#: So many starts meet faults; then everything is well, and the job has to finish.
_TROUBLED_STARTS = 4
_HEALTHY_STARTS = 3
#: So long it takes until what went wrong before is over, markers that are on their way say.
_RECOVERY_SECONDS = 200.0


@dataclass
class Found:
    """What a walk came to."""

    seed: int
    plan: Plan
    violations: list[str]
    outcomes: list[str] = field(default_factory=list)
    transitions: set[tuple[str, str]] = field(default_factory=set)
    repeated: Counter[str] = field(default_factory=Counter)
    requests: int = 0
    trace: list[tuple[float, str, str]] = field(default_factory=list)

    def __str__(self) -> str:
        lines = [f"seed {self.seed}: {self.plan}"]
        lines += [f"{at:10.3f}  {who:22} {what}" for at, who, what in self.trace]
        lines += [f"violated: {each}" for each in self.violations]
        return "\n".join(lines)


@lru_cache(maxsize=1)  # every walk asks, and modules are imported in the first one
def _places(originals: tuple[int, ...], modules: int) -> list[tuple[ModuleType, str, int]]:
    """Where penstock's modules name one of the originals, which are given by their ids; looked for again when there are
    more ``modules``."""
    return [
        (module, name, id(value))
        for module in [each for name, each in sys.modules.items() if name.startswith("penstock.")]
        for name, value in vars(module).items()
        if id(value) in originals
    ]


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
    changes = [(module, name, stands_for[each]) for module, name, each in _places(tuple(stands_for), len(sys.modules))]
    kept = [(module, name, getattr(module, name)) for module, name, _ in changes]
    try:
        for module, name, value in changes:
            setattr(module, name, value)
        yield
    finally:
        close_sessions()
        for module, name, value in kept:
            setattr(module, name, value)


@dataclass
class _Job:
    """A checkpoint, and what became of the runs on it."""

    number: int
    checkpoint: Checkpoint
    finished: bool = False
    #: Whether it cannot go on, for another query's progress is under its id.
    displaced: bool = False
    last: Driver | None = None
    error: BaseException | None = None
    #: What it was before an older one was put back.
    latest: Checkpoint | None = None


class _Walk:
    def __init__(self, seed: int, setting: Setting | None, plan: Plan | None, stateful: bool | None):
        rng = random.Random(seed)
        self.setting = setting or random_setting(rng)
        if stateful is not None:
            self.setting = replace(self.setting, pipeline=replace(self.setting.pipeline, stateful=stateful))
        self.plan = plan or random_plan(rng, interrupted=self.setting.wide)
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
        self.rng = rng
        self.strangers = itertools.count(70)
        if before is not None:
            self._publish_as_another_query(before)
        self.found = Found(seed, self.plan, self.invariants.violations, trace=self.network.trace)
        self.jobs = [_Job(0, Checkpoint())]
        self.drivers: dict[str, tuple[Driver, Actor]] = {}
        self.starts = 0
        self.former: Checkpoint | None = None

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
        self.found.repeated = self.invariants.ledger.repeated
        self.found.requests = self.network.requests

    def _run(self) -> None:
        for number in range(_TROUBLED_STARTS):
            self.starts = number
            job = self._job(at_start(self.setting.starts, number))
            if job.finished:
                job = next((each for each in self.jobs if not each.finished), job)
            self._restore()
            self._start(job, self._drawn(job, number))
            self.scheduler.run(self._is_quiet)
            if self._is_over():
                break
        else:
            self._heal()
            self.scheduler.pass_time(_RECOVERY_SECONDS)
            for job in self.jobs:
                self._finish(job)
        self._heal()
        self.scheduler.drain()
        self.invariants.nothing_is_open()
        for query in dict.fromkeys(job.checkpoint.query for job in self.jobs):
            of_it = [job for job in self.jobs if job.checkpoint.query == query]
            finished = any(job.finished for job in of_it)
            if not finished and not any(job.displaced for job in of_it):
                self.invariants.broken(f"{query} does not finish; the last start: {self.found.outcomes[-1]}")
            self.invariants.at_the_end(query, self.setting.pipeline.records, finished=finished)

    def _is_over(self) -> bool:
        """Whether all jobs were started, and put back as the setting has it, and are done."""
        put_back = self.setting.restored is None or self.jobs[0].latest is not None
        return put_back and len(self.jobs) > max(self.setting.starts) and all(each.finished for each in self.jobs)

    def _job(self, number: int) -> _Job:
        """The job of that number. The second is made when it is first started, as the setting says."""
        if number and len(self.jobs) == 1 and self.setting.company is Company.QUERY:
            self.jobs.append(_Job(1, Checkpoint(OTHER_QUERY, "simulated:/other")))
        elif number and len(self.jobs) == 1 and self.jobs[0].checkpoint.knows_its_id:
            self.network.note("", "the checkpoint is copied")
            self.jobs.append(_Job(1, self.jobs[0].checkpoint.copy("simulated:/copy")))
        return self.jobs[min(number, len(self.jobs) - 1)]

    def _drawn(self, job: _Job, number: int) -> Start:
        """How a start of a job is, as the setting has it; or by its restart strategy, as it was before."""
        before, error = job.last, job.error
        if before is not None and isinstance(error, PenstockError) and error.restartable and self.rng.random() < 0.3:
            return replace(before.start, adopts=before.start.adopts and not before.batches, restarted=True)
        adopts = number < len(self.setting.adopting) and self.setting.adopting[number]
        return Start(at_start(self.setting.prefixes, number), adopts)

    def _finish(self, job: _Job) -> None:
        """Start a job, as its errors advise, until it is done or cannot go on."""
        start = Start(at_start(self.setting.prefixes, _TROUBLED_STARTS))
        for _ in range(_HEALTHY_STARTS):
            self._start(job, start)
            self.scheduler.run(self._is_quiet)
            text = str(job.error)
            if job.finished:
                return
            if isinstance(job.error, CheckpointError | PossibleDataLossError):
                if "another query has used" in text or "cannot replace" in text:
                    job.displaced = True
                    return  # it has to start with a new checkpoint
                if "--adopt-progress" in text:
                    start = replace(start, adopts=True)
                elif job.latest is not None:
                    self.network.note("", "the latest checkpoint is put back")
                    job.checkpoint.put_back(job.latest)
                    job.latest = None
                else:
                    return  # the judge has seen whether that may be

    def _heal(self) -> None:
        self.plan.heal()
        self.cluster.heal()
        self.network.paused.clear()
        self.network.note("", "from here on nothing goes wrong")

    def _is_quiet(self) -> bool:
        return all(actor.done for _, actor in self.drivers.values())

    def _restore(self) -> None:
        """Take a copy of the first job's checkpoint, or put it back. Nobody runs."""
        taken, put_back = self.setting.restored or (-1, -1)
        job = self.jobs[0]
        if self.starts >= taken >= 0 and self.former is None and job.checkpoint.knows_its_id:
            self.former = job.checkpoint.copy("simulated:/former")
        elif self.starts >= put_back >= 0 and self.former is not None and job.latest is None:
            job.latest = job.checkpoint.copy("simulated:/latest")
            job.checkpoint.put_back(self.former)
            job.finished = False
            self.network.note("", "an older checkpoint is restored")

    def _start(self, job: _Job, start: Start) -> None:
        name = f"driver-{len(self.drivers) + 1}"
        pipeline = self.setting.pipeline
        driver = Driver(
            name,
            start,
            # Spark plans a batch by what is there, so a copy may plan one of that number with other records.
            replace(pipeline, per_batch=pipeline.per_batch + job.number),
            job.checkpoint,
            self.invariants,
            self.scheduler,
            self.plan,
            self.rng,
        )
        self.invariants.ledger.starts(name, Run(job.checkpoint, driver.decisions))
        self.network.note(name, f"starts on {job.checkpoint.location}: {start}")
        job.last, job.error = driver, None
        actor = self.scheduler.spawn(name, driver.run)
        self.drivers[name] = driver, actor
        actor.when_done(partial(self._ended, job, driver, actor))

    def _ended(self, job: _Job, driver: Driver, actor: Actor) -> None:
        error = actor.error
        for warning in driver.warnings:
            self.network.note(driver.name, f"warned: {warning}")
        if actor.killed:
            outcome = "crashed"
        elif error is None:
            outcome, job.finished = "finished", True
        else:
            outcome = type(error).__name__
        if job.last is driver:
            job.error = error
        self.found.outcomes.append(outcome)
        self.network.note(driver.name, f"{outcome}: {error}" if error else outcome)
        if error is not None:
            self._judge(driver, error)

    def _judge(self, driver: Driver, error: BaseException) -> None:
        """An error that no fault of a walk explains is a finding."""
        alone = Fault.SECOND_DRIVER.value not in self.plan.hits
        if isinstance(error, CheckpointError | PossibleDataLossError | DefinitionError):
            if not self._explained(str(error)):
                self.invariants.broken(f"{driver.name} cannot reconcile checkpoint and progress: {error}")
        elif not isinstance(error, PenstockError | ConcurrentUpdateError):
            self.invariants.broken(f"{driver.name} has an error of its own: {error!r}")
        elif isinstance(error, FencedError) and alone and not error.restartable:
            self.invariants.broken(f"{driver.name} takes itself for fenced, but there is no other: {error}")
        elif "cannot become" in str(error):
            self.invariants.broken(f"{driver.name} trips over its own state: {error}")

    def _explained(self, reason: str) -> bool:
        """Whether checkpoint and progress may be apart in this walk, in the way that an error says."""
        lost = {Fault.PROGRESS_LOST.value, Fault.PROGRESS_RECREATED.value} & self.plan.hits.keys()
        if lost or self.setting.company is Company.COPY or self.former is not None:
            return True
        if self.setting.company is Company.QUERY:
            return "another query has used" in reason
        return False

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
        elif fault in {Fault.PROGRESS_LOST, Fault.PROGRESS_RECREATED}:
            if PROGRESS_TOPIC in self.cluster.topics:
                recreated = fault is Fault.PROGRESS_RECREATED
                self.invariants.progress_is_lost()
                self.cluster.empty(
                    PROGRESS_TOPIC, recreated=recreated, partitions=self.rng.choice((None, 1)) if recreated else None
                )
        elif fault is Fault.ENLARGED:
            if PROGRESS_TOPIC in self.cluster.topics:
                self.cluster.enlarge(PROGRESS_TOPIC, self.rng.choice((3, 5, 8)))
        elif fault is Fault.SECOND_DRIVER:
            self._start_beside()

    def _start_beside(self) -> None:
        """Another run on the checkpoint, on its copy, or of the other query."""
        prefixes = self.setting.prefixes
        job = self._job(self.rng.choice((0, 1)) if self.setting.company is not Company.NONE else 0)
        if any(self.setting.adopting) and self.rng.random() < 0.5:
            start = Start(self.rng.choice((*prefixes, "copy")), adopts=True)
        else:
            start = Start(self.rng.choice((at_start(prefixes, self.starts), prefixes[0], "copy")))
        self._start(job, start)

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
    record = {"query_id": query, "batch_id": batch, "start": start, "end": end}
    return json.dumps({"kind": "progress", "version": 1} | record).encode()


def walk(seed: int, *, setting: Setting | None = None, plan: Plan | None = None, stateful: bool | None = None) -> Found:
    """Run the walk of a seed. ``setting``, ``plan`` and ``stateful`` replace what the seed would draw."""
    made = _Walk(seed, setting, plan, stateful)
    made.run()
    return made.found


def count(found: Sequence[Found]) -> dict[str, Counter[str]]:
    """Outcomes, faults and transitions of many walks."""
    return {
        "outcomes": Counter(each for one in found for each in one.outcomes),
        "faults": sum((Counter(one.plan.hits) for one in found), Counter()),
        "batches that were published again, as they may be": sum((one.repeated for one in found), Counter()),
        "transitions": Counter(f"{before} -> {after}" for one in found for before, after in one.transitions),
    }
