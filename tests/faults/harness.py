"""The fault matrix: cells, each of which does one thing to a running job, and the trial that it gets to do it in."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from penstock.kafka.properties import ClientConfig
from penstock.kafka.session import session_for
from penstock.kafka.topics import create_topic
from penstock.services import DEFAULT_VERSION
from penstock.testing import Api, Frame, NumberedRecords, ProxiedCluster, Trap, Verdict, Verifier
from tests.faults.processes import JobProcess

__all__ = ["BROKER", "CELLS", "PATIENCE", "Cell", "Outcome", "Trial", "Unavailable", "cell", "run_cell"]

#: How long a cell waits for what must happen. Long, since it only ends what has failed, and machines may be busy.
PATIENCE = 240.0

#: Settings of the brokers: a transaction that has timed out is aborted soon after.
BROKER = {"transaction.abort.timed.out.transaction.cleanup.interval.ms": "500"}

_PROGRESS = "__penstock_progress"


class Unavailable(Exception):
    """What a cell needs is not there on this machine; the message says what. The table says so too."""


@dataclass(frozen=True)
class Outcome:
    """What a cell found.

    ``verdict`` is on the records. ``stop`` is the error that a job ended with where that is what it should do.
    ``problem`` is what else went wrong besides the records. ``note`` says what was hit.
    """

    verdict: Verdict
    stop: str = ""
    note: str = ""
    problem: str = ""

    @property
    def good(self) -> bool:
        """Whether all is as it should be."""
        return self.verdict.exact and not self.problem


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
        return ProxiedCluster(self.brokers, properties={**BROKER, **self.properties}, version=self.version)

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


@dataclass
class Trial:
    """What a cell works with: a cluster behind proxies, topics of its own, numbered records, a verifier, jobs.

    ``records`` is how many the cell should write. ``mutation`` is set by the tests that make sure that cells can fail.
    """

    cluster: ProxiedCluster
    records: int
    folder: Path
    mutation: str | None = None
    source_partitions: int = 4
    sink_partitions: int = 3
    stack: ExitStack = field(default_factory=ExitStack)

    def __post_init__(self) -> None:
        self.tag = uuid.uuid4().hex[:8]
        self.source, self.sink = f"in-{self.tag}", f"out-{self.tag}"
        self.prefix = f"tx-{self.tag}"
        self.session = session_for(ClientConfig.from_properties({"bootstrap.servers": self.cluster.direct}))
        create_topic(self.session, self.source, partitions=self.source_partitions)
        create_topic(self.session, self.sink, partitions=self.sink_partitions)
        self.numbered = NumberedRecords(self.cluster.direct, self.source)
        self.stack.callback(self.numbered.stop)
        self.verifier = self.verify()

    def verify(self, **options: object) -> Verifier:
        """The verifier, made anew with other options than by default (its ``first`` and ``ordered``, say)."""
        made = Verifier(
            self.cluster.direct,
            self.numbered,
            [self.sink],
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
            "scan.max-records-per-trigger": str(max(1, -(-self.records // batches))),
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
            f"CREATE TABLE s ({columns}) WITH ({_options(reading)});\n"
            f"CREATE TABLE t ({columns}) WITH ({_options(writing)});\n"
            f"INSERT INTO t {select};\n"
        )

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
            environment=environment,
        )
        self.stack.callback(made.kill)
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
        """Catches the first answer to a Produce to the output: records are in the log, their transaction is open."""
        return self.cluster.add(
            Trap(
                Api.PRODUCE,
                response=True,
                contains=[self.transactional_id],
                where=self.about(self.sink),
                after=after,
                **options,
            )
        )

    def recording(self, *, after: Trap, **options: object) -> Trap:
        """Catches the Produce of a progress record, before the broker has it: all else is published."""
        return self.cluster.add(
            Trap(Api.PRODUCE, contains=[self.transactional_id], where=self.about(_PROGRESS), after=after, **options)
        )

    def committing(self, batch: int, **options: object) -> Trap:
        """Catches the EndTxn request of the job's ``batch``-th batch (from 1) in this start."""
        return self.cluster.add(Trap(Api.END_TXN, contains=[self.transactional_id], nth=1 + batch, **options))

    def ended(self, batch: int, **options: object) -> Trap:
        """Catches the answer to the EndTxn of the job's ``batch``-th batch (from 1) in this start: it is committed.

        (The claim at the job's start is a transaction too, and is counted away.) Also a mark for traps that come
        ``after`` it.
        """
        return self.cluster.add(
            Trap(Api.END_TXN, response=True, contains=[self.transactional_id], nth=1 + batch, **options)
        )

    # --- the end ---------------------------------------------------------------------------------------------

    def outcome(self, job: JobProcess | None = None, *, stop: str = "", note: str = "", problem: str = "") -> Outcome:
        """The verdict. With ``job``, which has ended, also whether it left processes behind."""
        left = job.left_over() if job is not None else 0
        if left:
            problem = f"{left} processes have outlived the job; {problem}".strip("; ")
        return Outcome(self.verifier.verdict(), stop, note, problem)


def _options(options: Mapping[str, str]) -> str:
    return ", ".join(f"'{key}' = '{value}'" for key, value in options.items())


@contextmanager
def trial(cluster: ProxiedCluster, records: int, folder: Path, mutation: str | None = None) -> Iterator[Trial]:
    """A trial on a cluster that may have been used before. All its jobs are dead afterwards, the proxies unharmed."""
    with ExitStack() as stack:
        stack.callback(cluster.heal)
        yield Trial(cluster, records, folder, mutation, stack=stack)


def run_cell(found: Cell, cluster: ProxiedCluster, records: int, folder: Path, mutation: str | None = None) -> Outcome:
    """Run a cell once."""
    with trial(cluster, records, folder, mutation) as given:
        return found.run(given)
