"""Starts jobs, and restarts failed ones from their checkpoints as their restart strategies allow."""

from __future__ import annotations

import logging
import tempfile
import threading
import time
import uuid
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, replace

from pyspark import InheritableThread
from pyspark.sql import SparkSession

from penstock.engine.checkpoint import JobCheckpoint, open_checkpoint, read_location
from penstock.engine.checkpoint.lease import Lease
from penstock.engine.checkpoint.savepoints import write_savepoint
from penstock.engine.runs.batch_positions import JobProgress
from penstock.engine.runs.failures import FOREIGN, spark_gone_error
from penstock.engine.runs.query import Query
from penstock.engine.runs.restarts import Restarts
from penstock.engine.runs.start_checks import check_start
from penstock.engine.runs.user_modules import send_modules
from penstock.engine.session import is_alive, make_quick_starts, report, spark_session
from penstock.errors import (
    VERBOSE,
    AnotherCopyError,
    CheckpointUnavailableError,
    ExecutionError,
    FencedError,
    OptionsError,
    PenstockError,
    Problem,
    UnclaimedIdError,
)
from penstock.plan.checks import check_settings
from penstock.plan.dead_letter_sinks import with_dead_letters
from penstock.plan.guarantees import check_guarantees
from penstock.plan.lifetimes import warn_of_growing_steps
from penstock.plan.nodes import Job
from penstock.plan.notes import notes_of
from penstock.plan.planning import plan_job
from penstock.spi import MetricGroup

_log = logging.getLogger("penstock")

#: How often a job continues after another copy of it before it has published a batch again. The other one ends when it
#: looks; a program that does not look would continue for ever.
_MOST_CONFLICTS = 5


@dataclass(frozen=True)
class JobResult:
    """The result of a job. ``stopped``: it was stopped before its sources were read. ``continued``: it went on from a
    checkpoint or a savepoint."""

    job: str
    progress: JobProgress
    stopped: bool
    seconds: float
    continued: bool = False


def run(job: Job, warn: Callable[[str], None] | None = None, say: Callable[[str], None] | None = None) -> JobResult:
    """Run ``job`` until all its sources are bounded and read. Raises the PenstockError that ended it. ``warn`` and
    ``say`` as in :func:`start`."""
    running = start(job, warn, say)
    try:
        while not running.wait(timeout=3600):
            pass
    finally:
        running.stop()
    return running.result()


def start(job: Job, warn: Callable[[str], None] | None = None, say: Callable[[str], None] | None = None) -> RunningJob:
    """Start ``job`` and return while it runs. Raises a PenstockError if it cannot be started: only a job that has run
    is restarted. ``warn`` gets warnings, ``say`` other news, which Python's log has too."""
    warn = warn or (lambda _: None)
    job = plan_job(job)
    check_guarantees(job)
    check_settings(job)
    send_modules(job)
    say = _logged(say)
    for warning in warn_of_growing_steps(job):
        warn(f"job '{job.name}': {warning}")
    for note in notes_of(job):
        say(f"job '{job.name}': note: {note}")
    job = with_dead_letters(job)
    _check_alone(job)
    location, folder = job.settings.checkpoint_dir, None
    if not job.settings.checkpointing:
        warn("checkpointing is off: the job's progress is lost when it ends")
        folder = tempfile.TemporaryDirectory(prefix="penstock-")
        location = folder.name
    with ExitStack() as undone:
        if folder is not None:
            undone.callback(folder.cleanup)
        lease = check_start(job, warn, say)
        if lease is not None:
            undone.callback(lease.release)
        spark = spark_session(job.settings, job.name)
        checkpoint = open_checkpoint(spark, location, job.name)
        if lease is None:
            lease = Lease.acquire(checkpoint, job.name, take_over=job.settings.take_over, warn=warn)
            undone.callback(lease.release)
        running = RunningJob(job, spark, checkpoint, warn, lease, say)
        running.folder = folder
        undone.pop_all()
    try:
        running.start()
    except PenstockError as error:
        running.stop()
        if isinstance(error.__cause__, FOREIGN):
            _note_report(error)
        raise
    except BaseException:
        running.stop()
        raise
    return running


