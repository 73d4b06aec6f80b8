"""What a supervisor does when there is another copy of the job: the newer one continues, the older one ends."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import pytest

from penstock.engine.runs import supervisor
from penstock.engine.runs.batch_positions import JobProgress
from penstock.engine.runs.query import Query
from penstock.engine.runs.restarts import Restarts
from penstock.engine.runs.supervisor import RunningJob, _check_alone
from penstock.errors import (
    AnotherCopyError,
    CheckpointError,
    ExecutionError,
    FencedError,
    OptionsError,
    PenstockError,
    RetriableError,
    UnclaimedIdError,
)
from penstock.settings import FixedDelay, Settings
from penstock.spi import MetricGroup

pytestmark = pytest.mark.rule("one copy has the lease")

RIVAL, STRANGER = "process 7 on first", "process 8 on elsewhere"
LOST = FencedError("the checkpoint was taken over by process 9 on third", "process 9 on third")


@dataclass
class Lease:
    """A lease that has one rival, and is ``lost`` if a test says so."""

    lost: PenstockError | None = None
    on_lost: Callable[[FencedError], None] | None = None
    released: int = 0
    contested: bool = True

    def look(self) -> None:
        if self.lost is not None:
            raise self.lost

    def is_rival(self, process: str) -> bool:
        return process == RIVAL

    def release(self) -> None:
        self.released += 1


@dataclass
class Run:
    """A run that ends with ``failure``, and that fails once with ``closing`` when it is closed."""

    failure: PenstockError | None = None
    progress: JobProgress = field(default_factory=JobProgress)
    replaced: CheckpointError | None = None
    query_id: str = "q"
    at_start: PenstockError | None = None
    closing: list[PenstockError] = field(default_factory=list)

    def start(self) -> None:
        if self.at_start is not None:
            raise self.at_start

    def close(self) -> None:
        if self.closing:
            raise self.closing.pop()

    def check_log(self) -> None:
        if self.replaced is not None:
            raise self.replaced

    def wait(self) -> bool:
        if self.failure is not None:
            raise self.failure
        return True

    def end(self, failure: PenstockError) -> None:
        self.failure = failure


@dataclass
class Job:
    """A job, whose runs are those that a test gives."""

    lease: Lease
    warnings: list[str]
    running: RunningJob
    runs: list[Run]

    def supervise(self, *runs: Run) -> PenstockError | None:
        """Supervise these runs. How the job ended."""
        self.runs += runs
        self.running._run = self.runs.pop(0)  # type: ignore[assignment]
        self.running._supervise()
        return self.running._failure


@pytest.fixture
def job(monkeypatch: pytest.MonkeyPatch) -> Iterator[Job]:
    monkeypatch.setattr(supervisor, "is_alive", lambda _: True)
    monkeypatch.setattr(supervisor, "_check_session", lambda *_: None)
    lease, warnings = Lease(), list[str]()
    definition: Any = SimpleNamespace(name="totals", settings=Settings())
    nothing: Any = None
    given: Any = lease
    running = RunningJob(definition, nothing, nothing, warnings.append, given)
    found = Job(lease, warnings, running, [])

    def query(progress: JobProgress, former_id: str) -> Run:
        run = found.runs.pop(0)
        run.progress = progress if run.progress == JobProgress() else run.progress
        return run

    monkeypatch.setattr(running, "_query", query)
    return found


OTHERS = [
    AnotherCopyError("another copy of job 'totals' writes the checkpoint"),
    FencedError("transactional id 'tx' was taken over by run r (process 7 on first, started ..)", RIVAL),
    UnclaimedIdError("taken over by a producer that left no claim"),
]


def notes(failure):
    """The notes on a failure, but for the one that names the file with the reports of Spark and Python: another test of
    this process may have begun one."""
    return [each for each in failure.__notes__ if not each.startswith("what Spark and Python reported is in ")]


@pytest.mark.parametrize("failure", OTHERS, ids=lambda each: type(each).__name__)
def test_the_newer_copy_goes_on_without_a_restart_strategy(job: Job, failure: PenstockError) -> None:
    assert job.supervise(Run(failure), Run()) is None
    assert job.running.status == "finished"
    assert job.warnings == [f"job 'totals': restart 1 in 0 s: {failure}"]
    assert job.running.progress.restarts == 1
    assert job.lease.released == 1


@pytest.mark.parametrize(
    "failure",
    [
        FencedError("taken over", STRANGER),
        FencedError("has published batch 7 meanwhile"),
        CheckpointError("an older checkpoint was restored"),
        ExecutionError("it broke"),
    ],
    ids=str,
)
def test_what_no_former_owner_has_done_ends_the_job(job: Job, failure: PenstockError) -> None:
    assert job.supervise(Run(failure)) is failure
    assert job.running.status == "failed"


def test_a_program_that_leaves_no_claim_and_was_no_owner_is_left_to_the_strategy(job: Job) -> None:
    job.lease.contested = False
    assert job.supervise(Run(OTHERS[2])) is OTHERS[2]


@pytest.mark.parametrize("failure", OTHERS, ids=lambda each: type(each).__name__)
def test_the_older_copy_ends(job: Job, failure: PenstockError) -> None:
    job.lease.lost = LOST
    found = job.supervise(Run(failure))
    assert isinstance(found, FencedError)
    assert (found is LOST) == isinstance(failure, AnotherCopyError | UnclaimedIdError)  # which name no winner
    assert job.running.status == "failed"
    assert job.lease.released == 1


def test_a_run_that_is_told_of_a_newer_copy_ends(job: Job) -> None:
    run = Run()
    job.running._run = run  # type: ignore[assignment]
    job.running._lost(LOST)
    assert job.supervise(run) is LOST


@pytest.mark.parametrize("failure", OTHERS[:2], ids=lambda each: type(each).__name__)
def test_the_newer_copy_gets_through_its_first_start(job: Job, failure: PenstockError) -> None:
    job.running._run = Run(at_start=failure)  # type: ignore[assignment]
    job.runs += [Run(at_start=failure), Run()]
    job.running.start()
    assert job.running.wait(60)
    assert [warning.split(":")[1] for warning in job.warnings] == [" restart 1 in 0 s", " restart 2 in 0 s"]


def test_a_start_that_fails_otherwise_fails(job: Job) -> None:
    failure = FencedError("taken over", STRANGER)
    job.running._run = Run(at_start=failure)  # type: ignore[assignment]
    with pytest.raises(FencedError) as raised:
        job.running.start()
    assert raised.value is failure


@pytest.mark.parametrize("waiting", [True, False], ids=["before its query", "when its query is there"])
def test_a_run_that_loses_the_lease_while_it_starts_ends(waiting: bool) -> None:
    nothing: Any = None
    lease: Any = Lease()
    definition: Any = SimpleNamespace(name="totals")
    run = Query(definition, nothing, nothing, pytest.fail, bool, JobProgress(), MetricGroup(), "", lease)
    writer: Any = SimpleNamespace()
    query: Any = SimpleNamespace(isActive=False)
    run._writer = writer
    run.end(LOST)
    run.spark_query = None if waiting else query
    with pytest.raises(FencedError) as raised:
        run.wait()
    assert raised.value is LOST


@pytest.mark.rule("terminal errors end the job")
def test_a_fenced_job_is_not_restarted_because_closing_it_failed_too(job: Job) -> None:
    job.running._restarts = Restarts(FixedDelay(attempts=5, delay=timedelta(0)))
    failure = FencedError("taken over", STRANGER)
    assert job.supervise(Run(failure, closing=[ExecutionError("the disk is away")])) is failure
    assert "job 'totals' was not closed properly: the disk is away" in notes(failure)
    assert job.warnings == []


def test_a_failure_is_followed_by_a_restart_although_closing_the_run_failed_too(job: Job) -> None:
    job.running._restarts = Restarts(FixedDelay(attempts=5, delay=timedelta(0)))
    failed = Run(RetriableError("no broker answers"), closing=[ExecutionError("the disk is away")])
    assert job.supervise(failed, Run()) is None
    assert job.running.progress.restarts == 1
    (warning,) = job.warnings
    assert warning.endswith("no broker answers; job 'totals' was not closed properly: the disk is away")


def test_a_log_whose_last_entry_was_replaced_is_not_gone_on_from(job: Job) -> None:
    """What lies between the end that was published and the one in the log would be read by nobody, or twice."""
    replaced = CheckpointError("'offsets/7' ends at 9, but this copy planned 8")
    assert job.supervise(Run(OTHERS[0], replaced=replaced)) is replaced
    assert notes(replaced) == [str(OTHERS[0])]
    assert job.supervise(Run(OTHERS[1], replaced=replaced)) is OTHERS[1]


def test_copies_that_stay_end_the_job_unless_it_publishes_in_between(job: Job) -> None:
    most = supervisor._MOST_CONFLICTS
    runs = [Run(OTHERS[0], JobProgress(batches=each)) for each in (1, 2, 2)]
    stuck = [Run(OTHERS[0], JobProgress(batches=3)) for _ in range(most + 1)]
    assert job.supervise(*runs, *stuck) is OTHERS[0]
    assert notes(OTHERS[0])[-1] == "find what else writes to this folder, stop it, then start the job again"
    assert len(job.warnings) == 3 + most
    assert job.runs == []


def test_a_job_that_waits_is_seen_by_a_second_start_in_the_process(job: Job) -> None:
    """In batch mode it has no query of Spark's until all records are there."""
    definition = job.running.job
    _check_alone(definition)
    ended = supervisor.threading.Event()
    job.running._run = SimpleNamespace(wait=lambda: ended.wait(60), start=lambda: None, close=lambda: None)  # type: ignore[assignment]
    job.running.start()
    with pytest.raises(OptionsError, match="a job of this name already runs in this process"):
        _check_alone(definition)
    ended.set()
    job.running.wait()
    _check_alone(definition)
