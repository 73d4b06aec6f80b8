"""F18: a transaction times out under a driver that lives, at each step of a batch."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from penstock_testing import Then, Trap
from tests.faults.brokers import adding_offsets, checked, with_group
from tests.faults.driver_deaths import TIMEOUT, until_aborted
from tests.faults.harness import PATIENCE, Outcome, Trial, cell, refused, story

OLD = {"transaction.version": "0"}

_STEPS: Mapping[str, Callable[[Trial], Trap]] = {
    "mid-publish": lambda trial: trial.published(after=trial.ended(trial.before), then=Then.HOLD),
    "before the progress record": lambda trial: trial.recording(after=trial.ended(trial.before), then=Then.HOLD),
    "before TxnOffsetCommit": lambda trial: adding_offsets(trial, then=Then.HOLD),
    "before EndTxn": lambda trial: trial.committing(trial.before + 1, then=Then.HOLD),
}


def expire(trial: Trial, step: Callable[[Trial], Trap]) -> Outcome:
    """What the driver or a task sends, or waits for, is kept until the broker has aborted the transaction. The batch is
    redone, and the job says why and what to do about it."""
    job = trial.job(with_group(trial, sink=TIMEOUT))
    trap = step(trial)
    trial.numbered.write(trial.records)
    job.start()
    trap.wait(PATIENCE)
    trial.stands({"Ongoing"})
    until_aborted(trial)
    trial.verifier.restarted()
    trap.release()
    job.finish(PATIENCE)
    if not trap.response:
        trap.wait_for_answers(PATIENCE)
    trial.hit(story(trap), trap.response or refused(trap))
    said = re.findall(rf"batch {trial.before} is retried: (.*)", job.text)
    trial.hit(f"batch {trial.before} redone in place", len(said) == 1)
    problem = ""
    if not (said and "open for longer than transaction.timeout.ms" in said[0] and "Raise" in said[0]):
        problem = f"the job does not say that the transaction has expired, and to raise transaction.timeout.ms: {said}"
    elif "took over" in said[0] or "taken over" in said[0]:
        problem = f"nobody took the id over: {said[0]}"
    return checked(trial, trial.outcome(job, problem=problem))


def _define(name: str, step: Callable[[Trial], Trap]) -> None:
    @cell("F18", f"expired {name}")
    def expired(trial: Trial) -> Outcome:
        return expire(trial, step)

    @cell("F18", f"expired {name}, transaction.version 0", properties=OLD)
    def expired_of_old(trial: Trial) -> Outcome:
        return expire(trial, step)


for _name, _step in _STEPS.items():
    _define(_name, _step)
