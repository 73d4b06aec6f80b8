"""F25: brokers refuse what a batch needs: the group's offsets for good, records for a while."""

from __future__ import annotations

from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)

from penstock.kafka.offsets import fetch_committed_offsets
from penstock_testing import Api, Then, Trap
from tests.faults.brokers import BROKERS, Absence, await_in_sync, group_of, producing, with_group
from tests.faults.harness import PATIENCE, Outcome, Trial, cell, story
from tests.faults.librdkafka import Administrator
from tests.faults.steps import new_sink

# --- the group's offsets -----------------------------------------------------------------------------------------

#: Everybody may do what nobody has been forbidden.
_GUARDED = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "allow.everyone.if.no.acl.found": "true",
}
_GROUP_AUTHORIZATION_FAILED = 30


def forbid_the_group(trial: Trial) -> None:
    """Nobody may read the job's group, which is what committing its offsets takes. (Listing them takes less.)"""
    group = (ResourceType.GROUP, group_of(trial), ResourcePatternType.LITERAL)
    admin = AdminClient({"bootstrap.servers": trial.cluster.direct})
    for operation, kind in (
        (AclOperation.READ, AclPermissionType.DENY),
        (AclOperation.DESCRIBE, AclPermissionType.ALLOW),
    ):
        for future in admin.create_acls([AclBinding(*group, "User:ANONYMOUS", "*", operation, kind)]).values():
            future.result(30)


@cell("F25", "the group's offsets may not be committed; killed after EndTxn", properties=_GUARDED)
def group_forbidden(trial: Trial) -> Outcome:
    """The job says so and goes on. Where it has come to it knows from its progress, not from the group."""
    forbid_the_group(trial)
    job = trial.job(with_group(trial))
    refused = trial.cluster.add(
        Trap(
            Api.TXN_OFFSET_COMMIT,
            response=True,
            contains=[trial.transactional_id],
            where=lambda frame: frame.errors == (_GROUP_AUTHORIZATION_FAILED,),
            times=None,
        )
    )
    trap = trial.ended(trial.before + 1, call=lambda _: job.kill(), then=Then.DROP)
    trial.numbered.write(trial.records)
    job.start()
    trial.wait(job, trap)
    job.kill()
    trial.died(job, trap, planned=trial.before, done=trial.before - 1)
    trial.hit(story(refused), len(refused.frames) == trial.before + 1)
    said = "are not committed" in job.text
    trial.cluster.heal()
    trial.verifier.restarted()
    job.start().finish(PATIENCE)
    places = [(trial.source, each) for each in trial.numbered.written]
    found = [each.offset for each in fetch_committed_offsets(trial.session, group_of(trial), places).values() if each]
    trial.hit("the group has no offsets", not any(offset >= 0 for offset in found))
    problem = "" if said and "are not committed" in job.text else "the job does not say that offsets are not committed"
    return trial.outcome(job, problem=problem)


# --- too few replicas --------------------------------------------------------------------------------------------

_TOO_FEW = frozenset({19, 20})  # NOT_ENOUGH_REPLICAS, before and after the leader has appended


@cell("F25", "too few replicas in sync for the output, for a while", brokers=BROKERS)
def too_few_for_a_while(trial: Trial) -> Outcome:
    """The output needs all three, and one is gone: its leaders refuse records until it is back."""
    new_sink(trial)
    Administrator(trial).configure(trial.sink, min_insync_replicas=BROKERS)
    await_in_sync(trial)
    job, gone = trial.job(trial.sql(keyed=True)), Absence(trial)

    def kill(frame: object) -> None:
        gone.kill(trial.random.choice(trial.cluster.cluster.nodes))

    trap = producing(trial, call=kill)
    refused = trial.cluster.add(
        Trap(
            Api.PRODUCE,
            response=True,
            contains=[trial.transactional_id],
            where=lambda frame: bool(_TOO_FEW & set(frame.errors)),
            times=None,
        )
    )
    trial.numbered.write(trial.records)
    job.start()
    trial.wait(job, trap)
    job.until(lambda: len(refused.frames) > 1, PATIENCE)
    trial.hit(f"{story(refused)}", refused.sprung)
    trial.hit(f"batch {trial.before} not done meanwhile", job.running and job.done() == trial.before - 1)
    gone.end()
    job.finish(PATIENCE)
    return trial.outcome(job)
