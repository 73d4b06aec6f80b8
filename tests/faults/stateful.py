"""F26: jobs with state die at each step at which state is written, committed, merged and deleted, or go on with other
numbers of tasks.

When the job (:mod:`tests.faults.states`) has ended, its tables and its state are compared with a recomputation.
"""

from __future__ import annotations

import json
import os
import re
import time
from dataclasses import dataclass, replace
from pathlib import Path

from penstock_testing import Frame, Then
from tests.faults.driver_deaths import ENOUGH_FOR_A_SHUFFLE, die
from tests.faults.executors import clustered, kill_executor, kill_executor_of
from tests.faults.harness import PATIENCE, Outcome, Trial, cell
from tests.faults.processes import JobProcess
from tests.faults.states import finish, outcome, sql_of, state_of
from tests.faults.steps import run_past, stopped
from tests.faults.worker_deaths import redone

__all__ = ["Point", "before_end_txn", "die_at", "left_of"]

_POINTS = Path(__file__).with_name("points")
_TWO_DAYS = 2 * 24 * 3600


@dataclass
class Point:
    """A point of the state's commit, where a process of the job stands still until it is killed. The job reaches it
    once: when it is started again, it goes on."""

    trial: Trial
    action: str
    pattern: str

    @property
    def _reached(self) -> Path:
        return self.trial.folder / re.sub(r"\W+", "-", f"reached {self.action} {self.pattern}")

    @property
    def environment(self) -> dict[str, str]:
        """For the job's processes."""
        return {"PYTHONPATH": str(_POINTS), "PENSTOCK_POINT": f"{self.action} {self.pattern} {self._reached}"}

    @property
    def process(self) -> int:
        """The process that is there."""
        return int(self._reached.read_text().splitlines()[0])

    @property
    def file(self) -> str:
        """The file of the state that it writes or deletes."""
        return self._reached.read_text().splitlines()[1]

    def release(self) -> None:
        """Let the process go on."""
        with self._reached.open("a") as reached:
            reached.write("go\n")

    @property
    def reached(self) -> bool:
        """Whether a process is there."""
        return self._reached.exists() and self._reached.read_text().count("\n") == 2

    def wait(self, job: JobProcess) -> None:
        """Wait until a process is there."""
        job.until(lambda: self.reached, PATIENCE)


def left_of(job: JobProcess, batch: int) -> list[str]:
    """What kinds of files of a batch there are."""
    return sorted({path.suffix for path in state_of(job).glob(f"{batch:09d}-*")})


def die_at(trial: Trial, action: str, name: str, batch: int, *, left: list[str], by_driver: bool = False) -> JobProcess:
    """A job that was killed at the file of a batch with this name, and ``left`` files of these kinds; its driver was
    there, if it is to be ``by_driver``."""
    point = Point(trial, action, f"{batch:09d}-{name}")
    job = trial.job(sql_of(trial), environment=point.environment)
    trial.numbered.write(trial.records)
    job.start()
    point.wait(job)
    if by_driver:
        trial.hit("at a file of the driver", point.process == job.pid)
    job.kill()
    point.release()
    kinds = left_of(job, batch)
    trial.hit(f"files of batch {batch}: {', '.join(kinds)}", kinds == left)
    stopped(trial, job, planned=batch)
    return job


# --- deaths ------------------------------------------------------------------------------------------------------


@cell("F26", "driver and workers, when a segment is written")
def at_a_segment(trial: Trial) -> Outcome:
    return finish(trial, die_at(trial, "after", "*.arrow", trial.before, left=[".arrow"]))


@cell("F26", "driver and workers, before the manifest is written")
def before_the_manifest(trial: Trial) -> Outcome:
    return finish(trial, die_at(trial, "before", "*.manifest", trial.before, left=[".arrow"]))


