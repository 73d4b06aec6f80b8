"""F1, F4 and F14: the driver dies, at each step of a batch, for long, and in its first batch."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

from penstock_testing import Api, Then, Trap
from tests.faults.harness import PATIENCE, Outcome, Trial, cell
from tests.faults.processes import JobProcess
from tests.waiting import eventually

#: Records with which ``batches=2`` has two tasks in each batch, and so a shuffle.
ENOUGH_FOR_A_SHUFFLE = 100_000

TIMEOUT_SECONDS = 10
TIMEOUT = {"properties.transaction.timeout.ms": str(TIMEOUT_SECONDS * 1000)}


def die_and_recover(trial: Trial, job: JobProcess, trap: Trap, *, planned: int, done: int) -> Outcome:
    """Start the job, wait until the trap has killed it, start it again and let it come to its end.

    ``planned`` and ``done`` are what Spark's logs have to hold when it is dead: proof of where it was hit.
    """
    die(trial, job, trap, planned=planned, done=done)
    trial.verifier.restarted()
    job.start().finish(PATIENCE)
    return trial.outcome(job)


def die(trial: Trial, job: JobProcess, trap: Trap, *, planned: int, done: int) -> None:
    """Start the job, wait until the trap has killed it, and note where."""
    trial.numbered.write(trial.records)
    job.start()
    trial.wait(job, trap)
    job.kill()
    trial.died(job, trap, planned=planned, done=done)
    trial.cluster.heal()


# --- F1 ----------------------------------------------------------------------------------------------------------


def planning(trial: Trial, job: JobProcess, **options: object) -> Trap:
    """Catches what the job asks while it plans a batch: the offsets of its source, in the process that plans. (The
    driver asks for them too, to tell how far behind the job is.) Only a job that is not bounded asks."""
    about_source = trial.about(trial.source)
    return trial.cluster.add(
        Trap(
            Api.LIST_OFFSETS,
            where=lambda frame: about_source(frame) and frame.pid not in {None, job.pid},
            **options,
        )
    )


@cell("F1", "all five points, one after the other", deadline=1200)
def five_points(trial: Trial) -> Outcome:
    """Each start publishes one batch, and dies at the next."""
    job = trial.job(trial.sql(keyed=True, bounded=False))
    trial.numbered.write(trial.records)

    def kill(*_: object) -> None:
        job.kill()

    points: list[tuple[Callable[[], Trap], int, int]] = [
        (lambda: trial.published(after=trial.ended(1), call=kill, then=Then.DROP), 1, 0),
        (lambda: trial.recording(after=trial.ended(1), call=kill, then=Then.DROP), 2, 1),
        (lambda: trial.committing(2, call=kill, then=Then.DROP), 3, 2),
        (lambda: trial.ended(2, call=kill, then=Then.DROP), 4, 3),
        (
            lambda: planning(trial, job, after=trial.ended(1), call=kill, then=Then.DROP),
            5,
            5,
        ),  # batch 4 is passed over, since it was committed
    ]
    for point, planned, done in points:
        trap = point()
        job.start()
        trap.wait(PATIENCE)
        job.kill()
        trial.died(job, trap, planned=planned, done=done)
        trial.cluster.heal()
    trial.verifier.restarted()
    job.start()
    trial.verifier.wait_for_records(trial.numbered.total, PATIENCE, alive=lambda: job.running)
    job.stop()
    return trial.outcome(job)


@cell("F1", "before the offset log")
def before_the_offset_log(trial: Trial) -> Outcome:
    job = trial.job(trial.sql(bounded=False))
    trap = planning(trial, job, after=trial.ended(trial.before), call=lambda _: job.kill(), then=Then.DROP)
    die(trial, job, trap, planned=trial.before - 1, done=trial.before - 1)
    trial.verifier.restarted()
    job.start()
    trial.verifier.wait_for_records(trial.numbered.total, PATIENCE, alive=lambda: job.running)
    job.stop()
    return trial.outcome(job)


@cell("F1", "mid-publish")
def mid_publish(trial: Trial) -> Outcome:
    """The broker has records of an open transaction."""
    job = trial.job()
    trap = trial.published(after=trial.ended(trial.before), call=lambda _: job.kill(), then=Then.DROP)
    return die_and_recover(trial, job, trap, planned=trial.before, done=trial.before - 1)


@cell("F1", "after publishing, before the progress record")
def before_the_progress_record(trial: Trial) -> Outcome:
    job = trial.job(trial.sql(keyed=True))
    trap = trial.recording(after=trial.ended(trial.before), call=lambda _: job.kill(), then=Then.DROP)
    return die_and_recover(trial, job, trap, planned=trial.before, done=trial.before - 1)


@cell("F1", "after the progress record, before EndTxn")
def before_end_txn(trial: Trial) -> Outcome:
    job = trial.job(trial.sql(keyed=True))
    trap = trial.committing(trial.before + 1, call=lambda _: job.kill(), then=Then.DROP)
    return die_and_recover(trial, job, trap, planned=trial.before, done=trial.before - 1)


@cell("F1", "after EndTxn, before Spark's commit log", ci=True)
def after_end_txn(trial: Trial) -> Outcome:
    job = trial.job()
    trap = trial.ended(trial.before + 1, call=lambda _: job.kill(), then=Then.DROP)
    return die_and_recover(trial, job, trap, planned=trial.before, done=trial.before - 1)


@cell("F1", "mid-publish, through a shuffle")
def mid_publish_shuffled(trial: Trial) -> Outcome:
    """Two batches of two tasks each, whose records find their partitions by key."""
    return shuffled(trial, lambda **options: trial.published(after=trial.ended(1), **options))


def shuffled(trial: Trial, point: Callable[..., Trap]) -> Outcome:
    """A job of two batches and two publishing tasks, which is killed at a point of the second batch."""
    trial.records = max(trial.records, ENOUGH_FOR_A_SHUFFLE)
    job = trial.job(trial.sql(keyed=True, batches=2))
    publishers = trial.publishers()
    trap = point(call=lambda _: job.kill(), then=Then.DROP)
    die(trial, job, trap, planned=1, done=0)
    trial.hit(f"a batch is published by {publishers()} processes", publishers() > 1)
    trial.verifier.restarted()
    job.start().finish(PATIENCE)
    return trial.outcome(job)


@cell("F1", "after EndTxn, before Spark's commit log, through a shuffle")
def after_end_txn_shuffled(trial: Trial) -> Outcome:
    return shuffled(trial, lambda **options: trial.ended(2, **options))


@cell("F1", "mid-publish, transaction.version 0", properties={"transaction.version": "0"})
def mid_publish_of_old(trial: Trial) -> Outcome:
    return mid_publish(trial)


@cell("F1", "after EndTxn, transaction.version 0", properties={"transaction.version": "0"})
def after_end_txn_of_old(trial: Trial) -> Outcome:
    return after_end_txn(trial)


@cell("F1", "mid-publish, only the Python process; started again at once")
def driver_process_alone(trial: Trial) -> Outcome:
    """The JVM and the workers find out by themselves, and may go on publishing meanwhile."""
    sql = trial.sql(keyed=True)
    job, again = trial.job(sql), trial.job(sql, folder="again")
    left: list[str] = []

    def kill(_: object) -> None:
        job.kill_driver()
        left.extend(job.programs())

    trap = trial.published(after=trial.ended(trial.before), call=kill)
    trial.numbered.write(trial.records)
    job.start()
    trap.wait(PATIENCE)
    trial.hit("the driver's process killed, its JVM not", not job.running and "java" in left)
    trial.died(job, trap, planned=trial.before, done=trial.before - 1)
    trial.verifier.restarted()
    again.start().finish(PATIENCE)
    assert not job.left_over(), "the JVM or a worker has outlived its driver"
    return trial.outcome(again)


@cell("F1", "each batch is killed once after EndTxn", deadline=1200)
def killed_in_every_batch(trial: Trial) -> Outcome:
    """Four batches, four deaths."""
    job = trial.job(trial.sql(batches=4))
    trial.numbered.write(trial.records)
    for batch in range(4):
        # A start first passes over the batch that was committed last, and then publishes one.
        trap = trial.ended(1, call=lambda _: job.kill(), then=Then.DROP)
        job.start()
        trap.wait(PATIENCE)
        job.kill()
        trial.died(job, trap, planned=batch)
        trial.cluster.heal()
    trial.verifier.restarted()
    job.start().finish(PATIENCE)
    return trial.outcome(job)


def until_aborted(trial: Trial) -> None:
    """Wait until the broker has aborted the job's transaction, and note that it has."""
    trial.verifier.inspector.wait_for(trial.transactional_id, lambda seen: seen.state == "CompleteAbort", PATIENCE)
    trial.hit("aborted by the broker")


