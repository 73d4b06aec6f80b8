"""F22: the records of a batch go to several topics, in one transaction.

The topics share the records among them, so that one verifier sees whether any is lost, there twice, or there without
the rest of its batch.
"""

from __future__ import annotations

import re

from penstock.kafka.offsets import LATEST, list_offsets
from penstock.kafka.topics import create_topic
from penstock_testing import Api, Then, Trap
from tests.faults.harness import PATIENCE, Outcome, Trial, cell
from tests.faults.librdkafka import NumberedWriter, producer
from tests.faults.processes import JobProcess
from tests.faults.rows import with_column
from tests.faults.steps import reached

#: Requests that hold one partition's records each, and one request at a time: while the first is answered, there is
#: nothing in any other partition.
ONE_BY_ONE = {
    "properties.max.request.size": "4096",
    "properties.max.in.flight.requests.per.connection": "1",
}


def second_topic(trial: Trial) -> str:
    """Another topic, which shares the records with the sink."""
    name = f"beside-{trial.tag}"
    create_topic(trial.session, name, partitions=trial.sink_partitions)
    trial.verify(trial.sink, name)
    return name


def killed(trial: Trial, job: JobProcess, *, mid_publish: bool) -> Outcome:
    """Kill the job when it has published to one of the topics and not yet to the other, or else when its transaction
    is committed; what readers see of the topics has to be whole batches both times."""
    topics = trial.verifier.outputs
    options = {"call": lambda _: job.kill(), "then": Then.DROP}
    trap = first_published(trial, **options) if mid_publish else trial.ended(trial.before + 1, **options)
    job.start()
    trap.wait(PATIENCE)
    job.kill()
    trial.died(job, trap, planned=trial.before, done=trial.before - 1)
    trial.cluster.heal()
    if mid_publish:
        held = {each.topic for each in trial.verifier.inspector.held(topics)}
        trial.hit(f"records of an open transaction in {len(held)} of {len(topics)} topics", len(held) == 1)
    whole = sum(reached(trial, job, trial.before - mid_publish).values())
    trial.verifier.wait_for_records(whole, PATIENCE)
    seen = trial.verifier.seen
    trial.hit(f"{seen} records visible, all up to batch {trial.before - mid_publish}", seen == whole)
    trial.verifier.restarted()
    job.start().finish(PATIENCE)
    shares = [offsets_in(trial, topic) for topic in topics]
    trial.hit(f"{' and '.join(map(str, shares))} offsets in the topics", all(shares))
    return trial.outcome(job)


def first_published(trial: Trial, **options: object) -> Trap:
    """Catches the first answer to a Produce to any of the topics in the batch that is hit."""
    abouts = [trial.about(topic) for topic in trial.verifier.outputs]
    return trial.cluster.add(
        Trap(
            Api.PRODUCE,
            response=True,
            contains=[trial.transactional_id],
            where=lambda frame: frame.errors == (0,) and any(about(frame) for about in abouts),
            after=trial.ended(trial.before),
            **options,
        )
    )


def offsets_in(trial: Trial, topic: str) -> int:
    """How many offsets one of the topics has given out. None says that no record went there."""
    places = [(topic, each.partition) for each in trial.session.topic(topic).partitions]
    return sum(each.offset for each in list_offsets(trial.session, places, LATEST).values() if each is not None)


# --- a statement set ---------------------------------------------------------------------------------------------


def two_sinks(trial: Trial, *, mid_publish: bool) -> Outcome:
    """Two tables, each of which is given the records that the other is not."""
    other = second_topic(trial)
    head, _, _ = trial.sql(sink=ONE_BY_ONE).rpartition("INSERT INTO")
    (table,) = re.findall(r"^CREATE TABLE t .*;\n", head, re.MULTILINE)
    again = table.replace("TABLE t ", "TABLE u ").replace(f"'{trial.sink}'", f"'{other}'")
    job = trial.job(
        f"{head}{again}EXECUTE STATEMENT SET BEGIN\n"
        "INSERT INTO t SELECT k, n, h FROM s WHERE MOD(n, 2) = 0;\n"
        "INSERT INTO u SELECT k, n, h FROM s WHERE MOD(n, 2) = 1;\nEND;\n"
    )
    trial.numbered.write(trial.records)
    return killed(trial, job, mid_publish=mid_publish)


@cell("F22", "two sinks in a statement set, killed when one topic is written and the other is not")
def two_sinks_mid_publish(trial: Trial) -> Outcome:
    return two_sinks(trial, mid_publish=True)


@cell("F22", "two sinks in a statement set, killed after EndTxn")
def two_sinks_after_end_txn(trial: Trial) -> Outcome:
    return two_sinks(trial, mid_publish=False)


# --- a topic for each row ----------------------------------------------------------------------------------------


def topic_per_row(trial: Trial, *, mid_publish: bool) -> Outcome:
    """One table, whose rows say which of two topics they go to."""
    other = second_topic(trial)
    select = f"SELECT k, n, h, CASE WHEN MOD(n, 2) = 0 THEN '{trial.sink}' ELSE '{other}' END AS topic FROM s"
    sql = with_column(trial.sql(select=select, sink=ONE_BY_ONE), "topic STRING METADATA")
    job = trial.job(sql.replace(f"'topic' = '{trial.sink}'", f"'topic' = '{trial.sink};{other}'"))
    trial.numbered.write(trial.records)
    return killed(trial, job, mid_publish=mid_publish)


@cell("F22", "a topic for each row, killed when one topic is written and the other is not")
def topic_per_row_mid_publish(trial: Trial) -> Outcome:
    return topic_per_row(trial, mid_publish=True)


@cell("F22", "a topic for each row, killed after EndTxn")
def topic_per_row_after_end_txn(trial: Trial) -> Outcome:
    return topic_per_row(trial, mid_publish=False)


# --- dead letters ------------------------------------------------------------------------------------------------

#: Of so many records the last cannot be decoded.
_ONE_IN = 4


def dead_letters(trial: Trial, *, mid_publish: bool) -> Outcome:
    """A quarter of the records cannot be decoded, and go to a separate topic."""
    dead = second_topic(trial)
    job = trial.job(trial.sql(source={"scan.dead-letter.topic": dead}, sink=ONE_BY_ONE))
    writer = NumberedWriter(trial.numbered, producer(trial))
    for partition in sorted(trial.numbered.written):
        for _ in range(trial.records // trial.source_partitions // _ONE_IN):
            writer.write(partition, _ONE_IN - 1)
            writer.write_refused(partition, 1)
    writer.flush()
    return killed(trial, job, mid_publish=mid_publish)


@cell("F22", "dead letters beside rows, killed when one topic is written and the other is not")
def dead_letters_mid_publish(trial: Trial) -> Outcome:
    return dead_letters(trial, mid_publish=True)


@cell("F22", "dead letters beside rows, killed after EndTxn")
def dead_letters_after_end_txn(trial: Trial) -> Outcome:
    return dead_letters(trial, mid_publish=False)
