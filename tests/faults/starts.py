"""F20: starts that have to get by what an earlier start, or a broker, has left behind."""

from __future__ import annotations

from penstock.testing import Then
from tests.faults.brokers import BROKERS, Absence, adding_offsets, await_in_sync, checked, group_of, leaders, with_group
from tests.faults.harness import PATIENCE, PROGRESS, Outcome, Trial, cell


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


#: A broker that is gone is missed for long, and leads nothing meanwhile.
_UNNOTICED = {
    "broker.session.timeout.ms": "120000",
    "replica.lag.time.max.ms": "3000",
    "auto.leader.rebalance.enable": "false",
}


@cell("F20", "one of three brokers dead and not yet fenced", brokers=BROKERS, properties=_UNNOTICED, deadline=900)
def dead_and_not_fenced(trial: Trial) -> Outcome:
    """It leads nothing, since it was restarted before: whoever needs only what it must have can start."""
    first = trial.job(trial.sql(), folder="before")
    trap = trial.ended(trial.before + 1, call=lambda _: first.kill(), then=Then.DROP)
    trial.numbered.write(trial.records)
    first.start()
    trap.wait(PATIENCE)
    first.kill()
    trial.died(first, trap)
    trial.cluster.heal()
    dead = trial.random.randint(1, BROKERS)
    gone = Absence(trial)
    gone.stop(dead)
    gone.end()
    await_in_sync(trial)
    gone.kill(dead)
    led = {leader for topic in (trial.source, trial.sink, PROGRESS) for leader in leaders(trial, topic)}
    trial.hit(f"node {dead} dead, and leads nothing", dead not in led)
    trial.hit("not fenced at the start", dead in listed(trial))
    job = trial.job(trial.sql(), checkpoint=first.checkpoint)
    published = trial.ended(1)
    trial.verifier.restarted()
    job.start()
    published.wait(PATIENCE)
    trial.hit("nor when a batch was committed", dead in listed(trial))
    job.finish(PATIENCE)
    return trial.outcome(job)


def listed(trial: Trial) -> list[int]:
    """The brokers that clients are told of."""
    return [each.node_id for each in trial.session.metadata([], trial.session.deadline()).brokers]
