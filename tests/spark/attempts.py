"""Jobs whose tasks or stages run twice, in a Spark session that allows that, and what is found out of each: run as a
process of its own, gives JSON on its standard output."""

from __future__ import annotations

import json
import os
import sys
import tempfile
import threading
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from pyspark import SparkContext, TaskContext
from pyspark.sql import SparkSession

from penstock.engine.runs.task_runs import find_repeated_runs
from tests.waiting import eventually

_KEPT = 5


def main(*names: str) -> None:
    """Run the jobs of these names, or all, once. With one that is ``stage_gone`` Spark forgets stages before jobs."""
    from pyspark import SparkConf

    with tempfile.TemporaryDirectory() as folder:
        settings = {"spark.ui.retainedStages": _KEPT, "spark.local.dir": folder}
        if "stage_gone" not in names:
            settings["spark.ui.retainedJobs"] = _KEPT
        os.environ["PYSPARK_PYTHON"] = sys.executable
        conf = SparkConf().setMaster("local[1,4]").setAll([(key, str(value)) for key, value in settings.items()])
        conf.set("spark.ui.enabled", "false").set("spark.ui.showConsoleProgress", "false")
        context = SparkContext(conf=conf)
        jobs = {"once": once, "adaptive": adaptive, "failed": failed, "killed": killed, "stage": stage}
        jobs |= {"gone": gone, "late": late}
        chosen = dict.fromkeys(names, gone) or jobs
        print(json.dumps({name: job(context, Path(folder)) for name, job in chosen.items()}), flush=True)
        context.stop()


def once(context: SparkContext, folder: Path) -> str:
    """Each task runs once, in two stages."""
    return _verdict(context, lambda: _shuffled(context, lambda _: None))


def adaptive(context: SparkContext, folder: Path) -> str:
    """Each task runs once, in the several jobs of a query that Spark plans as it goes."""
    session = SparkSession(context)
    session.conf.set("spark.sql.adaptive.enabled", "true")
    frame = session.range(100).repartition(2, "id").sortWithinPartitions("id")
    return _verdict(context, lambda: frame.mapInArrow(lambda rows: rows, frame.schema).collect())


def failed(context: SparkContext, folder: Path) -> str:
    """A task fails and is run again; the answers are not looked at."""
    mark = folder / "failed"

    def task(number: int) -> None:
        if number == 1 and not mark.exists():
            mark.touch()
            raise ValueError("once")

    return _verdict(context, lambda: _plain(context, task))


def killed(context: SparkContext, folder: Path) -> str:
    """A task is killed, as Spark does where speculation was faster, and is run again."""
    mark = folder / "killed"

    def task(number: int) -> None:
        running = TaskContext.get()
        if number == 1 and running is not None and not mark.exists():
            draft = mark.with_suffix(".draft")
            draft.write_text(str(running.taskAttemptId()))
            draft.rename(mark)
            threading.Event().wait(60)

    def kill() -> None:
        eventually(mark.exists)
        _jvm(context).killTaskAttempt(int(mark.read_text()), True, "another one was faster")

    killer = threading.Thread(target=kill)
    killer.start()
    try:
        return _verdict(context, lambda: _plain(context, task))
    finally:
        killer.join()


def stage(context: SparkContext, folder: Path) -> str:
    """What the first stage has written is lost between two tasks of the second, which run one after the other."""
    mark = folder / "lost"

    def task(number: int) -> None:
        if not mark.exists():
            mark.touch()
            for path in [*folder.rglob("shuffle_*.data"), *folder.rglob("shuffle_*.index")]:
                os.unlink(path)

    return _verdict(context, lambda: _shuffled(context, task))


def gone(context: SparkContext, folder: Path) -> str:
    """So many jobs come after it that Spark has forgotten it, or its stage."""

    tag = "forgotten"
    context.addJobTag(tag)
    _plain(context, lambda _: None)
    context.clearJobTags()
    for _ in range(2 * _KEPT):
        _plain(context, lambda _: None)
    return eventually(lambda: _asked(context, tag))


def late(context: SparkContext, folder: Path) -> str:
    """A listener of somebody else's holds up what Spark tells its store."""
    gateway: Any = context._gateway
    from pyspark.java_gateway import ensure_callback_server_started

    ensure_callback_server_started(gateway)
    listener = _Listener()
    java: Any = _jvm(context)
    java.addSparkListener(listener)
    try:
        return _verdict(context, lambda: _plain(context, lambda _: None))
    finally:
        listener.go_on.set()


class _Listener:
    """Waits in every method until it may go on."""

    def __init__(self) -> None:
        self.go_on = threading.Event()

    def __getattr__(self, name: str) -> Callable[..., None]:
        if not name.startswith("on"):
            raise AttributeError(name)
        return lambda *_: self.go_on.wait(60) and None

    class Java:
        """For Py4J."""

        implements = ("org.apache.spark.scheduler.SparkListenerInterface",)


def _verdict(context: SparkContext, job: Callable[[], object]) -> str:
    tag = f"asked-for-{uuid.uuid4().hex}"
    context.addJobTag(tag)
    try:
        job()
    finally:
        context.clearJobTags()
    return _asked(context, tag)


def _asked(context: SparkContext, tag: str) -> str:
    return find_repeated_runs(context, tag)


def _plain(context: SparkContext, task: Callable[[int], None]) -> None:
    context.parallelize(range(2), 2).mapPartitionsWithIndex(_running(task)).collect()


def _shuffled(context: SparkContext, task: Callable[[int], None]) -> None:
    context.parallelize([(i, i) for i in range(20)], 2).partitionBy(2).mapPartitionsWithIndex(_running(task)).collect()


def _running(task: Callable[[int], None]) -> Callable[[int, Iterator[Any]], Iterator[int]]:
    def run(number: int, rows: Iterator[Any]) -> Iterator[int]:
        found = sum(1 for _ in rows)
        task(number)
        yield found

    return run


def _jvm(context: SparkContext) -> Any:
    java: Any = context._jsc
    return java.sc()


if __name__ == "__main__":
    main(*sys.argv[1:])
