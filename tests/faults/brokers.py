"""F5: brokers that die or are stopped, each in the part that it has in a job, at one step of a batch.

Three brokers, three replicas, two of which must be in sync. A broker that is missing is noticed after Kafka's default
of nine seconds, unless it was stopped in order.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from kafka.protocol.admin import DescribeQuorumRequest

from penstock.errors import RetriableError
from penstock.kafka.faults import Action, KafkaFault, fault_from_code
from penstock.kafka.offsets import LATEST, fetch_committed_offsets, list_offsets
from penstock.kafka.progress import ensure_progress_topic
from penstock.kafka.session import GROUP, TRANSACTION, Session
from penstock_testing import Api, Frame, Then, Trap
from penstock_testing.services.process import end_all
from tests.faults.harness import PATIENCE, PROGRESS, Outcome, Trial, cell, story
from tests.faults.processes import JobProcess
from tests.faults.steps import ENOUGH_FOR_A_SHUFFLE
from tests.waiting import eventually

BROKERS = 3
#: A broker that has been asked to stop is killed after this.
GRACE_SECONDS = 30
OLD = {"transaction.version": "0"}
#: A job that gives up while the brokers are away.
IMPATIENT = {
    "properties.request.timeout.ms": "2000",
    "properties.default.api.timeout.ms": "5000",
    "properties.delivery.timeout.ms": "5000",
}

#: How a driver says that it does not know what became of a batch.
UNKNOWN = "not known"

CONTROLLER, COORDINATOR, GROUP_COORDINATOR = "the controller", "the transaction coordinator", "the group coordinator"
OUTPUT_LEADER, PROGRESS_LEADER = "an output leader", "the progress leader"
INPUT_LEADER = "an input leader"

Point = Callable[..., Trap]


# --- who does what -----------------------------------------------------------------------------------------------


def node_of(trial: Trial, frame: Frame) -> int:
    """The broker that a frame goes to or comes from."""
    return next(node for node, proxy in enumerate(trial.cluster.proxies, 1) if proxy.port == frame.port)


def transaction_coordinator(trial: Trial) -> int:
    """The broker that coordinates the job's transactions now."""
    return _coordinator(trial, TRANSACTION, trial.transactional_id)


def group_coordinator(trial: Trial) -> int:
    """The broker that coordinates the job's consumer group now."""
    return _coordinator(trial, GROUP, group_of(trial))


def _coordinator(trial: Trial, kind: int, key: str) -> int:
    trial.session.forget_coordinator(kind, key)
    return int(trial.session.coordinator(kind, key, trial.session.deadline()))


def active_controller(trial: Trial) -> int:
    """The broker whose controller leads the quorum now."""
    Topic = DescribeQuorumRequest.TopicData

    def build() -> Any:
        partition = Topic.PartitionData(partition_index=0)
        return DescribeQuorumRequest(topics=[Topic(topic_name="__cluster_metadata", partitions=[partition])])

    def check(answer: Any) -> int:
        found = answer.topics[0].partitions[0]
        for code in (answer.error_code, found.error_code):
            if (fault := fault_from_code(code)).action is not Action.NONE:
                raise KafkaFault(fault)
        return int(found.leader_id)

    return trial.session.ask_any("asking for the active controller", build, check)


def leaders(trial: Trial, topic: str) -> list[int]:
    """The brokers that lead the partitions of a topic now, -1 where there is none."""
    trial.session.forget_topics([topic])
    return [each.leader for each in trial.session.topic(topic).partitions]


def progress_leader(trial: Trial) -> int:
    """The broker that leads the partition with the job's progress now."""
    return leaders(trial, PROGRESS)[ensure_progress_topic(trial.session).partition_of(trial.transactional_id)]


def group_of(trial: Trial) -> str:
    """The consumer group of jobs that have one."""
    return f"group-{trial.tag}"


# --- taking them away --------------------------------------------------------------------------------------------


