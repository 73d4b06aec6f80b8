"""F2: a Python worker is killed; the batch is retried in place by a driver that lives on."""

from __future__ import annotations

import os
import signal

from penstock_testing import Api, Frame, Then, Trap
from tests.faults.driver_deaths import ENOUGH_FOR_A_SHUFFLE
from tests.faults.harness import PATIENCE, Outcome, Trial, cell, refused, story
from tests.faults.processes import JobProcess
from tests.faults.steps import run_past


def kill_and_watch(
    trial: Trial, job: JobProcess, trap: Trap, *, batch: int | None = None, shuffled: bool = False
) -> Outcome:
    """Start the job and let it come to its end, with a worker killed on the way by the trap. That has to have ``batch``
    redone, by default the one after ``trial.before``. ``shuffled``: more than one task has to publish a batch."""
    publishers = trial.publishers()
    run_past(trial, job, trap)
    if shuffled:
        trial.hit(f"a batch is published by {publishers()} processes", publishers() > 1)
    redone(trial, job, batch)
    return trial.outcome(job)


def redone(trial: Trial, job: JobProcess, batch: int | None = None) -> None:
    """Note that the driver has redone the batch that was hit: the one after ``trial.before``, or another."""
    number = trial.before if batch is None else batch
    trial.hit(f"batch {number} redone in place", f"batch {number} is retried" in job.text)


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
    trial.records = max(trial.records, ENOUGH_FOR_A_SHUFFLE)
    job = trial.job(trial.sql(keyed=True, batches=2))
    return kill_and_watch(trial, job, trial.published(after=trial.ended(1), call=killer(job)), batch=1, shuffled=True)


@cell(
    "F2",
    "Python worker, mid-publish; what it was sending arrives when the transaction has been aborted",
    properties={"transaction.version": "0", "transaction.partition.verification.enable": "false"},
)
def late_produce_unverified(trial: Trial) -> Outcome:
    """Below transaction.version 2, on a broker that takes what belongs to no transaction, as those before 3.6 do: only
    the epoch of the abort keeps it out. Else it would wait in the log for the marker of the next transaction."""
    job = trial.job(trial.sql(keyed=True))
    about_sink = trial.about(trial.sink)
    trap = trial.cluster.add(
        Trap(
            Api.PRODUCE,
            contains=[trial.transactional_id],
            where=about_sink,
            after=trial.ended(trial.before),
            call=killer(job),
            then=Then.HOLD,
        )
    )

    def arrive(_: Frame) -> None:
        """Before the driver is told that it has aborted, so that nothing of the next attempt is there."""
        trap.release()
        trap.wait_for_answers(PATIENCE)

    aborted = [
        trial.cluster.add(
            Trap(
                api,
                response=True,
                contains=[trial.transactional_id],
                where=lambda frame: frame.errors == (0,),
                after=trap,
                call=arrive,
            )
        )
        for api in (Api.INIT_PRODUCER_ID, Api.END_TXN)  # one of the two is how it aborts
    ]
    trial.numbered.write(trial.records)
    job.start()
    trial.wait(job, trap)
    trial.verifier.restarted()
    job.finish(PATIENCE)
    trial.hit(f"{story(trap)} behind {', '.join(story(each) for each in aborted if each.sprung)}", refused(trap))
    redone(trial, job)
    return trial.outcome(job)


@cell("F2", "Python worker, mid-read")
def worker_mid_read(trial: Trial) -> Outcome:
    job = trial.job(trial.sql(keyed=True))
    trap = trial.cluster.add(
        Trap(
            Api.FETCH, response=True, where=trial.about(trial.source), after=trial.ended(trial.before), call=killer(job)
        )
    )
    return kill_and_watch(trial, job, trap)
