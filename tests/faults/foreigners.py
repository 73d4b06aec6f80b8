"""F9 and F16: producers that are not penstock's take our transactional id, or share our progress partition."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection

from confluent_kafka import Producer

from penstock.kafka.progress import ensure_progress_topic
from penstock.kafka.topics import create_topic
from penstock_testing import Api, Then, Trap, Verifier
from tests.faults.driver_deaths import die
from tests.faults.harness import PATIENCE, Outcome, Trial, cell, story
from tests.faults.librdkafka import producer
from tests.faults.processes import JobProcess
from tests.faults.steps import stopped, stops

_CALL_SECONDS = 30
_NO_CLAIM = "was taken over by a producer that left no claim"


def write(owner: Producer, topic: str, partition: int = 0) -> None:
    """A record in a transaction that is left open. It carries no numbers: a reader that sees it fails."""
    owner.begin_transaction()
    owner.produce(topic, b"not yours", b"foreign", partition=partition)
    assert owner.flush(_CALL_SECONDS) == 0


# --- F9 ----------------------------------------------------------------------------------------------------------


def lose_the_id(trial: Trial, job: JobProcess, trap: Trap, *, planned: int, states: Collection[str] = ()) -> Outcome:
    """The job must stop when the trap has given its id away, with status 1: nobody has claimed the id, so that it may
    be started again, and must come to its end. When it has stopped, its id's transaction is in one of ``states``, if
    some are given."""
    trial.numbered.write(trial.records)
    job.start()
    trap.wait(PATIENCE)
    trial.hit(story(trap))
    stop = stops(job, _NO_CLAIM, expected=1)
    stopped(trial, job, planned=planned, done=trial.before - 1)
    if states:
        trial.stands(states)
    trial.cluster.heal()
    trial.verifier.restarted()
    job.start().finish(PATIENCE)
    return trial.outcome(job, stop=stop)


def taking(trial: Trial, then: Callable[[Producer], None] = lambda _: None) -> Callable[[object], None]:
    """What a trap calls: a foreign producer takes the job's id, and does something with it. It lives on."""
    taken: list[Producer] = []
    trial.stack.callback(taken.clear)

    def take(_: object) -> None:
        before = trial.verifier.inspector.describe(trial.transactional_id)
        taken.append(producer(trial, trial.transactional_id))
        seen = trial.verifier.inspector.describe(trial.transactional_id)
        trial.hit("the id has another owner", before and seen and seen.epoch > before.epoch)
        then(taken[-1])

    return take


@cell("F9", "between batches")
def between_batches(trial: Trial) -> Outcome:
    """The driver has not heard yet that its second batch is committed. Its third finds the id gone."""
    job = trial.job()
    trap = trial.ended(trial.before, call=taking(trial))
    return lose_the_id(trial, job, trap, planned=trial.before)


@cell("F9", "between batches, and commits a transaction of its own")
def between_batches_and_commits(trial: Trial) -> Outcome:
    """To the coordinator this looks much as if the job's own transaction had been committed."""
    elsewhere = f"elsewhere-{trial.tag}"
    create_topic(trial.session, elsewhere, partitions=1)

    def commit(owner: Producer) -> None:
        write(owner, elsewhere)
        owner.commit_transaction(_CALL_SECONDS)

    job = trial.job()
    trap = trial.ended(trial.before, call=taking(trial, commit))
    return lose_the_id(trial, job, trap, planned=trial.before)


@cell("F9", "mid-publish")
def mid_publish(trial: Trial) -> Outcome:
    job = trial.job(trial.sql(keyed=True))
    trap = trial.published(after=trial.ended(trial.before), call=taking(trial))
    return lose_the_id(trial, job, trap, planned=trial.before)


@cell("F9", "mid-publish, and leaves a transaction open in our output")
def mid_publish_and_writes(trial: Trial) -> Outcome:
    """Readers of the output wait for it until the job's restart, or its time-out, ends it."""
    job = trial.job()
    call = taking(trial, lambda owner: write(owner, trial.sink))
    trap = trial.published(after=trial.ended(trial.before), call=call)
    return lose_the_id(trial, job, trap, planned=trial.before, states={"Ongoing"})


@cell("F9", "after the progress record, before EndTxn")
def before_end_txn(trial: Trial) -> Outcome:
    job = trial.job(trial.sql(keyed=True))
    trap = trial.committing(trial.before + 1, call=taking(trial))
    return lose_the_id(trial, job, trap, planned=trial.before)