@cell("F26", "driver and workers, when the manifest is written; its files stay")
def at_the_manifest(trial: Trial) -> Outcome:
    job = die_at(trial, "after", "*.manifest", trial.before, left=[".arrow", ".manifest"])
    dead = {path.name for path in state_of(job).glob(f"{trial.before:09d}-*")}
    found = finish(trial, job)
    left = dead & {path.name for path in state_of(job).iterdir()}
    return (
        found if left == dead else replace(found, problem=f"of {len(dead)} files that nothing names {len(left)} stay")
    )


@cell("F26", "driver and workers, between manifest and EndTxn", ci=True)
def before_end_txn(trial: Trial) -> Outcome:
    job = trial.job(sql_of(trial))
    trap = trial.committing(trial.before + 1, call=lambda _: job.kill(), then=Then.DROP)
    die(trial, job, trap, planned=trial.before, done=trial.before - 1)
    kinds = left_of(job, trial.before)
    trial.hit(f"files of batch {trial.before}: {', '.join(kinds)}", kinds == [".arrow", ".manifest"])
    return finish(trial, job)


@cell("F26", "driver and workers, after EndTxn, before Spark's commit log")
def after_end_txn(trial: Trial) -> Outcome:
    job = trial.job(sql_of(trial))
    trap = trial.ended(trial.before + 1, call=lambda _: job.kill(), then=Then.DROP)
    die(trial, job, trap, planned=trial.before, done=trial.before - 1)
    manifests = _manifests(job, trial.before)
    next_one = Point(trial, "before", f"{trial.before + 1:09d}-*.manifest")
    again = trial.job(job.sql, folder="again", environment=next_one.environment)
    trial.verifier.restarted()
    again.start()
    next_one.wait(again)
    trial.hit(
        f"{len(manifests)} manifest of batch {trial.before}, none more when it was passed over",
        len(manifests) == 1 and manifests == _manifests(job, trial.before),
    )
    next_one.release()
    again.finish(PATIENCE)
    return outcome(trial, again)


def _manifests(job: JobProcess, batch: int) -> list[Path]:
    """Those of the attempts at a batch, the newest last."""
    return sorted(state_of(job).glob(f"{batch:09d}-*.manifest"), key=lambda path: path.stat().st_mtime_ns)


@cell("F26", "driver and workers, when merged segments are written")
def at_a_merge(trial: Trial) -> Outcome:
    """In a batch that leaves out segments of the one before, as the next start, which repeats it, shows."""
    job = die_at(trial, "after", "*.arrow", trial.before, left=[".arrow"])
    before = _named(_manifests(job, trial.before - 1)[-1])
    next_one = Point(trial, "before", f"{trial.before + 1:09d}-*.manifest")
    again = trial.job(job.sql, folder="again", environment=next_one.environment)
    again.start()
    next_one.wait(again)
    merged = before - _named(_manifests(job, trial.before)[-1])
    trial.hit(f"batch {trial.before} merges {len(merged)} of {len(before)} files", merged)
    trial.verifier.restarted()
    next_one.release()
    again.finish(PATIENCE)
    return outcome(trial, again)


def _named(manifest: Path) -> set[str]:
    """The files that a manifest names."""
    tables = json.loads(manifest.read_text())["operators"].values()
    return {ref["file"] for each in tables for refs in each.values() for ref in refs}


@cell("F26", "driver, when files of former batches are deleted")
def at_garbage_collection(trial: Trial) -> Outcome:
    point = Point(trial, "delete", "*.arrow")
    job = trial.job(sql_of(trial), environment=point.environment)
    trial.numbered.write(trial.records)
    job.start()
    point.wait(job)
    job.kill()
    batch, file = job.planned(), point.file
    trial.hit(f"at a file of batch {int(file.split('-')[0])}", (state_of(job) / file).exists())
    trial.hit(f"in batch {batch}, which is committed", left_of(job, batch) == [".arrow", ".manifest"])
    stopped(trial, job, planned=batch)
    return finish(trial, job)


