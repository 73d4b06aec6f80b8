"""F19: the cluster's ``transaction.version`` is changed under a running job, as an upgrade of the cluster does it."""

from __future__ import annotations

from typing import Any

from kafka.protocol.admin import UpdateFeaturesRequest

from penstock.kafka.faults import Action, KafkaFault, fault_of
from penstock.kafka.topics import transaction_version
from penstock.testing import Api, Trap
from tests.faults.harness import PATIENCE, Outcome, Trial, cell, story
from tests.waiting import eventually

_UPGRADE, _UNSAFE_DOWNGRADE = 1, 3
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
            if (fault := fault_of(code)).action is not Action.NONE:
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
    trial.hit(
        f"EndTxn of version {'/'.join(map(str, sorted(set(versions))))} after it",
        versions and (versions[-1] >= 5) == (level == 2),
    )
    return trial.outcome(job)


@cell("F19", "transaction.version 2 to 0, between batches")
def lowered(trial: Trial) -> Outcome:
    return changed(trial, 0, mid_publish=False)


@cell("F19", "transaction.version 0 to 2, between batches", properties=OLD)
def raised(trial: Trial) -> Outcome:
    return changed(trial, 2, mid_publish=False)


@cell("F19", "transaction.version 2 to 0, mid-publish")
def lowered_mid_publish(trial: Trial) -> Outcome:
    return changed(trial, 0, mid_publish=True)


@cell("F19", "transaction.version 0 to 2, mid-publish", properties=OLD)
def raised_mid_publish(trial: Trial) -> Outcome:
    return changed(trial, 2, mid_publish=True)
