"""F6: answers and requests that are lost, late, or go nowhere while the connection stays."""

from __future__ import annotations

import time
from collections.abc import Callable

from kafka.protocol.producer import ProduceRequest

from penstock.kafka.faults import fault_from_code
from penstock_testing import Api, Frame, Then, Trap
from tests.faults.harness import PATIENCE, Outcome, Trial, cell, refused, story
from tests.faults.processes import JobProcess
from tests.faults.steps import run_past
from tests.waiting import eventually

#: A client gives up on an answer after this, and on its connection with it.
PATIENCE_SECONDS = 3
IMPATIENT = {"properties.request.timeout.ms": str(PATIENCE_SECONDS * 1000)}
#: By how many seconds frames are late.
LATE = 0.05
#: Where a request goes on behind its API's key, version and correlation id.
_BODY = 8
#: How long the head of a record batch is.
_HEAD = 61


def watch(trial: Trial, job: JobProcess, trap: Trap) -> Outcome:
    """Start the job and let it come to its end, with the trap on its way: what that catches is sent again."""
    again = repetition(trial, trap)
    run_past(trial, job, trap)
    trial.hit(f"sent again, and answered {codes(again)}", again.sprung)
    if trap.api != Api.PRODUCE or trial.in_progress(trap):  # whatever the driver asks
        trial.hit("nothing redone", "is retried" not in job.text)
    return trial.outcome(job)


def repetition(trial: Trial, trap: Trap) -> Trap:
    """Catches the next request, or answer to one, that is the same as the one that a trap has caught."""
    return trial.cluster.add(
        Trap(trap.api, response=trap.response, contains=[trial.transactional_id], where=same_as(trap), after=trap)
    )


def half_open(trial: Trial, job: JobProcess, trap: Trap) -> Outcome:
    """Start the job. From the trap on nothing passes, until whoever has sent what it caught has given up on the
    connection; then what was under way goes on, and comes again."""
    again = repetition(trial, trap)
    trial.numbered.write(trial.records)
    job.start()
    trap.wait(PATIENCE)
    trial.verifier.restarted()
    began = time.monotonic()
    eventually(lambda: trap.frames[0].pid is None, PATIENCE)
    waited = time.monotonic() - began
    trial.cluster.proxy(1).heal()
    job.finish(PATIENCE)
    trial.hit(f"{story(trap)} kept until its connection was closed, {waited:.1f} s")
    trial.hit(f"sent again, and answered {codes(again)}", again.sprung)
    arrive_late(trial, trap, harmless=True)
    return trial.outcome(job)


def same_as(trap: Trap) -> Callable[[Frame], bool]:
    """Whether a frame's request repeats the one that a trap has caught first: it has the same record batch, which may
    be sent again beside those of other partitions; or all of it is the same, but for its correlation id."""

    def same(frame: Frame) -> bool:
        if not trap.sprung:
            return False
        first = trap.frames[0]
        if trap.api == Api.PRODUCE:
            return batch_head(first) in frame.request
        return frame.request[_BODY:] == first.request[_BODY:]

    return same


def batch_head(frame: Frame) -> bytes:
    """The head of the first record batch in a Produce: checksum, producer id, epoch and first sequence are in it."""
    request = ProduceRequest[frame.version].decode(frame.request, header=True)
    return bytes(request.topic_data[0].partition_data[0].records)[:_HEAD]


def codes(trap: Trap) -> str:
    """What a trap's requests were answered, or what its answers say, by the names of the errors."""
    return "/".join(fault_from_code(code).name for code in trap.errors)


def arrive_late(trial: Trial, trap: Trap, *, harmless: bool = False) -> None:
    """Note that what a trap has kept has arrived after all, and what the broker answered to it: an error, so that it
    did not join a transaction; or, where a repetition is ``harmless``, anything."""
    trap.wait_for_answers(PATIENCE)
    trial.hit(f"the first copy arrived late, and was answered {codes(trap)}", harmless or refused(trap))


@cell("F6", "answer to EndTxn lost")
def end_txn_answer_lost(trial: Trial) -> Outcome:
    job = trial.job(trial.sql(sink=IMPATIENT))
    trap = trial.ended(trial.before + 1, then=Then.DROP)
    return watch(trial, job, trap)


@cell("F6", "connection cut before the answer to EndTxn")
def end_txn_answer_cut(trial: Trial) -> Outcome:
    job = trial.job(trial.sql(keyed=True))
    trap = trial.ended(trial.before + 1, then=trial.random.choice((Then.CLOSE, Then.RESET)))
    return watch(trial, job, trap)


@cell("F6", "answer to EndTxn lost, transaction.version 0", properties={"transaction.version": "0"})
def end_txn_answer_lost_of_old(trial: Trial) -> Outcome:
    return end_txn_answer_lost(trial)


@cell("F6", "EndTxn request lost")
def end_txn_lost(trial: Trial) -> Outcome:
    job = trial.job(trial.sql(sink=IMPATIENT))
    trap = trial.committing(trial.before + 1, then=Then.DROP)
    return watch(trial, job, trap)


