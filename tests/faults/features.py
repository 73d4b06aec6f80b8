"""F19: the cluster's ``transaction.version`` is changed under a running job, as an upgrade of the cluster does it."""

from __future__ import annotations

from typing import Any

from kafka.protocol.admin import UpdateFeaturesRequest

from penstock.kafka.faults import Action, KafkaFault, fault_from_code
from penstock.kafka.topics import transaction_version
from penstock_testing import Api, Trap
from tests.faults.brokers import UNKNOWN
from tests.faults.harness import PATIENCE, Outcome, Trial, cell, story
from tests.faults.outcomes import FAILED, HASTY, IMPATIENT
from tests.faults.steps import stopped
from tests.waiting import eventually

_UPGRADE, _UNSAFE_DOWNGRADE = 1, 3
_CONCURRENT_TRANSACTIONS = 51
OLD = {"transaction.version": "0"}


def change(trial: Trial, level: int) -> None:
    """Set ``transaction.version``, and wait until the broker goes by it."""
    kind = _UPGRADE if level > transaction_version(trial.session) else _UNSAFE_DOWNGRADE

    def build() -> Any:
        update = UpdateFeaturesRequest.FeatureUpdateKey(
            feature="transaction.version", max_version_level=level, upgrade_type=kind
        )
        return UpdateFeaturesRequest(timeout_ms=30_000, feature_updates=[update], validate_only=False, min_version=1)

    def check(answer: Any) -> None:
        codes = [answer.error_code, *(each.error_code for each in answer.results or ())]
        for code in codes:
            if (fault := fault_from_code(code)).action is not Action.NONE:
                raise KafkaFault(fault, answer.error_message or "")

    trial.session.ask_any("changing transaction.version", build, check)
    eventually(lambda: transaction_version(trial.session) == level, PATIENCE)


def changed(trial: Trial, level: int, *, mid_publish: bool) -> Outcome:
    """The level is another one while the driver waits to be told that a batch is committed, or ``mid_publish`` while a
    task waits for what it has published to be acknowledged."""
    job = trial.job(trial.sql(keyed=True))
    before = transaction_version(trial.session)
    ended = trial.ended(trial.before, **({} if mid_publish else {"call": lambda _: change(trial, level)}))
    trap = trial.published(after=ended, call=lambda _: change(trial, level)) if mid_publish else ended
    later = trial.cluster.add(Trap(Api.END_TXN, contains=[trial.transactional_id], after=trap, times=None))
    trial.numbered.write(trial.records)
    job.start()
    trap.wait(PATIENCE)
    trial.verifier.restarted()
    job.finish(PATIENCE)
    trial.hit(f"at {story(trap)}: from {before} to {transaction_version(trial.session)}", before != level)
    versions = [frame.version for frame in later.frames]
    # The batch under way keeps to the version that it was begun with (rule "one protocol version per transaction").
    first = before if mid_publish else level
    trial.hit(
        f"EndTxn of version {'/'.join(map(str, versions))} after it",
        len(versions) > 1 and (versions[0] >= 5, versions[-1] >= 5) == (first == 2, level == 2),
    )
    return trial.outcome(job)


@cell("F19", "transaction.version 2 to 0, between batches")
def lowered(trial: Trial) -> Outcome:
    return changed(trial, 0, mid_publish=False)


@cell("F19", "transaction.version 0 to 2, between batches", properties=OLD)
def raised(trial: Trial) -> Outcome:
    return changed(trial, 2, mid_publish=False)


@cell("F19", "transaction.version 2 to 0, mid-publish; the broker cannot end the transaction until it is restarted")
def lowered_mid_publish(trial: Trial) -> Outcome:
    """Kafka 4.3 cannot write down what becomes of a transaction that was begun on the higher level ("Attempted to
    write a non-default clientTransactionVersion at version 0"), and answers CONCURRENT_TRANSACTIONS from then on. The
    job does not know how its batch ended, and says so."""
    job = trial.job(trial.sql(keyed=True, sink={**IMPATIENT, **HASTY}))
    trap = trial.published(after=trial.ended(trial.before), call=lambda _: change(trial, 0))
    refused = trial.cluster.add(
        Trap(
            Api.END_TXN,
            response=True,
            contains=[trial.transactional_id],
            where=lambda frame: frame.errors == (_CONCURRENT_TRANSACTIONS,),
            after=trap,
            times=None,
        )
    )
    trial.numbered.write(trial.records)
    job.start()
    trial.wait(job, trap)
    status, stop = job.wait(PATIENCE), job.error
    trial.hit(f"at {story(trap)}: from 2 to {transaction_version(trial.session)}; {story(refused)}", refused.sprung)
    trial.hit(f"ended with {status}", status in FAILED)
    stopped(trial, job, planned=trial.before)
    problem = "" if UNKNOWN in stop else f"the error does not say that the outcome is {UNKNOWN}: {stop}"
    change(trial, 2)
    trial.cluster.cluster.kill(1)
    trial.cluster.cluster.restart(1)
    trial.verifier.restarted()
    job.start().finish(PATIENCE)
    return trial.outcome(job, stop=stop, problem=problem)


@cell("F19", "transaction.version 0 to 2, mid-publish", properties=OLD)
def raised_mid_publish(trial: Trial) -> Outcome:
    return changed(trial, 2, mid_publish=True)
