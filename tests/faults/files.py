"""F30: a job that writes files is killed while those of a batch appear."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

from penstock_testing import Verdict
from tests.faults.checkpoints import copy_to
from tests.faults.harness import PATIENCE, Outcome, Trial, cell
from tests.faults.processes import JobProcess
from tests.faults.stateful import Point
from tests.faults.steps import stopped

#: Files of the second batch: their names begin with the job, the output and the number of the batch.
_SECOND = "*.part-*-0-000000001-*"


def _folder(trial: Trial) -> Path:
    return trial.folder / "files"


def _sql(trial: Trial) -> str:
    """A job that writes the records into files, in a folder for each key."""
    head, _, _ = trial.sql(batches=4).partition("CREATE TABLE t")
    options = f"'connector' = 'filesystem', 'path' = '{_folder(trial)}', 'format' = 'json'"
    return (
        f"{head}CREATE TABLE f (k STRING, n BIGINT) PARTITIONED BY (k) WITH ({options});\n"
        "INSERT INTO f SELECT k, n FROM s;\n"
    )


def _killed(trial: Trial, action: str) -> tuple[JobProcess, int]:
    """A job that was killed in its second batch, and how many files of that had appeared."""
    point = Point(trial, action, _SECOND)
    job = trial.job(_sql(trial), environment=point.environment)
    trial.numbered.write(trial.records)
    job.start()
    point.wait(job)
    job.kill()
    hidden, there = (len(list(_folder(trial).rglob(f"{dot}part-*-0-000000001-*"))) for dot in (".", ""))
    trial.hit(f"{there} files of batch 1 had appeared, {hidden} had not")
    stopped(trial, job, planned=1)
    return job, there


def _outcome(trial: Trial, job: JobProcess) -> Outcome:
    """What is in the files at the end, beside the records."""
    found: Counter[tuple[str, int]] = Counter()
    names = [path for path in _folder(trial).rglob("*") if path.is_file()]
    for path in names:
        if not path.name.startswith("."):
            key = path.parent.name.partition("=")[2]
            found.update((key, json.loads(line)["n"]) for line in path.read_text().splitlines())
    written = trial.numbered.written
    right = Counter((f"{each}-{number % 16}", number) for each, count in written.items() for number in range(count))
    lost, more = right - found, found - right
    strangers = sum(count for row, count in more.items() if row not in right)
    left = [path.name for path in names if path.name.startswith(".")]
    problems = [
        *([f"{job.left_over()} processes have outlived the job"] if job.left_over() else []),
        *([f"{len(left)} hidden files are left, {left[0]} among them"] if left else []),
        *(f"the fault has missed: {each}" for each in trial.misses),
    ]
    verdict = Verdict(
        right.total(), found.total(), lost.total(), more.total() - strangers, strangers, 0, 0, 0, 0, None
    )  # fmt: skip
    return Outcome(verdict, "", "; ".join(trial.hits), "; ".join(problems))


def _recovered(trial: Trial, job: JobProcess) -> Outcome:
    job.start().finish(PATIENCE)
    return _outcome(trial, job)


@cell("F30", "killed when the files of a batch are written, before the first appears")
def before_the_first(trial: Trial) -> Outcome:
    job, there = _killed(trial, "appear")
    trial.hit("none had appeared", there == 0)
    return _recovered(trial, job)


@cell("F30", "killed when one file of a batch has appeared")
def after_the_first(trial: Trial) -> Outcome:
    job, there = _killed(trial, "appeared")
    trial.hit("one had appeared", there == 1)
    return _recovered(trial, job)


@cell("F30", "killed when all files of a batch have appeared, before Spark's commit log")
def after_the_last(trial: Trial) -> Outcome:
    job, there = _killed(trial, "published")
    trial.hit("all had appeared", there > 1 and not list(_folder(trial).rglob(".part-*")))
    return _recovered(trial, job)


@cell("F30", "killed when one file of a batch has appeared; a copy of the checkpoint goes on")
def copied(trial: Trial) -> Outcome:
    job, there = _killed(trial, "appeared")
    trial.hit("one had appeared", there == 1)
    again = trial.job(job.sql, folder="again", checkpoint="copied")
    copy_to(job, again)
    return _recovered(trial, again)
