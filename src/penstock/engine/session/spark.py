"""The Spark session that jobs run in."""

from __future__ import annotations

import atexit
import contextlib
import os
import shlex
from pathlib import Path
from typing import Any

from py4j.java_gateway import JavaObject
from py4j.protocol import Py4JError
from pyspark import SparkConf, SparkContext
from pyspark.sql import SparkSession, is_remote

from penstock.engine.session.class_archive import SharedClasses, shared_classes
from penstock.engine.session.jvm import Jvm
from penstock.engine.session.logs import java_options
from penstock.engine.session.workers import use_forked_workers
from penstock.errors import Problem, UnsupportedError
from penstock.flow.kernels.session import Session
from penstock.settings import Settings

#: Tasks are not retried within a transaction epoch: a broker could acknowledge a second attempt as a duplicate of the
#: first although its records differ (rule "tasks run once").
_ONE_ATTEMPT = {
    "spark.task.maxFailures": "1",
    "spark.stage.maxConsecutiveAttempts": "1",
    "spark.speculation": "false",
}

_LOGGING = Path(__file__).with_name("log4j2.properties")

#: Java's optimizing compiler starts at forty times the usual counts: loops over rows soon reach them, and the code that
#: starts batches, which is all that runs where no row enters the JVM, is not worth the work.
_OPTIMIZE = (
    "-XX:Tier4InvocationThreshold=200000 -XX:Tier4MinInvocationThreshold=24000 -XX:Tier4CompileThreshold=600000 "
    "-XX:Tier4BackEdgeThreshold=1600000"
)
#: Arrow's vectors check every access twice otherwise; batches come from our own workers.
_JAVA_OPTIONS = (
    f"-Darrow.enable_unsafe_memory_access=true -Darrow.enable_null_check_for_get=false -XX:+UseParallelGC {_OPTIMIZE}"
)

_DEFAULTS = {
    # Never Connect, which may be the default.
    "spark.api.mode": "classic",
    # Workers are forked from a process that has the data plane loaded already.
    "spark.python.daemon.module": "penstock.engine.session.daemon",
    # On a TCP socket, small writes wait up to 40 ms for the acknowledgement of the previous one.
    "spark.python.unix.domain.socket.enabled": "true",
    # Hadoop starts two processes for each small file that it writes with a checksum, to set the files' modes.
    "spark.hadoop.fs.file.impl": "org.apache.hadoop.fs.RawLocalFileSystem",
    # How often Spark asks an idle source for more.
    "spark.sql.streaming.pollingDelay": "50ms",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    # Spark matches task errors with backtracking expressions that overflow a default stack on long messages.
    "spark.driver.extraJavaOptions": f"-Xss16m -Dlog4j2.configurationFile={_LOGGING.as_uri()} {_JAVA_OPTIONS}",
    "spark.executor.extraJavaOptions": _JAVA_OPTIONS,
    "spark.sql.shuffle.partitions": "8",
    # As Flink's identifiers.
    "spark.sql.caseSensitive": "true",
    "spark.sql.timeType.enabled": "true",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "65536",
    "spark.sql.execution.arrow.maxBytesPerBatch": str(16 * 2**20),
    # The sink's own codec compresses encoded batches, if they are to be compressed.
    "spark.shuffle.compress": "false",
}

#: The JVM of this process that :func:`prepare` started, until a session connects to it.
_STARTING: list[Jvm] = []
#: The classes that the JVM of this process shares with later ones.
_SHARED: list[SharedClasses] = []


def prepare() -> None:
    """Start the processes of a later session, so that they get ready while the caller reads a job.

    Does nothing where :func:`spark_session` would start none, or would refuse to.
    """
    if not (is_remote() or _connect() or _submitted() or _STARTING or SparkContext._gateway is not None):
        _STARTING.append(_start(_standalone(None)))


def spark_session(settings: Settings, name: str) -> SparkSession:
    """The active session, or a new one with penstock's defaults.

    ``SPARK_MASTER`` (a master URL) and spark-submit's own settings are respected; without them Spark runs in this
    process on ``parallelism`` threads, or on all cores. Sets the session's time zone when the job asks for one.
    Raises UnsupportedError for Spark Connect.
    """
    if is_remote():
        raise _no_connect("SPARK_CONNECT_MODE_ENABLED")
    active = SparkSession.getActiveSession()
    session = active if active is not None else _create(settings, name)
    if settings.session_time_zone:
        session.conf.set("spark.sql.session.timeZone", settings.session_time_zone)
    return session


