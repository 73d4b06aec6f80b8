"""F32: functions in Python, whose worker or driver dies in them and after them."""

from __future__ import annotations

from pathlib import Path

from penstock_testing import Then
from tests.faults.driver_deaths import die_and_recover
from tests.faults.harness import COMMITTED, PATIENCE, Outcome, Trial, cell
from tests.faults.nondeterminism import judged
from tests.faults.processes import JobProcess
from tests.faults.steps import ENOUGH_FOR_A_SHUFFLE
from tests.faults.worker_deaths import kill_and_watch, killer

#: The functions: ``passing`` gives what it gets. Where it first gets ``WHEN``, it leaves a mark, and does ``what``.
_MODULE = """
import os, signal, time, uuid
from penstock.table.udf import udf

def passing(n: int) -> int:
    if n == {when}:
        try:
            os.close(os.open({mark!r}, os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            return n
        {what}
    return n

@udf(result_type="STRING", deterministic=False)
def drawn(n):
    return str(uuid.uuid4())
"""
_DIE = "os.kill(os.getpid(), signal.SIGKILL)"
_WAIT = "while True: time.sleep(1)"
_FUNCTIONS = "".join(
    f"CREATE FUNCTION {name} AS 'functions_of_cell.{name}' LANGUAGE PYTHON;\n" for name in ("passing", "drawn")
)


def job_with_functions(trial: Trial, sql: str, what: str = "pass") -> tuple[JobProcess, Path]:
    """The job of a statement that calls the functions, and the mark that ``passing`` leaves, in the middle of each
    partition."""
    job, mark = trial.job(_FUNCTIONS + sql), trial.folder / "mark"
    when = trial.records // trial.source_partitions // 2
    (job.folder / "functions_of_cell.py").write_text(_MODULE.format(when=when, mark=str(mark), what=what))
    return job, mark


def copied(trial: Trial) -> str:
    return trial.sql(select="SELECT k, passing(n) AS n, h FROM s WHERE passing(n) >= 0")


@cell("F32", "a Python worker, in the function")
def worker_in_the_function(trial: Trial) -> Outcome:
    job, mark = job_with_functions(trial, copied(trial), _DIE)
    trial.numbered.write(trial.records)
    job.start()
    job.until(mark.exists, PATIENCE)
    trial.verifier.restarted()
    job.finish(PATIENCE)
    trial.hit("killed by the function", mark.exists())
    trial.hit("its batch redone in place", " is retried" in job.text)
    return trial.outcome(job)


@cell("F32", "a Python worker, after the function, mid-publish")
def worker_after_the_function(trial: Trial) -> Outcome:
    job, _ = job_with_functions(trial, copied(trial))
    return kill_and_watch(trial, job, trial.published(after=trial.ended(trial.before), call=killer(job)))


@cell("F32", "the driver and its workers, in the function")
def driver_in_the_function(trial: Trial) -> Outcome:
    """The function waits until it is killed."""
    job, mark = job_with_functions(trial, copied(trial), _WAIT)
    trial.numbered.write(trial.records)
    job.start()
    job.until(mark.exists, PATIENCE)
    planned, done = job.planned(), job.done()
    job.kill()
    trial.hit(f"batch {planned} planned, batch {done} done, the function waits", planned == done + 1)
    trial.stands({*COMMITTED, "Ongoing"})
    trial.verifier.restarted()
    job.start().finish(PATIENCE)
    return trial.outcome(job)


@cell("F32", "a function that is not deterministic and a shuffle, killed mid-publish")
def driver_after_chance(trial: Trial) -> Outcome:
    """Its value is the key: the batch is published again with other keys, by other tasks."""
    trial.records = max(trial.records, ENOUGH_FOR_A_SHUFFLE)
    job, _ = job_with_functions(trial, trial.sql(keyed=True, batches=2, select="SELECT drawn(n) AS k, n, h FROM s"))
    trap = trial.published(after=trial.ended(1), call=lambda _: job.kill(), then=Then.DROP)
    return judged(trial, die_and_recover(trial, job, trap, planned=1, done=0), lambda found: found.anew > 0)
