"""F2 and F15: an executor is killed, on a Spark whose tasks run in processes of their own."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

import pyspark

from penstock_testing import Api, Frame, Then, Trap
from tests.faults.harness import PATIENCE, Outcome, Trial, cell, commits, story
from tests.faults.networks import arrive_late
from tests.faults.nondeterminism import random_sql
from tests.faults.processes import JobProcess
from tests.faults.steps import ENOUGH_FOR_A_SHUFFLE, next_end
from tests.faults.worker_deaths import kill_and_watch, redone

_BACKEND = b"CoarseGrainedExecutorBackend"


# --- a cluster on this machine -----------------------------------------------------------------------------------


def clustered(trial: Trial, sql: str, environment: Mapping[str, str] | None = None) -> JobProcess:
    """A job on two executors of one core each, which are processes of their own."""
    home = trial.folder / "job" / "spark"  # where executors get their folders: they are the job's processes
    home.mkdir(parents=True)
    for each in Path(pyspark.__file__).parent.iterdir():
        (home / each.name).symlink_to(each)
    own = {"SPARK_MASTER": "local-cluster[2,1,1024]", "SPARK_HOME": str(home)}
    return trial.job(sql, environment=own | dict(environment or {}))


def executors(job: JobProcess) -> list[int]:
    """The executors' JVMs."""
    return [pid for pid in job.processes() if _BACKEND in _command(pid)]


def executor_of(frame: Frame) -> int:
    """The executor's JVM whose Python worker a frame comes from or goes to.

    Workers need not be its children, but are started in its folder.
    """
    assert frame.pid is not None
    return executor_at(frame.pid)


def executor_at(worker: int) -> int:
    """The executor's JVM of a Python worker."""
    folder = os.readlink(f"/proc/{worker}/cwd")
    found = [int(each.name) for each in Path("/proc").iterdir() if each.name.isdigit() and _works_in(each, folder)]
    assert len(found) == 1, f"executors in the folder of the frame's process: {found}"
    return found[0]


def kill_executor(frame: Frame) -> None:
    """Kill the executor that a frame belongs to. Its workers find out by themselves."""
    os.kill(executor_of(frame), signal.SIGKILL)


def kill_executor_of(worker: int) -> None:
    """Kill the executor of a Python worker, and the worker."""
    for pid in (executor_at(worker), worker):
        os.kill(pid, signal.SIGKILL)


def _command(pid: int) -> bytes:
    with suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    return b""


def _works_in(process: Path, folder: str) -> bool:
    with suppress(OSError):
        return os.readlink(process / "cwd") == folder and _BACKEND in _command(int(process.name))
    return False


# --- F2 ----------------------------------------------------------------------------------------------------------


@cell("F2", "executor, mid-publish")
def mid_publish(trial: Trial) -> Outcome:
    job = clustered(trial, trial.sql(keyed=True))
    return kill_and_watch(trial, job, trial.published(after=trial.ended(trial.before), call=kill_executor))


@cell("F2", "executor, mid-publish, through a shuffle")
def mid_publish_shuffled(trial: Trial) -> Outcome:
    trial.records = max(trial.records, ENOUGH_FOR_A_SHUFFLE)
    job = clustered(trial, trial.sql(keyed=True, batches=2))
    return kill_and_watch(trial, job, trial.published(after=trial.ended(1), call=kill_executor), batch=1, shuffled=True)


@cell("F2", "executor, mid-read")
def mid_read(trial: Trial) -> Outcome:
    job = clustered(trial, trial.sql())
    return kill_and_watch(trial, job, reading(trial, after=trial.ended(trial.before), call=kill_executor))


@cell("F2", "executor, mid-publish; what it was sending arrives when the batch has been redone")
def late_produce(trial: Trial) -> Outcome:
    """A Produce in the epoch of the attempt that was aborted."""
    job = clustered(trial, trial.sql(keyed=True))
    trap = trial.cluster.add(
        Trap(
            Api.PRODUCE,
            contains=[trial.transactional_id],
            where=trial.about(trial.sink),
            after=trial.ended(trial.before),
            call=kill_executor,
            then=Then.HOLD,
        )
    )
    committed = trial.recording(after=trap)  # of the second attempt: the first has not published anything
    end = next_end(trial, after=committed, call=lambda _: trap.release())
    trial.numbered.write(trial.records)
    job.start()
    trap.wait(PATIENCE)
    trial.verifier.restarted()
    job.finish(PATIENCE)
    trial.hit("released when the batch had been redone", end.sprung)
    redone(trial, job)
    arrive_late(trial, trap)
    return trial.outcome(job)


