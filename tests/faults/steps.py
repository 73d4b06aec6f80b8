"""Steps that cells of several modules take."""

from __future__ import annotations

import json
from collections.abc import Mapping

from penstock.kafka.topics import create_topic
from penstock_testing import Api, Trap
from tests.faults.driver_deaths import ENOUGH_FOR_A_SHUFFLE
from tests.faults.harness import PATIENCE, Trial, story
from tests.faults.processes import JobProcess

__all__ = [
    "ENOUGH_FOR_A_SHUFFLE",
    "RESTARTING",
    "arrived",
    "hit",
    "idle",
    "new_sink",
    "next_end",
    "reached",
    "run_past",
    "stopped",
    "stops",
]

#: Before a job: it restarts after nearly every failure, at once.
RESTARTING = (
    "SET 'restart-strategy.type' = 'fixed-delay';\n"
    "SET 'restart-strategy.fixed-delay.attempts' = '1000';\n"
    "SET 'restart-strategy.fixed-delay.delay' = '100 ms';\n"
)


def run_past(trial: Trial, job: JobProcess, trap: Trap) -> None:
    """Start a job on all records, and let it come to its end after the trap on its way."""
    trial.numbered.write(trial.records)
    job.start()
    trial.wait(job, trap)
    trial.verifier.restarted()
    job.finish(PATIENCE)
    trial.hit(story(trap))


def arrived(trial: Trial, job: JobProcess, records: int) -> None:
    """Wait until so many records are visible, while the job runs."""
    there = trial.verifier.wait_for_records(records, PATIENCE, alive=lambda: job.running)
    assert there, f"{trial.verifier.seen} of {records} records have arrived:\n{job.text[-3000:]}"


def idle(job: JobProcess, *, after: int = -1) -> int:
    """Wait until Spark has logged as done all that an unbounded job has planned, and a batch later than ``after``;
    the last batch."""
    job.until(lambda: after < job.done() == job.planned(), PATIENCE)
    return job.done()


def hit(trial: Trial, job: JobProcess, trap: Trap, *, planned: int | None = None) -> None:
    """Wait until the trap has killed the job, whose last batch (``planned``, where it is known) was not done."""
    trial.wait(job, trap)
    job.kill()
    trial.died(job, trap, planned=planned)
    trial.cluster.heal()


def stopped(trial: Trial, job: JobProcess, *, planned: int, done: int | None = None) -> None:
    """Note that a job ended by itself when ``planned`` was its last batch, which was not done."""
    found, expected = (job.planned(), job.done()), (planned, planned - 1 if done is None else done)
    trial.hit(f"stopped with batch {found[0]} planned, batch {found[1]} done", found == expected)


def stops(job: JobProcess, *named: str, expected: int = 3) -> str:
    """The error that the job must end with; it must say all this. Status 3: a restart would not help."""
    status = job.wait(PATIENCE)
    assert status == expected, f"the job ended with status {status}, not {expected}:\n{job.text[-3000:]}"
    assert all(each in job.error for each in named), f"{', '.join(named)} in:\n{job.text[-3000:]}"
    left = job.left_over()
    assert not left, f"{left} processes have outlived the job"
    return job.error


def reached(trial: Trial, job: JobProcess, batch: int | None = None) -> dict[int, int]:
    """Where a batch ends in each partition of the input: the last that Spark has logged as done, or another."""
    number = job.done() if batch is None else batch
    text = (job.checkpoint / job.name / "offsets" / str(number)).read_text()
    partitions = json.loads(text.splitlines()[-1])[trial.source]["partitions"]
    return {int(partition): at["offset"] for partition, at in partitions.items()}


def next_end(trial: Trial, **options: object) -> Trap:
    """Catches the answer to the job's next EndTxn."""
    return trial.cluster.add(Trap(Api.END_TXN, response=True, contains=[trial.transactional_id], **options))


def new_sink(trial: Trial, *, partitions: int = 3, configs: Mapping[str, str] | None = None) -> None:
    """Let the trial's jobs write to another topic, and its verifier read that."""
    trial.sink = f"sink-{trial.tag}"
    create_topic(trial.session, trial.sink, partitions=partitions, configs=configs)
    trial.verify()
