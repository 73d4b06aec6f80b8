"""F33: a table that the job finds, whose schema is in its state, when the driver dies in the batch that shows it."""

from __future__ import annotations

import io
from collections.abc import Callable
from dataclasses import replace
from functools import partial

import numpy as np
from numpy.typing import NDArray
from pyarrow import json as pj

from penstock.engine.checkpoint import read_location
from penstock.engine.checkpoint.schema_history import read_schema_history
from penstock.kafka.record_batches import Records
from penstock_testing import Then, Trap
from penstock_testing.numbered import KEYS
from tests.faults.driver_deaths import die
from tests.faults.harness import PATIENCE, Outcome, Trial, cell
from tests.faults.processes import JobProcess

__all__ = ["check_schemas", "numbers_of_values", "sql_of"]


def sql_of(trial: Trial) -> str:
    """A job that copies the records exactly once into a table that has the columns of the messages."""
    text = trial.sql().replace(", h MAP<STRING, BYTES> METADATA FROM 'headers'", "")
    source, _, rest = text.partition("CREATE TABLE t (")
    options = rest.partition(") WITH (")[2].partition(");\n")[0]
    return source.replace("(k STRING, n BIGINT)", "(k STRING)") + f"CREATE TABLE t WITH ({options}) AS TABLE s;\n"


def numbers_of_values(records: Records, where: str) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """``p`` and ``n`` of each record, which its value has: messages of found tables have no headers of others."""
    found = pj.read_json(io.BytesIO(b"\n".join(records.values.to_pylist())))
    parts = [int(each.partition("-")[0]) for each in found.column("k").to_pylist()]
    numbers = found.column("n").to_numpy()
    keys = [f"{part}-{number % KEYS}" for part, number in zip(parts, numbers.tolist(), strict=True)]
    assert found.column("k").to_pylist() == keys, f"{where}: a key is not that of its number"
    return np.array(parts, np.int64), numbers


def check_schemas(trial: Trial, job: JobProcess, outcome: Outcome) -> Outcome:
    """The outcome, and whether the state has each table once, with the columns that messages show."""
    found = read_schema_history(read_location(str(job.checkpoint / job.name)))
    shown = [f"{each.side.value} {each.number}: {', '.join(each.schema.row.names)}" for each in found.versions]
    wanted = ["source 1: k, n", "sink 1: k, n"]
    return outcome if shown == wanted else replace(outcome, problem=f"the state has the tables {shown}, not {wanted}")


def die_in_the_first_batch(trial: Trial, place: Callable[..., Trap], *, done: int = -1) -> Outcome:
    """Kill the job in the batch that has shown the columns, and let it come to its end."""
    trial.verify(numbers=numbers_of_values)
    job = trial.job(sql_of(trial))
    die(trial, job, place(call=lambda _: job.kill(), then=Then.DROP), planned=0, done=done)
    trial.verifier.restarted()
    job.start().finish(PATIENCE)
    return check_schemas(trial, job, trial.outcome(job, headers=False))


def started(trial: Trial) -> Trap:
    """The claim of ownership, before the first batch."""
    return trial.ended(0)


@cell("F33", "mid-publish")
def mid_publish(trial: Trial) -> Outcome:
    """The table was made, and its schema is in a file that no batch names yet."""
    return die_in_the_first_batch(trial, partial(trial.published, after=started(trial)))


@cell("F33", "after publishing, before the progress record")
def before_the_progress_record(trial: Trial) -> Outcome:
    return die_in_the_first_batch(trial, partial(trial.recording, after=trial.published(after=started(trial))))


@cell("F33", "after the progress record, before EndTxn")
def before_end_txn(trial: Trial) -> Outcome:
    return die_in_the_first_batch(trial, partial(trial.committing, 1))


@cell("F33", "after EndTxn, before Spark's commit log")
def after_end_txn(trial: Trial) -> Outcome:
    return die_in_the_first_batch(trial, partial(trial.ended, 1))