@dataclass
class Absence:
    """Brokers that a trap takes away, and what they were at the time. ``part`` is what one of them must have been."""

    trial: Trial
    part: str = ""
    nodes: list[int] = field(default_factory=list)

    def kill(self, *nodes: int) -> None:
        """kill -9."""
        self._note("killed", nodes)
        for node in nodes:
            self.trial.cluster.cluster.kill(node)
        self.trial.hit("dead", not any(map(self.runs, nodes)))

    def stop(self, *nodes: int, until: Callable[[], bool] | None = None) -> None:
        """Stop in order. Returns when they are gone, or, while they still leave, when ``until`` says so.

        Those that take too long are killed, as init systems do it.
        """
        self._note("stopped", nodes)
        leaving = [self.trial.cluster.cluster.processes[node] for node in nodes]
        for process in leaving:
            process.signal(signal.SIGTERM)
        end, killed = time.monotonic() + GRACE_SECONDS, False
        while any(process.alive() for process in leaving):
            if until is not None and _asked(until):
                self.trial.hit("its part was another's by then")
                return
            if time.monotonic() > end:
                end_all(leaving, 0)
                killed = True
            time.sleep(0.02)
        # All at once cannot leave in order: the last ones find nobody to hand over to.
        how = f"killed after {GRACE_SECONDS} s" if killed else "gone in order"
        self.trial.hit(how, not killed or len(nodes) > 1)

    def end(self) -> None:
        """Bring all of them back."""
        self.trial.cluster.cluster.restart(*self.nodes)

    def runs(self, node: int) -> bool:
        """Whether a broker's process is there."""
        process = self.trial.cluster.cluster.processes.get(node)
        return process is not None and process.alive()

    def _note(self, how: str, nodes: Collection[int]) -> None:
        trial = self.trial
        parts = {
            CONTROLLER: [active_controller(trial)],
            COORDINATOR: [transaction_coordinator(trial)],
            GROUP_COORDINATOR: [group_coordinator(trial)] if self.part == GROUP_COORDINATOR else [],
            INPUT_LEADER: leaders(trial, trial.source) if self.part == INPUT_LEADER else [],
            OUTPUT_LEADER: leaders(trial, trial.sink),
            PROGRESS_LEADER: [progress_leader(trial)],
        }
        self.nodes += nodes
        played = [part for part, members in parts.items() if set(members) & set(nodes)]
        what = f"{how}: {', '.join(f'node {node}' for node in nodes)} ({' and '.join(played) or 'none of these'})"
        trial.hit(what, not self.part or self.part in played)
        trial.verifier.restarted()


def _asked(condition: Callable[[], bool]) -> bool:
    """A condition that asks brokers, of which one is on its way out."""
    try:
        return condition()
    except RetriableError:
        return False


def survive(
    trial: Trial, job: JobProcess, trap: Trap, gone: Absence, *, publishers: Callable[[], int] | None = None
) -> Outcome:
    """Start the job; when the trap has taken brokers away, wait until the batch is done without them, bring them back
    and let the job come to its end. With ``publishers``, more than one task has to publish a batch."""
    lose(trial, job, trap)
    job_does(job, trial.before)
    eventually(lambda: not any(map(gone.runs, gone.nodes)), PATIENCE)  # one that leaves in order may take its time
    trial.hit(f"batch {trial.before} done before it came back")
    gone.end()
    job.finish(PATIENCE)
    if publishers is not None:
        trial.hit(f"a batch is published by {publishers()} processes", publishers() > 1)
    return trial.outcome(job)


def survive_outage(trial: Trial, job: JobProcess, trap: Trap, gone: Absence) -> Outcome:
    """The same where nothing goes on without them: they come back, and the job has waited."""
    lose(trial, job, trap)
    trial.hit(f"batch {trial.before} not done without them", job.running and job.done() < trial.before)
    gone.end()
    job.finish(PATIENCE)
    return trial.outcome(job)


def lose(trial: Trial, job: JobProcess, trap: Trap) -> None:
    """Start the job and wait until the trap has sprung."""
    trial.numbered.write(trial.records)
    job.start()
    trial.wait(job, trap)
    trial.hit(story(trap))


def job_does(job: JobProcess, batch: int) -> None:
    """Wait until Spark has logged a batch as done."""
    job.until(lambda: job.done() >= batch, PATIENCE)


# --- the leader of an output partition ---------------------------------------------------------------------------