def kernel_session(spark: SparkSession, settings: Settings) -> Session:
    """What the results of a job's kernels depend on in this session."""
    return Session(str(spark.conf.get("spark.sql.session.timeZone")), strict=settings.strict)


def is_alive(spark: SparkSession) -> bool:
    """Whether the session's JVM answers and its SparkContext has not been stopped."""
    context: Any = spark.sparkContext
    if context._jsc is None:
        return False
    try:
        return not context._jsc.sc().isStopped()
    except (Py4JError, ConnectionError):
        return False


def close_idle_callbacks(spark: SparkSession) -> None:
    """Close connections by which the JVM called Python and that were not used since this was last called.

    A thread of the JVM keeps its connection when it ends, and with it a thread and a socket of this process: one for
    each query that was ever started.
    """
    gateway: Any = spark.sparkContext._gateway
    with contextlib.suppress(Py4JError, ConnectionError):
        JavaObject("GATEWAY_SERVER", gateway._gateway_client).getCallbackClient().periodicCleanup()


def make_quick_starts(spark: SparkSession) -> None:
    """Have later sessions start quicker, by the classes that this one's JVM has loaded (the first call counts). Call it
    when a job has run, which loads most of the classes that jobs need."""
    while _SHARED:
        shared = _SHARED.pop()
        with contextlib.suppress(Py4JError, ConnectionError):
            jvm: Any = spark.sparkContext._jvm
            shared.make(str(jvm.java.lang.System.getProperty("java.class.path")))


def _create(settings: Settings, name: str) -> SparkSession:
    if variable := _connect():
        raise _no_connect(variable)
    builder: SparkSession.Builder = SparkSession.builder.appName(name)
    if _submitted():  # spark-submit's settings stand
        SparkContext._ensure_initialized()
        given = {key for key, _ in SparkConf().getAll()}
        chosen = {key: value for key, value in _DEFAULTS.items() if key not in given}
    else:
        chosen = _standalone(settings.parallelism)
        _use_workers(chosen)
        if SparkContext._gateway is None:
            jvm = _STARTING.pop() if _STARTING else _start(chosen)
            SparkContext._ensure_initialized(gateway=jvm.gateway())
    for key, value in (chosen | _ONE_ATTEMPT).items():
        builder = builder.config(key, value)
    return builder.getOrCreate()


def _standalone(parallelism: int | None) -> dict[str, str]:
    """The settings of a session that this process starts."""
    master = os.environ.get("SPARK_MASTER", f"local[{parallelism or len(os.sched_getaffinity(0))}]")
    settings = {**_DEFAULTS, "spark.master": master}
    settings["spark.driver.memory"] = os.environ.get("SPARK_DRIVER_MEMORY", "2g")
    if _is_local(settings):
        settings |= {"spark.driver.host": "localhost", "spark.driver.bindAddress": "localhost"}
    return settings


def _is_local(settings: dict[str, str]) -> bool:
    return settings["spark.master"].startswith("local")


def _use_workers(settings: dict[str, str]) -> None:
    if _is_local(settings):
        use_forked_workers()
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")


def _start(settings: dict[str, str]) -> Jvm:
    _use_workers(settings)
    options = [settings["spark.driver.extraJavaOptions"], *map(shlex.quote, java_options())]
    if (shared := shared_classes()) is not None:
        options += map(shlex.quote, shared.options)
        atexit.register(shared.discard)
        _SHARED[:] = [shared]
    return Jvm({**settings, "spark.driver.extraJavaOptions": " ".join(options)})


def _submitted() -> bool:
    """Whether spark-submit has started this process, or another one its JVM."""
    return "spark.submit.deployMode" in os.environ or "PYSPARK_GATEWAY_PORT" in os.environ


def _connect() -> str:
    """The environment variable that asks for Spark Connect; empty if none does."""
    if "SPARK_REMOTE" in os.environ:
        return "SPARK_REMOTE"
    return "SPARK_API_MODE" if os.environ.get("SPARK_API_MODE", "").lower() == "connect" else ""


def _no_connect(variable: str) -> UnsupportedError:
    """The error for Spark Connect: Spark's driver commits batches, and has to be this process (rule "unsafe setups are
    refused")."""
    reason = "Spark Connect is not supported: Spark's driver commits the batches, and has to be this process"
    hint = f"unset {variable}, and start the job in a classic session"
    return UnsupportedError((Problem(reason, variable, hint=hint),))
