"""The errors that end a query, translated from Spark's into penstock's."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from py4j.java_gateway import is_instance_of
from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from penstock.engine.session import is_alive
from penstock.errors import AnotherCopyError, ExecutionError, PenstockError, QueryStoppedError, from_wire
from penstock.plan.nodes import Job
from penstock.spi import cause_of

#: The errors that PySpark raises: Spark's, the JVM's, and those of the connection to it.
FOREIGN = (PySparkException, Py4JError, ConnectionError)
#: Spark's condition when the entry of a log that it is about to write exists already.
_CONCURRENT = "CONCURRENT_STREAM_LOG_UPDATE"
_SEE_LOG = "read Spark's log for the whole report"


def explained(error: Exception, job: Job, spark: SparkSession, checkpoint: str) -> PenstockError:
    """The PenstockError that caused ``error``, or one that describes it. ``checkpoint`` is the job's location."""
    found = error if isinstance(error, PenstockError) else from_wire(str(error))
    if found is not None:
        return found
    if isinstance(error, FOREIGN) and not is_alive(spark):
        return gone(job)
    if isinstance(error, PySparkException) and _CONCURRENT in _conditions(error, spark):
        return AnotherCopyError(
            f"another copy of job '{job.name}' writes the checkpoint '{checkpoint}': its log has an entry that this "
            "copy did not write"
        )
    cause = cause_of(str(error)) or type(error).__name__
    return ExecutionError(f"Spark ended the job '{job.name}': {cause}; {_SEE_LOG}")


def gone(job: Job) -> ExecutionError:
    """The error of a job whose Spark has ended."""
    return ExecutionError(
        f"job '{job.name}': Spark has ended under it. Its JVM was killed or ran out of memory, or its session was "
        "stopped. A restart takes a new process: check Spark's log and memory, then start the job again"
    )


def stopped_by_others(job: Job) -> QueryStoppedError:
    """The error of a query that ended before its sources did, although the job was not stopped."""
    return QueryStoppedError(
        f"job '{job.name}': something other than penstock stopped its query before its sources were at their ends; "
        "look for a call of stop() on a query of 'spark.streams.active', and for another session of this process that "
        "has started the same job ('spark.sql.streaming.stopActiveRunOnRestart'). Start the job again: it continues "
        "where it was stopped"
    )


@contextmanager
def translated() -> Iterator[None]:
    """Raises Spark's analysis errors as ours."""
    try:
        yield
    except (PySparkException, Py4JJavaError) as error:
        found = from_wire(str(error))
        if found is not None:
            raise found from error
        raise ExecutionError(f"Spark refuses the job: {cause_of(str(error))}; {_SEE_LOG}") from error


def _conditions(error: PySparkException, spark: SparkSession) -> Iterator[str]:
    """Spark's conditions for an error and for all its causes. PySpark has those of some causes only."""
    gateway: Any = spark.sparkContext._gateway
    cause: Any = getattr(error, "_origin", None)
    while cause is not None:
        if is_instance_of(gateway, cause, "org.apache.spark.SparkThrowable"):
            yield str(cause.getCondition())
        cause = cause.getCause()
