"""F28: a job is started a second time, on its machine or on another, while the first runs, sleeps or is dead."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

from penstock.kafka.progress import ensure_progress_topic
from penstock_testing import Api, Then, Trap
from tests.faults.harness import PATIENCE, PATIENT, PROGRESS, Outcome, Trial, cell, story
from tests.faults.processes import JobProcess
from tests.faults.steps import RESTARTING, arrived, idle
from tests.waiting import eventually

__all__ = ["TAKE_OVER", "elsewhere", "race"]

_POINTS = Path(__file__).with_name("points")
#: Arguments of a start that takes the place of the first.
TAKE_OVER = ("--take-over",)
#: How ``penstock run`` ends when it was shut out for good, and when the job runs already.
_FENCED, _REFUSED = 3, 4


def elsewhere(name: str = "second") -> dict[str, str]:
    """The environment of a job that is on another machine: it cannot look at the processes of this one."""
    return {"PYTHONPATH": str(_POINTS), "PENSTOCK_MACHINE": name}


def _held(trial: Trial, first: JobProcess) -> Trap:
    """Start the first, and hold it in the open transaction of a batch."""
    trap = trial.published(after=trial.ended(trial.before), then=Then.HOLD)
    trial.numbered.write(trial.records)
    first.start()
    trial.wait(first, trap)
    trial.hit(story(trap))
    found = (first.planned(), first.done())
    trial.hit(f"batch {found[0]} planned, batch {found[1]} done", found == (trial.before, trial.before - 1))
    trial.left_as_by(trap)
    return trap


def _refused(trial: Trial, first: JobProcess, second: JobProcess) -> str:
    """Start the second, which has to be refused and to ask the coordinator for nothing. Its error."""
    taken = trial.cluster.add(Trap(Api.INIT_PRODUCER_ID, contains=[trial.transactional_id], times=None))
    status = second.start().wait(PATIENCE)
    trial.hit(f"the second ended with {status}", status == _REFUSED)
    named = re.search(rf"runs already, .*: process {first.pid} on \S+, since [-\d]+ [:\d]+ UTC", second.error)
    trial.hit("it named the process of the first", named)
    trial.hit("and did not take the id", not [each for each in taken.frames if each.pid == second.pid])
    assert not second.left_over(), "processes have outlived the second"
    return second.error


def _both_ended(trial: Trial, first: JobProcess, second: JobProcess) -> str:
    """Wait for the end of both: that of the first names the second, and the second has come to its end. What is wrong
    with that."""
    statuses = (first.wait(PATIENCE), second.wait(PATIENCE))
    trial.hit(f"ended with {statuses[0]} and {statuses[1]}", statuses == (_FENCED, 0))
    if "was taken over by" not in first.error or f"process {second.pid} on" not in first.error:
        return f"the first did not name process {second.pid}: {first.error or first.text[-2000:]}"
    return "processes have outlived the first" if first.left_over() else ""


# --- on one machine ----------------------------------------------------------------------------------------------


@cell("F28", "on one machine, while the first is in a transaction")
def on_one_machine(trial: Trial) -> Outcome:
    sql = trial.sql(sink=PATIENT)
    first, second = trial.job(sql, folder="first"), trial.job(sql, folder="second")
    trap = _held(trial, first)
    stop = _refused(trial, first, second)
    trap.release()
    first.finish(PATIENCE)
    return trial.outcome(first, stop=stop)


@cell("F28", "on one machine, while the first sleeps in a transaction")
def on_one_machine_asleep(trial: Trial) -> Outcome:
    sql = trial.sql(sink=PATIENT)
    first, second = trial.job(sql, folder="first"), trial.job(sql, folder="second")
    trap = _held(trial, first)
    first.pause()
    stop = _refused(trial, first, second)
    trial.hit("which stands still", "which stands still (SIGSTOP)" in stop)
    first.resume()
    trap.release()
    first.finish(PATIENCE)
    return trial.outcome(first, stop=stop)


@cell("F28", "on one machine, after kill -9 in a transaction")
def on_one_machine_after_death(trial: Trial) -> Outcome:
    sql = trial.sql(sink=PATIENT)
    first, second = trial.job(sql, folder="first"), trial.job(sql, folder="second")
    _held(trial, first)
    first.kill()
    trial.cluster.heal()
    trial.verifier.restarted()
    second.start().finish(PATIENCE)
    trial.hit("the second waited for nothing", "waiting up to" not in second.text)
    return trial.outcome(second)


@cell("F28", "on one machine, told to take over, while the first is in a transaction")
def taken_over(trial: Trial) -> Outcome:
    sql = trial.sql(sink=PATIENT)
    first, second = trial.job(sql, folder="first"), trial.job(sql, folder="second", arguments=TAKE_OVER)
    _held(trial, first)
    trial.verifier.restarted()
    second.start()
    second.wait_for("takes over from process", PATIENCE)
    problem = _both_ended(trial, first, second)
    return trial.outcome(second, stop=first.error, problem=problem)


@cell("F28", "on one machine, told to take over while both are idle; then records come")
def taken_over_idle(trial: Trial) -> Outcome:
    """The two that used to end each other."""
    sql = trial.sql(bounded=False)
    first, second = trial.job(sql, folder="first"), trial.job(sql, folder="second", arguments=TAKE_OVER)
    _begin_idle(trial, first)
    second.start()
    second.wait_for("takes over from process", PATIENCE)
    assert first.wait(PATIENCE) == _FENCED, first.text[-2000:]
    return _go_on(trial, first, second)


@cell("F28", "on one machine, the first sleeps while it is idle, and wakes up when records come")
def asleep_while_idle(trial: Trial) -> Outcome:
    sql = RESTARTING + trial.sql(bounded=False)
    first, second = trial.job(sql, folder="first"), trial.job(sql, folder="second", arguments=TAKE_OVER)
    _begin_idle(trial, first)
    return _wake_among_records(trial, first, second)


@cell("F28", "on one machine, at least once, the first sleeps while it is idle, and wakes up when records come")
def asleep_at_least_once(trial: Trial) -> Outcome:
    """Nothing but the checkpoint tells the two apart."""
    sql = trial.sql(bounded=False).replace("'exactly-once'", "'at-least-once'")
    first, second = trial.job(sql, folder="first"), trial.job(sql, folder="second", arguments=TAKE_OVER)
    ensure_progress_topic(trial.session, PROGRESS)  # which the verifier reads; the job has none
    _begin_idle(trial, first)
    found = _wake_among_records(trial, first, second)
    # Its records are those of no transaction, so no record of progress covers them.
    return replace(found, verdict=replace(found.verdict, torn=found.verdict.torn - 1))


def _begin_idle(trial: Trial, first: JobProcess) -> None:
    """Start the first, and wait until it has nothing to do."""
    part = trial.records // 2
    trial.numbered.write(part)
    first.start()
    arrived(trial, first, part)
    trial.hit(f"idle after batch {idle(first)}")


def _wake_among_records(trial: Trial, first: JobProcess, second: JobProcess) -> Outcome:
    """The first sleeps until the second is ready; then both find the same records."""
    first.pause()
    second.start()
    second.wait_for("takes over from process", PATIENCE)
    second.wait_for("job 'copy': checkpoint ", PATIENCE)
    trial.hit("the second began while the first slept", first.running)
    trial.numbered.write(trial.records // 4)
    first.resume()
    return _go_on(trial, first, second)


def _go_on(trial: Trial, first: JobProcess, second: JobProcess) -> Outcome:
    """The rest of the records comes, and the second reads all of them."""
    trial.verifier.restarted()
    trial.numbered.write(trial.records - trial.numbered.total)
    arrived(trial, second, trial.numbered.total)
    idle(second)
    second.ask_to_stop()
    problem = _both_ended(trial, first, second)
    return trial.outcome(second, stop=first.error, problem=problem)


@cell("F28", "on one machine, both take the id at once, one told to take over")
def at_once(trial: Trial) -> Outcome:
    """Whichever has the id, the one that has the checkpoint goes on."""
    sql = trial.sql(sink=PATIENT)
    trial.numbered.write(trial.records)
    return race(trial, trial.job(sql, folder="first"), trial.job(sql, folder="second", arguments=TAKE_OVER))


def race(trial: Trial, first: JobProcess, second: JobProcess) -> Outcome:
    """The first is kept where it takes the id, until the second is there too; the answers may come in any order."""
    gate = trial.cluster.add(Trap(Api.INIT_PRODUCER_ID, contains=[trial.transactional_id], times=2, then=Then.HOLD))
    trial.verifier.restarted()
    first.start()
    first.until(lambda: gate.frames, PATIENCE)
    second.start()
    both = (first, second)
    eventually(lambda: len(gate.frames) == 2, PATIENCE, lambda: f"{first.text[-1500:]}\n{second.text[-1500:]}")
    trial.hit(f"{story(gate)}, one of each", {frame.pid for frame in gate.frames} == {job.pid for job in both})
    gate.release()
    problem = _both_ended(trial, first, second)
    return trial.outcome(second, stop=first.error, problem=problem)


@cell("F28", "on one machine, the first takes the id back when the second has committed a batch")
def taken_back(trial: Trial) -> Outcome:
    """Its request was under way for long. It looks when it has the id, and leaves; the second takes the id again."""
    sql = trial.sql(sink=PATIENT)
    first, second = trial.job(sql, folder="first"), trial.job(sql, folder="second", arguments=TAKE_OVER)
    trial.numbered.write(trial.records)
    gate = trial.cluster.add(Trap(Api.INIT_PRODUCER_ID, contains=[trial.transactional_id], then=Then.HOLD))
    first.start()
    first.until(lambda: gate.sprung, PATIENCE)
    trial.hit(f"{story(gate)}, of the first", [frame.pid for frame in gate.frames] == [first.pid])
    # Nothing of its second batch is sent until the first has the id: there is no open transaction to be aborted.
    next_one = Trap(
        Api.PRODUCE,
        contains=[trial.transactional_id],
        where=trial.about(trial.sink),
        after=trial.ended(1),
        then=Then.HOLD,
    )
    late = trial.cluster.add(next_one)
    trial.verifier.restarted()
    second.start()
    second.until(lambda: late.sprung, PATIENCE)
    gate.release()
    first.wait(PATIENCE)
    trial.hit(story(gate), gate.errors == (0,))
    late.release()
    problem = _both_ended(trial, first, second)
    trial.hit("the second went on with a new run", "warning: job 'copy': restart 1 in 0 s" in second.text)
    return trial.outcome(second, stop=first.error, problem=problem)


# --- on two machines ---------------------------------------------------------------------------------------------


@cell("F28", "on another machine, while the first is in a transaction")
def on_two_machines(trial: Trial) -> Outcome:
    sql = trial.sql(sink=PATIENT)
    first, second = trial.job(sql, folder="first"), trial.job(sql, folder="second", environment=elsewhere())
    trap = _held(trial, first)
    stop = _refused(trial, first, second)
    trial.hit("it had listened", "waiting up to" in second.text)
    trap.release()
    first.finish(PATIENCE)
    return trial.outcome(first, stop=stop)


@cell("F28", "on another machine, after that of the first has failed in a transaction")
def on_two_machines_after_death(trial: Trial) -> Outcome:
    sql = trial.sql(sink=PATIENT)
    first, second = trial.job(sql, folder="first"), trial.job(sql, folder="second", environment=elsewhere())
    _held(trial, first)
    first.kill()
    trial.cluster.heal()
    trial.verifier.restarted()
    second.start().finish(PATIENCE)
    trial.hit("it had listened in vain", "waiting up to" in second.text)
    return trial.outcome(second)


@cell("F28", "on another machine, while the first sleeps in a transaction, and then wakes up")
def on_two_machines_asleep(trial: Trial) -> Outcome:
    """Nobody has told the second to take over: it cannot see the first."""
    sql = RESTARTING + trial.sql(sink=PATIENT)
    first, second = trial.job(sql, folder="first"), trial.job(sql, folder="second", environment=elsewhere())
    trap = _held(trial, first)
    first.pause()
    published = trial.ended(1)
    trial.verifier.restarted()
    second.start()
    second.until(lambda: published.sprung, PATIENCE)
    trial.hit("it had listened in vain", "waiting up to" in second.text)
    first.resume()
    trap.release()
    trial.hit("woken when the second had committed a batch", second.running)
    problem = _both_ended(trial, first, second)
    return trial.outcome(second, stop=first.error, problem=problem)
