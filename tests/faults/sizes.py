"""F10: batches of nothing, of one record, of a record that is too large; more partitions than tasks."""

from __future__ import annotations

from penstock.kafka.topics import read_topic_configs
from penstock_testing import Api, Then, Trap
from tests.faults.driver_deaths import die, die_and_recover, planning, shuffled
from tests.faults.harness import PATIENCE, Outcome, Trial, cell, story
from tests.faults.librdkafka import Administrator
from tests.faults.steps import arrived, hit, idle, new_sink, next_end, reached, stopped, stops
from tests.waiting import eventually

#: Has new partitions looked for often.
DISCOVERING = {"scan.topic-partition-discovery.interval": "500 ms"}


# --- nothing -----------------------------------------------------------------------------------------------------


@cell("F10", "an idle job, killed")
def idle_job(trial: Trial) -> Outcome:
    """Triggers without data: they leave nothing behind, neither before the death nor after it."""
    job = trial.job(trial.sql(bounded=False))
    trial.numbered.write(trial.records // 2)
    job.start()
    arrived(trial, job, trial.numbered.total)
    last = idle(job)
    job.kill()
    trial.hit(f"killed idle: batch {last} done, none planned", job.planned() == job.done() == last)
    quiet = trial.cluster.add(Trap(Api.END_TXN, contains=[trial.transactional_id], nth=2))
    looked = planning(trial, job, nth=3)  # it has planned twice, and found nothing to do
    job.start()
    trial.wait(job, looked)
    idle_still = job.planned() == job.done() == last
    trial.hit("no batch and no transaction while idle after the restart", idle_still and not quiet.sprung)
    job.wait_for("checkpoint ")
    trial.verifier.restarted()
    trial.numbered.write(trial.records - trial.records // 2)
    arrived(trial, job, trial.numbered.total)
    job.stop()
    return trial.outcome(job)


@cell("F10", "an empty batch, of new partitions only, killed after EndTxn")
def batch_of_new_partitions(trial: Trial) -> Outcome:
    """Partitions come in with a batch that reads nothing: it has no task, and commits its progress alone."""
    job = trial.job(trial.sql(bounded=False, source=DISCOVERING))
    trial.numbered.write(trial.records // 2)
    job.start()
    arrived(trial, job, trial.numbered.total)
    last = idle(job)
    trap = next_end(trial, call=lambda _: job.kill(), then=Then.DROP)
    Administrator(trial).add_partitions(trial.source, 6)
    hit(trial, job, trap, planned=last + 1)
    ends = reached(trial, job, last + 1)
    trial.hit("the batch has 2 partitions more and no record", len(ends) == 6 and ends[4] == ends[5] == 0)
    trial.numbered.add_partitions({4: 0, 5: 0})
    trial.verifier.restarted()
    job.start()
    trial.numbered.write(trial.records - trial.records // 2)
    arrived(trial, job, trial.numbered.total)
    job.stop()
    return trial.outcome(job)


@cell("F10", "batches whose records are all filtered out, killed after EndTxn")
def filtered_batches(trial: Trial) -> Outcome:
    job = trial.job(trial.sql(bounded=False, select="SELECT k, n, h FROM s WHERE k NOT LIKE '3-%'"))
    trial.numbered.write(trial.records // 2, partition=3)
    trial.verify(first=dict(trial.numbered.written))
    trap = trial.ended(trial.before + 1, call=lambda _: job.kill(), then=Then.DROP)
    job.start()
    hit(trial, job, trap, planned=trial.before)
    trial.hit("no record in the output", trial.verifier.seen == 0)
    trial.verifier.restarted()
    job.start()
    for partition in range(3):
        trial.numbered.write(trial.records // 6, partition=partition)
    arrived(trial, job, 3 * (trial.records // 6))
    job.stop()
    return trial.outcome(job)


# --- one ---------------------------------------------------------------------------------------------------------


@cell("F10", "one record, killed mid-publish")
def one_record(trial: Trial) -> Outcome:
    trial.records = 1
    job = trial.job(trial.sql(keyed=True))
    trap = trial.published(after=trial.ended(0), call=lambda _: job.kill(), then=Then.DROP)
    return die_and_recover(trial, job, trap, planned=0, done=-1)


@cell("F10", "one record, killed after EndTxn")
def one_record_committed(trial: Trial) -> Outcome:
    trial.records = 1
    job = trial.job()
    trap = trial.ended(1, call=lambda _: job.kill(), then=Then.DROP)
    return die_and_recover(trial, job, trap, planned=0, done=-1)


# --- too large ---------------------------------------------------------------------------------------------------

#: What the output's records may have, and what one of them has.
_LIMIT, _SIZE = 20_000, 30_000
_TOO_LARGE = 10  # the broker's MESSAGE_TOO_LARGE


def swollen(key: str, n: int) -> str:
    """A query under which one record is too large for the output."""
    return f"SELECT CASE WHEN k = '{key}' AND n = {n} THEN RPAD(k, {_SIZE}, 'x') ELSE k END AS k, n, h FROM s"


@cell("F10", "a record above max.message.bytes; the limit is raised")
def too_large(trial: Trial) -> Outcome:
    """In the middle of one of eight batches: its other records must not arrive before it does."""
    new_sink(trial, configs={"max.message.bytes": str(_LIMIT)})
    n = trial.records // 4 * (2 * trial.before + 1) // 16
    job = trial.job(trial.sql(select=swollen(f"2-{n % 16}", n)))
    trial.numbered.write(trial.records)
    job.start()
    stop = stops(job, f"topic '{trial.source}', partition 2, offset {n}", "max.message.bytes", str(_LIMIT))
    stopped(trial, job, planned=trial.before)
    Administrator(trial).configure(trial.sink, max_message_bytes=2 * _SIZE)
    trial.verifier.restarted()
    job.start().finish(PATIENCE)
    return trial.outcome(job, stop=stop)


@cell("F10", "a record above max.message.bytes; it is filtered out")
def too_large_and_skipped(trial: Trial) -> Outcome:
    """Alone in its batch, which is then a batch of nothing."""
    new_sink(trial, configs={"max.message.bytes": str(_LIMIT)})
    share = trial.records // 6
    trial.verify(first={3: 1})
    sql = trial.sql(bounded=False, select=swollen("3-0", 0))
    job = trial.job(sql)
    for partition in range(3):
        trial.numbered.write(share, partition=partition)
    job.start()
    arrived(trial, job, 3 * share)
    last = idle(job)
    trial.numbered.write(1, partition=3)
    stop = stops(job, f"topic '{trial.source}', partition 3, offset 0", "max.message.bytes", str(_LIMIT))
    stopped(trial, job, planned=last + 1)
    again = trial.job(sql.replace(" FROM s;", " FROM s WHERE NOT (k = '3-0' AND n = 0);"), folder="again")
    trial.verifier.restarted()
    again.start()
    for partition in range(3):
        trial.numbered.write(share, partition=partition)
    trial.numbered.write(share, partition=3)
    arrived(trial, again, 7 * share)
    again.stop()
    return trial.outcome(again, stop=stop)


@cell("F10", "max.message.bytes lowered under a running job")
def limit_lowered(trial: Trial) -> Outcome:
    """Tasks make batches as large as they were told at the start; the broker refuses them."""
    administrator = Administrator(trial)

    def lower(_: object) -> None:
        administrator.configure(trial.sink, max_message_bytes=1000)
        name, wanted = "max.message.bytes", {"max.message.bytes": "1000"}
        eventually(
            lambda: (read_topic_configs(trial.session, [trial.sink], [name]) or {})[trial.sink] == wanted, PATIENCE
        )

    job = trial.job()
    trap = trial.ended(trial.before, call=lower)
    refused = trial.cluster.add(
        Trap(
            Api.PRODUCE,
            response=True,
            contains=[trial.transactional_id],
            where=lambda frame: _TOO_LARGE in frame.errors,
        )
    )
    trial.numbered.write(trial.records)
    job.start()
    trap.wait(PATIENCE)
    stop = stops(job, f"topic '{trial.sink}', partition ", "MESSAGE_TOO_LARGE", expected=1)
    trial.hit(story(refused), refused.sprung)
    stopped(trial, job, planned=trial.before)
    trial.verifier.restarted()
    job.start().finish(PATIENCE)
    return trial.outcome(job, stop=stop)


# --- partitions and tasks ----------------------------------------------------------------------------------------


@cell("F10", "12 output partitions and one task, killed mid-publish")
def more_partitions_than_tasks(trial: Trial) -> Outcome:
    new_sink(trial, partitions=12)
    job, publishers = trial.job(trial.sql(keyed=True)), trial.publishers()
    trap = trial.published(after=trial.ended(trial.before), call=lambda _: job.kill(), then=Then.DROP)
    die(trial, job, trap, planned=trial.before, done=trial.before - 1)
    trial.hit(f"a batch is published by {publishers()} process", publishers() == 1)
    trial.verifier.restarted()
    job.start().finish(PATIENCE)
    return trial.outcome(job)


@cell("F10", "12 output partitions and two tasks, through a shuffle, killed mid-publish")
def more_partitions_than_owners(trial: Trial) -> Outcome:
    """Each of the two publishing tasks owns six partitions."""
    new_sink(trial, partitions=12)
    return shuffled(trial, lambda **options: trial.published(after=trial.ended(1), **options))
