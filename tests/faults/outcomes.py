"""F17: the end of a transaction stays unknown: every answer to EndTxn, or EndTxn itself, is lost until the driver gives
up asking. It then asks elsewhere, and each of the steps of that may fail as well.

What the driver asks then, in this order: what the coordinator knows (DescribeTransactions), what the progress topic
holds (ListOffsets and Fetch), the transactional id again (InitProducerId), and progress again, which is definite then.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from contextlib import suppress

from penstock.errors import ServiceError
from penstock_testing import Api, Frame, Then, Trap
from tests.faults.brokers import BROKERS, COORDINATOR, UNKNOWN, Absence, node_of
from tests.faults.harness import COMMITTED, PATIENCE, PROGRESS, Outcome, Trial, cell, story
from tests.faults.processes import JobProcess
from tests.faults.steps import stopped

OLD = {"transaction.version": "0"}
#: A driver that soon gives up asking.
DEADLINE_SECONDS = 5
IMPATIENT = {
    "properties.request.timeout.ms": "1000",
    "properties.default.api.timeout.ms": str(DEADLINE_SECONDS * 1000),
}
#: And that soon gives up finding out.
HASTY = {"properties.delivery.timeout.ms": "8000"}
FAILED = (1, 3)


def impatient(trial: Trial, options: Mapping[str, str] | None = None) -> JobProcess:
    """A job whose driver soon gives up asking."""
    return trial.job(trial.sql(sink={**IMPATIENT, **(options or {})}))


# --- the outcome is unknown --------------------------------------------------------------------------------------


def losing_the_end(trial: Trial, *, committed: bool) -> Trap:
    """Loses the EndTxn of a batch, or, where it is to be ``committed``, each answer to it, until released."""
    return trial.cluster.add(
        Trap(
            Api.END_TXN,
            response=committed,
            contains=[trial.transactional_id],
            nth=1 + trial.before + 1,  # the first is the claim's
            times=None,
            then=Then.DROP,
        )
    )


def asking(trial: Trial, api: Api, after: Trap, **options: object) -> Trap:
    """Catches a request of the driver that is about its transactional id."""
    return trial.cluster.add(Trap(api, contains=[trial.transactional_id], after=after, **options))


def reading_progress(trial: Trial, api: Api, job: JobProcess, after: Trap, **options: object) -> Trap:
    """Catches a request of the driver, or its answer, that is about the progress topic."""
    about = trial.about(PROGRESS)
    return trial.cluster.add(
        Trap(api, where=lambda frame: about(frame) and frame.pid in {None, job.pid}, after=after, **options)
    )


def settle(trial: Trial, *, committed: bool) -> Outcome:
    """The driver finds out what became of its batch, and goes on in place: past a batch that was committed, with the
    same batch again where it was not."""
    job = impatient(trial)
    lost = losing_the_end(trial, committed=committed)
    described = asking(trial, Api.DESCRIBE_TRANSACTIONS, lost, call=lambda _: lost.release())
    taken = asking(trial, Api.INIT_PRODUCER_ID, described)
    read = [reading_progress(trial, Api.LIST_OFFSETS, job, after) for after in (described, taken)]
    trial.numbered.write(trial.records)
    job.start()
    trial.wait(job, lost)
    with suppress(ServiceError):
        described.wait(10 * DEADLINE_SECONDS)
    lost.release()  # also where the driver does not ask elsewhere
    trial.stands(COMMITTED if committed else {"Ongoing"})
    trial.verifier.restarted()
    job.finish(PATIENCE)
    trial.hit(f"{story(lost)}; outcome unknown", len(lost.frames) > 1)
    trial.hit("then " + ", ".join(story(each) for each in (described, read[0], taken, read[1])), read[1].sprung)
    again = f"batch {trial.before} is retried" in job.text
    trial.hit(f"settled as {'aborted, and redone' if again else 'committed'}", again is not committed)
    return trial.outcome(job)


@cell("F17", "EndTxn outcome unknown, settled as committed", ci=True)
def settled_as_committed(trial: Trial) -> Outcome:
    return settle(trial, committed=True)


@cell("F17", "EndTxn outcome unknown, settled as aborted")
def settled_as_aborted(trial: Trial) -> Outcome:
    return settle(trial, committed=False)


@cell("F17", "EndTxn outcome unknown, settled as committed, transaction.version 0", properties=OLD)
def settled_as_committed_of_old(trial: Trial) -> Outcome:
    return settle(trial, committed=True)


@cell("F17", "EndTxn outcome unknown, settled as aborted, transaction.version 0", properties=OLD)
def settled_as_aborted_of_old(trial: Trial) -> Outcome:
    return settle(trial, committed=False)


@cell("F17", "EndTxn outcome unknown, and EndTxn arrives while it is looked up")
def arrives_late(trial: Trial) -> Outcome:
    """Every EndTxn is kept until the driver has looked around and asks for its id again: then they go first. What it
    has read by then does not say that the batch is committed."""
    job = impatient(trial)
    kept = trial.cluster.add(
        Trap(Api.END_TXN, contains=[trial.transactional_id], nth=1 + trial.before + 1, times=None, then=Then.HOLD)
    )

    def arrive(_: Frame) -> None:
        kept.release()
        kept.wait_for_answers(PATIENCE)

    taken = asking(trial, Api.INIT_PRODUCER_ID, kept, call=arrive)
    trial.numbered.write(trial.records)
    job.start()
    trial.wait(job, taken)
    trial.verifier.restarted()
    job.finish(PATIENCE)
    trial.hit(f"{story(kept)} just before {story(taken)}", 0 in kept.errors and len(kept.frames) > 1)
    trial.hit("settled as committed", "is retried" not in job.text)
    return trial.outcome(job)


@cell("F17", "EndTxn outcome unknown, its coordinator dead meanwhile", brokers=BROKERS, deadline=900)
def settled_elsewhere(trial: Trial) -> Outcome:
    """The coordinator is killed with its first answer. What the next one answers is lost as well, until the driver asks
    it for what it knows."""
    gone = Absence(trial, COORDINATOR)
    patient = {"properties.default.api.timeout.ms": "20000"}  # the next coordinator takes over after nine seconds
    job = impatient(trial, patient)
    trial.ended(trial.before + 1, call=lambda frame: gone.kill(node_of(trial, frame)))
    lost = losing_the_end(trial, committed=True)
    described = asking(trial, Api.DESCRIBE_TRANSACTIONS, lost, call=lambda _: lost.release())
    taken = asking(trial, Api.INIT_PRODUCER_ID, described)
    trial.numbered.write(trial.records)
    job.start()
    taken.wait(PATIENCE)
    trial.hit(f"{story(lost)}; outcome unknown; {story(described)}, {story(taken)}", len(lost.frames) > 1)
    trial.hit("the coordinator is another one now", node_of(trial, taken.frames[0]) not in gone.nodes)
    job.until(lambda: job.done() >= trial.before, PATIENCE)
    gone.end()
    job.finish(PATIENCE)
    trial.hit("settled as committed", "is retried" not in job.text)
    return trial.outcome(job)


# --- settling fails ----------------------------------------------------------------------------------------------

#: The steps of settling by name: how a trap is set for the answers to each, given the trap for the end that is lost.
Step = Callable[[Trial, JobProcess, Trap], Trap]
_LOST: Mapping[str, object] = {"response": True, "times": None, "then": Then.DROP}


def _describing(trial: Trial, job: JobProcess, lost: Trap) -> Trap:
    return asking(trial, Api.DESCRIBE_TRANSACTIONS, lost, **_LOST)


def _taking(trial: Trial, job: JobProcess, lost: Trap) -> Trap:
    return asking(trial, Api.INIT_PRODUCER_ID, lost, **_LOST)


def _first(api: Api) -> Step:
    return lambda trial, job, lost: reading_progress(
        trial, api, job, asking(trial, Api.DESCRIBE_TRANSACTIONS, lost), **_LOST
    )


def _second(api: Api) -> Step:
    return lambda trial, job, lost: reading_progress(
        trial, api, job, asking(trial, Api.INIT_PRODUCER_ID, lost), **_LOST
    )


def settle_fails(trial: Trial, step: Step, *, committed: bool = True, forever: bool) -> Outcome:
    """The end of a batch is unknown, and so is what the driver asks about it at one step: each answer is lost.

    ``forever``: until the job ends with an error that says that the outcome is not known. Its next start is exact.
    Otherwise until the driver has run out of time once and more: it learns the outcome later and goes on, or ends with
    that error as well, and is started again.
    """
    job = impatient(trial, HASTY if forever else None)
    lost = losing_the_end(trial, committed=committed)
    described = asking(trial, Api.DESCRIBE_TRANSACTIONS, lost, call=lambda _: lost.release())
    failing = step(trial, job, lost)
    trial.numbered.write(trial.records)
    job.start()
    trial.wait(job, failing)
    trial.verifier.restarted()
    if not forever:
        time.sleep(DEADLINE_SECONDS + 2)  # losing all answers for longer than the driver's deadline is the fault
        failing.release()
    status, stop = job.wait(PATIENCE), ""
    trial.hit(f"{story(lost)}; outcome unknown; {story(described)}", len(lost.frames) > 1)
    trial.hit(f"then {story(failing)}", len(failing.frames) > 1)
    problem = ""
    if status or forever:
        stop = job.error
        trial.hit(f"ended with {status}", status in FAILED)
        stopped(trial, job, planned=trial.before)
        if UNKNOWN not in stop:
            problem = f"the error does not say that the outcome is {UNKNOWN}: {stop}"
        trial.cluster.heal()
        trial.verifier.restarted()
        job.start().finish(PATIENCE)
    else:
        trial.hit("learnt later, and went on")
    return trial.outcome(job, stop=stop, problem=problem)


_STEPS: Mapping[str, Step] = {
    "DescribeTransactions": _describing,
    "reading progress (ListOffsets)": _first(Api.LIST_OFFSETS),
    "reading progress (Fetch)": _first(Api.FETCH),
    "InitProducerId": _taking,
    "marking the progress topic (Produce)": _second(Api.PRODUCE),
    "reading progress again (ListOffsets)": _second(Api.LIST_OFFSETS),
    "reading progress again (Fetch)": _second(Api.FETCH),
}


def _define(name: str, step: Step) -> None:
    @cell("F17", f"settle fails at {name}, until the job ends")
    def until_the_end(trial: Trial) -> Outcome:
        return settle_fails(trial, step, forever=True)

    @cell("F17", f"settle fails at {name}, until the job ends, transaction.version 0", properties=OLD)
    def until_the_end_of_old(trial: Trial) -> Outcome:
        return settle_fails(trial, step, forever=True)

    @cell("F17", f"settle fails at {name}, for a while")
    def for_a_while(trial: Trial) -> Outcome:
        return settle_fails(trial, step, forever=False)


for _name, _step in _STEPS.items():
    _define(_name, _step)


@cell("F17", "settle fails at reading progress again (Fetch), until the job ends; the batch was not committed")
def aborted_and_unknown(trial: Trial) -> Outcome:
    return settle_fails(trial, _second(Api.FETCH), committed=False, forever=True)
