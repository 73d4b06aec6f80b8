"""F1, F9 and F23: other ends that a batch comes to: the job is asked to stop, its JVM dies under it, its transaction is
aborted by hand."""

from __future__ import annotations

import subprocess
import sys
import time

from penstock_testing import Api, Then, Trap
from tests.faults.brokers import UNKNOWN
from tests.faults.foreigners import lose_the_id
from tests.faults.harness import PATIENCE, Outcome, Trial, cell, commits, story
from tests.faults.outcomes import asking, impatient, losing_the_end
from tests.faults.processes import JobProcess
from tests.faults.steps import stopped, stops

_ABORTED = {"PrepareAbort", "CompleteAbort"}


def aborting(trial: Trial, after: Trap) -> Trap:
    """Catches the answer that the job's transaction is aborted."""
    return trial.cluster.add(
        Trap(
            Api.END_TXN,
            response=True,
            contains=[trial.transactional_id],
            where=lambda frame: frame.errors == (0,) and not commits(frame),
            after=after,
        )
    )


def again(trial: Trial, job: JobProcess, *, stop: str = "") -> Outcome:
    """Start a job that has ended once more, and let it come to its end."""
    trial.cluster.heal()
    trial.verifier.restarted()
    job.start().finish(PATIENCE)
    return trial.outcome(job, stop=stop)


# --- F23: asked to stop ------------------------------------------------------------------------------------------


@cell("F23", "asked to stop (SIGTERM) mid-publish")
def asked_mid_publish(trial: Trial) -> Outcome:
    """A task waits for what it has published to be acknowledged. The job ends in order, and leaves nothing open."""
    job = trial.job(trial.sql(keyed=True))
    trap = trial.published(after=trial.ended(trial.before), then=Then.HOLD)
    aborted = aborting(trial, trap)
    trial.numbered.write(trial.records)
    job.start()
    trial.wait(job, trap)
    trial.stands({"Ongoing"})
    job.stop(PATIENCE)
    trial.hit(f"asked to stop while {story(trap)}")
    stopped(trial, job, planned=trial.before)
    trial.hit(f"{story(aborted)}, an abort", aborted.sprung)
    trial.stands(_ABORTED)
    assert not job.left_over(), "processes have outlived the job"
    return again(trial, job)


#: How long EndTxn is kept from a driver that is to stop.
_KEPT_SECONDS = 5


@cell("F23", "asked to stop (SIGTERM) at EndTxn")
def asked_at_end_txn(trial: Trial) -> Outcome:
    """The batch is committed while the job stops, whether Spark's log has it by then or not."""
    job = trial.job(trial.sql(keyed=True))
    trap = trial.committing(trial.before + 1, then=Then.HOLD)
    trial.numbered.write(trial.records)
    job.start()
    trial.wait(job, trap)
    trial.stands({"Ongoing"})
    job.ask_to_stop()
    time.sleep(_KEPT_SECONDS)  # there is nothing to see of a driver that waits: keeping it waiting is the fault
    trial.hit(f"asked to stop while {story(trap)}, {_KEPT_SECONDS} s before its answer", job.running)
    trap.release()
    job.finish(PATIENCE)
    trap.wait_for_answers(PATIENCE)
    trial.hit(f"batch {job.planned()} planned, batch {job.done()} done", job.planned() == trial.before)
    trial.stands({"PrepareCommit", "CompleteCommit"})
    assert not job.left_over(), "processes have outlived the job"
    return again(trial, job)


@cell("F23", "asked to stop (SIGTERM) while the outcome of EndTxn is unknown")
def asked_while_unknown(trial: Trial) -> Outcome:
    """The batch is committed, and no question about that is answered. The next start finds out."""
    job = impatient(trial)
    lost = losing_the_end(trial, committed=True)
    asked = asking(trial, Api.DESCRIBE_TRANSACTIONS, lost, response=True, times=None, then=Then.DROP)
    trial.numbered.write(trial.records)
    job.start()
    trial.wait(job, asked)
    job.stop(PATIENCE)
    trial.hit(f"{story(lost)}; asked to stop then, at {story(asked)}", len(lost.frames) > 1)
    stopped(trial, job, planned=trial.before)
    trial.stands({"PrepareCommit", "CompleteCommit"})
    assert not job.left_over(), "processes have outlived the job"
    trial.hit(f"the job says that it is {UNKNOWN}", UNKNOWN in job.text)
    return again(trial, job)


# --- F1: half of the driver --------------------------------------------------------------------------------------


@cell("F1", "mid-publish, only the driver's JVM")
def jvm_alone(trial: Trial) -> Outcome:
    """The Python process lives on, aborts what was begun, and says what has happened."""
    job = trial.job(trial.sql(keyed=True))

    def kill(_: object) -> None:
        job.kill_jvm()
        trial.hit("the JVM killed, the driver's process not", job.running and "java" not in job.programs())

    trap = trial.published(after=trial.ended(trial.before), call=kill)
    aborted = aborting(trial, trap)
    trial.numbered.write(trial.records)
    job.start()
    trial.wait(job, trap)
    stop = stops(job, "Spark has ended under it", expected=1)
    trial.hit(f"at {story(trap)}")
    stopped(trial, job, planned=trial.before)
    trial.hit(f"{story(aborted)}, an abort", aborted.sprung)
    trial.stands(_ABORTED)
    return again(trial, job, stop=stop)


# --- F9: by hand -------------------------------------------------------------------------------------------------


def abort_by_hand(trial: Trial, *force: str) -> subprocess.CompletedProcess[str]:
    """``penstock txn abort`` of the job's transaction."""
    command = [sys.executable, "-m", "penstock.cli.main", "txn", "abort", trial.transactional_id, *force]
    where = ["--yes", "--bootstrap-servers", trial.cluster.direct]
    return subprocess.run([*command, *where], capture_output=True, text=True, timeout=PATIENCE, check=False)


@cell("F9", "mid-publish, by hand: penstock txn abort")
def aborted_by_hand(trial: Trial) -> Outcome:
    """Which is refused while the job runs, unless it is forced. The job is fenced then."""
    job = trial.job(trial.sql(keyed=True))

    def abort(_: object) -> None:
        kept = abort_by_hand(trial)
        trial.hit("left alone while its owner runs", kept.returncode == 1 and "its owner runs" in kept.stderr)
        trial.stands({"Ongoing"})
        done = abort_by_hand(trial, "--force")
        trial.hit("aborted with --force", done.returncode == 0 and f"aborted '{trial.transactional_id}'" in done.stdout)

    trap = trial.published(after=trial.ended(trial.before), call=abort)
    return lose_the_id(trial, job, trap, planned=trial.before)