def producing(trial: Trial, **options: object) -> Trap:
    """Catches the first Produce to the output in the batch that is hit, before the broker has it."""
    return trial.cluster.add(
        Trap(
            Api.PRODUCE,
            contains=[trial.transactional_id],
            where=trial.about(trial.sink),
            after=trial.ended(trial.before),
            **options,
        )
    )


def published(trial: Trial, **options: object) -> Trap:
    """Catches the first answer to a Produce to the output in the batch that is hit."""
    return trial.published(after=trial.ended(trial.before), **options)


def recording(trial: Trial, **options: object) -> Trap:
    """Catches the Produce of the progress record of the batch that is hit."""
    return trial.recording(after=trial.ended(trial.before), **options)


def committing(trial: Trial, **options: object) -> Trap:
    """Catches the EndTxn of the batch that is hit, before the coordinator has it."""
    return trial.committing(trial.before + 1, **options)


def ended(trial: Trial, **options: object) -> Trap:
    """Catches the answer to the EndTxn of the batch that is hit."""
    return trial.ended(trial.before + 1, **options)


def adding_partitions(trial: Trial, **options: object) -> Trap:
    """Catches, below transaction.version 2, the AddPartitionsToTxn of the batch that is hit."""
    return trial.cluster.add(
        Trap(Api.ADD_PARTITIONS_TO_TXN, contains=[trial.transactional_id], after=trial.ended(trial.before), **options)
    )


def addressee_killed(trial: Trial, point: Point, sql: str, part: str) -> Outcome:
    """Whoever a frame goes to, or comes from, is killed; the frame is lost."""
    gone, job = Absence(trial, part), trial.job(sql)
    trap = point(trial, call=lambda frame: gone.kill(node_of(trial, frame)), then=Then.DROP)
    return survive(trial, job, trap, gone)


def addressee_leaves(
    trial: Trial,
    point: Point,
    sql: str,
    part: str,
    here: Callable[[Trial], Collection[int]],
    then: Then = Then.FORWARD,
) -> Outcome:
    """Whoever a frame goes to is asked to stop, and gets it when it has given up its part and is about to leave."""
    gone, job = Absence(trial, part), trial.job(sql)

    def leave(frame: Frame) -> None:
        node = node_of(trial, frame)
        gone.stop(node, until=lambda: node not in here(trial))

    return survive(trial, job, point(trial, call=leave, then=then), gone)


@cell("F5", "leader of an output partition, kill -9, at Produce", brokers=BROKERS)
def leader_killed_before_producing(trial: Trial) -> Outcome:
    return addressee_killed(trial, producing, trial.sql(keyed=True), OUTPUT_LEADER)


@cell("F5", "leader of an output partition, kill -9, its answer to Produce lost", brokers=BROKERS)
def leader_killed_after_producing(trial: Trial) -> Outcome:
    return addressee_killed(trial, published, trial.sql(), OUTPUT_LEADER)


@cell("F5", "leader of an output partition, clean stop, at Produce", brokers=BROKERS)
def leader_leaves(trial: Trial) -> Outcome:
    return addressee_leaves(
        trial, producing, trial.sql(keyed=True), OUTPUT_LEADER, lambda trial: leaders(trial, trial.sink)
    )


@cell("F5", "leader of an output partition, kill -9, mid-publish, through a shuffle", brokers=BROKERS)
def leader_killed_shuffled(trial: Trial) -> Outcome:
    trial.before = 1
    trial.records = max(trial.records, ENOUGH_FOR_A_SHUFFLE)
    gone, job = Absence(trial, OUTPUT_LEADER), trial.job(trial.sql(keyed=True, batches=2))
    publishers = trial.publishers()
    trap = trial.published(after=trial.ended(1), call=lambda frame: gone.kill(node_of(trial, frame)), then=Then.DROP)
    return survive(trial, job, trap, gone, publishers=publishers)


@cell("F5", "leader of the progress partition, kill -9, at the progress record", brokers=BROKERS)
def progress_leader_killed(trial: Trial) -> Outcome:
    return addressee_killed(trial, recording, trial.sql(), PROGRESS_LEADER)