def _logged(say: Callable[[str], None] | None) -> Callable[[str], None]:
    """``say`` to the log too."""

    def both(text: str) -> None:
        _log.info(text)
        if say is not None:
            say(text)

    return both


def _check_alone(job: Job) -> None:
    """Raises OptionsError for a job that this process runs already, also while it waits for records or for a restart:
    this one would fence it (rule "one identity per job")."""
    others = (each.running for each in threading.enumerate() if isinstance(each, _Supervision))
    if any(each.job.name == job.name and each.status in {"running", "restarting"} for each in others):
        raise _twice(job)


def _check_session(job: Job, spark: SparkSession) -> None:
    """Raises OptionsError for a job whose name a query of the session has: Spark would refuse this one, when it has
    taken over."""
    if any(query.name == job.name for query in spark.streams.active):
        raise _twice(job)


def _twice(job: Job) -> OptionsError:
    reason = "a job of this name already runs in this process; they would share a checkpoint and a transactional id"
    return OptionsError((Problem(reason, where=f"job '{job.name}'", hint="give each job its own name"),))


class _Supervision(InheritableThread):
    """The thread that waits for the runs of a job."""

    def __init__(self, running: RunningJob, target: Callable[[], None]):
        super().__init__(target=target, name=f"penstock {running.job.name}", daemon=True)
        self.running = running


def _note_report(failure: PenstockError) -> None:
    """Add to a failure which file has all that Spark and Python have reported."""
    if path := report(failure):
        failure.add_note(f"what Spark and Python reported is in '{path}'; --verbose, or {VERBOSE}=1, shows it here")


