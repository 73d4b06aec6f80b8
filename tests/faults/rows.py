"""F10 and F21: rows that say where they go: by a key of their own making, and to a topic that is not theirs."""

from __future__ import annotations

from itertools import count

from penstock.kafka.progress import ensure_progress_topic
from penstock_testing import Then
from tests.faults.driver_deaths import die
from tests.faults.harness import PATIENCE, PROGRESS, Outcome, Trial, cell
from tests.faults.processes import JobProcess
from tests.faults.steps import ENOUGH_FOR_A_SHUFFLE, new_sink, stopped

_HEADERS = "h MAP<STRING, BYTES> METADATA FROM 'headers'"


def with_column(sql: str, column: str) -> str:
    """``sql`` with one more column in the table that is written."""
    head, table, rest = sql.partition("CREATE TABLE t (")
    return head + table + rest.replace(_HEADERS, f"{_HEADERS}, {column}", 1)


# --- a key of their own making -----------------------------------------------------------------------------------


def raw_keys(trial: Trial) -> Outcome:
    """Two tasks, whose rows find their partitions by a key that no format has made: both have rows for all of them."""
    new_sink(trial, partitions=4)
    trial.records = max(trial.records, ENOUGH_FOR_A_SHUFFLE)
    select = "SELECT k, n, h, CAST(CONCAT(k, '-', CAST(n AS STRING)) AS BYTES) AS rk FROM s"
    job = trial.job(with_column(trial.sql(batches=2, select=select), "rk BYTES METADATA FROM '__raw_key__'"))
    publishers = trial.publishers()
    trap = trial.published(after=trial.ended(1), call=lambda _: job.kill(), then=Then.DROP)
    die(trial, job, trap, planned=1, done=0)
    trial.hit(f"a batch is published by {publishers()} processes", publishers() > 1)
    trial.verifier.restarted()
    job.start().finish(PATIENCE)
    return trial.outcome(job)


@cell("F10", "rows with a raw key, two tasks and 4 output partitions, killed mid-publish")
def two_writers(trial: Trial) -> Outcome:
    return raw_keys(trial)


# --- a topic that is not theirs ----------------------------------------------------------------------------------

#: What the job must say about such a row.
_OWN = "an internal topic of Kafka or penstock"


def row_in_a_batch(trial: Trial) -> int:
    """The number of a record of partition 2 in the middle of the batch that is hit."""
    return trial.records // 4 * (2 * trial.before + 1) // 16


def routed(trial: Trial, n: int) -> str:
    """A job whose rows name their topic. One of them names penstock's own, with a key by which it would come where the
    job has its progress: as the first record of this producer there it would have the sequence of the driver's."""
    progress = ensure_progress_topic(trial.session)
    wanted = progress.partition_of(trial.transactional_id)
    key = next(each for each in map(str, count()) if progress.partition_of(each) == wanted)
    here = f"k = '2-{n % 16}' AND n = {n}"
    select = (
        f"SELECT CASE WHEN {here} THEN '{key}' ELSE k END AS k, n, h, "
        f"CASE WHEN {here} THEN '{PROGRESS}' ELSE '{trial.sink}' END AS topic FROM s"
    )
    sql = with_column(trial.sql(keyed=True, select=select), "topic STRING METADATA")
    assert f"'topic' = '{trial.sink}'" in sql
    return sql.replace(f"'topic' = '{trial.sink}'", "'topic-pattern' = '.*'")


def refuse(trial: Trial, job: JobProcess) -> Outcome:
    """The job stops at the row, and nothing of its batch is seen. With rows that name the output alone it goes on."""
    status = job.start().wait(PATIENCE)
    stop = job.error
    trial.cluster.heal()
    trial.hit(f"row of batch {trial.before} refused: ended with {status}", status == 3 and _OWN in stop)
    stopped(trial, job, planned=trial.before)
    again = trial.job(routed(trial, -1), folder="again")
    trial.verifier.restarted()
    again.start().finish(PATIENCE)
    return trial.outcome(again, stop=stop)


@cell("F21", "a row names the progress topic, which fits topic-pattern '.*'")
def row_for_progress(trial: Trial) -> Outcome:
    trial.numbered.write(trial.records)
    return refuse(trial, trial.job(routed(trial, row_in_a_batch(trial))))


@cell("F21", "a row names the progress topic, which fits topic-pattern '.*'; killed after EndTxn if it gets so far")
def row_for_progress_and_death(trial: Trial) -> Outcome:
    """The broker would take the driver's record for a repetition of the row, and the batch would be published again."""
    trial.numbered.write(trial.records)
    job = trial.job(routed(trial, row_in_a_batch(trial)))
    trial.ended(trial.before + 1, call=lambda _: job.kill(), then=Then.DROP)
    return refuse(trial, job)