@cell(
    "F5",
    "leader of an output partition, kill -9, its answer to Produce lost, transaction.version 0",
    brokers=BROKERS,
    properties=OLD,
)
def leader_killed_of_old(trial: Trial) -> Outcome:
    return leader_killed_after_producing(trial)


# --- the transaction coordinator ---------------------------------------------------------------------------------


def coordinating(trial: Trial) -> list[int]:
    """The transaction coordinator, as a list."""
    return [transaction_coordinator(trial)]


@cell("F5", "transaction coordinator, kill -9, mid-publish", brokers=BROKERS)
def coordinator_killed_mid_publish(trial: Trial) -> Outcome:
    gone, job = Absence(trial, COORDINATOR), trial.job(trial.sql(keyed=True))
    trap = published(trial, call=lambda _: gone.kill(transaction_coordinator(trial)))
    return survive(trial, job, trap, gone)


@cell("F5", "transaction coordinator, kill -9, at EndTxn", brokers=BROKERS)
def coordinator_killed_before_ending(trial: Trial) -> Outcome:
    return addressee_killed(trial, committing, trial.sql(keyed=True), COORDINATOR)


@cell("F5", "transaction coordinator, kill -9, its answer to EndTxn lost", brokers=BROKERS)
def coordinator_killed_after_ending(trial: Trial) -> Outcome:
    return addressee_killed(trial, ended, trial.sql(), COORDINATOR)


@cell("F5", "transaction coordinator, clean stop, mid-publish", brokers=BROKERS)
def coordinator_leaves_mid_publish(trial: Trial) -> Outcome:
    gone, job = Absence(trial, COORDINATOR), trial.job(trial.sql())
    trap = published(trial, call=lambda _: gone.stop(transaction_coordinator(trial)))
    return survive(trial, job, trap, gone)


@cell("F5", "transaction coordinator, clean stop, at EndTxn", brokers=BROKERS)
def coordinator_leaves_before_ending(trial: Trial) -> Outcome:
    return addressee_leaves(trial, committing, trial.sql(keyed=True), COORDINATOR, coordinating)


@cell("F5", "transaction coordinator, clean stop, its answer to EndTxn lost", brokers=BROKERS)
def coordinator_leaves_after_ending(trial: Trial) -> Outcome:
    return addressee_leaves(trial, ended, trial.sql(), COORDINATOR, coordinating, Then.DROP)


@cell(
    "F5",
    "transaction coordinator, kill -9, at AddPartitionsToTxn, transaction.version 0",
    brokers=BROKERS,
    properties=OLD,
)
def coordinator_killed_at_adding(trial: Trial) -> Outcome:
    return addressee_killed(trial, adding_partitions, trial.sql(), COORDINATOR)


@cell(
    "F5",
    "transaction coordinator, kill -9, its answer to EndTxn lost, transaction.version 0",
    brokers=BROKERS,
    properties=OLD,
)
def coordinator_killed_after_ending_of_old(trial: Trial) -> Outcome:
    return coordinator_killed_after_ending(trial)


# --- the group coordinator ---------------------------------------------------------------------------------------


def adding_offsets(trial: Trial, **options: object) -> Trap:
    """Catches the TxnOffsetCommit of the batch that is hit, or with ``response`` its answer."""
    return trial.cluster.add(
        Trap(Api.TXN_OFFSET_COMMIT, contains=[trial.transactional_id], after=trial.ended(trial.before), **options)
    )


def with_group(trial: Trial, *, sink: Mapping[str, str] | None = None) -> str:
    """A job that commits the offsets of its group within its transactions."""
    return trial.sql(source={"properties.group.id": group_of(trial)}, sink=sink)


def checked(trial: Trial, outcome: Outcome) -> Outcome:
    """The group has committed all that was read: as much as the source holds."""
    places = [(trial.source, each) for each in trial.numbered.written]
    found = fetch_committed_offsets(trial.session, group_of(trial), places)
    ends = list_offsets(trial.session, places, LATEST)
    committed = {place: each.offset for place, each in found.items()}
    if committed == {place: each.offset for place, each in ends.items() if each is not None}:
        return outcome
    return replace(outcome, problem=f"the group's offsets are not those of the end; {outcome.problem}".strip("; "))


