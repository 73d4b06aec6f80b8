"""F3: a driver that stands still past the transaction's time-out, is replaced, and wakes up."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable
from dataclasses import replace

from penstock_testing import Api, Then, Trap
from tests.faults.driver_deaths import TIMEOUT, TIMEOUT_SECONDS, until_aborted
from tests.faults.harness import PATIENCE, Outcome, Trial, cell, story
from tests.faults.processes import JobProcess
from tests.faults.second_starts import TAKE_OVER
from tests.faults.steps import RESTARTING


def replace_and_wake(
    trial: Trial, first: JobProcess, second: JobProcess, trap: Trap, *, past_timeout: Callable[[], None]
) -> Outcome:
    """The trap stops the first. The second goes on in its place, and while it does the first is woken."""
    trial.numbered.write(trial.records)
    first.start()
    trap.wait(PATIENCE)
    trial.hit(story(trap))
    found = (first.planned(), first.done())
    trial.hit(f"batch {found[0]} planned, batch {found[1]} done", found == (trial.before, trial.before - 1))
    trial.left_as_by(trap)
    past_timeout()
    trial.verifier.restarted()
    published = trial.ended(1)  # of the second, since the first stands still
    if second.checkpoint != first.checkpoint:
        shutil.copytree(first.checkpoint, second.checkpoint, ignore=shutil.ignore_patterns(".*"))
    second.start()
    published.wait(PATIENCE)
    first.resume()
    trap.release()
    trial.hit("woken when the second had committed a batch", second.running)
    statuses = (first.wait(PATIENCE), second.wait(PATIENCE))
    problem = ""
    if statuses != (3, 0):
        problem = f"the two ended with {statuses}, not with 3 and 0: {first.error}, {second.error}"
    elif "was taken over by" not in first.error or f"process {second.pid} on" not in first.error:
        problem = f"the first did not name the second, process {second.pid}, as the winner: {first.error}"
    elif first.left_over():
        problem = "processes have outlived the first"
    return trial.outcome(second, stop=first.error, problem=problem)


def sleep_past_timeout(trial: Trial) -> None:
    """There is no transaction whose state would tell: standing still is the fault."""
    time.sleep(TIMEOUT_SECONDS + 1)
    trial.hit(f"stood still for {TIMEOUT_SECONDS + 1} s")


def before_producing(trial: Trial, first: JobProcess) -> Trap:
    """Stops the job when it is about to publish its third batch: no transaction is open at the coordinator."""
    return trial.cluster.add(
        Trap(
            Api.PRODUCE,
            contains=[trial.transactional_id],
            where=trial.about(trial.sink),
            after=trial.ended(trial.before),
            call=lambda _: first.pause(),
            then=Then.HOLD,
        )
    )


@cell("F3", "stopped before its first Produce of a batch")
def stopped_before_producing(trial: Trial) -> Outcome:
    sql = trial.sql(sink=TIMEOUT)
    first, second = trial.job(sql, folder="first"), trial.job(sql, folder="second", arguments=TAKE_OVER)
    return replace_and_wake(
        trial, first, second, before_producing(trial, first), past_timeout=lambda: sleep_past_timeout(trial)
    )


@cell("F3", "stopped in an open transaction", ci=True)
def stopped_in_a_transaction(trial: Trial) -> Outcome:
    sql = trial.sql(keyed=True, sink=TIMEOUT)
    first, second = trial.job(sql, folder="first"), trial.job(sql, folder="second", arguments=TAKE_OVER)
    trap = trial.published(after=trial.ended(trial.before), call=lambda _: first.pause(), then=Then.HOLD)
    return replace_and_wake(trial, first, second, trap, past_timeout=lambda: until_aborted(trial))


@cell("F3", "stopped before EndTxn; the second on a copy of the checkpoint")
def stopped_before_end_txn(trial: Trial) -> Outcome:
    sql = trial.sql(sink=TIMEOUT)
    first, second = (
        trial.job(sql, folder="first"),
        trial.job(sql, folder="second", checkpoint="copied", arguments=TAKE_OVER),
    )
    trap = trial.committing(trial.before + 1, call=lambda _: first.pause(), then=Then.HOLD)
    return replace_and_wake(trial, first, second, trap, past_timeout=lambda: until_aborted(trial))


@cell("F3", "stopped after EndTxn; the second on a copy of the checkpoint")
def stopped_after_end_txn(trial: Trial) -> Outcome:
    sql = trial.sql(sink=TIMEOUT)
    first, second = (
        trial.job(sql, folder="first"),
        trial.job(sql, folder="second", checkpoint="copied", arguments=TAKE_OVER),
    )
    trap = trial.ended(trial.before + 1, call=lambda _: first.pause(), then=Then.HOLD)
    return replace_and_wake(trial, first, second, trap, past_timeout=lambda: sleep_past_timeout(trial))


@cell("F3", "stopped in an open transaction, transaction.version 0", properties={"transaction.version": "0"})
def stopped_in_a_transaction_of_old(trial: Trial) -> Outcome:
    return stopped_in_a_transaction(trial)


# --- with a restart strategy -------------------------------------------------------------------------------------


@cell("F3", "stopped in an open transaction; both have a restart strategy")
def stopped_with_restarts(trial: Trial) -> Outcome:
    """Whoever restarts when it is shut out shuts the other out in turn, and so forever."""
    sql = RESTARTING + trial.sql(sink=TIMEOUT)
    first, second = trial.job(sql, folder="first"), trial.job(sql, folder="second", arguments=TAKE_OVER)
    takers: list[int | None] = []
    trial.cluster.add(
        Trap(
            Api.INIT_PRODUCER_ID,
            contains=[trial.transactional_id],
            times=None,
            call=lambda frame: takers.append(frame.pid),
        )
    )
    before: list[int] = []

    def note() -> None:
        until_aborted(trial)
        before.append(len(takers))

    trap = trial.published(after=trial.ended(trial.before), call=lambda _: first.pause(), then=Then.HOLD)
    outcome = replace_and_wake(trial, first, second, trap, past_timeout=note)
    later = takers[before[0] :]
    said = f"the id taken {len(later)} times since, by the second alone"
    restarts = sum(job.text.count("warning: job 'copy': restart ") for job in (first, second))
    noted = "after 0 restarts" in first.text and "a restart would not help" in first.text
    problems = [
        outcome.problem,
        "" if later and set(later) == {second.pid} else f"the fault has missed: {said}: {later}",
        "" if not restarts and noted else f"{restarts} restarts, and the first says:\n{first.text[-1000:]}",
    ]
    return replace(
        outcome,
        hit=f"{outcome.hit}; {said}; no restart",
        problem="; ".join(filter(None, problems)),
    )
