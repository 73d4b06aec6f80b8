"""The Spark session that jobs run in."""

from __future__ import annotations

import atexit
import contextlib
import hashlib
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from py4j.java_gateway import JavaObject
from py4j.protocol import Py4JError
from pyspark import SparkConf, SparkContext
from pyspark.java_gateway import launch_gateway
from pyspark.sql import SparkSession, is_remote

from penstock.errors import Problem, UnsupportedError
from penstock.services.folders import cache_folder
from penstock.settings import Settings

__all__ = ["close_idle_callbacks", "is_alive", "spark_session"]

#: Not retried inside one transaction epoch: a second attempt could be acknowledged as a duplicate of the first
#: although its records differ (rule 9 of the exactly-once protocol).
_ONE_ATTEMPT = {
    "spark.task.maxFailures": "1",
    "spark.stage.maxConsecutiveAttempts": "1",
    "spark.speculation": "false",
}

_LOGGING = Path(__file__).with_name("log4j2.properties")

#: Arrow's vectors check every access twice otherwise; batches come from our own workers.
_JAVA_OPTIONS = "-Darrow.enable_unsafe_memory_access=true -Darrow.enable_null_check_for_get=false -XX:+UseParallelGC"

_DEFAULTS = {
    # Not Connect, where that is what sessions are by default.
    "spark.api.mode": "classic",
    # Workers are forked from a process that has the data plane loaded already.
    "spark.python.daemon.module": "penstock.engine.daemon",
    # How often an idle source is asked for more.
    "spark.sql.streaming.pollingDelay": "50ms",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    # Spark matches task errors with backtracking expressions that overflow a default stack on long messages.
    "spark.driver.extraJavaOptions": f"-Xss16m -Dlog4j2.configurationFile={_LOGGING.as_uri()} {_JAVA_OPTIONS}",
    "spark.executor.extraJavaOptions": _JAVA_OPTIONS,
    "spark.sql.shuffle.partitions": "8",
    # Flink's identifiers are case-sensitive, its casts and arithmetic fail instead of giving null.
    "spark.sql.caseSensitive": "true",
    "spark.sql.ansi.enabled": "true",
    "spark.sql.timeType.enabled": "true",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "65536",
    "spark.sql.execution.arrow.maxBytesPerBatch": str(16 * 2**20),
    # Encoded batches are compressed by the sink's own codec, or not meant to be.
    "spark.shuffle.compress": "false",
}


def spark_session(settings: Settings, name: str) -> SparkSession:
    """The active session, or a new one with penstock's defaults.

    ``SPARK_MASTER`` (a master URL) and spark-submit's own settings are respected; without them Spark runs in this
    process on ``parallelism`` threads, or on all cores. Sets the session's time zone when the job asks for one.
    Raises UnsupportedError for Spark Connect.
    """
    if is_remote():
        raise _connect("SPARK_CONNECT_MODE_ENABLED")
    active = SparkSession.getActiveSession()
    session = active if active is not None else _create(settings, name)
    if settings.session_time_zone:
        session.conf.set("spark.sql.session.timeZone", settings.session_time_zone)
    return session


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

    A thread of the JVM keeps its connection when it ends, and with it a thread and a socket of ours: one for each query
    that was ever started.
    """
    gateway: Any = spark.sparkContext._gateway
    with contextlib.suppress(Py4JError, ConnectionError):
        JavaObject("GATEWAY_SERVER", gateway._gateway_client).getCallbackClient().periodicCleanup()


def _connect(name: str) -> UnsupportedError:
    """Batches are published and committed by Spark's driver, which has to be this process (rule 27)."""
    reason = "Spark Connect is not supported: batches are committed by Spark's driver, which has to be this process"
    return UnsupportedError((Problem(reason, name, hint=f"unset {name}, and start the job in a classic session"),))