@cell("F9", "after EndTxn, whose answer is lost")
def after_end_txn(trial: Trial) -> Outcome:
    """The batch is committed; what the job asks then is answered with an error that does not say so."""
    job = trial.job()
    trap = trial.ended(trial.before + 1, call=taking(trial), then=trial.random.choice((Then.CLOSE, Then.RESET)))
    return lose_the_id(trial, job, trap, planned=trial.before)


@cell("F9", "between batches, transaction.version 0", properties={"transaction.version": "0"})
def between_batches_of_old(trial: Trial) -> Outcome:
    return between_batches(trial)


@cell("F9", "mid-publish, transaction.version 0", properties={"transaction.version": "0"})
def mid_publish_of_old(trial: Trial) -> Outcome:
    return mid_publish(trial)


# --- F16 ---------------------------------------------------------------------------------------------------------


def neighbour_of(trial: Trial) -> str:
    """A prefix under which a job of the same name has its progress in the same partition."""
    topic = ensure_progress_topic(trial.session)
    wanted, suffix = topic.partition_of(trial.transactional_id), trial.transactional_id.removeprefix(trial.prefix)
    prefixes = (f"neighbour-{number}-{trial.tag}" for number in itertools.count())
    return next(prefix for prefix in prefixes if topic.partition_of(prefix + suffix) == wanted)


def is_held(trial: Trial) -> None:
    """Make sure that the job's progress partition is held back."""
    topic = ensure_progress_topic(trial.session)
    held = [each.partition for each in trial.verifier.inspector.held([topic.name])]
    trial.hit("the progress partition is held back", topic.partition_of(trial.transactional_id) in held)


@cell("F16", "another producer, open since the batch before; ours killed after EndTxn")
def neighbour_is_a_producer(trial: Trial) -> Outcome:
    """Until the end of the job, no reader under read_committed sees that the batch which is hit is done."""
    topic = ensure_progress_topic(trial.session)
    other = producer(trial, neighbour_of(trial))

    def hold_back(_: object) -> None:
        """Behind the marker of the batch before, which is written after the broker has answered."""
        trial.verifier.inspector.wait_for(trial.transactional_id, lambda seen: seen.state == "CompleteCommit", PATIENCE)
        write(other, topic.name, topic.partition_of(trial.transactional_id))

    trial.ended(trial.before, call=hold_back)
    job = trial.job()
    trap = trial.ended(trial.before + 1, call=lambda _: job.kill(), then=Then.DROP)
    die(trial, job, trap, planned=trial.before, done=trial.before - 1)
    is_held(trial)
    trial.verifier.restarted()
    job.start().finish(PATIENCE)
    is_held(trial)
    other.abort_transaction(_CALL_SECONDS)
    return trial.outcome(job)


@cell("F16", "another job, stopped before EndTxn; ours killed after EndTxn")
def neighbour_is_a_job(trial: Trial) -> Outcome:
    """Two jobs that read the same topic. The other one is woken when ours is done, and has lost nothing either."""
    prefix, sink = neighbour_of(trial), f"other-{trial.tag}"
    transactional_id = trial.transactional_id.replace(trial.prefix, prefix)
    create_topic(trial.session, sink, partitions=trial.sink_partitions)
    verifier = trial.stack.enter_context(
        Verifier(trial.cluster.direct, trial.numbered, [sink], transactional_ids=[transactional_id])
    )
    other = trial.job(
        trial.sql(sink={"topic": sink, "sink.transactional-id-prefix": prefix}), folder="other", checkpoint="others"
    )
    stopped = trial.cluster.add(
        Trap(Api.END_TXN, contains=[transactional_id], nth=2, call=lambda _: other.pause(), then=Then.HOLD)
    )
    job = trial.job()
    killed = trial.ended(trial.before + 1, call=lambda _: job.kill(), then=Then.DROP)
    trial.numbered.write(trial.records)
    other.start()
    stopped.wait(PATIENCE)
    job.start()
    killed.wait(PATIENCE)
    job.kill()
    trial.died(job, killed, planned=trial.before)
    is_held(trial)
    trial.verifier.restarted()
    job.start().finish(PATIENCE)
    is_held(trial)
    other.resume()
    stopped.release()
    other.finish(PATIENCE)
    theirs = verifier.verdict()
    assert theirs.exact, f"the other job: {theirs}"
    assert not other.left_over(), "processes have outlived the other job"
    return trial.outcome(job)
