"""F11: the input is deleted and created again, cut by retention, thinned out by compaction, written by transactions,
and given more partitions."""

from __future__ import annotations

import re
import time
from collections.abc import Mapping

import numpy as np

from penstock.kafka.fetch import Fetcher, Range
from penstock.kafka.offsets import EARLIEST, LATEST, list_offsets
from penstock.kafka.record_batches import scan
from penstock.kafka.topics import create_topic
from penstock_testing import NumberedRecords, Then
from penstock_testing.numbered import numbers_of
from tests.faults.driver_deaths import TIMEOUT, die, until_aborted
from tests.faults.harness import PATIENCE, Outcome, Trial, cell
from tests.faults.librdkafka import Administrator, NumberedWriter, producer
from tests.faults.processes import JobProcess
from tests.faults.sizes import DISCOVERING
from tests.faults.steps import arrived, hit, idle, next_end, reached, stops
from tests.waiting import eventually

COMMITTED = {"properties.isolation.level": "read_committed"}


def after_the_stop(
    trial: Trial,
    job: JobProcess,
    stop: str,
    there: Mapping[int, int],
    theirs: Mapping[int, int] | None = None,
) -> Outcome:
    """What is expected of a job that stopped for good: exactly the batches that were done, which end at ``there``.

    So no record of another batch may be visible, and the verifier needs no progress records to find torn ones (the
    input that these speak of is gone). The error has to name our offset; and, of a log that has been cut, where it
    begins or ends now (``theirs``, by partition).
    """
    problem = unnamed(stop, trial.source, there, *([] if theirs is None else [theirs]))
    trial.numbered.written = dict(there)
    trial.hit(f"stopped, {sum(there.values())} records done", sum(there.values()) > 0)
    return trial.outcome(job, stop=stop, problem=problem)


def unnamed(stop: str, topic: str, *positions: Mapping[int, int]) -> str:
    """What an error should say and does not: a partition of the topic, and the offsets of all ``positions`` in it."""
    named = re.search(rf"topic '{topic}', partition (\d+)", stop)
    if named is None:
        return f"the error names no partition of topic '{topic}'"
    partition, numbers = int(named[1]), re.findall(r"\d+", stop[named.end() :])
    missing = [str(each[partition]) for each in positions if str(each[partition]) not in numbers]
    return f"the error does not name offset {' and '.join(missing)}" if missing else ""


def cut_off(trial: Trial, before: Mapping[int, int]) -> None:
    """Delete what some partitions of the input hold before an offset, and note where they begin then."""
    Administrator(trial).delete_records(trial.source, before)
    starts = log_ends(trial, EARLIEST)
    trial.hit(
        f"the log begins at {min(starts[each] for each in before)}",
        all(starts[each] == before[each] for each in before),
    )


def log_ends(trial: Trial, at: int = LATEST) -> dict[int, int]:
    """Where the partitions of the input end, or start."""
    places = [(trial.source, each.partition) for each in trial.session.topic(trial.source).partitions]
    found = list_offsets(trial.session, places, at)
    return {partition: log.offset for (_, partition), log in found.items() if log is not None}


# --- deleted and created again -----------------------------------------------------------------------------------


def recreate(trial: Trial, records: int) -> dict[int, int]:
    """Delete the input, create it again and write as many records of the same numbers. Where its partitions end."""
    before = trial.session.topic(trial.source).topic_id
    Administrator(trial).delete_topic(trial.source)
    trial.session.forget_topics([trial.source])
    create_topic(trial.session, trial.source, partitions=trial.source_partitions)
    NumberedRecords(trial.cluster.direct, trial.source).write(records)
    trial.hit(f"created anew with {records} records", trial.session.topic(trial.source).topic_id != before)
    return log_ends(trial)


@cell("F11", "topic deleted and created anew, as long as it was; the job is down")
def recreated_while_down(trial: Trial) -> Outcome:
    """A start that finds this takes nothing over: the transaction of the run that died stays until its time-out."""
    trial.verify(transactional_ids=())
    job = trial.job(trial.sql(sink=TIMEOUT))
    trap = trial.published(after=trial.ended(trial.before), call=lambda _: job.kill(), then=Then.DROP)
    die(trial, job, trap, planned=trial.before, done=trial.before - 1)
    recreate(trial, trial.records)
    there = reached(trial, job)
    stop = stops(job.start(), "was deleted and recreated")
    until_aborted(trial)
    return after_the_stop(trial, job, stop, there)


