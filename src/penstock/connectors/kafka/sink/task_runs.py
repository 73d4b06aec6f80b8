"""Whether Spark ran every task of a publishing job once (rule "tasks run once").

The brokers may acknowledge a second attempt in one transaction as a repetition of the first, although its records
differ. Tasks with a result report whether they were a second attempt. Only Spark's status store knows attempts without
a result, so a gap in the store counts as a repetition.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

_NOT_KNOWN = "it is not known whether Spark ran a task of the batch twice within one transaction"
_KEEP_MORE = "raise spark.ui.retainedJobs and spark.ui.retainedStages"
_ONCE = (
    "check that spark.task.maxFailures and spark.stage.maxConsecutiveAttempts are 1 and spark.speculation is false, "
    "and look in Spark's log for a lost executor"
)


def find_repeated_runs(context: Any, tag: str, answered: Iterable[int]) -> str:
    """Why the Spark jobs with the ``tag`` may not be committed; empty when each of their tasks ran exactly once. There
    are several when Spark plans adaptively (``spark.sql.adaptive.enabled``) or keeps the batch for several committers.

    ``context`` is the JVM's SparkContext, ``answered`` are the attempt numbers of the tasks with a result. Passes on
    the errors of Spark's store: see :func:`not_known`.
    """
    if any(answered):
        return f"Spark ran a task of the batch twice within one transaction; {_ONCE}"
    context.listenerBus().waitUntilEmpty()  # the store lags behind
    jobs = sorted(context.statusTracker().getJobIdsForTag(tag))
    if not jobs:
        return f"{_NOT_KNOWN}: Spark's store has no job of the batch; {_KEEP_MORE}"
    return next(filter(None, (_of_job(context.statusStore(), job) for job in jobs)), "")


def not_known(raised: str) -> str:
    """The reason of :func:`find_repeated_runs` when Spark raised an error of this class."""
    if raised == "NoSuchElementException":
        return f"{_NOT_KNOWN}: Spark's store no longer has the job or one of its stages; {_KEEP_MORE}"
    return f"{_NOT_KNOWN}: Spark answers {raised}; its driver may be overloaded"


def _of_job(store: Any, number: int) -> str:
    """The reason for one job."""
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
            f"{job.numActiveTasks()} as running; it loses events when the driver is overloaded: raise "
            "spark.scheduler.listenerbus.eventqueue.capacity"
        )
    return ""