def reading(trial: Trial, **options: object) -> Trap:
    """Catches the next answer to a Fetch from the input."""
    return trial.cluster.add(Trap(Api.FETCH, response=True, where=trial.about(trial.source), **options))


# --- F15 ---------------------------------------------------------------------------------------------------------


def map_outputs(job: JobProcess) -> set[Path]:
    """The finished outputs of map tasks."""
    return set((job.folder / "scratch").rglob("shuffle_*.data"))


def wait_for_outputs(job: JobProcess, count: int, before: set[Path]) -> None:
    """Wait until so many map outputs have come to those that were there ``before``."""
    job.until(lambda: len(map_outputs(job) - before) >= count, PATIENCE)


def lose_map_output(trial: Trial, *, complete: bool) -> Outcome:
    """Two map tasks, one to an executor. One is held up while it reads; the other's executor dies when its output is
    there: before the first has an output too, or (``complete``) after that. Nothing is published until then.

    The query draws its keys at random, so that a map task that runs again sends its records elsewhere.
    """
    job = clustered(trial, random_sql(trial))
    before: set[Path] = set()
    after = trial.ended(1)
    held = reading(trial, after=after, call=lambda _: before.update(map_outputs(job)), then=Then.HOLD)
    published = trial.cluster.add(
        Trap(
            Api.PRODUCE,
            contains=[trial.transactional_id],
            where=trial.about(trial.sink),
            after=after,
            times=None,
            then=Then.HOLD,
        )
    )
    trial.numbered.write(trial.records)
    job.start()
    slow = executor_of(held.wait(PATIENCE))
    (quick,) = set(executors(job)) - {slow}
    wait_for_outputs(job, 1, before)
    if complete:
        held.release()
        wait_for_outputs(job, 2, before)
    os.kill(quick, signal.SIGKILL)
    trial.verifier.restarted()
    sent, there = len(published.frames), len(map_outputs(job) - before)
    held.release()
    published.release()
    job.finish(PATIENCE)
    trial.hit(f"{there} of 2 map outputs were there", there == 1 + complete)
    trial.hit(f"nothing published: {sent} Produce held, none sent on", complete or not sent)
    redone(trial, job, batch=1)
    return trial.outcome(job)


@cell("F15", "executor, when its map output is there and the other's is not")
def one_map_output(trial: Trial) -> Outcome:
    return lose_map_output(trial, complete=False)


@cell("F15", "executor, between the map output and the publish stage")
def all_map_output(trial: Trial) -> Outcome:
    return lose_map_output(trial, complete=True)


@cell("F15", "executor, when the other's task has published and its own has not")
def after_one_owner(trial: Trial) -> Outcome:
    """Two publishing tasks, one to an executor. When the records of one are in the log, the executor of the other dies
    with its map output, before anything of it was sent on: the stage that made the output would run again, and draw
    other keys than those by which the first has published."""
    job = clustered(trial, random_sql(trial))
    after, owners, lock = trial.ended(1), [], threading.Lock()

    def first_owner(frame: Frame) -> bool:
        """Whether a frame is of the executor whose request has come first."""
        with lock:
            if not owners:
                owners.append(executor_of(frame))
        return executor_of(frame) == owners[0]

    about_sink = trial.about(trial.sink)
    held = trial.cluster.add(
        Trap(
            Api.PRODUCE,
            contains=[trial.transactional_id],
            where=lambda frame: about_sink(frame) and not first_owner(frame),
            after=after,
            times=None,
            then=Then.HOLD,
        )
    )
    answered = trial.published(after=after)
    trial.numbered.write(trial.records)
    job.start()
    answered.wait(PATIENCE)
    held.wait(PATIENCE)
    (other,) = set(executors(job)) - set(owners)
    trial.hit(f"of one task {story(answered)}; of the other {story(held)}", answered.errors == (0,))
    aborted = next_end(trial, where=lambda frame: not commits(frame), call=lambda _: held.release())
    os.kill(other, signal.SIGKILL)
    trial.verifier.restarted()
    job.finish(PATIENCE)
    trial.hit(f"what was held was released at {story(aborted)} that aborts", aborted.errors == (0,))
    arrive_late(trial, held)
    redone(trial, job, batch=1)
    return trial.outcome(job)
