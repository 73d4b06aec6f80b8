"""F31: savepoints whose making dies, whose start dies, and from which two jobs start."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

from penstock.kafka.topics import create_topic
from penstock_testing import Then
from tests.faults.checkpoints import must_stop
from tests.faults.harness import PATIENCE, Outcome, Trial, cell
from tests.faults.processes import JobProcess
from tests.faults.stateful import Point
from tests.faults.states import identity_of, messages, outcome, sql_of, wrong_states
from tests.waiting import eventually

_TABLES = ("counts", "windows", "best")


def _stopped(trial: Trial) -> JobProcess:
    """A job that was asked to stop when some of its batches were done."""
    job = trial.job(sql_of(trial), folder="saved")
    trap = trial.ended(trial.before, call=lambda _: job.ask_to_stop(), then=Then.FORWARD)
    trial.numbered.write(trial.records)
    job.start()
    trial.wait(job, trap)
    job.finish(PATIENCE)
    trial.hit(f"stopped after batch {job.done()}", 0 <= job.done() < job.planned() + 1)
    return job


def _save(
    trial: Trial, job: JobProcess, place: Path, environment: dict[str, str] | None = None
) -> subprocess.Popen[str]:
    """``penstock savepoint`` of the job."""
    command = [sys.executable, "-m", "penstock.cli.main", "savepoint", str(job.checkpoint / job.name), str(place)]
    made = subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        cwd=trial.folder,
        env={**os.environ, **(environment or {})},
    )
    trial.stack.callback(made.communicate)
    trial.stack.callback(made.kill)
    return made


def _saved(trial: Trial, job: JobProcess, place: Path) -> None:
    """Make the savepoint, which must succeed."""
    made = _save(trial, job, place)
    said, _ = made.communicate(timeout=PATIENCE)
    assert made.returncode == 0, said
    trial.hit(f"a savepoint after batch {job.done()}", f"after batch {job.done()}" in said)


def _from(trial: Trial, place: Path, name: str, sql: str, environment: dict[str, str] | None = None) -> JobProcess:
    """A new job from the savepoint."""
    arguments = ("--from", str(place))
    return trial.job(sql, folder=name, checkpoint=name, arguments=arguments, environment=environment)


def _outcome(trial: Trial, job: JobProcess, *, stop: str = "", problem: str = "") -> Outcome:
    """The verdict on what the job that was saved and the new one have written together."""
    trial.verify(transactional_ids=[trial.transactional_id, identity_of(job)])
    found = outcome(trial, job, stop=stop)
    return replace(found, problem="; ".join(filter(None, (found.problem, problem))))


@cell("F31", "killed while it is made, made again, and started from twice at once", deadline=900)
def made_twice_and_started_twice(trial: Trial) -> Outcome:
    saved, place = _stopped(trial), trial.folder / "savepoint"
    point = Point(trial, "take", "*")
    made = _save(trial, saved, place, point.environment)
    eventually(lambda: point.reached, PATIENCE)
    made.kill()
    made.wait()
    trial.hit("killed when it was about to copy a file", not (place / "penstock" / "savepoint.json").exists())
    stop = must_stop(trial, _from(trial, place, "early", sql_of(trial)), "savepoint.json")
    _saved(trial, saved, place)
    other = f"other-{trial.tag}"
    create_topic(trial.session, other, partitions=2)
    sql = sql_of(trial).replace(f"'{trial.sink}'", f"'{other}'")
    for name in _TABLES:
        create_topic(trial.session, f"{name}-{other}", partitions=2)
        sql = sql.replace(f"'{name}-{trial.tag}'", f"'{name}-{other}'")
    before = trial.verifier.seen
    first, second = _from(trial, place, "first", sql_of(trial)), _from(trial, place, "second", sql)
    trial.verifier.restarted()
    for job in (first, second):
        job.start()
    for job in (first, second):
        job.finish(PATIENCE)
    copies = sum(1 for _ in messages(trial, other, keyed=False))
    problems = [
        *wrong_states(trial, second),
        *([f"the second has {copies} copies"] if copies != trial.numbered.total - before else []),
    ]
    trial.hit(f"{before} records before the savepoint, {copies} after it in the topic of the second", before > 0)
    return _outcome(trial, first, stop=stop, problem="; ".join(problems))


@cell("F31", "a job that starts from it is killed while its state is copied")
def killed_at_its_start(trial: Trial) -> Outcome:
    saved, place = _stopped(trial), trial.folder / "savepoint"
    _saved(trial, saved, place)
    point = Point(trial, "take", "*")
    early = _from(trial, place, "first", sql_of(trial), point.environment)
    early.start()
    point.wait(early)
    early.kill()
    trial.hit("killed when it was about to copy a file", not list((early.checkpoint / "copy").rglob("job.json")))
    again = trial.job(sql_of(trial), folder="again", checkpoint="first", arguments=("--from", str(place)))
    trial.verifier.restarted()
    again.start().finish(PATIENCE)
    return _outcome(trial, again)
