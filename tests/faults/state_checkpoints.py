"""F26: jobs with state find another checkpoint than they left, meet a second driver, or write to two targets."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from penstock_testing import Then, Trap
from tests.faults.checkpoints import copy_to, fenced_by, keep, must_stop, put_back
from tests.faults.driver_deaths import die
from tests.faults.harness import PATIENCE, Outcome, Trial, cell
from tests.faults.processes import JobProcess
from tests.faults.second_starts import TAKE_OVER
from tests.faults.stateful import Point, left_of
from tests.faults.states import finish, manifest_of, outcome, sql_of, state_of
from tests.faults.two_targets import Database

# --- the checkpoint ----------------------------------------------------------------------------------------------


def halted(trial: Trial, *, after: int = 2) -> JobProcess:
    """A job that was killed when so many batches were done."""
    job = trial.job(sql_of(trial))
    trap = trial.committing(after + 1, call=lambda _: job.kill(), then=Then.DROP)
    die(trial, job, trap, planned=after, done=after - 1)
    return job


@cell("F26", "an older copy restored, then the latest, with their state")
def older_copy(trial: Trial) -> Outcome:
    job = trial.job(sql_of(trial))
    trial.published(after=trial.ended(1), call=lambda _: keep(trial, job, "older"))
    trap = trial.committing(4, call=lambda _: job.kill(), then=Then.DROP)
    die(trial, job, trap, planned=3, done=2)
    keep(trial, job, "latest")
    put_back(trial, job, "older")
    trial.hit(f"a copy with batch {job.planned()} planned put back", job.planned() == 1)
    stop = must_stop(trial, job, "an older checkpoint was restored")
    put_back(trial, job, "latest")
    return finish(trial, job, stop=stop)


@cell("F26", "the checkpoint moved, with its state")
def moved(trial: Trial) -> Outcome:
    job = halted(trial)
    shutil.move(job.checkpoint, trial.folder / "elsewhere")
    again = trial.job(sql_of(trial), folder="again", checkpoint="elsewhere")
    trial.hit("the first place is gone", not job.checkpoint.exists())
    return finish(trial, again)


def without(trial: Trial, choose: Callable[[JobProcess], Path]) -> Outcome:
    """What is missing from the state stops the job, which says what; when it is back, the job goes on."""
    job = halted(trial)
    lost, away = choose(job), trial.folder / "away"
    shutil.move(lost, away)
    named = lost.name if lost.suffix else manifest_name(trial, job)
    stop = must_stop(trial, job, named, "is missing")
    trial.hit(
        f"the {'file' if lost.suffix else 'folder'} is missing, and the job says so", not lost.exists() or lost.is_dir()
    )
    if lost.exists():
        shutil.rmtree(lost)
    shutil.move(away, lost)
    return finish(trial, job, stop=stop)


def manifest_name(trial: Trial, job: JobProcess) -> str:
    """The file that the job's progress refers to."""
    (found,) = state_of(job).glob("000000001-*.manifest") if state_of(job).exists() else [Path("000000001-")]
    return found.name


@cell("F26", "a file of the state is lost")
def lost_file(trial: Trial) -> Outcome:
    return without(trial, lambda job: state_of(job) / sorted(manifest_of(trial, job).files())[0])


@cell("F26", "the folder of the state is deleted")
def lost_folder(trial: Trial) -> Outcome:
    return without(trial, state_of)


def taken_over(trial: Trial, *, copied: bool) -> Outcome:
    """A driver stands between manifest and EndTxn until a second one has come to its end, and then goes on."""
    point = Point(trial, "after", f"{trial.before:09d}-*.manifest")
    sql = sql_of(trial)
    first = trial.job(sql, folder="first", environment=point.environment)
    place = "copied" if copied else "checkpoint"
    second = trial.job(sql, folder="second", checkpoint=place, arguments=TAKE_OVER)
    trial.numbered.write(trial.records)
    first.start()
    point.wait(first)
    first.pause()
    if copied:
        copy_to(first, second)
    kinds = left_of(second, trial.before)
    trial.hit(f"batch {trial.before} planned, its manifest written", kinds == [".arrow", ".manifest"])
    trial.verifier.restarted()
    second.start().finish(PATIENCE)
    point.release()
    first.resume()
    stop = fenced_by(first, second)
    trial.hit("the first woke up and was shut out")
    return outcome(trial, second, stop=stop)


