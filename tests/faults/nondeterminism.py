"""F12: a query that gives other values each time it runs, with a shuffle between it and the output."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.kafka.fetch import Fetcher, Range
from penstock.kafka.offsets import LATEST, list_offsets
from penstock.kafka.properties import READ_UNCOMMITTED
from penstock.kafka.record_batches import scan
from penstock_testing import Then
from penstock_testing.numbered import numbers_of
from tests.faults.driver_deaths import die_and_recover
from tests.faults.harness import Outcome, Trial, cell
from tests.faults.processes import JobProcess
from tests.faults.steps import ENOUGH_FOR_A_SHUFFLE
from tests.faults.worker_deaths import kill_and_watch, killer

_UUID_LENGTH = 36


def random_sql(trial: Trial) -> str:
    """Two batches of two tasks each. The key is drawn again whenever the query runs: so is the partition that a record
    goes to, and the task that publishes it."""
    trial.records = max(trial.records, ENOUGH_FOR_A_SHUFFLE)
    return trial.sql(keyed=True, batches=2, select="SELECT UUID() AS k, n, h FROM s")


@dataclass(frozen=True)
class Written:
    """How many records are in the output's log more than once, those of aborted transactions among them; how many of
    these under another key; and in how many key and value do not come from one run of the query."""

    again: int
    anew: int
    mixed: int


def written(trial: Trial) -> Written:
    """What is in the output's log."""
    places = [(trial.sink, each.partition) for each in trial.session.topic(trial.sink).partitions]
    ends = list_offsets(trial.session, places, LATEST, isolation=READ_UNCOMMITTED)
    ranges = [Range(*place, 0, end.offset) for place, end in ends.items() if end is not None]
    ids, keys, mixed = [], [], 0
    for chunk in Fetcher(trial.session, ranges, isolation=READ_UNCOMMITTED):
        records = scan(chunk.records, start_offset=chunk.start, end_offset=chunk.end, headers=True)
        partitions, numbers = numbers_of(records.headers, trial.sink)
        ids.append(partitions * trial.records + numbers)
        keys.append(records.keys.cast(pa.string()))
        start = len('{"k":"')
        inside = pc.utf8_slice_codeunits(records.values.cast(pa.string()), start, start + _UUID_LENGTH)
        mixed += pc.sum(pc.not_equal(inside, keys[-1])).as_py() or 0
    table = pa.table({"id": np.concatenate(ids), "key": pa.chunked_array(keys)})
    counted = table.group_by("id").aggregate([("key", "count"), ("key", "count_distinct")])
    again, anew = (pc.sum(pc.greater(counted[each], 1)).as_py() or 0 for each in ("key_count", "key_count_distinct"))
    return Written(again, anew, mixed)


def judged(trial: Trial, outcome: Outcome, fits: Callable[[Written], bool]) -> Outcome:
    """``outcome``, with what was written, which has to be so that the point was hit."""
    found = written(trial)
    seen = f"{found.again} records in the log twice, {found.anew} of them with another key"
    problems = [
        *([outcome.problem] if outcome.problem else []),
        *([] if fits(found) else [f"the fault has missed: {seen}"]),
        *([f"in {found.mixed} records key and value are of different runs"] if found.mixed else []),
    ]
    return replace(outcome, hit=f"{outcome.hit}; {seen}", problem="; ".join(problems))


@cell("F12", "UUID() and a shuffle, killed mid-publish")
def mid_publish(trial: Trial) -> Outcome:
    job = trial.job(random_sql(trial))
    trap = trial.published(after=trial.ended(1), call=lambda _: job.kill(), then=Then.DROP)
    return judged(trial, die_and_recover(trial, job, trap, planned=1, done=0), lambda found: found.anew > 0)


@cell("F12", "UUID() and a shuffle, killed after EndTxn")
def after_end_txn(trial: Trial) -> Outcome:
    """The replay would publish everything a second time, elsewhere."""
    job = trial.job(random_sql(trial))
    trap = trial.ended(2, call=lambda _: job.kill(), then=Then.DROP)
    return judged(trial, die_and_recover(trial, job, trap, planned=1, done=0), lambda found: found.again == 0)


@cell("F12", "UUID() and a shuffle, a Python worker killed mid-publish")
def worker_mid_publish(trial: Trial) -> Outcome:
    """The batch is retried in place, in a transaction of its own."""
    job: JobProcess = trial.job(random_sql(trial))
    trap = trial.published(after=trial.ended(1), call=killer(job))
    outcome = kill_and_watch(trial, job, trap, batch=1, shuffled=True)
    return judged(trial, outcome, lambda found: found.again > 0)
