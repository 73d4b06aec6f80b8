"""F29: jobs in batch mode die before and after their one commit, or are started twice while they wait for records."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from penstock.kafka.topics import create_topic
from penstock_testing import Then, Trap
from tests.faults.driver_deaths import die
from tests.faults.harness import PATIENCE, Outcome, Trial, cell
from tests.faults.processes import JobProcess
from tests.faults.states import messages

_BATCH = "SET 'execution.runtime-mode' = 'batch';\n"


def _sql(trial: Trial, *, stop: str = "") -> str:
    """A batch job that copies the records, and writes the count and the sum of each key. ``stop``: more options of the
    source."""
    topic = _sums(trial)
    if not trial.session.topics([topic]):
        create_topic(trial.session, topic, partitions=2)
    head, insert, copied = trial.sql(keyed=True).partition("INSERT INTO")
    if stop:
        head = head.replace("'scan.bounded.mode' = 'latest-offset'", stop)
    options = {
        "connector": "kafka",
        "topic": topic,
        "properties.bootstrap.servers": trial.cluster.bootstrap,
        "key.format": "json",
        "key.fields": "k",
        "value.format": "json",
        "sink.delivery-guarantee": "exactly-once",
        "sink.transactional-id-prefix": trial.prefix,
    }
    clause = ", ".join(f"'{key}' = '{value}'" for key, value in options.items())
    return (
        f"{_BATCH}{head}CREATE TABLE sums (k STRING, c BIGINT, s BIGINT) WITH ({clause});\n"
        f"EXECUTE STATEMENT SET BEGIN\n{insert}{copied}"
        "INSERT INTO sums SELECT k, COUNT(*), SUM(n) FROM s GROUP BY k;\nEND;\n"
    )


def _sums(trial: Trial) -> str:
    return f"sums-{trial.tag}"


def _outcome(trial: Trial, job: JobProcess, *, stop: str = "") -> Outcome:
    """The verdict on the copies, and on the sums: each key has one row, the final one."""
    right: Counter[tuple[str, int, int]] = Counter()
    for partition, count in trial.numbered.written.items():
        for first in range(min(16, count)):
            numbers = range(first, count, 16)
            right[f"{partition}-{first}", len(numbers), sum(numbers)] += 1
    found = Counter((key["k"], value["c"], value["s"]) for key, value in messages(trial, _sums(trial)) if value)
    wrong = sorted((right - found) + (found - right))
    problem = f"{len(wrong)} rows of sums are missing, of a part, or there twice: {wrong[:3]}" if wrong else ""
    outcome = trial.outcome(job, stop=stop, problem=problem)
    return outcome if wrong else replace(outcome, hit=f"{outcome.hit}; {len(right)} sums, each once and final")


def _die_and_recover(trial: Trial, point: str) -> Outcome:
    job = trial.job(_sql(trial))
    trap = _point(trial, job, point)
    die(trial, job, trap, planned=0, done=-1)
    before = sum(1 for _ in messages(trial, _sums(trial)))
    trial.hit(f"{before} sums visible when it was dead", (before > 0) == (point == "ended"))
    trial.verifier.restarted()
    job.start().finish(PATIENCE)
    trial.hit(f"batch {job.done()} is the only one", job.done() == job.planned() == 0)
    return _outcome(trial, job)


def _point(trial: Trial, job: JobProcess, point: str) -> Trap:
    def kill(*_: object) -> None:
        job.kill()

    if point == "published":
        return trial.published(after=trial.ended(0), call=kill, then=Then.DROP)
    return (
        trial.committing(1, call=kill, then=Then.DROP)
        if point == "committing"
        else trial.ended(1, call=kill, then=Then.DROP)
    )


@cell("F29", "killed mid-publish")
def mid_publish(trial: Trial) -> Outcome:
    return _die_and_recover(trial, "published")


@cell("F29", "killed before EndTxn")
def before_end_txn(trial: Trial) -> Outcome:
    return _die_and_recover(trial, "committing")


@cell("F29", "killed after EndTxn, before Spark's commit log")
def after_end_txn(trial: Trial) -> Outcome:
    return _die_and_recover(trial, "ended")


@cell("F29", "started twice while it waits for records")
def twice_while_it_waits(trial: Trial) -> Outcome:
    """There is no query of Spark's then, and no transaction."""
    each = trial.records // trial.source_partitions
    ends = ";".join(f"partition:{number},offset:{each}" for number in range(trial.source_partitions))
    stop = f"'scan.bounded.mode' = 'specific-offsets', 'scan.bounded.specific-offsets' = '{ends}'"
    sql = _sql(trial, stop=stop)
    first, second = trial.job(sql, folder="first"), trial.job(sql, folder="second")
    trial.numbered.write(trial.records // 2)
    first.start()
    first.wait_for("job 'copy': checkpoint ", PATIENCE)
    trial.hit("the first waits", first.planned() == -1)
    refused = second.start().wait(PATIENCE)
    trial.hit(f"the second ended with {refused}", refused == 4 and f"process {first.pid} on" in second.error)
    trial.numbered.write(trial.records - trial.numbered.total)
    first.finish(PATIENCE)
    return _outcome(trial, first, stop=second.error)
