"""What is checked before Spark is started: a start that cannot succeed fails within a second or two, and starts no
process. What is known only later, or may change meanwhile, is checked again when the query starts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from penstock.engine.checkpoint import JobCheckpoint, job_location, local_checkpoint, read_location
from penstock.engine.checkpoint.lease import Lease
from penstock.engine.checkpoint.savepoints import restorable
from penstock.engine.checkpoint.state_report import claimed_steps, readable_checkpoint, state_report
from penstock.engine.runs.identity import check_owner, in_order_of, uids_of
from penstock.engine.runs.sources import runtime
from penstock.plan.nodes import Job, scans
from penstock.spi import ChecksScans, ChecksSinks, Output, StartContext


@dataclass
class JobStart:
    """A job that is about to start, planned and with its dead letters. ``checkpoint`` is None where only Spark can read
    it, and where the job keeps none. ``lease`` is that of the checkpoint, from :func:`take_lease` on. ``say`` takes
    other messages than warnings."""

    job: Job
    checkpoint: JobCheckpoint | None
    warn: Callable[[str], None]
    say: Callable[[str], None]
    lease: Lease | None = None


def check_start(job: Job, warn: Callable[[str], None], say: Callable[[str], None]) -> Lease | None:
    """Run all of :data:`CHECKS`, and return the lease of the checkpoint, if it can be read without Spark. Raises the
    PenstockError that would end the start later."""
    checkpoint = None
    if job.settings.checkpointing:
        checkpoint = local_checkpoint(job_location(job.settings.checkpoint_dir, job.name))
    start = JobStart(job, checkpoint, warn, say)
    try:
        for check in CHECKS:
            check(start)
    except BaseException:
        if start.lease is not None:
            start.lease.release()
        raise
    return start.lease


def check_checkpoint(start: JobStart) -> None:
    """The checkpoint is whole and belongs to this job. Raises CheckpointError."""
    if start.checkpoint is not None:
        start.checkpoint.check()
        check_owner(start.job, start.checkpoint)


def take_lease(start: JobStart) -> None:
    """No other process is seen to run the job, and from now on others see that this one does. Raises
    AlreadyRunningError, and CheckpointError if the checkpoint cannot be written."""
    if start.checkpoint is not None:
        job, take_over = start.job, start.job.settings.take_over
        start.lease = Lease.acquire(start.checkpoint, job.name, take_over=take_over, warn=start.warn)
        if not start.lease.number:  # nothing was written yet: another one is still the owner
            start.checkpoint.check_writable()


def check_savepoint(start: JobStart) -> None:
    """The savepoint exists, and the job has its steps and sources. Raises CheckpointError. A checkpoint that is not new
    does not need it any more."""
    settings = start.job.settings
    if settings.savepoint is None:
        return
    place = readable_checkpoint(start.job) if settings.checkpointing else None
    if not settings.checkpointing or (place is not None and place.read("job") is None):
        operators = (*claimed_steps(start.job, settings.savepoint), *settings.reset_state)
        sources = uids_of(scans(*start.job.sinks))
        restorable(
            read_location(settings.savepoint), operators, sources, allow_non_restored=settings.ignore_unclaimed_state
        )


def check_state(start: JobStart) -> None:
    """The steps fit the state that they continue from. Raises CheckpointError."""
    report = state_report(start.job)
    if report is not None:
        report.check()
        start.say(f"job '{start.job.name}': {report.title}")
        for line, calm in report.lines():
            (start.say if calm else start.warn)(f"job '{start.job.name}': step {line}")


def check_sources(start: JobStart) -> None:
    """Topics and files are there, and are those of the checkpoint."""
    job, checkpoint = start.job, start.checkpoint
    known = None if checkpoint is None else checkpoint.read("job")
    found = scans(*job.sinks)
    if checkpoint is not None and known is not None and known.get("sources"):
        where = f"'{checkpoint.location}'"
        found = tuple(in_order_of(known["sources"], found, where=where, warn=lambda _: None).values())
    if job.settings.savepoint is not None and known is None:  # the positions come from there
        checkpoint = None
    # A batch that was planned may be committed: then what is before its end is not needed any more.
    reached = () if checkpoint is None else checkpoint.offsets(checkpoint.last("offsets")) or ()
    done = () if checkpoint is None else checkpoint.offsets(checkpoint.last("commits")) or ()
    context = StartContext(job.name, job.settings, checkpoint, reached, done)
    for ordinal, scan in enumerate(found):
        connector = runtime(scan.connector)
        if isinstance(connector, ChecksScans):
            connector.check_scan(scan.spec, ordinal, context)


def check_sinks(start: JobStart) -> None:
    """The sinks' tables and topics are there, and the job may write them."""
    job = start.job
    context = StartContext(job.name, job.settings, start.checkpoint)
    outputs: dict[str, list[Output]] = {}
    for index, sink in enumerate(job.sinks):
        outputs.setdefault(sink.connector, []).append(Output(index, sink.table, sink.spec, sink.spec.schema))
    for name, group in outputs.items():
        connector = runtime(name)
        if isinstance(connector, ChecksSinks):
            connector.check_sinks(group, context)


#: The checks, in order: those of the checkpoint's files come before those that ask brokers and databases.
CHECKS: tuple[Callable[[JobStart], None], ...] = (
    check_checkpoint,
    take_lease,
    check_savepoint,
    check_state,
    check_sources,
    check_sinks,
)
