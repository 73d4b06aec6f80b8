"""The rules of the exactly-once protocol that live between Spark's checkpoint and Kafka's transactions."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
from collections import defaultdict

import pytest

from penstock.errors import (
    AbortableError,
    CheckpointError,
    FencedError,
    PossibleDataLossError,
    RecordError,
)
from tests.spark.conftest import BY_TASKS, spark_jobs
from tests.spark.failpoints import before_commit, failures
from tests.waiting import eventually, while_running

COLUMNS = "id BIGINT"


@pytest.mark.rule("starts are resolved once")
def test_starts_are_resolved_once_before_batch_0(jobs, topics, topic, monkeypatch):
    """A job that reads from the latest offset dies in batch 0; what arrived meanwhile is read when it comes back."""
    source, sink = topic(1), topic(1)
    topics.write_ids(source, 5)
    sql = jobs.copy(source, sink, bounded=False, scan_startup_mode="latest-offset")
    fail_publishing(monkeypatch, times=100)
    running = jobs.start(sql)
    topics.write_ids(source, 5, start=100)
    with pytest.raises(AbortableError):
        while_running(running, lambda: False)
    running.stop()
    topics.write_ids(source, 5, start=200)
    monkeypatch.undo()
    again = jobs.start(sql)
    while_running(again, lambda: len(topics.read(sink)) >= 10)
    assert topics.read_ids(sink) == [*range(100, 105), *range(200, 205)]


def fail_publishing(monkeypatch, times):
    """Lets the transaction of a batch fail after its records were published, before it is committed."""
    error = AbortableError("a failure between publishing and committing")
    before_commit(monkeypatch, failures(times, lambda: error))


@pytest.mark.rule("batches are redone in place")
@pytest.mark.rule("dead letters join the transaction")
def test_batches_are_redone_in_place_and_counted_once(jobs, topics, topic, monkeypatch):
    """What was read, what could not be decoded and where that went: all of two attempts that nobody has seen."""
    source, sink, dead = topic(2), topic(2), topic(1)
    for partition in range(2):
        topics.write_ids(source, 250, start=250 * partition, partition=partition)
        topics.write(source, [b"{"], partition=partition)
    fail_publishing(monkeypatch, times=2)
    running = jobs.start(jobs.copy(source, sink, scan_dead__letter_topic=dead))
    while not running.wait(timeout=1):
        pass
    running.stop()
    assert [message.value for message in topics.read(dead)] == [b"{"] * 2
    counted = {name: running.metrics[f"operator.{name}"] for name in ("s.numRecordsIn", "s.numRecordsInErrors")}
    assert counted == {"s.numRecordsIn": 502, "s.numRecordsInErrors": 2}
    assert running.metrics["operator.s.dead-letters.numRecordsOut"] == 2
    assert topics.read_ids(sink) == list(range(500))
    assert len(topics.read(sink, "read_uncommitted")) == 1500  # two aborted attempts are in the log, unseen
    assert sum("is retried" in warning for warning in jobs.warnings) == 2
    assert not topics.open_transactions(sink)


@pytest.mark.rule("progress decides")
def test_a_committed_batch_that_spark_replays_is_skipped(jobs, topics, topic):
    """Killed after EndTxn and before Spark's commit log: Spark replays the batch, progress knows it as done."""
    source, sink = topic(2), topic(2)
    topics.write_ids(source, 300)
    sql = jobs.copy(source, sink, scan_max__records__per__trigger="100")
    jobs.run(sql)
    forget_the_last_commit(jobs.checkpoint())
    result = jobs.run(sql)
    assert result.progress.batches == 1
    assert result.progress.records_out == 0
    assert topics.read_ids(sink) == list(range(300))


def forget_the_last_commit(checkpoint):
    """As if the job had been killed after EndTxn and before Spark's commit log."""
    commits = sorted((checkpoint / "commits").glob("[0-9]*"), key=lambda path: int(path.name))
    commits[-1].unlink()


