"""The fault matrix: cells, each of which does one thing to a running job, and the trial that it gets to do it in."""

from __future__ import annotations

import random
import uuid
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

from kafka.protocol.producer import EndTxnRequest

from penstock.kafka.faults import fault_from_code
from penstock.kafka.properties import ClientConfig
from penstock.kafka.session import session_for
from penstock.kafka.topics import create_topic, read_finalized_features
from penstock_testing import Api, Frame, NumberedRecords, ProxiedCluster, Then, Trap, Verdict, Verifier
from penstock_testing.services import DEFAULT_VERSION
from tests.faults.contents import garbled
from tests.faults.processes import JobProcess
from tests.jvm import UNOPTIMISED

__all__ = [
    "BROKER", "CELLS", "COMMITTED", "PATIENCE", "PATIENT", "PROGRESS", "Cell", "Outcome", "Trial", "Unavailable",
    "cell", "commits", "committed", "refused", "run_cell", "story",
]  # fmt: skip

#: How long a cell waits for what must happen. Long, since it only ends what has failed, and machines may be busy.
PATIENCE = 240.0

#: A job that waits for an answer for as long as a cell keeps it back, while another job starts perhaps.
PATIENT = {
    "properties.request.timeout.ms": "300000",
    "properties.default.api.timeout.ms": "600000",
    "properties.delivery.timeout.ms": "600000",
}

#: Settings of the brokers: a transaction that has timed out is aborted soon after.
BROKER = {"transaction.abort.timed.out.transaction.cleanup.interval.ms": "500"}

PROGRESS = "__penstock_progress"

#: What a coordinator says of a transaction that was committed; its markers may not be written yet.
COMMITTED = frozenset({"PrepareCommit", "CompleteCommit"})

#: The first version of Produce that begins transactions by itself, and the first ``metadata.version`` of Kafka 4.
PRODUCE_OF_VERSION_2, METADATA_OF_KAFKA_4 = 12, 22

_FATES = {
    Then.FORWARD: "",
    Then.DROP: ", lost",
    Then.CLOSE: ", lost, connection closed",
    Then.RESET: ", lost, connection reset",
    Then.HOLD: ", held",
}


class Unavailable(Exception):
    """What a cell needs is not there on this machine; the message says what. The table says so too."""


@dataclass(frozen=True)
class Outcome:
    """What a cell found.

    ``verdict`` is on the records. ``stop`` is the error that a job ended with where that is what it should do. ``hit``
    says where the fault has hit, by what was seen of it: without that nothing was tried, and nothing is good.
    ``problem`` is what else went wrong besides the records, a fault that missed for one.
    """

    verdict: Verdict
    stop: str = ""
    hit: str = ""
    problem: str = ""

    @property
    def good(self) -> bool:
        """Whether all is as it should be."""
        return self.verdict.exact and bool(self.hit) and not self.problem


@dataclass(frozen=True)
class Cell:
    """One fault at one point. ``ci``: part of every test run. ``deadline`` is in seconds and for one run."""

    fault: str
    point: str
    run: Callable[[Trial], Outcome]
    ci: bool
    deadline: float
    brokers: int
    properties: Mapping[str, str]
    version: str

    def cluster(self) -> ProxiedCluster:
        """The cluster that it needs, not started yet."""
        properties = {**BROKER, **self.properties}
        return ProxiedCluster(self.brokers, properties=properties, version=self.version, jvm_options=[UNOPTIMISED])

    @property
    def name(self) -> str:
        """``F1 mid-publish``."""
        return f"{self.fault} {self.point}"


#: All cells by name, in the order of their definition.
CELLS: dict[str, Cell] = {}


def cell(
    fault: str,
    point: str,
    *,
    ci: bool = False,
    deadline: float = 600,
    brokers: int = 1,
    properties: Mapping[str, str] | None = None,
    version: str = DEFAULT_VERSION,
) -> Callable[[Callable[[Trial], Outcome]], Callable[[Trial], Outcome]]:
    """Registers a function as a cell. ``properties`` are more settings of the brokers, ``version`` theirs."""

    def register(function: Callable[[Trial], Outcome]) -> Callable[[Trial], Outcome]:
        made = Cell(fault, point, function, ci, deadline, brokers, dict(properties or {}), version)
        assert made.name not in CELLS, f"cell '{made.name}' is there twice"
        CELLS[made.name] = made
        return function

    return register


#: The most records of a small batch.
_SMALL = 2000