@cell("F26", "a second driver on the checkpoint, while the first stands between manifest and EndTxn")
def two_drivers(trial: Trial) -> Outcome:
    return taken_over(trial, copied=False)


@cell("F26", "a copy of the checkpoint is run, while the first driver stands between manifest and EndTxn")
def copied(trial: Trial) -> Outcome:
    return taken_over(trial, copied=True)


@cell("F26", "a manifest has the content of another batch")
def other_manifest(trial: Trial) -> Outcome:
    job = halted(trial)
    path = state_of(job) / manifest_name(trial, job)
    content, (other,) = path.read_bytes(), state_of(job).glob("000000000-*.manifest")
    path.write_bytes(other.read_bytes())
    trial.hit("the manifest of batch 1 with the content of that of batch 0", path.read_bytes() != content)
    stop = must_stop(trial, job, path.name, "its content has changed")
    path.write_bytes(content)
    return finish(trial, job, stop=stop)


# --- two targets -------------------------------------------------------------------------------------------------


def with_database(trial: Trial, database: Database, *, first: bool) -> str:
    """The job, which writes the records to PostgreSQL too: committed ``first`` in each batch, or last."""
    sql = sql_of(trial).replace("EXECUTE", f"{database.table}EXECUTE")
    insert = "INSERT INTO numbers SELECT k, n FROM s;\n"
    if first:
        return sql.replace("BEGIN\n", f"BEGIN\n{insert}")
    return sql.replace("END;", f"{insert}END;").replace(
        "'scan.startup.mode'", "'properties.commit.offsets.on.checkpoint' = 'false', 'scan.startup.mode'", 1
    )


def killed_between(trial: Trial, database: Database, job: JobProcess, trap: Trap, *, in_database: int) -> Outcome:
    """Kill the job at the trap, make sure which of the two has the batch, and let it come to its end."""
    die(trial, job, trap, planned=trial.before, done=trial.before - 1)
    trial.hit(f"in PostgreSQL batch {database.committed()} was done", database.committed() == in_database)
    pattern = f"{trial.before:09d}-*.manifest"
    trial.hit("the output of the batch is kept", list(state_of(job).glob(f"{trial.before:09d}-*.output")))
    before = set(state_of(job).glob(pattern))
    trial.verifier.restarted()
    again = Point(trial, "before", f"{trial.before + 1:09d}-*.manifest")
    more = trial.job(job.sql, folder="again", environment=again.environment)
    more.start()
    again.wait(more)
    attempts = set(state_of(job).glob(pattern)) | before
    trial.hit("its operators have run once", len(attempts) == 1)
    again.release()
    more.finish(PATIENCE)
    found = outcome(trial, more)
    problem = database.problem()
    return replace(found, problem="; ".join(filter(None, (found.problem, problem))))


@cell("F26", "Kafka and PostgreSQL, killed between the two commits")
def kafka_first(trial: Trial) -> Outcome:
    database = Database(trial)
    job = trial.job(with_database(trial, database, first=False))
    trap = trial.ended(trial.before + 1, call=lambda _: job.kill(), then=Then.DROP)
    return killed_between(trial, database, job, trap, in_database=trial.before - 1)


@cell("F26", "PostgreSQL and Kafka, killed between the two commits")
def postgres_first(trial: Trial) -> Outcome:
    database = Database(trial)
    job = trial.job(with_database(trial, database, first=True))
    trap = trial.committing(trial.before + 1, call=lambda _: job.kill(), then=Then.DROP)
    return killed_between(trial, database, job, trap, in_database=trial.before)
