"""The Spark session that jobs run in."""

from __future__ import annotations

import hashlib
import os
import shlex
import sys
from pathlib import Path

from pyspark import SparkConf, SparkContext
from pyspark.sql import SparkSession

from penstock.plan import Settings
from penstock.services.folders import cache_folder

__all__ = ["spark_session"]

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
    """
    active = SparkSession.getActiveSession()
    session = active if active is not None else _create(settings, name)
    if settings.session_time_zone:
        session.conf.set("spark.sql.session.timeZone", settings.session_time_zone)
    return session


def _create(settings: Settings, name: str) -> SparkSession:
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
            os.environ.setdefault("PYSPARK_PYTHON", str(_launcher()))
            os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
            builder = builder.config("spark.driver.host", "localhost").config("spark.driver.bindAddress", "localhost")
    for key, value in _DEFAULTS.items():
        if key not in given:
            builder = builder.config(key, value)
    for key, value in _ONE_ATTEMPT.items():
        builder = builder.config(key, value)
    return builder.getOrCreate()


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
PYTHONPATH=$kept exec %s "$@"
"""


def _launcher() -> Path:
    """A script that starts this Python for Spark's workers on this machine."""
    text = _LAUNCHER % shlex.quote(sys.executable)
    path = cache_folder() / "python" / hashlib.sha256(text.encode()).hexdigest()[:16]
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        draft = path.with_name(f".{path.name}.{os.getpid()}")
        draft.write_text(text, "utf-8")
        draft.chmod(0o755)
        draft.replace(path)
    return path