@dataclass
class Trial:
    """What a cell works with: a cluster behind proxies, topics of its own, numbered records, a verifier, jobs.

    ``records`` is how many the cell should write. ``mutation`` is set by the tests that make sure that cells can fail.

    What a cell may choose, it draws from ``random``, so that a run with another ``seed`` is another run: how many
    batches are done ``before`` the one that is hit, say. What it has seen of its fault it hands to :meth:`hit`.
    """

    cluster: ProxiedCluster
    records: int
    folder: Path
    mutation: str | None = None
    seed: int = 0
    #: Whether batches are so small that the driver publishes them; else tasks publish all.
    small: bool = False
    source_partitions: int = 4
    stack: ExitStack = field(default_factory=ExitStack)

    def __post_init__(self) -> None:
        self.random = random.Random(self.seed)
        self.before = self.random.randint(1, 3)
        self.sink_partitions = self.random.randint(2, 4)
        self.hits: list[str] = []
        self.misses: list[str] = []
        self.jobs: list[JobProcess] = []
        self.tag = uuid.uuid4().hex[:8]
        self.source, self.sink = f"in-{self.tag}", f"out-{self.tag}"
        self.prefix = f"tx-{self.tag}"
        self.session = session_for(ClientConfig.from_properties({"bootstrap.servers": self.cluster.direct}))
        create_topic(self.session, self.source, partitions=self.source_partitions)
        create_topic(self.session, self.sink, partitions=self.sink_partitions)
        self.numbered = NumberedRecords(self.cluster.direct, self.source)
        self.stack.callback(self.numbered.stop)
        self.verifier = self.verify()

    def verify(self, *outputs: str, **options: object) -> Verifier:
        """The verifier, made again with other options than by default (its ``first`` and ``ordered``, say). ``outputs``
        are the topics among which the records are shared, where that is not the sink alone."""
        made = Verifier(
            self.cluster.direct,
            self.numbered,
            outputs or [self.sink],
            **{"transactional_ids": [self.transactional_id], **options},
        )
        self.verifier = self.stack.enter_context(made)
        return made

    @property
    def transactional_id(self) -> str:
        """That of the job ``copy``."""
        return f"{self.prefix}-copy"

    # --- jobs ------------------------------------------------------------------------------------------------

    def sql(
        self,
        *,
        keyed: bool = False,
        bounded: bool = True,
        batches: int = 8,
        select: str = "SELECT k, n, h FROM s",
        source: Mapping[str, str] | None = None,
        sink: Mapping[str, str] | None = None,
    ) -> str:
        """A job that copies the records exactly once, headers and all.

        ``keyed``: keys go over too, so that records find their partition by key. ``bounded``: read to the present
        end, in about so many ``batches``. ``source`` and ``sink`` are more options of the tables.
        """
        columns = "k STRING, n BIGINT, h MAP<STRING, BYTES> METADATA FROM 'headers'"
        both = {"connector": "kafka", "properties.bootstrap.servers": self.cluster.bootstrap}
        reading = {
            **both,
            "topic": self.source,
            "format": "json",
            "scan.startup.mode": "earliest-offset",
            "scan.max-records-per-trigger": str(self._most(batches)),
            **({"scan.bounded.mode": "latest-offset"} if bounded else {}),
            **(source or {}),
        }
        formats = {"key.format": "raw", "key.fields": "k", "value.format": "json"} if keyed else {"format": "json"}
        writing = {
            **both,
            "topic": self.sink,
            **formats,
            "sink.delivery-guarantee": "exactly-once",
            "sink.transactional-id-prefix": self.prefix,
            **(sink or {}),
        }
        return (
            "SET 'pipeline.name' = 'copy';\nSET 'parallelism.default' = '2';\n"
            f"SET 'penstock.driver.max-records' = '{_SMALL if self.small else 0}';\n"
            f"CREATE TABLE s ({columns}) WITH ({_options(reading)});\n"
            f"CREATE TABLE t ({columns}) WITH ({_options(writing)});\n"
            f"INSERT INTO t {select};\n"
        )

    def _most(self, batches: int) -> int:
        """Records of a batch, so that there are about so many batches of all records."""
        each = max(1, -(-self.records // batches))
        return min(each, _SMALL) if self.small else each

    def job(
        self,
        sql: str | None = None,
        *,
        folder: str = "job",
        checkpoint: Path | str = "checkpoint",
        name: str = "copy",
        arguments: tuple[str, ...] = (),
        environment: Mapping[str, str] | None = None,
    ) -> JobProcess:
        """A job, not started yet; killed at the end of the trial. ``folder`` and ``checkpoint`` are within the trial's
        folder, and the former is different for each job."""
        made = JobProcess(
            self.folder / folder,
            self.sql() if sql is None else sql,
            self.folder / checkpoint,
            name=name,
            mutation=self.mutation,
            arguments=arguments,
            environment={"PYTHONHASHSEED": str(self.seed % 2**32), **(environment or {})},
        )
        self.stack.callback(made.kill)
        self.jobs.append(made)
        return made

    # --- points of the protocol ------------------------------------------------------------------------------

    def about(self, topic: str) -> Callable[[Frame], bool]:
        """Whether a frame's request names a topic, by name or by id. The topic may be created later."""

        def asks(frame: Frame) -> bool:
            if topic.encode() in frame.request:
                return True
            found = self.session.topics([topic], fresh=False).get(topic)
            return found is not None and found.topic_id is not None and found.topic_id.bytes in frame.request

        return asks

    def published(self, *, after: Trap, **options: object) -> Trap:
        """Catches the first answer to a Produce to the output that is no error: records are in the log, their
        transaction is open."""
        about_sink = self.about(self.sink)
        return self.cluster.add(
            Trap(
                Api.PRODUCE,
                response=True,
                contains=[self.transactional_id],
                where=lambda frame: about_sink(frame) and frame.errors == (0,),
                after=after,
                **options,
            )
        )

    def recording(self, *, after: Trap, **options: object) -> Trap:
        """Catches the Produce of a progress record, before the broker has it: all else is published."""
        return self.cluster.add(
            Trap(Api.PRODUCE, contains=[self.transactional_id], where=self.about(PROGRESS), after=after, **options)
        )

    def committing(self, batch: int, **options: object) -> Trap:
        """Catches the EndTxn request that commits the job's ``batch``-th batch (from 1) in this start."""
        return self.cluster.add(
            Trap(Api.END_TXN, contains=[self.transactional_id], where=commits, nth=1 + batch, **options)
        )

    def ended(self, batch: int, **options: object) -> Trap:
        """Catches the answer to the EndTxn of the job's ``batch``-th batch (from 1) in this start: it is committed.

        (The claim at the job's start is a transaction too, and is counted away.) Also a mark for traps that come
        ``after`` it.
        """
        return self.cluster.add(
            Trap(
                Api.END_TXN,
                response=True,
                contains=[self.transactional_id],
                where=committed,
                nth=1 + batch,
                **options,
            )
        )

    def wait(self, job: JobProcess, trap: Trap) -> Frame:
        """Wait until a trap has caught something of a job. Fails with the job's log when it ends without."""
        job.until(lambda: trap.frames, PATIENCE)
        return trap.wait(PATIENCE)  # until what it does is done

    def publishers(self) -> Callable[[], int]:
        """Counts the processes that publish to the output from now on: how many have published one and the same batch,
        of the batch with the most."""
        found: dict[int, set[int]] = {}
        ends = self.cluster.add(Trap(Api.END_TXN, response=True, contains=[self.transactional_id], times=None))

        def count(frame: Frame) -> None:
            if (pid := frame.pid) is not None:
                found.setdefault(len(ends.frames), set()).add(pid)

        self.cluster.add(
            Trap(
                Api.PRODUCE,
                contains=[self.transactional_id],
                where=self.about(self.sink),
                times=None,
                call=count,
            )
        )
        return lambda: max(map(len, found.values()), default=0)

    # --- evidence --------------------------------------------------------------------------------------------

    def hit(self, text: str, evidence: object = True) -> None:
        """Note what was seen of the fault. Where ``evidence`` is falsy it was not seen, and the cell is not good."""
        (self.hits if evidence else self.misses).append(text)

    def died(self, job: JobProcess, trap: Trap, *, planned: int | None = None, done: int | None = None) -> None:
        """Note where a trap has killed the job: by what the trap caught, by Spark's logs (which have to hold
        ``planned`` and ``done``, where these are known), and by what the coordinator says about the transaction."""
        self.hit(story(trap), trap.sprung)
        found = (job.planned(), job.done())
        expected = (found[0] if planned is None else planned, found[0] - 1 if done is None else done)
        self.hit(f"batch {found[0]} planned, batch {found[1]} done", found == expected)
        self.left_as_by(trap)

    def left_as_by(self, trap: Trap) -> None:
        """Note that the job's transaction is as a trap has to leave it: still open, or not begun since a commit."""
        open_there = {(Api.PRODUCE, True), (Api.TXN_OFFSET_COMMIT, True), (Api.END_TXN, False)}
        opened = (trap.api, trap.response) in open_there or self.in_progress(trap)
        self.stands({"Ongoing"} if opened else COMMITTED)

    def in_progress(self, trap: Trap) -> bool:
        """Whether a trap has caught what goes to the progress topic."""
        return trap.api == Api.PRODUCE and any(map(self.about(PROGRESS), trap.frames))

    def stands(self, states: Collection[str]) -> None:
        """Note what the coordinator says about the job's transaction, which has to be one of ``states``."""
        seen = self.verifier.inspector.describe(self.transactional_id)
        state = seen.state if seen else "unknown"
        self.hit(f"transaction {state}", state in states)

    # --- the end ---------------------------------------------------------------------------------------------

    def outcome(
        self, job: JobProcess | None = None, *, stop: str = "", problem: str = "", headers: bool = True
    ) -> Outcome:
        """The verdict, with all that was seen of the fault. With ``job``, which has ended, also whether it left
        processes behind. ``headers`` says whether it copies them, by which keys and values are checked."""
        left = job.left_over() if job is not None else 0
        wrong = garbled(self.session, self.verifier.outputs) if headers else 0
        problems = [
            *([f"{left} processes have outlived the job"] if left else []),
            *([f"in {wrong} records key, value and headers are not of one record"] if wrong else []),
            *([problem] if problem else []),
            *(f"the fault has missed: {each}" for each in self.misses),
            *([] if self.hits or self.misses else ["nothing shows that the fault has hit"]),
        ]
        return Outcome(self.verifier.verdict(), stop, "; ".join(dict.fromkeys(self.hits)), "; ".join(problems))


def commits(frame: Frame) -> bool:
    """Whether a frame is, or answers, an EndTxn that commits; aborts are EndTxn too."""
    return EndTxnRequest[frame.version].decode(frame.request, header=True).committed


def committed(frame: Frame) -> bool:
    """Whether a frame answers that a transaction is committed."""
    return frame.errors == (0,) and commits(frame)


def refused(trap: Trap) -> bool:
    """Whether the requests that a trap has caught were answered, and all with an error."""
    return bool(trap.errors) and 0 not in trap.errors


def story(trap: Trap) -> str:
    """What a trap has caught, and what became of it: ``3 answers NONE to EndTxn, lost``."""
    api = "".join(part.title() for part in Api(trap.api).name.split("_"))
    count = len(trap.frames)
    codes = "/".join(fault_from_code(code).name for code in trap.errors)
    times = f"{count} " if count > 1 else ""
    if trap.response:
        return f"{times}{'answers' if count > 1 else 'answer'} {codes} to {api}{_FATES[trap.then]}".replace("  ", " ")
    sent = f", sent on and answered {codes}" if codes and trap.then is Then.HOLD else ""
    return f"{times}{api}{_FATES[trap.then]}{sent}"


def _options(options: Mapping[str, str]) -> str:
    return ", ".join(f"'{key}' = '{value}'" for key, value in options.items())


@contextmanager
def trial(
    cluster: ProxiedCluster, records: int, folder: Path, mutation: str | None = None, seed: int = 0
) -> Iterator[Trial]:
    """A trial on a cluster that may have been used before. All its jobs are dead afterwards, the proxies unharmed."""
    with ExitStack() as stack:
        stack.callback(cluster.heal)
        yield Trial(cluster, records, folder, mutation, seed, stack=stack)


def run_cell(
    found: Cell, cluster: ProxiedCluster, records: int, folder: Path, mutation: str | None = None, seed: int = 0
) -> Outcome:
    """Run a cell once."""
    with trial(cluster, records, folder, mutation, seed) as given:
        if found.version != DEFAULT_VERSION:
            level = read_finalized_features(given.session).get("metadata.version", 0)
            given.hit(f"brokers of {found.version}, metadata.version {level}", 0 < level < METADATA_OF_KAFKA_4)
        if found.version == DEFAULT_VERSION and found.properties.get("transaction.version") != "0":
            return found.run(given)
        spoken = cluster.add(Trap(Api.PRODUCE, contains=[given.prefix]))
        outcome = found.run(given)
        version = spoken.frames[0].version if spoken.sprung else -1
        old = 0 <= version < PRODUCE_OF_VERSION_2
        problem = "" if old else f"the fault has missed: Produce of version {version}, as with transaction.version 2"
        return replace(
            outcome,
            hit="; ".join(filter(None, (outcome.hit, f"Produce of version {version}"))),
            problem="; ".join(filter(None, (outcome.problem, problem))),
        )