@pytest.mark.rule("skip publishing only")
def test_a_batch_is_not_skipped_for_a_table_that_did_not_get_it(jobs, topics, topic):
    """It came to the cluster's transaction after the batch was committed, and before Spark knew."""
    source, sink, new = topic(1), topic(1), topic(1)
    topics.write_ids(source, 10)
    first = jobs.copy(source, sink)
    both = (
        jobs.bounded("s", "id BIGINT", source)
        + jobs.exactly_once("t", "id BIGINT", sink)
        + jobs.exactly_once("u", "id BIGINT", new, sink_transactional__id__prefix=f"tx-{sink}")
        + "EXECUTE STATEMENT SET BEGIN INSERT INTO t SELECT * FROM s; INSERT INTO u SELECT * FROM s; END;"
    )
    jobs.run(first)
    forget_the_last_commit(jobs.checkpoint())
    with pytest.raises(
        CheckpointError, match=r"batch 0 .* not into .*u.*Start the job once with its former definition"
    ):
        jobs.run(both)
    jobs.run(first)
    jobs.run(both)  # goes on behind batch 0
    assert topics.read_ids(sink) == list(range(10))
    assert topics.read_ids(new) == []


@pytest.mark.rule("one identity per job")
def test_a_checkpoint_is_bound_to_its_source(jobs, topics, topic):
    source, other, sink = topic(1), topic(1), topic(1)
    topics.write_ids(source, 10)
    jobs.run(jobs.copy(source, sink))
    with pytest.raises(CheckpointError, match="belongs to another source"):
        jobs.run(jobs.copy(other, sink))


@pytest.mark.rule("skip publishing only")
def test_a_skipped_batch_starts_no_job(jobs, topics, topic):
    """Plans without state or watermark may skip a committed batch at once."""
    source, sink = topic(1), topic(1)
    topics.write_ids(source, 10)
    sql = BY_TASKS + jobs.copy(source, sink)
    jobs.run(sql)
    (jobs.checkpoint() / "commits" / "0").unlink()
    first = jobs.start(sql, "another")  # a query that has to write the batch
    while_running(first, lambda: first.progress.batches == 1)
    running = jobs.start(sql)
    while_running(running, lambda: running.progress.batches == 1)
    assert running.progress.records_out == 0
    assert spark_jobs(first) != []
    assert spark_jobs(running) == []


@pytest.mark.slow
@pytest.mark.rule("fence, claim, then read")
@pytest.mark.rule("terminal errors end the job")
def test_the_former_owner_is_fenced_and_stops(jobs, topics, topic, tmp_path):
    """A copy of a running job from a copy of its checkpoint takes the transactional id; the first must end loudly."""
    source, sink = topic(1), topic(1)
    topics.write_ids(source, 10)
    sql = jobs.copy(source, sink, bounded=False)
    first = jobs.start(sql)
    while_running(first, lambda: first.progress.records_out == 10 and jobs.idle())
    jobs.copy_checkpoints(tmp_path / "copy")
    file = tmp_path / "job.sql"
    file.write_text(f"SET 'pipeline.name' = 'job';\n{sql}")
    command = [sys.executable, "-m", "penstock.cli.main", "run", str(file), "--checkpoint-dir", str(tmp_path / "copy")]
    refused = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert refused.returncode == 4
    assert f"or a copy of it: process {os.getpid()} on" in refused.stderr
    command.append("--take-over")
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as second:
        try:
            said = []
            while not any("checkpoint" in line for line in said):  # it owns the transactional id by then
                said.append(second.stderr.readline())
                assert said[-1], f"the copy ended: {said}"
            topics.write_ids(source, 10, start=10)
            with pytest.raises(FencedError) as raised:
                while_running(first, lambda: False)
            assert f"process {second.pid} on" in str(raised.value)
            eventually(lambda: len(topics.read(sink)) >= 20)
        finally:
            second.send_signal(signal.SIGTERM)
            second.communicate(timeout=120)
        assert second.returncode == 0
    assert topics.read_ids(sink) == list(range(20))
    assert not topics.open_transactions(sink)


@pytest.mark.rule("source order is kept")
def test_order_is_kept_within_a_key_over_many_tasks(jobs, topics, topic):
    """200,000 records of 50 keys from 4 partitions by way of several tasks into 3 partitions."""
    source, sink = topic(4), topic(3)
    count = 50_000
    for partition in range(4):
        values = [{"k": partition * 100 + i % 50, "n": i} for i in range(count)]
        topics.write(source, values, partition=partition)
    jobs.run(
        jobs.bounded("s", "k INT, n INT", source)
        + jobs.exactly_once("t", "k INT, n INT", sink, key_format="json", key_fields="k", value_format="json").replace(
            "'format' = 'json', ", ""
        )
        + "INSERT INTO t SELECT * FROM s;"
    )
    by_key = defaultdict(list)
    partitions = defaultdict(set)
    for message in topics.read(sink):
        row = message.json
        by_key[row["k"]].append(row["n"])
        partitions[row["k"]].add(message.partition)
    assert sum(map(len, by_key.values())) == 4 * count
    assert all(numbers == sorted(numbers) for numbers in by_key.values())
    assert all(len(places) == 1 for places in partitions.values())


