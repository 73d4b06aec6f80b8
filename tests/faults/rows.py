"""F10 and F21: rows that say where they go: by a key of their own making, and to a topic that is not theirs."""

from __future__ import annotations

from penstock.testing import Then
from tests.faults.driver_deaths import die
from tests.faults.harness import PATIENCE, PROGRESS, Outcome, Trial, cell
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
    trial.hit(f"{len(publishers)} tasks have published", len(publishers) > 1)
    trial.verifier.restarted()
    job.start().finish(PATIENCE)
    return trial.outcome(job)


@cell("F10", "rows with a raw key, two tasks and 4 output partitions, killed mid-publish")
def two_writers(trial: Trial) -> Outcome:
    return raw_keys(trial)


# --- a topic that is not theirs ----------------------------------------------------------------------------------


def routed(trial: Trial, n: int) -> str:
    """A job whose rows name their topic; one of them, which is in the middle of a batch, names penstock's own."""
    topic = f"CASE WHEN k = '2-{n % 16}' AND n = {n} THEN '{PROGRESS}' ELSE '{trial.sink}' END"
    sql = with_column(trial.sql(select=f"SELECT k, n, h, {topic} AS topic FROM s"), "topic STRING METADATA")
    assert f"'topic' = '{trial.sink}'" in sql
    return sql.replace(f"'topic' = '{trial.sink}'", "'topic-pattern' = '.*'")


@cell("F21", "a row names the progress topic, which fits topic-pattern '.*'")
def row_for_progress(trial: Trial) -> Outcome:
    """The batch is refused, and nothing of it is seen. With rows that name the output alone the job goes on."""
    n = trial.records // 4 * (2 * trial.before + 1) // 16
    job = trial.job(routed(trial, n))
    trial.numbered.write(trial.records)
    status = job.start().wait(PATIENCE)
    stop = job.error
    trial.hit(f"ended with {status}", status in {1, 3} and PROGRESS in stop)
    stopped(trial, job, planned=trial.before)
    again = trial.job(routed(trial, -1), folder="again")
    trial.verifier.restarted()
    again.start().finish(PATIENCE)
    return trial.outcome(again, stop=stop)


@cell("F21", "a row names the progress topic; killed after EndTxn where that is let through")
def row_for_progress_and_death(trial: Trial) -> Outcome:
    """Its sequence would be that of the driver's record, which the broker would take for a repetition."""
    n = trial.records // 4 * (2 * trial.before + 1) // 16
    job = trial.job(routed(trial, n))
    trial.ended(trial.before + 1, call=lambda _: job.kill(), then=Then.DROP)
    trial.numbered.write(trial.records)
    status = job.start().wait(PATIENCE)
    stop = job.error
    trial.cluster.heal()
    trial.hit(f"ended with {status}", status in {1, 3} and PROGRESS in stop)
    again = trial.job(routed(trial, -1), folder="again")
    trial.verifier.restarted()
    again.start().finish(PATIENCE)
    return trial.outcome(again, stop=stop)
