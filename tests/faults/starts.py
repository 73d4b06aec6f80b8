"""F20: starts that have to get by what an earlier start, or a broker, has left behind."""

from __future__ import annotations

from typing import Any

from kafka.protocol.admin import AlterPartitionReassignmentsRequest

from penstock.kafka.faults import Action, KafkaFault, fault_from_code
from penstock_testing import Api, Then, Trap
from tests.faults.brokers import BROKERS, Absence, adding_offsets, checked, group_of, with_group
from tests.faults.harness import PATIENCE, Outcome, Trial, cell
from tests.waiting import eventually


def from_the_group(trial: Trial) -> str:
    """A job that begins where its group has come to."""
    return trial.sql(
        source={"properties.group.id": group_of(trial), "scan.startup.mode": "group-offsets"},
    )


def started_anew(trial: Trial) -> Outcome:
    """The offsets of the batch that was not committed are in a transaction which only our own id can end."""
    job = trial.job(with_group(trial), folder="before")
    offsets = adding_offsets(trial, response=True)
    trap = trial.committing(trial.before + 1, call=lambda _: job.kill(), then=Then.DROP)
    trial.numbered.write(trial.records)
    job.start()
    trap.wait(PATIENCE)
    job.kill()
    trial.hit("offsets in the transaction", offsets.errors == (0,))
    trial.died(job, trap, planned=trial.before)
    trial.cluster.heal()
    again = trial.job(from_the_group(trial), checkpoint="anew")
    trial.verifier.restarted()
    again.start().finish(PATIENCE)
    trial.hit("started with a new checkpoint", again.done() >= 0)
    return checked(trial, trial.outcome(again))


@cell("F20", "new checkpoint and group-offsets after a death between TxnOffsetCommit and EndTxn")
def own_transaction_open(trial: Trial) -> Outcome:
    return started_anew(trial)


@cell(
    "F20",
    "new checkpoint and group-offsets after a death between TxnOffsetCommit and EndTxn, transaction.version 0",
    properties={"transaction.version": "0"},
)
def own_transaction_open_of_old(trial: Trial) -> Outcome:
    return started_anew(trial)


@cell("F20", "a bounded job that had finished, started again when there is more to read")
def finished_before(trial: Trial) -> Outcome:
    """Its end was fixed when it was first started."""
    job = trial.job(trial.sql(keyed=True))
    trial.numbered.write(trial.records)
    job.start().finish(PATIENCE)
    there, last = dict(trial.numbered.written), job.done()
    written = trial.cluster.add(
        Trap(Api.PRODUCE, contains=[trial.transactional_id], where=trial.about(trial.sink), times=None)
    )
    taken = trial.cluster.add(Trap(Api.INIT_PRODUCER_ID, contains=[trial.transactional_id]))
    trial.numbered.write(trial.records // 2)
    trial.numbered.written = there  # what is expected
    trial.verifier.restarted()
    job.start().finish(PATIENCE)
    trial.hit(f"{trial.records // 2} records more; started again, and the id taken", taken.sprung)
    trial.hit("nothing published", not written.sprung)
    trial.hit(f"batch {last} was and is the last", job.planned() == job.done() == last)
    return trial.outcome(job)


#: A broker that is gone is missed for long.
_UNNOTICED = {"broker.session.timeout.ms": "120000"}


@cell("F20", "one of three brokers dead and not yet fenced", brokers=BROKERS, properties=_UNNOTICED, deadline=900)
def dead_and_not_fenced(trial: Trial) -> Outcome:
    """It has no replica of anything: whoever asks for no more than it must know can start."""
    first = trial.job(trial.sql(), folder="before")
    trap = trial.ended(trial.before + 1, call=lambda _: first.kill(), then=Then.DROP)
    trial.numbered.write(trial.records)
    first.start()
    trap.wait(PATIENCE)
    first.kill()
    trial.died(first, trap)
    trial.cluster.heal()
    dead = trial.random.randint(1, BROKERS)
    relieve(trial, dead)
    Absence(trial).kill(dead)
    trial.hit("not fenced at the start", dead in listed(trial))
    job = trial.job(trial.sql(), checkpoint=first.checkpoint)
    published = trial.ended(1)
    trial.verifier.restarted()
    job.start()
    published.wait(PATIENCE)
    trial.hit("nor when a batch was committed", dead in listed(trial))
    job.finish(PATIENCE)
    return trial.outcome(job)


def relieve(trial: Trial, node: int) -> None:
    """Move every replica that a broker has, or may get, to the others, and wait until they have it."""
    Topic = AlterPartitionReassignmentsRequest.ReassignableTopic
    others = [each for each in trial.cluster.cluster.nodes if each != node]

    def build() -> Any:
        topics = [
            Topic(
                name=name,
                partitions=[
                    Topic.ReassignablePartition(
                        partition_index=each.partition,
                        replicas=sorted(others, key=lambda other: other != each.leader),
                    )
                    for each in topic.partitions
                ],
            )
            for name, topic in trial.session.all_topics().items()
        ]
        return AlterPartitionReassignmentsRequest(timeout_ms=30_000, topics=topics)

    def check(answer: Any) -> None:
        if (fault := fault_from_code(answer.error_code)).action is not Action.NONE:
            raise KafkaFault(fault, answer.error_message or "")

    def relieved() -> bool:
        partitions = [each for topic in trial.session.all_topics().values() for each in topic.partitions]
        return all(set(each.replicas) == set(each.in_sync) == set(others) for each in partitions)

    trial.session.ask_any("moving replicas", build, check)
    eventually(relieved, PATIENCE)


def listed(trial: Trial) -> list[int]:
    """The brokers that clients are told of."""
    return [each.node_id for each in trial.session.metadata([], trial.session.deadline()).brokers]