@cell("F5", "group coordinator, kill -9, at TxnOffsetCommit", brokers=BROKERS)
def group_coordinator_killed_before(trial: Trial) -> Outcome:
    return checked(trial, addressee_killed(trial, adding_offsets, with_group(trial), GROUP_COORDINATOR))


@cell("F5", "group coordinator, kill -9, its answer to TxnOffsetCommit lost", brokers=BROKERS)
def group_coordinator_killed_after(trial: Trial) -> Outcome:
    def answered(trial: Trial, **options: object) -> Trap:
        return adding_offsets(trial, response=True, **options)

    return checked(trial, addressee_killed(trial, answered, with_group(trial), GROUP_COORDINATOR))


@cell("F5", "group coordinator, kill -9, at EndTxn", brokers=BROKERS)
def group_coordinator_killed_at_ending(trial: Trial) -> Outcome:
    """It has the offsets, and is not there when the transaction's markers are to be written to its partition."""
    gone, job = Absence(trial, GROUP_COORDINATOR), trial.job(with_group(trial))
    trap = committing(trial, call=lambda _: gone.kill(group_coordinator(trial)))
    return checked(trial, survive(trial, job, trap, gone))


@cell("F5", "group coordinator, clean stop, at TxnOffsetCommit", brokers=BROKERS)
def group_coordinator_leaves(trial: Trial) -> Outcome:
    here: Callable[[Trial], list[int]] = lambda trial: [group_coordinator(trial)]  # noqa: E731
    return checked(trial, addressee_leaves(trial, adding_offsets, with_group(trial), GROUP_COORDINATOR, here))


# --- the controller ----------------------------------------------------------------------------------------------


@cell("F5", "active controller, kill -9, mid-publish", brokers=BROKERS)
def controller_killed_mid_publish(trial: Trial) -> Outcome:
    gone, job = Absence(trial, CONTROLLER), trial.job(trial.sql(keyed=True))
    trap = published(trial, call=lambda _: gone.kill(active_controller(trial)))
    return survive(trial, job, trap, gone)


@cell("F5", "active controller, kill -9, at EndTxn", brokers=BROKERS)
def controller_killed_at_ending(trial: Trial) -> Outcome:
    gone, job = Absence(trial, CONTROLLER), trial.job()
    trap = committing(trial, call=lambda _: gone.kill(active_controller(trial)))
    return survive(trial, job, trap, gone)


@cell("F5", "active controller, clean stop, mid-publish", brokers=BROKERS)
def controller_leaves(trial: Trial) -> Outcome:
    gone, job = Absence(trial, CONTROLLER), trial.job()
    trap = published(trial, call=lambda _: gone.stop(active_controller(trial)))
    return survive(trial, job, trap, gone)


# --- all of them -------------------------------------------------------------------------------------------------


def everyone(trial: Trial) -> tuple[int, ...]:
    return trial.cluster.cluster.nodes


@cell("F5", "all brokers, kill -9, mid-publish", brokers=BROKERS)
def all_killed_mid_publish(trial: Trial) -> Outcome:
    gone, job = Absence(trial), trial.job(trial.sql(keyed=True))
    trap = published(trial, call=lambda _: gone.kill(*everyone(trial)), then=Then.DROP)
    return survive_outage(trial, job, trap, gone)


@cell("F5", "all brokers, kill -9, the answer to EndTxn lost", brokers=BROKERS)
def all_killed_after_ending(trial: Trial) -> Outcome:
    gone, job = Absence(trial), trial.job()
    trap = ended(trial, call=lambda _: gone.kill(*everyone(trial)), then=Then.DROP)
    return survive_outage(trial, job, trap, gone)


@cell("F5", "all brokers, clean stop, mid-publish", brokers=BROKERS)
def all_leave(trial: Trial) -> Outcome:
    """The last ones cannot hand over what they have: there is nobody left to take it."""
    gone, job = Absence(trial), trial.job(trial.sql(keyed=True))
    trap = published(trial, call=lambda _: gone.stop(*everyone(trial)), then=Then.DROP)
    return survive_outage(trial, job, trap, gone)