@cell("F11", "topic deleted and created anew, longer than it was; the job stands still meanwhile")
def recreated_while_running(trial: Trial) -> Outcome:
    """Offsets go on where they were, with other records behind them."""
    trial.verify(transactional_ids=())
    job = trial.job(trial.sql(bounded=False))
    trial.numbered.write(trial.records)
    job.start()
    arrived(trial, job, trial.numbered.total)
    idle(job)
    there = reached(trial, job)
    job.pause()
    recreate(trial, 2 * trial.records)
    job.resume()
    stop = stops(job, "was deleted and recreated")
    return after_the_stop(trial, job, stop, there)


@cell("F11", "topic deleted and created anew, shorter than it was; the job stands still meanwhile")
def recreated_shorter(trial: Trial) -> Outcome:
    trial.verify(transactional_ids=())
    job = trial.job(trial.sql(bounded=False))
    trial.numbered.write(trial.records)
    job.start()
    arrived(trial, job, trial.numbered.total)
    idle(job)
    there = reached(trial, job)
    job.pause()
    ends = recreate(trial, trial.records // 2)
    job.resume()
    stop = stops(job)
    trial.hit(f"the log ends at {ends[0]}, read up to {there[0]}", ends[0] < there[0])
    return after_the_stop(trial, job, stop, there, ends)


@cell("F11", "topic deleted and created anew, while the job runs")
def recreated_under_way(trial: Trial) -> Outcome:
    """For a moment there is no such topic."""
    trial.verify(transactional_ids=())
    job = trial.job(trial.sql(bounded=False))
    trial.numbered.write(trial.records)
    job.start()
    arrived(trial, job, trial.numbered.total)
    idle(job)
    there = reached(trial, job)
    recreate(trial, 2 * trial.records)
    stop = stops(job)
    return after_the_stop(trial, job, stop, there)


# --- retention ---------------------------------------------------------------------------------------------------


@cell("F11", "retention past our offset, while the job is down")
def retention_while_down(trial: Trial) -> Outcome:
    """The batch that is to be replayed has lost its first records in one partition."""
    trial.verify(transactional_ids=())
    job = trial.job()
    trap = trial.published(after=trial.ended(trial.before), call=lambda _: job.kill(), then=Then.DROP)
    die(trial, job, trap, planned=trial.before, done=trial.before - 1)
    there = reached(trial, job)
    cut_off(trial, {2: there[2] + 10})
    stop = stops(job.start(), f"topic '{trial.source}', partition 2")
    return after_the_stop(trial, job, stop, there, log_ends(trial, EARLIEST))


@cell("F11", "retention past our offset, while the job runs")
def retention_while_running(trial: Trial) -> Outcome:
    """It stands still while records come and the first of them go."""
    trial.verify(transactional_ids=())
    job = trial.job(trial.sql(bounded=False))
    trial.numbered.write(trial.records // 2)
    job.start()
    arrived(trial, job, trial.numbered.total)
    idle(job)
    there = reached(trial, job)
    job.pause()
    trial.numbered.write(trial.records // 2)
    cut_off(trial, {2: there[2] + 10})
    job.resume()
    stop = stops(job, f"topic '{trial.source}', partition 2")
    return after_the_stop(trial, job, stop, there, log_ends(trial, EARLIEST))


@cell("F11", "retention past all of the log, while the job is down")
def retention_of_everything(trial: Trial) -> Outcome:
    """The log is empty, and begins where the job was to stop. The start takes nothing over."""
    trial.verify(transactional_ids=())
    job = trial.job(trial.sql(sink=TIMEOUT))
    trap = trial.published(after=trial.ended(trial.before), call=lambda _: job.kill(), then=Then.DROP)
    die(trial, job, trap, planned=trial.before, done=trial.before - 1)
    there = reached(trial, job)
    cut_off(trial, log_ends(trial))
    stop = stops(job.start())
    until_aborted(trial)
    return after_the_stop(trial, job, stop, there, log_ends(trial, EARLIEST))


@cell("F11", "retention up to the end of the batch that was committed and not logged")
def retention_behind_us(trial: Trial) -> Outcome:
    """Nothing that is gone is needed: the replay is recognised without being read."""
    trial.verify(transactional_ids=())
    job = trial.job()
    trap = trial.ended(trial.before + 1, call=lambda _: job.kill(), then=Then.DROP)
    die(trial, job, trap, planned=trial.before, done=trial.before - 1)
    cut_off(trial, reached(trial, job, job.planned()))
    trial.verifier.restarted()
    job.start().finish(PATIENCE)
    return trial.outcome(job)


# --- compaction --------------------------------------------------------------------------------------------------

#: The ``p`` of records that are in the input and not expected in the output.
_OTHERS = 99

_CLEANER = {"log.cleaner.backoff.ms": "100"}


def compact(trial: Trial) -> None:
    """Let the input be compacted, as often and as much as may be."""
    Administrator(trial).configure(
        trial.source,
        cleanup_policy="compact",
        segment_ms=100,
        min_cleanable_dirty_ratio=0.001,
        min_compaction_lag_ms=0,
        delete_retention_ms=0,
    )


def others_before(trial: Trial, ends: Mapping[int, int]) -> int:
    """How many records that are not expected the input has before these offsets."""
    ranges = [Range(trial.source, partition, 0, end) for partition, end in ends.items()]
    found = 0
    for chunk in Fetcher(trial.session, ranges):
        records = scan(chunk.records, start_offset=chunk.start, end_offset=chunk.end, headers=True)
        found += int(np.count_nonzero(numbers_of(records.headers, trial.source)[0] == _OTHERS))
    return found


@cell("F11", "compaction gaps, as large as whole batches; killed mid-publish", properties=_CLEANER)
def gaps(trial: Trial) -> Outcome:
    """Runs of one key, of which nothing is left but empty batches (of idempotent producers) or nothing at all."""
    compact(trial)
    share, others = trial.records // 8, trial.records // 4
    for partition in range(trial.source_partitions):
        writer = NumberedWriter(trial.numbered, producer(trial, **{"enable.idempotence": partition % 2 == 0}))
        for _ in range(2):
            writer.write(partition, share)
            writer.others(_OTHERS, partition, 0, others)
        writer.flush()
    ends, until = log_ends(trial), time.monotonic() + PATIENCE
    last = NumberedWriter(trial.numbered, producer(trial))
    for partition in ends:
        last.no_others(_OTHERS, partition)
    while True:
        for partition in ends:
            last.write(partition, 1)  # an append ends a segment that is old enough, and only ended ones are compacted
        last.flush()
        if not (left := others_before(trial, ends)):
            break
        assert time.monotonic() < until, f"{left} records have not been compacted away"
        time.sleep(0.2)
    job = trial.job(trial.sql(keyed=True))
    trap = trial.published(after=trial.ended(1), call=lambda _: job.kill(), then=Then.DROP)
    job.start()
    hit(trial, job, trap)
    trial.verifier.restarted()
    job.start().finish(PATIENCE)
    trial.hit(f"{8 * others} of {sum(log_ends(trial).values())} offsets are empty", not others_before(trial, ends))
    return trial.outcome(job)


@cell("F11", "compaction gap up to where the job is to stop; made while it is down", properties=_CLEANER)
def gap_at_the_end(trial: Trial) -> Outcome:
    """The stop was resolved when the last records before it were still there."""
    compact(trial)
    share, others = trial.records // 4, trial.records // 16
    writers = {}
    for partition in range(trial.source_partitions):
        made = producer(trial, **{"enable.idempotence": partition % 2 == 0})
        writers[partition] = NumberedWriter(trial.numbered, made)
        writers[partition].write(partition, share)
        writers[partition].others(_OTHERS, partition, 0, others)
        writers[partition].flush()
    ends = log_ends(trial)
    job = trial.job(trial.sql(select="SELECT k, n, h FROM s WHERE k <> 'other'"))
    trap = trial.published(after=trial.ended(trial.before), call=lambda _: job.kill(), then=Then.DROP)
    job.start()
    hit(trial, job, trap, planned=trial.before)
    until = time.monotonic() + PATIENCE
    while left := others_before(trial, ends):
        assert time.monotonic() < until, f"{left} records have not been compacted away"
        for partition, writer in writers.items():
            writer.others(_OTHERS, partition, 0, 1)  # takes the place of all before, and ends their segment
            writer.flush()
        time.sleep(0.2)
    trial.verifier.restarted()
    job.start().finish(PATIENCE)
    assert reached(trial, job) == ends
    trial.hit(f"the last {others} offsets of each partition are empty", not others_before(trial, ends))
    return trial.outcome(job)


# --- control records ---------------------------------------------------------------------------------------------


def marked(trial: Trial, ends: Mapping[int, int]) -> None:
    """Wait until the partitions of the input end there: a broker answers before it writes a transaction's markers."""
    eventually(lambda: log_ends(trial) == ends, PATIENCE, lambda: f"the partitions end at {log_ends(trial)}")


@cell("F11", "control record last, read_uncommitted; killed mid-publish")
def marker_last(trial: Trial) -> Outcome:
    """The last offset of each partition is the marker of a commit, and no record's."""
    writing = producer(trial, f"writer-{trial.tag}")
    writer = NumberedWriter(trial.numbered, writing)
    for _ in range(4):
        writing.begin_transaction()
        for partition in range(trial.source_partitions):
            writer.write(partition, trial.records // 16)
        writing.commit_transaction(PATIENCE)
    ends = dict.fromkeys(range(trial.source_partitions), 4 * (trial.records // 16 + 1))
    marked(trial, ends)
    job = trial.job()
    trap = trial.published(after=trial.ended(trial.before), call=lambda _: job.kill(), then=Then.DROP)
    job.start()
    hit(trial, job, trap, planned=trial.before)
    trial.verifier.restarted()
    job.start().finish(PATIENCE)
    trial.hit("each log ends with a commit's marker, and the job there", reached(trial, job) == ends)
    return trial.outcome(job)


@cell("F11", "control record last, read_committed, aborted and open transactions; killed mid-publish")
def aborted_last(trial: Trial) -> Outcome:
    """Aborted records are as many as a whole batch reads, and all that one partition has. Behind the marker of their
    abort a transaction is open until the job has ended."""
    aborting, late = producer(trial, f"writer-{trial.tag}"), producer(trial, f"late-{trial.tag}")
    writer = NumberedWriter(trial.numbered, aborting)
    for _ in range(2):
        aborting.begin_transaction()
        for partition in range(3):
            writer.write(partition, trial.records // 6)
        aborting.commit_transaction(PATIENCE)
        aborting.begin_transaction()
        for partition in range(trial.source_partitions):
            writer.others(_OTHERS, partition, 0, trial.records // 16)
        writer.flush()
        aborting.abort_transaction(PATIENCE)
    ends = dict.fromkeys(range(trial.source_partitions), 2 * (trial.records // 16 + 1))
    for partition in range(3):
        ends[partition] += 2 * (trial.records // 6 + 1)
    marked(trial, ends)
    late.begin_transaction()
    for partition in range(trial.source_partitions):
        NumberedWriter(trial.numbered, late).others(_OTHERS, partition, 0, 10)
    assert late.flush(PATIENCE) == 0
    job = trial.job(trial.sql(keyed=True, source=COMMITTED))
    trap = trial.published(after=trial.ended(trial.before), call=lambda _: job.kill(), then=Then.DROP)
    job.start()
    hit(trial, job, trap)
    trial.verifier.restarted()
    job.start().finish(PATIENCE)
    trial.hit("each log is stable up to an abort's marker, and the job there", reached(trial, job) == ends)
    late.abort_transaction(PATIENCE)
    return trial.outcome(job)


@cell("F11", "transactions that commit, abort and wait, beside a running job; killed after EndTxn")
def transactions_beside(trial: Trial) -> Outcome:
    """Two writers take turns, so that one's transaction is always open when the other's is ended."""
    writing = [producer(trial, f"writer-{number}-{trial.tag}") for number in range(2)]
    writers = [NumberedWriter(trial.numbered, each) for each in writing]
    turns, aborted = 20, 5

    def take(turn: int) -> None:
        """Open a transaction and end the one before."""
        writing[turn % 2].begin_transaction()
        for partition in range(trial.source_partitions):
            if turn % aborted:
                writers[turn % 2].write(partition, trial.records // (4 * turns))
            else:
                writers[turn % 2].others(_OTHERS, partition, 0, 5)
        writers[turn % 2].flush()
        if turn:
            end(turn - 1)

    def end(turn: int) -> None:
        if turn % aborted:
            writing[turn % 2].commit_transaction(PATIENCE)
        else:
            writing[turn % 2].abort_transaction(PATIENCE)

    job = trial.job(trial.sql(bounded=False, keyed=True, batches=16, source=COMMITTED))  # six in what is there at first
    trap = trial.ended(trial.before + 1, call=lambda _: job.kill(), then=Then.DROP)
    for turn in range(turns // 2):
        take(turn)
    job.start()
    hit(trial, job, trap, planned=trial.before)
    trial.verifier.restarted()
    job.start()
    for turn in range(turns // 2, turns):
        before = trial.numbered.total
        take(turn)
        arrived(trial, job, before)
    end(turns - 1)
    arrived(trial, job, trial.numbered.total)
    job.stop()
    held = "each beside one that was open"
    trial.hit(f"{turns} transactions of others, {turns // aborted} aborted, {held}")
    return trial.outcome(job)


# --- partitions --------------------------------------------------------------------------------------------------


@cell("F11", "partitions added while the job runs; killed mid-publish of their first records")
def partitions_added(trial: Trial) -> Outcome:
    job = trial.job(trial.sql(bounded=False, source=DISCOVERING))
    trial.numbered.write(trial.records // 2)
    job.start()
    arrived(trial, job, trial.numbered.total)
    last = idle(job)
    taken_in = next_end(trial)  # by a batch of nothing
    Administrator(trial).add_partitions(trial.source, 6)
    trial.session.forget_topics([trial.source])
    trial.numbered.add_partitions({4: 0, 5: 0})
    last = idle(job, after=last)
    trap = trial.published(after=taken_in, call=lambda _: job.kill(), then=Then.DROP)
    for partition in (4, 5):
        trial.numbered.write(trial.records // 8, partition=partition)
    hit(trial, job, trap, planned=last + 1)
    trial.verifier.restarted()
    job.start()
    trial.numbered.write(trial.records // 4)
    arrived(trial, job, trial.numbered.total)
    job.stop()
    return trial.outcome(job)


@cell("F11", "partitions added while a job that began with the latest offset is down")
def partitions_added_while_down(trial: Trial) -> Outcome:
    """What is in them was written after the job's start: it belongs to the job from their first record on."""
    trial.numbered.write(trial.records // 4)
    trial.verify(first=dict(trial.numbered.written))
    latest = {**DISCOVERING, "scan.startup.mode": "latest-offset"}
    job = trial.job(trial.sql(bounded=False, source=latest))
    job.start()
    job.wait_for("checkpoint ", PATIENCE)
    before = trial.numbered.total
    trap = trial.published(after=next_end(trial), call=lambda _: job.kill(), then=Then.DROP)
    trial.numbered.write(trial.records // 4)
    hit(trial, job, trap, planned=1)
    Administrator(trial).add_partitions(trial.source, 6)
    trial.session.forget_topics([trial.source])
    trial.numbered.add_partitions({4: 0, 5: 0})
    trial.numbered.write(trial.records // 4)
    trial.verifier.restarted()
    job.start()
    arrived(trial, job, trial.numbered.total - before)
    trial.numbered.write(trial.records // 4)
    arrived(trial, job, trial.numbered.total - before)
    job.stop()
    trial.hit(f"the last batch has {len(reached(trial, job))} partitions", len(reached(trial, job)) == 6)
    return trial.outcome(job)