# --- F4 ----------------------------------------------------------------------------------------------------------


@cell("F4", "killed mid-publish, down until the broker has aborted")
def down_mid_publish(trial: Trial) -> Outcome:
    job = trial.job(trial.sql(sink=TIMEOUT))
    trap = trial.published(after=trial.ended(trial.before), call=lambda _: job.kill(), then=Then.DROP)
    die(trial, job, trap, planned=trial.before, done=trial.before - 1)
    until_aborted(trial)
    trial.verifier.restarted()
    job.start().finish(PATIENCE)
    return trial.outcome(job)


@cell("F4", "killed before EndTxn, down until the broker has aborted")
def down_before_end_txn(trial: Trial) -> Outcome:
    job = trial.job(trial.sql(keyed=True, sink=TIMEOUT))
    trap = trial.committing(trial.before + 1, call=lambda _: job.kill(), then=Then.DROP)
    die(trial, job, trap, planned=trial.before, done=trial.before - 1)
    until_aborted(trial)
    trial.verifier.restarted()
    job.start().finish(PATIENCE)
    return trial.outcome(job)


@cell("F4", "killed after EndTxn, down for longer than the time-out")
def down_after_end_txn(trial: Trial) -> Outcome:
    job = trial.job(trial.sql(sink=TIMEOUT))
    trap = trial.ended(trial.before + 1, call=lambda _: job.kill(), then=Then.DROP)
    die(trial, job, trap, planned=trial.before, done=trial.before - 1)
    time.sleep(TIMEOUT_SECONDS + 1)  # nothing to wait for: being down is the fault
    trial.hit(f"down for {TIMEOUT_SECONDS + 1} s")
    trial.stands({"CompleteCommit"})
    trial.verifier.restarted()
    job.start().finish(PATIENCE)
    return trial.outcome(job)


