"""F8: what changes between two runs of a job, or during one, while a transaction is left open."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from typing import Any

from kafka.protocol.admin import CreatePartitionsRequest

from penstock.kafka.faults import Action, KafkaFault, fault_from_code
from penstock.kafka.offsets import LATEST, list_offsets
from penstock_testing import Then, Trap
from tests.faults.checkpoints import fenced
from tests.faults.driver_deaths import die
from tests.faults.harness import PATIENCE, PATIENT, Outcome, Trial, cell, refused, story
from tests.faults.second_starts import TAKE_OVER

GROWN = 6
#: How long a client takes for granted what it knows about a topic.
FORGETFUL = {"properties.metadata.max.age.ms": "200"}
#: A task for each so many records, see ``penstock.connectors.kafka.source.positions.cut``.
RECORDS_IN_A_TASK = 25_000


# --- the output grows --------------------------------------------------------------------------------------------


def grow(trial: Trial) -> None:
    """Give the output topic more partitions."""
    Topic = CreatePartitionsRequest.CreatePartitionsTopic

    def build() -> Any:
        topic = Topic(name=trial.sink, count=GROWN, assignments=None)
        return CreatePartitionsRequest(topics=[topic], timeout_ms=30_000, validate_only=False)

    def check(answer: Any) -> None:
        if (fault := fault_from_code(answer.results[0].error_code)).action is not Action.NONE:
            raise KafkaFault(fault, answer.results[0].error_message or "")

    trial.session.ask_any("adding partitions", build, check)
    trial.session.forget_topics([trial.sink])
    trial.session.topic(trial.sink, partition=GROWN - 1)


def in_new_partitions(trial: Trial) -> int:
    """How many offsets the partitions that were added have given out. None says that they were not used."""
    places = [(trial.sink, each) for each in range(trial.sink_partitions, GROWN)]
    found = list_offsets(trial.session, places, LATEST)
    return sum(each.offset for each in found.values() if each is not None)


def used(trial: Trial, *, none: bool = False) -> None:
    """Note how much is in the partitions that were added."""
    count = in_new_partitions(trial)
    trial.hit(f"{count} offsets in the partitions that were added", not count if none else count)


def open_before(trial: Trial, sql: str, *, batch: int | None = None) -> None:
    """A first run of the job, killed when the output has records of ``batch``: its transaction stays open."""
    job, last = trial.job(sql, folder="before"), trial.before if batch is None else batch
    trap = trial.published(after=trial.ended(last), call=lambda _: job.kill(), then=Then.DROP)
    die(trial, job, trap, planned=last, done=last - 1)


def grown_between(trial: Trial, sql: str) -> Outcome:
    open_before(trial, sql)
    grow(trial)
    job = trial.job(sql)
    trial.verifier.restarted()
    job.start().finish(PATIENCE)
    used(trial)
    return trial.outcome(job)


@cell("F8", "output grows to 6 partitions between runs, with keys")
def grown_between_keyed(trial: Trial) -> Outcome:
    return grown_between(trial, trial.sql(keyed=True))


@cell("F8", "output grows to 6 partitions between runs, without keys")
def grown_between_keyless(trial: Trial) -> Outcome:
    return grown_between(trial, trial.sql(batches=16))


def grown_while_running(trial: Trial, sql: str, *, point: str, unused: bool = False) -> Outcome:
    """The second run, which replays what the first left open, meets the larger output at ``point`` of the batch after
    that. ``unused``: it takes for granted what it knows about a topic for five minutes, which is Kafka's default, so
    that it comes to its end without the new partitions."""
    open_before(trial, sql)
    job = trial.job(sql)
    replayed = trial.ended(1)
    met: list[tuple[int, int]] = []

    def call(_: object) -> None:
        met.append((job.planned(), job.done()))
        grow(trial)

    options: dict[str, Any] = {"call": call}
    trap: Trap = (
        trial.published(after=replayed, **options)
        if point == "published"
        else trial.recording(after=replayed, **options)
    )
    trial.verifier.restarted()
    job.start()
    trap.wait(PATIENCE)
    trial.hit(
        f"then {GROWN} partitions at {story(trap)} of batch {met[0][0]}", met == [(trial.before + 1, trial.before)]
    )
    job.finish(PATIENCE)
    used(trial, none=unused)
    return trial.outcome(job)


@cell("F8", "output grows to 6 partitions mid-publish, with keys")
def grown_mid_publish(trial: Trial) -> Outcome:
    return grown_while_running(trial, trial.sql(keyed=True, sink=FORGETFUL), point="published")


@cell("F8", "output grows to 6 partitions mid-publish, without keys")
def grown_mid_publish_keyless(trial: Trial) -> Outcome:
    return grown_while_running(trial, trial.sql(batches=16, sink=FORGETFUL), point="published")


@cell("F8", "output grows to 6 partitions before the progress record")
def grown_before_the_progress_record(trial: Trial) -> Outcome:
    return grown_while_running(trial, trial.sql(keyed=True, sink=FORGETFUL), point="recording")


@cell("F8", "output grows to 6 partitions mid-publish, with keys, metadata.max.age.ms as by default")
def grown_unnoticed(trial: Trial) -> Outcome:
    return grown_while_running(trial, trial.sql(keyed=True), point="published", unused=True)


@cell("F8", "output grows to 6 partitions mid-publish, without keys, metadata.max.age.ms as by default")
def grown_unnoticed_keyless(trial: Trial) -> Outcome:
    return grown_while_running(trial, trial.sql(batches=16), point="published", unused=True)


# --- more and fewer tasks ----------------------------------------------------------------------------------------


def with_tasks(trial: Trial, tasks: int, *, keyed: bool) -> str:
    """A job whose batches have work for five tasks, run by so many."""
    most = {"scan.max-records-per-trigger": str(5 * RECORDS_IN_A_TASK)}
    sql = trial.sql(keyed=keyed, source=most, sink=FORGETFUL)
    return sql.replace("'parallelism.default' = '2'", f"'parallelism.default' = '{tasks}'")


def other_tasks(trial: Trial, before: int, after: int, *, keyed: bool) -> Outcome:
    """Three batches, whatever ``records`` says: a task is given 25,000 records before there are two."""
    trial.records = 3 * 5 * RECORDS_IN_A_TASK
    publishers = [trial.publishers()]
    open_before(trial, with_tasks(trial, before, keyed=keyed), batch=1)
    job = trial.job(with_tasks(trial, after, keyed=keyed))
    trial.verifier.restarted()
    publishers.append(trial.publishers())
    job.start().finish(PATIENCE)
    # As many as there are tasks, or partitions where these are fewer; a worker may take one task after the other.
    for tasks, count in zip((before, after), (each() for each in publishers), strict=True):
        trial.hit(f"with {tasks} tasks {count} processes publish a batch", count == 1 if tasks == 1 else count > 1)
    return trial.outcome(job)


@cell("F8", "from 5 tasks to 1, through a shuffle")
def fewer_tasks(trial: Trial) -> Outcome:
    return other_tasks(trial, 5, 1, keyed=True)


@cell("F8", "from 5 tasks to 1, without keys")
def fewer_tasks_keyless(trial: Trial) -> Outcome:
    return other_tasks(trial, 5, 1, keyed=False)


@cell("F8", "from 1 task to 5, through a shuffle")
def more_tasks(trial: Trial) -> Outcome:
    return other_tasks(trial, 1, 5, keyed=True)


# --- another prefix ----------------------------------------------------------------------------------------------


def renamed(trial: Trial, prefixes: Sequence[str], *points: Callable[..., Trap]) -> Outcome:
    """Runs of one job with one checkpoint, under each of ``prefixes`` in turn. Each but the last is killed at the point
    that belongs to it."""
    own = trial.prefix
    trial.prefix = f"{own}{prefixes[0]}"  # the checkpoint keeps it
    trial.verify(transactional_ids=[trial.transactional_id])
    options = [{"sink.transactional-id-prefix": f"{own}{each}"} for each in prefixes]
    trial.numbered.write(trial.records)
    for number, point in enumerate(points):
        job = trial.job(trial.sql(sink=options[number]), folder=f"run-{number}")
        trap = point(call=lambda _, job=job: job.kill(), then=Then.DROP)
        job.start()
        trap.wait(PATIENCE)
        job.kill()
        trial.hit(f"under '{prefixes[number]}'")
        trial.died(job, trap)
        trial.cluster.heal()
    job = trial.job(trial.sql(sink=options[-1]))
    trial.verifier.restarted()
    job.start().finish(PATIENCE)
    for each in dict.fromkeys(prefixes[1:]) if prefixes[-1] != prefixes[0] else ():
        seen = trial.verifier.inspector.describe(f"{own}{each}-copy")
        assert seen is None, f"another id was taken: {seen}"
    trial.hit(f"then under '{prefixes[-1]}'")
    return trial.outcome(job)


@cell("F8", "another prefix after a death mid-publish")
def renamed_mid_publish(trial: Trial) -> Outcome:
    return renamed(trial, "AB", lambda **options: trial.published(after=trial.ended(trial.before), **options))


@cell("F8", "another prefix after a death after EndTxn, before Spark's commit log")
def renamed_after_ending(trial: Trial) -> Outcome:
    return renamed(trial, "AB", lambda **options: trial.ended(trial.before + 1, **options))


@cell("F8", "another prefix and the first one again, after deaths after EndTxn and mid-publish")
def renamed_and_back(trial: Trial) -> Outcome:
    return renamed(
        trial,
        "ABABA",
        lambda **options: trial.ended(2, **options),
        lambda **options: trial.ended(1, **options),
        lambda **options: trial.published(after=trial.ended(1), **options),
        lambda **options: trial.published(after=trial.ended(1), **options),
    )


@cell("F8", "another prefix on a copy of the checkpoint, while the first is in a transaction")
def renamed_copy(trial: Trial) -> Outcome:
    """It keeps the id of the first, which must not commit what the second publishes as well."""
    first = trial.job(trial.sql(sink=PATIENT), folder="first")
    trap = trial.committing(trial.before + 1, then=Then.HOLD)
    trial.numbered.write(trial.records)
    first.start()
    trap.wait(PATIENCE)
    other = {"sink.transactional-id-prefix": f"{trial.prefix}B"}
    second = trial.job(trial.sql(sink=other), folder="second", checkpoint="copied", arguments=TAKE_OVER)
    shutil.copytree(first.checkpoint, second.checkpoint, ignore=shutil.ignore_patterns(".*"))
    published = trial.ended(1)
    trial.verifier.restarted()
    second.start()
    published.wait(PATIENCE)
    found = (first.planned(), first.done())
    trial.hit(f"batch {found[0]} planned, batch {found[1]} done", found == (trial.before, trial.before - 1))
    trial.hit(f"the second has {story(published)} meanwhile", published.errors == (0,))
    trap.release()
    stop = fenced(first)
    second.finish(PATIENCE)
    trap.wait_for_answers(PATIENCE)
    trial.hit(f"of the first {story(trap)}", refused(trap))
    return trial.outcome(second, stop=stop)
