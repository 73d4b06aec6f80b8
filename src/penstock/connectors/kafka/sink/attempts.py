"""Whether Spark ran every task of a publishing job once (rule 9).

A second attempt in one transaction may be acknowledged as a repetition of the first, whose records it does not have.
The tasks that answered say whether they were a second attempt. Of attempts that left no answer only Spark's status
store tells, so that what the store does not know counts as not clean.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

_NOT_KNOWN = "whether Spark ran a task of the batch twice within one transaction could not be found out"
_KEEP_MORE = "raise spark.ui.retainedJobs and spark.ui.retainedStages"
_ONCE = (
    "check that spark.task.maxFailures and spark.stage.maxConsecutiveAttempts are 1 and spark.speculation is false, "
    "and look in Spark's log for a lost executor"
)


def repeated(context: Any, tag: str, answered: Iterable[int]) -> str:
    """Why the Spark jobs with the ``tag`` may not be committed; empty when each of their tasks ran exactly once. They
    are several where Spark plans as it goes (``spark.sql.adaptive.enabled``) or keeps the batch for several committers.

    ``context`` is the JVM's SparkContext, ``answered`` are the attempt numbers of the tasks that gave a result. Raises
    what Spark raises when it cannot tell: see :func:`not_known`.
    """
    if any(answered):
        return f"Spark ran a task of the batch twice within one transaction; {_ONCE}"
    context.listenerBus().waitUntilEmpty()  # the store is told a moment later
    jobs = sorted(context.statusTracker().getJobIdsForTag(tag))
    if not jobs:
        return f"{_NOT_KNOWN}: Spark knows no job of it; {_KEEP_MORE}"
    return next(filter(None, (_of_job(context.statusStore(), job) for job in jobs)), "")


def not_known(raised: str) -> str:
    """What :func:`repeated` would say when Spark raised something of this class."""
    if raised == "NoSuchElementException":
        return f"{_NOT_KNOWN}: Spark has forgotten the job or a stage of it; {_KEEP_MORE}"
    return f"{_NOT_KNOWN}: Spark answers {raised}; its driver may be overloaded"


def _of_job(store: Any, number: int) -> str:
    """What the store says of a job."""
    job = store.job(number)
    stages = job.stageIds()
    attempts = [store.lastStageAttempt(stages.apply(index)).attemptId() for index in range(stages.size())]
    if any(attempts) or job.numFailedStages():
        return f"Spark ran a stage of the batch twice within one transaction; {_ONCE}"
    if job.numFailedTasks() or job.numKilledTasks():
        return f"Spark ran a task of the batch twice within one transaction, after it failed or was killed; {_ONCE}"
    done = job.numCompletedTasks() + job.numSkippedTasks()
    if str(job.status()) != "SUCCEEDED" or done != job.numTasks() or job.numActiveTasks():
        return (
            f"{_NOT_KNOWN}: Spark's store has {done} of the job's {job.numTasks()} tasks as done and "
            f"{job.numActiveTasks()} as running; it loses events when its driver is overloaded "
            "(spark.scheduler.listenerbus.eventqueue.capacity)"
        )
    return ""
