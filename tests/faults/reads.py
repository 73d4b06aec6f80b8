"""F5 and F6 where a job reads: the leader of an input partition dies, and answers to Fetch are lost."""

from __future__ import annotations

from penstock_testing import Api, Frame, Then, Trap
from tests.faults.brokers import BROKERS, INPUT_LEADER, Absence, node_of, survive
from tests.faults.harness import PATIENCE, Outcome, Trial, cell, story
from tests.faults.networks import IMPATIENT, codes
from tests.faults.processes import JobProcess


def fetching(trial: Trial, job: JobProcess, *, after: Trap | None = None, **options: object) -> Trap:
    """Catches a task's Fetch of the input in the batch that is hit, or with ``response`` the answer to it."""
    about_source = trial.about(trial.source)
    return trial.cluster.add(
        Trap(
            Api.FETCH,
            where=lambda frame: about_source(frame) and frame.pid not in {None, job.pid},
            after=after or trial.ended(trial.before),
            **options,
        )
    )


# --- the leader dies ---------------------------------------------------------------------------------------------


def leader_killed(trial: Trial, **options: object) -> Outcome:
    """Whoever is asked for records, or gives some, is killed; the frame is lost."""
    gone, job = Absence(trial, INPUT_LEADER), trial.job(trial.sql(keyed=True))
    trap = fetching(trial, job, call=lambda frame: gone.kill(node_of(trial, frame)), then=Then.DROP, **options)
    return survive(trial, job, trap, gone)


@cell("F5", "leader of an input partition, kill -9, at Fetch", brokers=BROKERS)
def leader_killed_before_answering(trial: Trial) -> Outcome:
    return leader_killed(trial)


@cell("F5", "leader of an input partition, kill -9, its answer to Fetch lost", brokers=BROKERS)
def leader_killed_after_answering(trial: Trial) -> Outcome:
    return leader_killed(trial, response=True)


# --- answers are lost --------------------------------------------------------------------------------------------


def read_again(trial: Trial, then: Then) -> Outcome:
    """Records are lost on their way to a task: it asks for them again, and nobody else notices."""
    job = trial.job(trial.sql(source=IMPATIENT))
    trap = fetching(trial, job, response=True, then=then)
    batches: list[int] = []

    def note(_: Frame) -> None:
        batches.append(job.done())

    again = fetching(trial, job, response=True, after=trap, call=note)
    trial.numbered.write(trial.records)
    job.start()
    trial.wait(job, trap)
    trial.verifier.restarted()
    job.finish(PATIENCE)
    trial.hit(story(trap), trap.errors == (0,))
    asked = batches == [trial.before - 1]
    trial.hit(f"asked again in batch {trial.before}, and answered {codes(again)}", asked and again.errors == (0,))
    trial.hit("nothing redone", "is retried" not in job.text)
    return trial.outcome(job)


@cell("F6", "answer to Fetch lost, task to leader")
def answer_lost(trial: Trial) -> Outcome:
    return read_again(trial, Then.DROP)


@cell("F6", "connection cut before the answer to Fetch, task to leader")
def answer_cut(trial: Trial) -> Outcome:
    return read_again(trial, trial.random.choice((Then.CLOSE, Then.RESET)))