@pytest.mark.rule("batches fit the topic")
def test_a_record_that_is_too_large_is_named(jobs, topics, topic):
    source, sink = topic(2), topic(1, configs={"max.message.bytes": "2000"})
    topics.write(source, [{"id": 1, "text": "x"}], partition=0)
    topics.write(source, [{"id": 2, "text": "x" * 10}, {"id": 3, "text": "y" * 5000}], partition=1)
    with pytest.raises(RecordError) as raised:
        jobs.run(
            jobs.bounded("s", "id INT, text STRING", source)
            + jobs.exactly_once("t", "id INT, text STRING", sink)
            + "INSERT INTO t SELECT * FROM s;"
        )
    assert (raised.value.topic, raised.value.partition, raised.value.offset) == (source, 1, 1)
    assert topics.read(sink) == []
    assert not topics.open_transactions(sink)


@pytest.mark.rule("tasks run once")
def test_a_stage_that_ran_twice_aborts_the_batch(jobs, topics, topic, monkeypatch):
    from penstock.engine.runs import task_runs

    source, sink = topic(1), topic(1)
    topics.write_ids(source, 10)
    verdicts = ["Spark ran a stage of the batch twice", ""]
    monkeypatch.setattr(task_runs, "find_repeated_runs", lambda context, tag: verdicts.pop(0))
    jobs.run(BY_TASKS + jobs.copy(source, sink))
    assert verdicts == []
    assert "batch 0 is retried: Spark ran a stage of the batch twice" in jobs.warnings
    assert topics.read_ids(sink) == list(range(10))
    assert len(topics.read(sink, "read_uncommitted")) == 20


@pytest.mark.parametrize("when", ["before the batch", "during the batch"])
def test_an_entry_of_sparks_log_that_another_copy_replaced_is_noticed(jobs, topics, topic, monkeypatch, when):
    """A copy that was stopped between its look for the entry and its renaming writes over what this one has planned."""
    from penstock.engine.checkpoint import JobCheckpoint

    source, sink = topic(1), topic(1)
    topics.write_ids(source, 300)

    def replace_entry(number):
        entry = jobs.checkpoint() / "offsets" / str(number)
        if number == 1:
            *head, end = entry.read_text().split("\n")
            entry.write_text("\n".join([*head, end.replace('"offset": 200', '"offset": 150')]))

    offsets, read = JobCheckpoint.offsets, []

    def read_offsets(self, number):
        if when == "before the batch" and number not in read:
            read.append(number)
            replace_entry(number)
        return offsets(self, number)

    monkeypatch.setattr(JobCheckpoint, "offsets", read_offsets)
    if when == "during the batch":
        before_commit(monkeypatch, lambda batch: replace_entry(batch.id))
    sql = jobs.copy(source, sink, scan_max__records__per__trigger="100")
    told = r"another copy of job 'job' .* 'offsets/1' ends at .*150.* planned .*200"
    if when == "before the batch":  # nothing was published from the entry that was replaced: the job goes on from that
        jobs.run(sql)
        assert any(re.search(rf"restart 1 in 0 s: {told}", warning) for warning in jobs.warnings)
        assert topics.read_ids(sink) == list(range(300))
        return
    with pytest.raises(CheckpointError, match=told):
        jobs.run(sql)
    assert topics.read_ids(sink) == list(range(200))
    monkeypatch.undo()
    with pytest.raises(PossibleDataLossError, match="Restore that checkpoint"):  # the entry does not fit progress
        jobs.run(sql)
    assert topics.read_ids(sink) == list(range(200))


def test_stopping_leaves_no_transaction_open(jobs, topics, topic):
    source, sink = topic(2), topic(2)
    topics.write_ids(source, 2000)
    running = jobs.start(jobs.copy(source, sink, bounded=False, scan_max__records__per__trigger="50"))
    while_running(running, lambda: running.progress.records_out > 0)
    other = threading.Thread(target=running.stop)
    other.start()
    running.stop()
    other.join()
    assert not topics.open_transactions(sink)
    seen = topics.read_ids(sink)
    assert len(seen) == len(set(seen))
    again = jobs.start(jobs.copy(source, sink, bounded=False))
    while_running(again, lambda: len(topics.read_ids(sink)) >= 2000)
    assert topics.read_ids(sink) == list(range(2000))
