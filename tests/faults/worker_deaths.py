"""F2: a Python worker is killed; the batch is redone in place by a driver that lives on."""

from __future__ import annotations

import os
import signal

from penstock.testing import Api, Frame, Trap
from tests.faults.harness import PATIENCE, Outcome, Trial, cell, story
from tests.faults.processes import JobProcess


def kill_and_watch(trial: Trial, job: JobProcess, trap: Trap, *, batch: int | None = None) -> Outcome:
    """Start the job and let it come to its end, with a worker killed on the way by the trap. That has to have ``batch``
    redone, by default the one after ``trial.before``."""
    trial.numbered.write(trial.records)
    job.start()
    trap.wait(PATIENCE)
    trial.verifier.restarted()
    job.finish(PATIENCE)
    trial.hit(story(trap))
    redone(trial, job, batch)
    return trial.outcome(job)


def redone(trial: Trial, job: JobProcess, batch: int | None = None) -> None:
    """Note that the driver has redone the batch that was hit: the one after ``trial.before``, or another."""
    number = trial.before if batch is None else batch
    trial.hit(f"batch {number} redone in place", f"batch {number} is redone" in job.text)


def killer(job: JobProcess) -> object:
    """Kills the process that a frame comes from or goes to, which must be a worker."""

    def kill(frame: Frame) -> None:
        worker = frame.pid
        assert worker is not None
        assert worker != job.pid
        os.kill(worker, signal.SIGKILL)

    return kill


@cell("F2", "Python worker, mid-publish", ci=True)
def worker_mid_publish(trial: Trial) -> Outcome:
    job = trial.job()
    return kill_and_watch(trial, job, trial.published(after=trial.ended(trial.before), call=killer(job)))


@cell("F2", "Python worker, mid-publish, through a shuffle")
def worker_mid_publish_shuffled(trial: Trial) -> Outcome:
    job = trial.job(trial.sql(keyed=True, batches=2))
    return kill_and_watch(trial, job, trial.published(after=trial.ended(1), call=killer(job)), batch=1)


@cell("F2", "Python worker, mid-read")
def worker_mid_read(trial: Trial) -> Outcome:
    job = trial.job(trial.sql(keyed=True))
    trap = trial.cluster.add(
        Trap(
            Api.FETCH, response=True, where=trial.about(trial.source), after=trial.ended(trial.before), call=killer(job)
        )
    )
    return kill_and_watch(trial, job, trap)