class RunningJob:
    """A started job: wait for it, look at its progress, stop it.

    A separate thread waits for the run to end, and starts the next one if it failed and the job's strategy allows it.
    """

    def __init__(
        self,
        job: Job,
        spark: SparkSession,
        checkpoint: JobCheckpoint,
        warn: Callable[[str], None],
        lease: Lease,
        say: Callable[[str], None] = lambda _: None,
    ):
        self.job = job
        self.checkpoint = checkpoint
        #: Deleted when the job ends: the checkpoint of a job that keeps none.
        self.folder: tempfile.TemporaryDirectory[str] | None = None
        self._spark = spark
        self._warn = warn
        self._lease = lease
        self._say = say
        self._restarts = Restarts(job.settings.restart)
        self._stopping = threading.Event()
        self._over = threading.Event()
        self._failure: PenstockError | None = None
        self._complaints: set[str] = set()
        self._finished = False
        self._pausing = False
        self._thread: threading.Thread | None = None
        #: How often it went on after another copy of the job without publishing a batch, and the batches before that.
        self._conflicts = (0, 0)
        self._metrics = MetricGroup((("job", job.name),))
        self._metrics.gauge("numRestarts", lambda: self.progress.restarts)
        self._run = self._query(JobProgress(), "")
        self._begun = time.monotonic()

    # --- life ------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Start the first run. Raises the PenstockError that prevents it."""
        self._lease.on_lost = self._lost
        while (failure := self._started()) is not None:  # another copy may act between two steps of a start
            if not self._outlives(failure):
                self._advise(failure)
                raise failure
            restart = self._restarts.at_once()
            self._warn(f"job '{self.job.name}': {restart}: {failure}")
            self._run = self._query(replace(self._run.progress, restarts=restart.number), self._run.query_id)
        self._thread = _Supervision(self, self._supervise)
        self._thread.start()

    def wait(self, timeout: float | None = None) -> bool:
        """Wait up to ``timeout`` seconds; True when the job has ended. Raises the PenstockError that ended it."""
        if self._thread is not None and not self._over.wait(timeout):
            return False
        if self._failure is not None:
            raise self._failure
        return True

    def stop(self) -> None:
        """End the query, abort what it left open and release connections. Safe to call more than once. A step that
        fails becomes a warning, or a note on the failure that ended the job."""
        self._stopping.set()
        self._close(self._failure)
        if self.progress.batches:
            make_quick_starts(self._spark)
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join()
        self._try(self._lease.release, self._failure)
        if self.folder is not None:
            self._try(self.folder.cleanup, self._failure)

    def result(self) -> JobResult:
        """The result of the job so far."""
        seconds = time.monotonic() - self._begun
        return JobResult(self.job.name, self.progress, not self._finished, seconds, self._run.continues)

    def savepoint(self, directory: str | None = None) -> str | None:
        """The path of a new savepoint of what is committed, in ``directory`` or that of the job's settings; None if
        there is neither. Raises CheckpointError before the first batch is committed."""
        folder = directory or self.job.settings.savepoint_dir
        if folder is None:
            return None
        name = f"savepoint-{self.query_id[:6]}-{uuid.uuid4().hex[:12]}"
        made = write_savepoint(self.checkpoint, read_location(f"{folder.rstrip('/')}/{name}"))
        if made.note and self._over.is_set():
            self._warn(f"savepoint '{made.location}': {made.note}")
        return made.location

    # --- looking at it ---------------------------------------------------------------------------------------

    @property
    def progress(self) -> JobProgress:
        """A snapshot of the job's counters."""
        return self._run.progress

    @property
    def status(self) -> str:
        """``running``, ``restarting``, ``failed``, ``canceled`` or ``finished``."""
        if not self._over.is_set():
            return "restarting" if self._pausing else "running"
        if self._failure is not None:
            return "failed"
        return "finished" if self._finished else "canceled"

    @property
    def query_id(self) -> str:
        """The id of the job in its checkpoint."""
        return self._run.query_id

    @property
    def run_id(self) -> str:
        """Spark's id of the current run; empty before the first. It is also the group of Spark's jobs."""
        query = self._run.spark_query
        return "" if query is None else str(query.runId)

    @property
    def metrics(self) -> MetricGroup:
        """The job's metrics, a moment after the last batch: ``metrics["operator.orders.numRecordsIn"]``."""
        self._run.gather()
        return self._metrics

    def lag(self) -> int | None:
        """Records between the last committed position and the end of the sources; None if that is not known, and
        without sources that count records."""
        return self._run.lag()

    # --- restarts --------------------------------------------------------------------------------------------

    def _query(self, progress: JobProgress, former_id: str) -> Query:
        job = self.job
        if progress.batches:  # it has seen the progress that it published, and notices if that gets lost
            job = replace(job, settings=replace(job.settings, adopt_progress=False))
        return Query(
            job,
            self._spark,
            self.checkpoint,
            self._warn,
            self._stopping.is_set,
            progress,
            self._metrics,
            former_id,
            self._lease,
            self._say,
        )

    def _supervise(self) -> None:
        """Supervise the job's runs until no other follows."""
        try:
            while True:
                failure = None
                try:
                    self._finished = self._run.wait()
                except PenstockError as error:
                    failure = error
                self._close(failure)
                if failure is None or not self._start_again(self._as_known_now(failure)):
                    return
        except Exception as error:  # noqa: BLE001 - wait() raises it
            cannot = ExecutionError(
                f"job '{self.job.name}' cannot be restarted: {error!r}; read Spark's log for the whole report, then "
                "start the job again"
            )
            self._fail(cannot if is_alive(self._spark) else spark_gone_error(self.job), error)
            self._close(self._failure)
        finally:
            self._try(self._lease.release, self._failure)
            self._over.set()

    def _start_again(self, failure: PenstockError) -> bool:
        """Start the next run, by as many attempts as the strategy allows. False when the job fails or is stopped."""
        while True:
            if failure.restartable and not is_alive(self._spark):
                self._fail(spark_gone_error(self.job), failure)
                return False
            restart = self._restarts.at_once() if self._outlives(failure) else None
            if restart is None and failure.restartable:
                restart = self._restarts.after_failure()
            if restart is None:
                self._advise(failure)
                self._note(failure)
                _note_report(failure)
                self._failure = failure
                return False
            notes = "".join(f"; {note}" for note in getattr(failure, "__notes__", ()))
            self._pausing = True
            self._warn(f"job '{self.job.name}': {restart}: {failure}{notes}")
            self._run.progress = replace(self._run.progress, last_failure=str(failure))
            if self._stopping.wait(restart.delay):
                return False
            # Either stop() finds this run and closes it, or it has set the event before.
            self._run = self._query(replace(self._run.progress, restarts=restart.number), self._run.query_id)
            failed = self._started()
            if failed is None:
                self._pausing = False
                if self._stopping.is_set():
                    self._close(None)
                return True
            failure = failed
            if self._stopping.is_set():
                return False

    def _outlives(self, failure: PenstockError) -> bool:
        """Whether the failure comes from a copy of the job that this one has taken over from: a batch in the log or a
        state in the checkpoint that this one did not write, or a target that the other one has late taken over again.
        Then this one continues from where the checkpoint and the targets are, whatever its strategy."""
        count, batches = self._conflicts
        count = count + 1 if batches == self.progress.batches else 1
        match failure:
            case AnotherCopyError():
                known = True
            case UnclaimedIdError():
                known = self._lease.contested
            case FencedError():
                known = self._lease.is_rival(failure.winner)
            case _:
                known = False
        if not known or count > _MOST_CONFLICTS:
            return False
        self._conflicts = count, self.progress.batches
        try:
            self._lease.look()
            self._run.check_log()
        except PenstockError:
            return False
        return True

    @staticmethod
    def _advise(failure: PenstockError) -> None:
        """Warn that another copy of the job does not end, and say what to do."""
        if isinstance(failure, AnotherCopyError):
            failure.add_note("find what else writes to this folder, stop it, then start the job again")

    def _lost(self, failure: FencedError) -> None:
        """Another copy of the job has the lease now."""
        self._run.end(failure)

    def _as_known_now(self, failure: PenstockError) -> PenstockError:
        """The failure of a run, or what is behind it: that another copy has the job now, or has replaced what this one
        has published."""
        if isinstance(failure, AnotherCopyError | UnclaimedIdError):
            try:
                self._lease.look()
                self._run.check_log()
            except CheckpointUnavailableError:
                pass
            except PenstockError as behind:
                behind.add_note(str(failure))
                return behind
        return failure

    def _started(self) -> PenstockError | None:
        """Start the run. Returns the error that prevented it, after closing the run; None if it has started."""
        try:
            _check_session(self.job, self._spark)
            self._run.start()
        except PenstockError as error:
            self._close(error)
            return self._as_known_now(error)
        return None

    def _close(self, failure: PenstockError | None) -> None:
        """Close the run, which ended with ``failure``."""
        self._try(self._run.close, failure)

    def _try(self, release: Callable[[], None], failure: PenstockError | None) -> None:
        """Call ``release``. Its own failure is reported with ``failure``, not instead of it: whether a job may be
        restarted depends on how its run ended."""
        try:
            release()
        except Exception as error:  # noqa: BLE001 - the run has ended all the same
            complaint = f"job '{self.job.name}' was not closed properly: {error}"
            if complaint in self._complaints:  # a run is closed when it ends, and again when the job is stopped
                return
            self._complaints.add(complaint)
            if failure is None:
                self._warn(complaint)
            else:
                failure.add_note(complaint)

    def _fail(self, failure: PenstockError, cause: Exception) -> None:
        failure.__cause__ = cause
        _note_report(failure)
        self._failure = failure

    def _note(self, failure: PenstockError) -> None:
        """Add to the last failure why the strategy allows no restart."""
        strategy, made = self.job.settings.restart, self._restarts.count
        if strategy is None:
            return
        why = f"it allows {strategy.describe()}" if failure.restartable else "a restart would not help"
        failure.add_note(f"the restart strategy ends here, after {made} restart{'' if made == 1 else 's'}: {why}")
