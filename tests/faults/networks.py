"""F6: answers and requests that are lost, late, or go nowhere while the connection stays."""

from __future__ import annotations

import time

from penstock.testing import Api, Then, Trap
from tests.faults.driver_deaths import BEFORE
from tests.faults.harness import PATIENCE, Outcome, Trial, cell
from tests.faults.processes import JobProcess
from tests.waiting import eventually

#: A client gives up on an answer after this, and on its connection with it.
PATIENCE_SECONDS = 3
IMPATIENT = {"properties.request.timeout.ms": str(PATIENCE_SECONDS * 1000)}


def watch(trial: Trial, job: JobProcess, trap: Trap, note: str) -> Outcome:
    """Start the job and let it come to its end, with the trap on its way."""
    trial.numbered.write(trial.records)
    job.start()
    trap.wait(PATIENCE)
    trial.verifier.restarted()
    job.finish(PATIENCE)
    return trial.outcome(job, note=note)


@cell("F6", "answer to EndTxn lost", ci=True)
def end_txn_answer_lost(trial: Trial) -> Outcome:
    job = trial.job(trial.sql(sink=IMPATIENT))
    trap = trial.ended(BEFORE + 1, then=Then.DROP)
    return watch(trial, job, trap, "committed, and the driver not told")


@cell("F6", "connection cut before the answer to EndTxn")
def end_txn_answer_cut(trial: Trial) -> Outcome:
    job = trial.job(trial.sql(keyed=True))
    trap = trial.ended(BEFORE + 1, then=Then.CLOSE)
    return watch(trial, job, trap, "committed, and the driver not told")


@cell("F6", "answer to EndTxn lost, transaction.version 0", properties={"transaction.version": "0"})
def end_txn_answer_lost_of_old(trial: Trial) -> Outcome:
    return end_txn_answer_lost(trial)


@cell("F6", "EndTxn request lost")
def end_txn_lost(trial: Trial) -> Outcome:
    job = trial.job(trial.sql(sink=IMPATIENT))
    trap = trial.committing(BEFORE + 1, then=Then.DROP)
    return watch(trial, job, trap, "not committed, and asked again")


@cell("F6", "driver to coordinator half-open at EndTxn")
def coordinator_half_open(trial: Trial) -> Outcome:
    """What was under way goes on when the link heals: an EndTxn that nobody waits for any more."""
    job = trial.job(trial.sql(sink=IMPATIENT))
    proxy = trial.cluster.proxy(1)
    trap = trial.committing(BEFORE + 1, call=lambda _: proxy.half_open())
    trial.numbered.write(trial.records)
    job.start()
    trap.wait(PATIENCE)
    trial.verifier.restarted()
    given_up(trial)
    proxy.heal()
    job.finish(PATIENCE)
    return trial.outcome(job, note="EndTxn kept, sent again, then both arrive")


@cell("F6", "answer to Produce lost, task to leader")
def produce_answer_lost(trial: Trial) -> Outcome:
    job = trial.job(trial.sql(sink=IMPATIENT))
    trap = trial.published(after=trial.ended(BEFORE), then=Then.DROP)
    return watch(trial, job, trap, "appended, and the task not told")


@cell("F6", "Produce lost, task to leader")
def produce_lost(trial: Trial) -> Outcome:
    job = trial.job(trial.sql(keyed=True, sink=IMPATIENT))
    return watch(trial, job, producing(trial, then=Then.DROP), "not appended, and sent again")


@cell("F6", "Produce late, after it was sent again, task to leader")
def produce_late(trial: Trial) -> Outcome:
    """The first copy reaches the broker behind the second."""
    job = trial.job(trial.sql(sink=IMPATIENT))
    trap = producing(trial, then=Then.HOLD)
    trial.numbered.write(trial.records)
    job.start()
    trap.wait(PATIENCE)
    trial.verifier.restarted()
    trial.ended(1, call=lambda _: trap.release()).wait(PATIENCE)
    job.finish(PATIENCE)
    return trial.outcome(job, note="the first copy arrived after the batch was committed")


@cell("F6", "task to leader half-open at Produce")
def leader_half_open(trial: Trial) -> Outcome:
    job = trial.job(trial.sql(keyed=True, sink=IMPATIENT))
    proxy = trial.cluster.proxy(1)
    trap = producing(trial, call=lambda _: proxy.half_open())
    trial.numbered.write(trial.records)
    job.start()
    trap.wait(PATIENCE)
    trial.verifier.restarted()
    given_up(trial)
    proxy.heal()
    job.finish(PATIENCE)
    return trial.outcome(job, note="Produce kept, sent again, then both arrive")


@cell("F6", "all connections cut, again and again")
def cut_again_and_again(trial: Trial) -> Outcome:
    job = trial.job(trial.sql(keyed=True, batches=16))
    trial.numbered.write(trial.records)
    first = trial.ended(1)
    job.start()
    first.wait(PATIENCE)
    trial.verifier.restarted()
    cuts = 0
    while job.running:
        trial.cluster.proxy(1).cut(reset=bool(cuts % 2))
        cuts += 1
        time.sleep(0.7)
    job.finish(PATIENCE)
    return trial.outcome(job, note=f"{cuts} cuts")


@cell("F6", "every frame 50 ms late")
def slow_link(trial: Trial) -> Outcome:
    job = trial.job(trial.sql())
    trial.numbered.write(trial.records)
    trial.cluster.proxy(1).delay(0.05)
    trial.verifier.restarted()
    job.start().finish(PATIENCE)
    return trial.outcome(job, note="all the way through")


@cell("F6", "refused for 10 s, mid-publish")
def refused(trial: Trial) -> Outcome:
    """As behind a firewall that restarts: what was connected is cut, and nothing comes in."""
    job = trial.job(trial.sql())
    proxy = trial.cluster.proxy(1)
    trap = trial.published(after=trial.ended(BEFORE), then=Then.CLOSE)
    trial.numbered.write(trial.records)
    job.start()
    trap.wait(PATIENCE)
    proxy.refuse()
    time.sleep(10)
    trial.verifier.restarted()
    proxy.heal()
    job.finish(PATIENCE)
    return trial.outcome(job, note="recovery counts from the end of the fault")


def producing(trial: Trial, **options: object) -> Trap:
    """Catches the first Produce to the output of the third batch, before the broker has it."""
    return trial.cluster.add(
        Trap(
            Api.PRODUCE,
            contains=[trial.transactional_id],
            where=trial.about(trial.sink),
            after=trial.ended(BEFORE),
            **options,
        )
    )


def given_up(trial: Trial) -> None:
    """Wait until a client has given up on a connection and made another."""
    proxy = trial.cluster.proxy(1)
    before = proxy.accepted
    eventually(lambda: proxy.accepted > before, PATIENCE)