@cell("F6", "driver to coordinator half-open at EndTxn")
def coordinator_half_open(trial: Trial) -> Outcome:
    """What was under way goes on when the link heals: an EndTxn that nobody waits for any more."""
    job = trial.job(trial.sql(sink=IMPATIENT))
    proxy = trial.cluster.proxy(1)
    return half_open(trial, job, trial.committing(trial.before + 1, call=lambda _: proxy.half_open()))


@cell("F6", "answer to Produce lost, task to leader")
def produce_answer_lost(trial: Trial) -> Outcome:
    job = trial.job(trial.sql(sink=IMPATIENT))
    trap = trial.published(after=trial.ended(trial.before), then=Then.DROP)
    return watch(trial, job, trap)


@cell("F6", "Produce lost, task to leader")
def produce_lost(trial: Trial) -> Outcome:
    job = trial.job(trial.sql(keyed=True, sink=IMPATIENT))
    return watch(trial, job, producing(trial, then=Then.DROP))


@cell("F6", "Produce late, after it was sent again, task to leader")
def produce_late(trial: Trial) -> Outcome:
    """The first copy reaches the broker behind the second."""
    job = trial.job(trial.sql(sink=IMPATIENT))
    trap = producing(trial, then=Then.HOLD)
    again = repetition(trial, trap)
    trial.numbered.write(trial.records)
    job.start()
    trap.wait(PATIENCE)
    trial.verifier.restarted()
    # The second commit from here on: a broker answers the first before its markers have raised the epoch everywhere.
    trial.ended(1, call=lambda _: trap.release()).wait(PATIENCE)
    job.finish(PATIENCE)
    trial.hit(f"sent again, and answered {codes(again)}", 0 in again.errors)
    trial.hit("Produce kept until its batch and the next one were committed")
    arrive_late(trial, trap)
    return trial.outcome(job)


@cell("F6", "task to leader half-open at Produce")
def leader_half_open(trial: Trial) -> Outcome:
    job = trial.job(trial.sql(keyed=True, sink=IMPATIENT))
    proxy = trial.cluster.proxy(1)
    return half_open(trial, job, producing(trial, call=lambda _: proxy.half_open()))


@cell("F6", "all connections cut, again and again")
def cut_again_and_again(trial: Trial) -> Outcome:
    job = trial.job(trial.sql(keyed=True, batches=16))
    trial.numbered.write(trial.records)
    first = trial.ended(1)
    job.start()
    first.wait(PATIENCE)
    trial.verifier.restarted()
    proxy, cuts, severed = trial.cluster.proxy(1), 0, 0
    while job.running:
        connections, batch, under_way = proxy.connections, job.done(), job.planned() > job.done()
        proxy.cut(reset=trial.random.random() < 0.5)
        cuts, severed = cuts + under_way, severed + connections
        accepted = proxy.accepted
        # The next one in a later batch, when the job has connected again: it must come to its end.
        while job.running and (proxy.accepted == accepted or not batch < job.done() < job.planned()):
            time.sleep(0.01)
    job.finish(PATIENCE)
    trial.hit(f"{severed} connections cut, {cuts} times with a batch under way", cuts >= 5 and severed >= cuts)
    return trial.outcome(job)


@cell("F6", "every frame 50 ms late")
def slow_link(trial: Trial) -> Outcome:
    job = trial.job(trial.sql())
    trial.numbered.write(trial.records)
    trial.cluster.proxy(1).delay(LATE)
    asked, answered = [], []
    ours = {"contains": [trial.transactional_id], "times": None}
    trial.cluster.add(Trap(Api.END_TXN, call=lambda _: asked.append(time.monotonic()), **ours))
    ends = trial.cluster.add(Trap(Api.END_TXN, response=True, call=lambda _: answered.append(time.monotonic()), **ours))
    trial.verifier.restarted()
    job.start().finish(PATIENCE)
    # The driver has one request under way at a time; what the proxy keeps of an answer comes between the two.
    quickest = min(later - earlier for earlier, later in zip(asked, answered, strict=True))
    trial.hit(f"{story(ends)}, the quickest after {quickest:.2f} s", len(answered) > job.done() and quickest >= LATE)
    return trial.outcome(job)


@cell("F6", "refused for 10 s, mid-publish")
def refusing(trial: Trial) -> Outcome:
    """As behind a firewall that restarts: what was connected is cut, and nothing comes in."""
    job = trial.job(trial.sql())
    proxy = trial.cluster.proxy(1)
    trap = trial.published(after=trial.ended(trial.before), then=trial.random.choice((Then.CLOSE, Then.RESET)))
    trial.numbered.write(trial.records)
    job.start()
    trap.wait(PATIENCE)
    proxy.refuse()
    accepted = proxy.accepted
    time.sleep(10)
    trial.hit(story(trap))
    trial.hit("not a connection for 10 s", proxy.connections == 0 and proxy.accepted <= accepted)
    trial.hit(f"meanwhile batch {trial.before} was not done", job.running and job.done() == trial.before - 1)
    trial.verifier.restarted()
    proxy.heal()
    job.finish(PATIENCE)
    return trial.outcome(job)


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
