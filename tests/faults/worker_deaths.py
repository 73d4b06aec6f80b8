"""F2: a Python worker is killed; the batch is redone in place by a driver that lives on."""

from __future__ import annotations

import os
import signal

from penstock.testing import Api, Frame, Trap
from tests.faults.driver_deaths import BEFORE
from tests.faults.harness import PATIENCE, Outcome, Trial, cell
from tests.faults.processes import JobProcess


def kill_and_watch(trial: Trial, job: JobProcess, trap: Trap) -> Outcome:
    """Start the job and let it come to its end, with a worker killed on the way by the trap."""
    trial.numbered.write(trial.records)
    job.start()
    trap.wait(PATIENCE)
    trial.verifier.restarted()
    job.finish(PATIENCE)
    assert "is redone" in job.text, job.text[-3000:]
    return trial.outcome(job, note="batch redone in place")


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
    return kill_and_watch(trial, job, trial.published(after=trial.ended(BEFORE), call=killer(job)))


@cell("F2", "Python worker, mid-publish, through a shuffle")
def worker_mid_publish_shuffled(trial: Trial) -> Outcome:
    job = trial.job(trial.sql(keyed=True, batches=2))
    return kill_and_watch(trial, job, trial.published(after=trial.ended(1), call=killer(job)))


@cell("F2", "Python worker, mid-read")
def worker_mid_read(trial: Trial) -> Outcome:
    job = trial.job(trial.sql(keyed=True))
    trap = trial.cluster.add(
        Trap(Api.FETCH, response=True, where=trial.about(trial.source), after=trial.ended(BEFORE), call=killer(job))
    )
    return kill_and_watch(trial, job, trap)