def _create(settings: Settings, name: str) -> SparkSession:
    if "SPARK_REMOTE" in os.environ:
        raise _connect("SPARK_REMOTE")
    if os.environ.get("SPARK_API_MODE", "").lower() == "connect":
        raise _connect("SPARK_API_MODE")
    submitted = "spark.submit.deployMode" in os.environ or "PYSPARK_GATEWAY_PORT" in os.environ
    given: set[str] = set()
    builder: SparkSession.Builder = SparkSession.builder.appName(name)
    if submitted:  # what spark-submit was told stands
        SparkContext._ensure_initialized()
        given = {key for key, _ in SparkConf().getAll()}
    else:
        threads = settings.parallelism or len(os.sched_getaffinity(0))
        master = os.environ.get("SPARK_MASTER", f"local[{threads}]")
        builder = builder.master(master)
        builder = builder.config("spark.driver.memory", os.environ.get("SPARK_DRIVER_MEMORY", "2g"))
        if master.startswith("local"):
            launcher = str(_launcher())
            if os.environ.setdefault("PYSPARK_PYTHON", launcher) == launcher:
                _start_forkserver()  # also where a process has started this one that has a server of its own
            os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
            builder = builder.config("spark.driver.host", "localhost").config("spark.driver.bindAddress", "localhost")
    for key, value in _DEFAULTS.items():
        if key not in given:
            builder = builder.config(key, value)
    for key, value in _ONE_ATTEMPT.items():
        builder = builder.config(key, value)
    if not submitted:
        _launch(builder)
    return builder.getOrCreate()


def _launch(builder: SparkSession.Builder) -> None:
    """Start the JVM in a process group of its own, so that Ctrl-C and other signals to our group reach us alone, and we
    can let it end what it is at. It ends when we do: it reads from a pipe that closes then."""
    if SparkContext._gateway is not None:
        return
    conf = SparkConf()
    conf.setAll(list(builder._options.items()))
    gateway = launch_gateway(conf, {"process_group": 0})  # type: ignore[no-untyped-call]
    SparkContext._ensure_initialized(gateway=gateway, conf=conf)


_LAUNCHER = """#!/bin/sh
# Spark puts a zipped copy of its Python library before the installed one, which loads several times faster.
kept=
old=$IFS
IFS=:
for each in $PYTHONPATH; do
  case $each in
    */python/lib/pyspark.zip | */python/lib/py4j-*-src.zip) ;;
    *) kept=$kept${kept:+:}$each ;;
  esac
done
IFS=$old
export PYTHONPATH=$kept
if [ "$1" = -m ] && [ -S "$PENSTOCK_FORKSERVER" ]; then
  exec %(python)s -I -S %(client)s "$PENSTOCK_FORKSERVER" %(python)s "$@"
fi
exec %(python)s "$@"
"""

#: What the C library is told: to keep the memory of buffers for the next ones, up to this. To give tens of megabytes
#: back with each batch and to ask for them again costs a reading task a fifth of its time.
_KEPT_MEMORY = {
    "MALLOC_MMAP_THRESHOLD_": str(64 << 20),
    "MALLOC_TRIM_THRESHOLD_": str(256 << 20),
    "MALLOC_TOP_PAD_": str(16 << 20),
}

#: The path of a socket may have 107 bytes, with the names in the folder.
_LONGEST_FOLDER = 80
#: The pipe by which a fork server sees that this process lives, for as long as it does.
_LIFELINES: list[subprocess.Popen[bytes]] = []


def _start_forkserver() -> None:
    """Have Spark's Python processes on this machine forked from one that is ready (:mod:`penstock.engine.forkserver`).
    It gets ready while the JVM starts."""
    if _LIFELINES:
        return
    beside = tempfile.gettempdir()
    if len(os.fsencode(beside)) > _LONGEST_FOLDER:
        beside = "/tmp"  # noqa: S108 - mkdtemp makes a folder in it that nobody else can use
    folder = tempfile.mkdtemp(prefix="penstock-", dir=beside)
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    os.environ["PENSTOCK_FORKSERVER"] = path = os.path.join(folder, "forks")
    # Spark asks for one seed of hashes in all its processes.
    environment = _KEPT_MEMORY | os.environ | {"PYTHONHASHSEED": "0", "PYTHONUNBUFFERED": "1"}
    command = [sys.executable, "-m", "penstock.engine.forkserver", path]
    _LIFELINES.append(
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, env=environment, process_group=0)
    )


def _launcher() -> Path:
    """A script that starts this Python for Spark's workers on this machine."""
    client = Path(__file__).with_name("forkclient.py")
    text = _LAUNCHER % {"python": shlex.quote(sys.executable), "client": shlex.quote(str(client))}
    path = cache_folder() / "python" / hashlib.sha256(text.encode()).hexdigest()[:16]
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        draft = path.with_name(f".{path.name}.{os.getpid()}")
        draft.write_text(text, "utf-8")
        draft.chmod(0o755)
        draft.replace(path)
    return path
