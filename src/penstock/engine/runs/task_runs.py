"""Jobs of Spark with instructions for their tasks, and whether Spark ran every task once (rule "tasks run once").

The brokers may acknowledge a second attempt in one transaction as a repetition of the first, although its records
differ. Results tell of the attempts that ended. Only Spark's status store knows attempts without a result, so a gap in
the store counts as a repetition.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pyarrow as pa
from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame

from penstock.flow.graph.exchange import EXCHANGE
from penstock.spi import INSTRUCTIONS, failure_of

_NOT_KNOWN = "it is not known whether Spark ran a task of the batch twice within one transaction"
_KEEP_MORE = "raise spark.ui.retainedJobs and spark.ui.retainedStages"
_ONCE = (
    "check that spark.task.maxFailures and spark.stage.maxConsecutiveAttempts are 1 and spark.speculation is false, "
    "and look in Spark's log for a lost executor"
)


def collect_rows(job: DataFrame, instructions: str = "", *, once: bool = False) -> tuple[pa.Table, str]:
    """The rows of :data:`EXCHANGE` of a job, whose tasks get the ``instructions``, and with ``once`` the doubt whether
    each of its tasks ran once (:func:`find_repeated_runs`).

    Raises the error of a task, and BatchError when a worker or an executor was lost.
    """
    context, tag = job.sparkSession.sparkContext, f"penstock-{uuid.uuid4().hex}"
    context.addJobTag(tag)
    try:
        with instructed(context, instructions):
            rows = job.toArrow().cast(EXCHANGE)
    finally:
        context.removeJobTag(tag)
    return rows, find_repeated_runs(context, tag) if once else ""


@contextmanager
def instructed(context: Any, instructions: str) -> Iterator[None]:
    """Tasks of the jobs that the block runs in this SparkContext get these instructions. Raises the error of a task,
    and BatchError when a worker or an executor was lost."""
    context.setLocalProperty(INSTRUCTIONS, instructions or None)
    try:
        yield
    except (PySparkException, Py4JJavaError) as error:
        raise failure_of(error) from error
    finally:
        context.setLocalProperty(INSTRUCTIONS, None)


def find_repeated_runs(context: Any, tag: str) -> str:
    """Why the results of the Spark jobs with the ``tag`` may not be committed; empty when each of their tasks ran
    exactly once. There are several when Spark plans adaptively (``spark.sql.adaptive.enabled``)."""
    gateway = context._jsc.sc()
    try:
        gateway.listenerBus().waitUntilEmpty()  # the store lags behind
        jobs = sorted(gateway.statusTracker().getJobIdsForTag(tag))
        if not jobs:
            return f"{_NOT_KNOWN}: Spark's store has no job of the batch; {_KEEP_MORE}"
        return next(filter(None, (_of_job(gateway.statusStore(), job) for job in jobs)), "")
    except Py4JJavaError as error:
        return _not_known(str(error.java_exception.getClass().getSimpleName()))
    except Py4JError as error:
        return _not_known(type(error).__name__)


def _not_known(raised: str) -> str:
    """The doubt when Spark raised an error of this class."""
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