@cell("F5", "all brokers, kill -9, down for longer than the job waits", brokers=BROKERS)
def all_killed_for_long(trial: Trial) -> Outcome:
    """The job fails, and goes on from its checkpoint when it is started again."""
    gone, job = Absence(trial), trial.job(trial.sql(source=IMPATIENT, sink=IMPATIENT))
    trap = published(trial, call=lambda _: gone.kill(*everyone(trial)), then=Then.DROP)
    return fail_and_go_on(trial, job, trap, gone)


@cell("F5", "two of three, kill -9, for longer than delivery.timeout.ms", brokers=BROKERS)
def too_few_in_sync(trial: Trial) -> Outcome:
    """With one broker left neither the controllers nor min.insync.replicas have enough."""
    gone, job = Absence(trial), trial.job(trial.sql(keyed=True, source=IMPATIENT, sink=IMPATIENT))

    def kill(frame: Frame) -> None:
        first = node_of(trial, frame)
        gone.kill(*[node for node in everyone(trial) if node != first])

    return fail_and_go_on(trial, job, producing(trial, call=kill), gone)


def fail_and_go_on(trial: Trial, job: JobProcess, trap: Trap, gone: Absence) -> Outcome:
    """The job ends by itself with an error while the brokers are away; when they are back it is started again."""
    lose(trial, job, trap)
    assert job.wait(PATIENCE) == 1, job.text[-3000:]
    stop = job.error
    found = (job.planned(), job.done())
    trial.hit(f"batch {found[0]} planned, batch {found[1]} done", found == (trial.before, trial.before - 1))
    assert not job.left_over(), "processes have outlived the job"
    trial.hit("ended while they were away", not any(map(gone.runs, gone.nodes)))
    gone.end()
    trial.verifier.restarted()
    job.start().finish(PATIENCE)
    problem = "" if UNKNOWN in stop else f"the error does not say that the outcome is {UNKNOWN}: {stop}"
    return trial.outcome(job, stop=stop, problem=problem)


# --- one after the other -----------------------------------------------------------------------------------------


def in_turn(trial: Trial, take_away: Callable[[Absence, int], None]) -> Outcome:
    """Restart each broker in turn under a job that has always something to do, as an operator does: the next one when
    all replicas are in sync again and the job has published since."""
    job = trial.job(trial.sql(keyed=True, bounded=False))
    trial.numbered.write(trial.records // 2)
    job.start()
    trial.ended(trial.before).wait(PATIENCE)
    trial.numbered.write_on(max(10, trial.records // 200), every=0.2)
    first = job.done()
    trial.verifier.restarted()
    for node in everyone(trial):
        gone = Absence(trial)
        take_away(gone, node)
        gone.end()
        await_in_sync(trial)
        job_does(job, job.planned() + 1)
        trial.hit(f"batches went on after node {node}", job.running)
    eventually(lambda: trial.numbered.total >= trial.records, PATIENCE)
    trial.numbered.stop()
    assert trial.verifier.wait_for_records(trial.numbered.total, PATIENCE, alive=lambda: job.running), job.text[-3000:]
    job.stop(PATIENCE)
    trial.hit(f"batches {first} to {job.done()} meanwhile", job.done() - first >= BROKERS)
    return trial.outcome(job)


def await_in_sync(trial: Trial) -> None:
    """Wait until no partition of the cluster lacks a replica."""
    eventually(lambda: _asked(lambda: all(_complete(trial.session))), PATIENCE)


def _complete(session: Session) -> list[bool]:
    found = session.all_topics()
    return [
        each.leader >= 0 and set(each.in_sync) == set(each.replicas)
        for topic in found.values()
        for each in topic.partitions
    ]


@cell("F5", "rolling restart, clean", brokers=BROKERS)
def rolling(trial: Trial) -> Outcome:
    return in_turn(trial, lambda gone, node: gone.stop(node))


@cell("F5", "rolling restart, kill -9", brokers=BROKERS)
def rolling_deaths(trial: Trial) -> Outcome:
    return in_turn(trial, lambda gone, node: gone.kill(node))


@cell("F5", "rolling restart, clean, transaction.version 0", brokers=BROKERS, properties=OLD)
def rolling_of_old(trial: Trial) -> Outcome:
    return rolling(trial)