@cell("F26", "driver, when old files are deleted that an attempt has left; those of the state are as old")
def at_old_files(trial: Trial) -> Outcome:
    """Killed at the first of them, and started once more."""
    job = die_at(trial, "after", "*.manifest", trial.before, left=[".arrow", ".manifest"])
    dead = {path.name for path in state_of(job).glob(f"{trial.before:09d}-*")}
    then = time.time() - _TWO_DAYS
    for path in state_of(job).iterdir():
        os.utime(path, (then, then))
    at_the_first = Point(trial, "delete", f"{trial.before:09d}-*")  # others that are old may go too
    again = trial.job(job.sql, folder="again", environment=at_the_first.environment)
    again.start()
    at_the_first.wait(again)
    again.kill()
    trial.hit(f"at one of {len(dead)} files of batch {trial.before}", at_the_first.file in dead)
    stopped(trial, again, planned=trial.before)
    found = finish(trial, job)
    left = dead & {path.name for path in state_of(job).iterdir()}
    return replace(found, problem=f"of {len(dead)} old files {len(left)} stay") if left else found


@cell("F26", "executor, when its task has written a segment")
def executor_at_a_segment(trial: Trial) -> Outcome:
    trial.records = max(trial.records, ENOUGH_FOR_A_SHUFFLE)
    point = Point(trial, "after", "000000001-*.arrow")
    job = clustered(trial, sql_of(trial, batches=2), point.environment)
    trial.numbered.write(trial.records)
    job.start()
    point.wait(job)
    trial.verifier.restarted()
    kill_executor_of(point.process)
    job.finish(PATIENCE)
    trial.hit("batch 1 is retried", "batch 1 is retried" in job.text)
    return outcome(trial, job)


@cell("F26", "executor, when its task publishes what the tasks of operators have kept")
def executor_of_owner(trial: Trial) -> Outcome:
    """Owners of partitions publish in a Spark job of their own. The batch is published again from the same files."""
    trial.records = max(trial.records, ENOUGH_FOR_A_SHUFFLE)
    environment = {"PYTHONPATH": str(_POINTS), "PENSTOCK_DRIVER_BYTES": "0"}
    job = clustered(trial, sql_of(trial, batches=2), environment)
    kept: list[Path] = []

    def kill(frame: Frame) -> None:
        kept.extend(state_of(job).glob("000000001-*.output-*.rows"))
        kill_executor(frame)

    trap = trial.published(after=trial.ended(1), call=kill)
    publishers = trial.publishers()
    run_past(trial, job, trap)
    trial.hit(f"{len(kept)} tasks have kept output", kept)
    trial.hit(f"a batch is published by {publishers()} processes", publishers() > 1)
    redone(trial, job, 1)
    trial.hit("operators ran once", len(_manifests(job, 1)) == 1)
    left = len(list(state_of(job).glob("*.output*")))
    trial.hit(f"{left} files of output are left", not left)
    return outcome(trial, job)


# --- other numbers of tasks --------------------------------------------------------------------------------------


@cell("F26", "from 2 tasks to 8, killed between manifest and EndTxn before and after")
def rescaled(trial: Trial) -> Outcome:
    trial.records = max(trial.records, 2 * ENOUGH_FOR_A_SHUFFLE)
    two, eight = (sql_of(trial, parallelism=each, batches=4) for each in (2, 8))
    job = trial.job(two)
    trap = trial.committing(2, call=lambda _: job.kill(), then=Then.DROP)
    die(trial, job, trap, planned=1, done=0)
    more = trial.job(eight, folder="more")
    trap = trial.committing(2, call=lambda _: more.kill(), then=Then.DROP)
    more.start()
    trial.wait(more, trap)
    more.kill()
    trial.died(more, trap, planned=2, done=1)
    trial.cluster.heal()
    ranges = [len(_ranges(job, batch)) for batch in (0, 1)]
    trial.hit(f"{ranges[0]} ranges of keys in batch 0, {ranges[1]} in batch 1", ranges[0] == 2 and ranges[1] == 8)
    return finish(trial, more)


def _ranges(job: JobProcess, batch: int) -> set[str]:
    """Where the ranges of keys begin whose state a batch has written, in its last attempt."""
    attempt = _manifests(job, batch)[-1].stem
    return {path.name.split("-")[3] for path in state_of(job).glob(f"{attempt}-*.arrow")}
