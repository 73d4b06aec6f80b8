"""F6: lost answers to each request of the protocol besides EndTxn: all of them are asked for again, and nothing that
was done is done twice."""

from __future__ import annotations

from penstock_testing import Api, Then, Trap
from tests.faults.brokers import OLD, adding_offsets, checked, with_group
from tests.faults.driver_deaths import die
from tests.faults.harness import PATIENCE, Outcome, Trial, cell, story
from tests.faults.networks import IMPATIENT, codes, repetition, watch


def answering(trial: Trial, api: Api, **options: object) -> Trap:
    """Loses an answer to a request about the job's transactional id that is no error."""
    return trial.cluster.add(
        Trap(
            api,
            response=True,
            contains=[trial.transactional_id],
            where=lambda frame: frame.errors == (0,),
            then=Then.DROP,
            **options,
        )
    )


def init_lost_at_a_start(trial: Trial) -> Outcome:
    """A start aborts what the one before it has left open, is given a new epoch, and does not hear of it."""
    job = trial.job(trial.sql(sink=IMPATIENT))
    killed = trial.published(after=trial.ended(trial.before), call=lambda _: job.kill(), then=Then.DROP)
    die(trial, job, killed, planned=trial.before, done=trial.before - 1)
    lost = answering(trial, Api.INIT_PRODUCER_ID)
    again = repetition(trial, lost)
    trial.verifier.restarted()
    job.start().finish(PATIENCE)
    trial.hit(story(lost), lost.sprung)
    trial.hit(f"sent again, and answered {codes(again)}", 0 in again.errors)
    return trial.outcome(job)


@cell("F6", "answer to InitProducerId lost, at the start after a death mid-publish")
def init_answer_lost(trial: Trial) -> Outcome:
    return init_lost_at_a_start(trial)


@cell(
    "F6", "answer to InitProducerId lost, at the start after a death mid-publish, transaction.version 0", properties=OLD
)
def init_answer_lost_of_old(trial: Trial) -> Outcome:
    return init_lost_at_a_start(trial)


@cell("F6", "answer to InitProducerId lost, between batches, transaction.version 0", properties=OLD)
def init_answer_lost_between(trial: Trial) -> Outcome:
    """Below version 2 the driver takes a new epoch for every batch."""
    job = trial.job(trial.sql(sink=IMPATIENT))
    return watch(trial, job, answering(trial, Api.INIT_PRODUCER_ID, after=trial.ended(trial.before)))


@cell("F6", "answer to AddPartitionsToTxn lost, transaction.version 0", properties=OLD)
def adding_answer_lost(trial: Trial) -> Outcome:
    job = trial.job(trial.sql(sink=IMPATIENT))
    return watch(trial, job, answering(trial, Api.ADD_PARTITIONS_TO_TXN, after=trial.ended(trial.before)))


@cell("F6", "answer to AddOffsetsToTxn lost, transaction.version 0", properties=OLD)
def adding_group_answer_lost(trial: Trial) -> Outcome:
    job = trial.job(with_group(trial, sink=IMPATIENT))
    trap = answering(trial, Api.ADD_OFFSETS_TO_TXN, after=trial.ended(trial.before))
    return checked(trial, watch(trial, job, trap))


@cell("F6", "answer to TxnOffsetCommit lost")
def offsets_answer_lost(trial: Trial) -> Outcome:
    job = trial.job(with_group(trial, sink=IMPATIENT))
    return checked(trial, watch(trial, job, adding_offsets(trial, response=True, then=Then.DROP)))


@cell("F6", "answer to the Produce of the progress record lost")
def progress_answer_lost(trial: Trial) -> Outcome:
    job = trial.job(trial.sql(sink=IMPATIENT))
    return watch(trial, job, trial.recording(after=trial.ended(trial.before), response=True, then=Then.DROP))