# --- F14 ---------------------------------------------------------------------------------------------------------


def first_batch(trial: Trial, start: Callable[[], Mapping[str, str]]) -> Outcome:
    """Killed in batch 0 of a job that starts behind a quarter of the records, by the options that ``start`` gives. What
    was there before is not its business; everything after is, also what came while it was dead."""
    trial.numbered.write(trial.records // 4)
    before = dict(trial.numbered.written)
    trial.verify(first=before)
    job = trial.job(trial.sql(bounded=False, source=start()))
    trap = trial.committing(1, call=lambda _: job.kill(), then=Then.DROP)
    job.start()
    job.wait_for("checkpoint ")  # positions are resolved by now
    trial.numbered.write_on(trial.records // 100, every=0.2)
    trap.wait(PATIENCE)
    job.kill()
    trial.died(job, trap, planned=0)
    trial.cluster.heal()
    while_dead = trial.numbered.total
    eventually(lambda: trial.numbered.total > while_dead, PATIENCE)
    trial.hit("records came while it was dead")
    trial.verifier.restarted()
    job.start()
    job.wait_for("checkpoint ")
    eventually(lambda: trial.numbered.total >= trial.records, PATIENCE)
    trial.numbered.stop()
    expected = trial.numbered.total - sum(before.values())
    trial.verifier.wait_for_records(expected, PATIENCE, alive=lambda: job.running)
    job.stop()
    return trial.outcome(job)


@cell("F14", "killed in batch 0 from the latest offset, while records arrive")
def first_batch_from_latest(trial: Trial) -> Outcome:
    return first_batch(trial, lambda: {"scan.startup.mode": "latest-offset"})


@cell("F14", "killed in batch 0 from a timestamp, while records arrive")
def first_batch_from_timestamp(trial: Trial) -> Outcome:
    """No record is as late as that when the job starts."""

    def now() -> dict[str, str]:
        written = time.time_ns() // 1_000_000
        eventually(lambda: time.time_ns() // 1_000_000 > written)  # records are stamped with whole milliseconds
        return {"scan.startup.mode": "timestamp", "scan.startup.timestamp-millis": str(written + 1)}

    return first_batch(trial, now)
