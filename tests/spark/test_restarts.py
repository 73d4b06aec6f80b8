"""Jobs that fail and are started again in the same process, and those that must not be."""

from __future__ import annotations

import shutil
import threading
from dataclasses import replace
from datetime import timedelta

import pytest
from pyspark.sql import SparkSession

from penstock import engine
from penstock.errors import (
    CheckpointError,
    CheckpointUnavailableError,
    ExecutionError,
    FencedError,
    OptionsError,
    QueryStoppedError,
    RecordError,
    RetriableError,
)
from penstock.plan.nodes import MapRows
from penstock.settings import FailureRate, FixedDelay
from tests.scans import delete
from tests.spark.conftest import BY_TASKS, spark_jobs
from tests.spark.failpoints import before_commit, failures
from tests.waiting import eventually, while_running

SOON = timedelta(milliseconds=10)
#: A batch is tried so often before the job fails.
ATTEMPTS = 3


def restarted(job, strategy):
    return replace(job, settings=replace(job.settings, restart=strategy))


def failing(job, folder, times, after=-1):
    """``job`` with a function of the user's that fails so many times for batches with an id above ``after``."""
    mark = str(folder / "failures")

    def rows(given):
        given = list(given)
        if any(row[0] > after for row in given):
            with open(mark, "a+") as file:
                file.write(".")
                file.seek(0)
                if len(file.read()) <= times:
                    raise ValueError("the service cannot be reached")
        yield from given

    (sink,) = job.sinks
    return replace(job, sinks=(replace(sink, input=MapRows(sink.input.schema, sink.input, rows)),))


def fail_commits(monkeypatch, times):
    """Lets so many batches fail after their records were published, in a way that is not redone in place."""
    before_commit(monkeypatch, failures(times, lambda: ExecutionError("a failure before the commit")))


def supervisors():
    """The threads that supervise jobs. Another one passes on what the JVM prints."""
    return [
        thread
        for thread in threading.enumerate()
        if thread.name.startswith("penstock ") and thread.name != "penstock jvm"
    ]


def told(jobs):
    """What was said of restarts."""
    return [warning for warning in jobs.warnings if ": restart " in warning]


def ended(running):
    """Waits for the end of a job that ends by itself."""
    while not running.wait(timeout=60):
        pass


def test_a_job_that_fails_twice_is_restarted_twice_and_is_exact(jobs, topics, topic, tmp_path):
    """It has committed a batch before; the counters go on."""
    source, sink = topic(1), topic(1)
    topics.write_ids(source, 100)
    job = failing(jobs.parse(jobs.copy(source, sink, scan_max__records__per__trigger="50")), tmp_path, 2 * ATTEMPTS, 49)
    result = engine.run(restarted(job, FixedDelay(attempts=5, delay=SOON)), jobs.warnings.append)
    assert topics.read_ids(sink) == list(range(100))
    assert not topics.open_transactions(sink)
    done = result.progress
    assert (done.restarts, done.batches, done.records_in, done.records_out) == (2, 2, 100, 100)
    assert "the service cannot be reached" in done.last_failure
    first, second = told(jobs)
    assert first.startswith("job 'job': restart 1 of at most 5 in 0.01 s: ")
    assert second.startswith("job 'job': restart 2 of at most 5 in 0.01 s: ")
    assert "ValueError: the service cannot be reached" in first
    assert not result.stopped
    assert supervisors() == []


def notes(failure):
    """The notes on a failure, but for the one that names the file with the reports of Spark and Python."""
    given = getattr(failure, "__notes__", ())
    return [each for each in given if not each.startswith("what Spark and Python reported is in ")]


def test_without_a_strategy_the_first_failure_ends_the_job(jobs, topics, topic, monkeypatch):
    source, sink = topic(1), topic(1)
    topics.write_ids(source, 10)
    fail_commits(monkeypatch, times=1)
    running = jobs.start(jobs.copy(source, sink))
    with pytest.raises(ExecutionError, match="a failure before the commit") as raised:
        ended(running)
    assert told(jobs) == []
    assert running.progress.restarts == 0
    assert notes(raised.value) == []


def test_a_failure_rate_that_is_exceeded_ends_the_job(jobs, topics, topic, monkeypatch):
    source, sink = topic(1), topic(1)
    topics.write_ids(source, 10)
    fail_commits(monkeypatch, times=100)
    strategy = FailureRate(max_failures_per_interval=2, failure_rate_interval=timedelta(hours=1), delay=SOON)
    running = engine.start(restarted(jobs.parse(jobs.copy(source, sink)), strategy), jobs.warnings.append)
    jobs.started.append(running)
    with pytest.raises(ExecutionError, match="a failure before the commit") as raised:
        ended(running)
    assert running.progress.restarts == len(told(jobs)) == 2
    (note,) = notes(raised.value)
    assert "after 2 restarts" in note
    assert "at most 2 in 1 h" in note
    assert topics.read(sink) == []
    assert not topics.open_transactions(sink)


@pytest.mark.parametrize("bounded", [True, False], ids=["bounded", "streaming"])
@pytest.mark.rule("terminal errors end the job")
def test_a_poison_record_ends_the_job_with_its_position(jobs, topics, topic, bounded):
    """At the first attempt: it would be read again forever."""
    source, sink = topic(1), topic(1)
    topics.write_ids(source, 3)
    topics.write(source, [b"{"])
    strategy = (
        "SET 'restart-strategy.type' = 'fixed-delay';\n"
        "SET 'restart-strategy.fixed-delay.attempts' = '5';\n"
        "SET 'restart-strategy.fixed-delay.delay' = '10 ms';\n"
    )
    running = jobs.start(BY_TASKS + strategy + jobs.copy(source, sink, bounded=bounded))
    with pytest.raises(RecordError, match=f"topic '{source}', partition 0, offset 3") as raised:
        ended(running)
    assert (raised.value.topic, raised.value.partition, raised.value.offset) == (source, 0, 3)
    assert (running.progress.restarts, told(jobs)) == (0, [])
    (note,) = notes(raised.value)
    assert "after 0 restarts: a restart would not help" in note
    assert len(spark_jobs(running)) == 1
    assert topics.read(sink) == []
    assert not topics.open_transactions(sink)


@pytest.mark.parametrize("claimed", [True, False], ids=["by another run", "by a producer without a claim"])
@pytest.mark.rule("terminal errors end the job")
def test_a_job_whose_id_was_taken_is_restarted_only_if_no_run_has_it(jobs, kafka, topics, topic, claimed):
    """Two runs that restart would take the id from each other forever; what left no claim is none."""
    from penstock.kafka.ownership import claim
    from penstock.kafka.progress import ProgressTopic
    from penstock.kafka.properties import ClientConfig
    from penstock.kafka.session import session_for
    from penstock.kafka.transactions import TransactionClient

    source, sink = topic(1), topic(1)
    topics.write_ids(source, 10)
    job = restarted(jobs.parse(jobs.copy(source, sink, bounded=False)), FixedDelay(attempts=5, delay=SOON))
    running = engine.start(job, jobs.warnings.append)
    jobs.started.append(running)
    while_running(running, lambda: running.progress.records_out >= 10)
    session = session_for(ClientConfig.from_properties({"bootstrap.servers": kafka.bootstrap}))
    other = TransactionClient(session, f"tx-{sink}-job", 60_000)
    other.init()
    if claimed:
        progress = session.topic("__penstock_progress")
        claim(session, other, ProgressTopic(progress.name, progress.topic_id, len(progress.partitions)), "run-2")
    topics.write_ids(source, 10, start=10)
    if claimed:
        with pytest.raises(FencedError, match="was taken over by run run-2"):
            ended(running)
        assert told(jobs) == []
        assert topics.read_ids(sink) == list(range(10))
    else:
        while_running(running, lambda: len(topics.read(sink)) >= 20)
        assert "a producer that left no claim" in " ".join(told(jobs))
        assert topics.read_ids(sink) == list(range(20))
    assert running.progress.restarts == (0 if claimed else 1)


@pytest.mark.parametrize("returns", [True, False], ids=["for a moment", "for good"])
def test_a_restart_does_not_take_an_empty_checkpoint_for_a_new_job(jobs, topics, topic, monkeypatch, tmp_path, returns):
    """Its volume fails, and is unmounted: where it was is an empty folder, until it is mounted again."""
    from penstock.connectors.kafka.sink.committer import KafkaCommitter

    publish, volume, elsewhere = KafkaCommitter.publish, jobs.checkpoint(), tmp_path / "elsewhere"

    def unmount(self, batch, frame):
        if batch.id == 0:
            return publish(self, batch, frame)
        monkeypatch.setattr(KafkaCommitter, "publish", publish)
        volume.rename(elsewhere)
        raise CheckpointUnavailableError("the volume does not answer")

    def warn(text):
        jobs.warnings.append(text)
        if returns and "is its volume still mounted" in text and elsewhere.exists():
            shutil.rmtree(volume, ignore_errors=True)
            elsewhere.rename(volume)

    monkeypatch.setattr(KafkaCommitter, "publish", unmount)
    source, sink = topic(1), topic(1)
    topics.write_ids(source, 10)
    job = restarted(jobs.parse(jobs.copy(source, sink, bounded=False)), FixedDelay(attempts=3, delay=SOON))
    running = engine.start(job, warn)
    jobs.started.append(running)
    while_running(running, lambda: running.progress.records_out >= 10 and jobs.idle())
    topics.write_ids(source, 10, start=10)
    if returns:
        while_running(running, lambda: running.progress.records_out >= 20)
    else:
        with pytest.raises(CheckpointUnavailableError, match="is its volume still mounted"):
            ended(running)
    assert topics.read_ids(sink) == list(range(20 if returns else 10))


def test_a_copy_of_a_checkpoint_does_not_shut_out_the_job_that_it_was_copied_from(jobs, topics, topic):
    source, sink = topic(1), topic(1)
    topics.write_ids(source, 10)
    sql = jobs.copy(source, sink, bounded=False)
    running = jobs.start(sql)
    while_running(running, lambda: running.progress.records_out >= 10 and jobs.idle())
    shutil.copytree(jobs.checkpoint(), jobs.checkpoint("other"))
    with pytest.raises(CheckpointError, match="belongs to job 'job', or is a copy of its checkpoint"):
        jobs.start(sql, "other")
    topics.write_ids(source, 10, start=10)
    while_running(running, lambda: running.progress.records_out >= 20)
    assert topics.read_ids(sink) == list(range(20))


@pytest.mark.rule("one copy has the lease")
def test_after_another_copy_that_has_planned_a_batch_the_owner_goes_on(jobs, topics, topic):
    """The copy has planned batch 1; it is at-least-once, so that no transactional id tells the two apart."""
    source, sink = topic(1), topic(1)
    topics.write_ids(source, 10)
    sql = (
        jobs.table("s", "id BIGINT", source, scan_startup_mode="earliest-offset")
        + jobs.table("t", "id BIGINT", sink)
        + "INSERT INTO t SELECT * FROM s;"
    )
    running = engine.start(jobs.parse(sql), jobs.warnings.append)
    jobs.started.append(running)
    while_running(running, jobs.idle)
    offsets = jobs.checkpoint() / "offsets"
    (offsets / "1").write_bytes((offsets / "0").read_bytes())
    topics.write_ids(source, 10, start=10)
    while_running(running, lambda: running.progress.records_out >= 20)
    assert topics.read_ids(sink) == list(range(20))
    (restart,) = told(jobs)
    assert "another copy of job 'job' writes the checkpoint" in restart


@pytest.mark.rule("one copy has the lease")
def test_an_idle_job_ends_when_it_sees_that_another_copy_has_the_lease(jobs, topics, topic):
    source, sink = topic(1), topic(1)
    topics.write_ids(source, 10)
    running = jobs.start(jobs.copy(source, sink, bounded=False))
    while_running(running, jobs.idle)
    (owner,) = (jobs.checkpoint() / "penstock").glob("owner.*.json")
    owner.with_name("owner.2.json").write_bytes(owner.read_bytes())
    with pytest.raises(FencedError, match="this copy ends"):
        ended(running)


def adopting(jobs, source, sink, progress):
    """A stream in batches of 10 with a progress topic of its own, told to go on whatever that knows."""
    sql = jobs.copy(source, sink, bounded=False, scan_max__records__per__trigger="10")
    job = jobs.parse(f"SET 'penstock.progress-topic' = '{progress}';\nSET 'penstock.adopt-progress' = 'true';\n{sql}")
    return restarted(job, FixedDelay(attempts=5, delay=SOON))


def started_adopting(jobs, kafka_admin, topics, topic, monkeypatch, failing_batch, first=lambda _: None):
    """A job that has published one batch, started again when its progress topic was lost. In that start the batch
    ``failing_batch`` fails once, after what ``first`` does with the name of the topic that it has then."""
    source, sink = topic(1), topic(1)
    topics.write_ids(source, 10)
    running = engine.start(adopting(jobs, source, sink, f"old-{sink}"), jobs.warnings.append)
    while_running(running, jobs.idle)
    running.stop()
    topics.write_ids(source, 20, start=10)
    delete(kafka_admin, f"old-{sink}")
    fail_commit_of(monkeypatch, failing_batch, lambda: first(f"new-{sink}"))
    running = engine.start(adopting(jobs, source, sink, f"new-{sink}"), jobs.warnings.append)
    jobs.started.append(running)
    return running, sink


def fail_commit_of(monkeypatch, number, first):
    """Lets one attempt at a batch fail before its commit, in a way that is not redone in place, after ``first``."""
    left = [1]

    def fail(batch):
        if batch.id == number and left:
            left.clear()
            first()
            raise ExecutionError("a failure before the commit")

    before_commit(monkeypatch, fail)


def test_a_job_that_adopts_progress_still_does_when_it_is_restarted_before_its_first_commit(
    jobs, kafka_admin, topics, topic, monkeypatch
):
    running, sink = started_adopting(jobs, kafka_admin, topics, topic, monkeypatch, failing_batch=1)
    while_running(running, lambda: running.progress.batches == 2)
    assert len(told(jobs)) == 1
    assert topics.read_ids(sink) == list(range(30))
    assert not running._query(running.progress, "").job.settings.adopt_progress  # nor would a further restart


@pytest.mark.parametrize("batch", [1, 2], ids=["before its first commit", "after its first commit"])
def test_a_restart_does_not_adopt_a_progress_topic_that_was_lost_since_the_start(
    jobs, kafka_admin, topics, topic, monkeypatch, batch
):
    """``--adopt-progress`` is a word on what was lost before the job was started."""

    def lose(progress):
        delete(kafka_admin, progress)

    running, sink = started_adopting(jobs, kafka_admin, topics, topic, monkeypatch, batch, lose)
    with pytest.raises(CheckpointError, match="is gone, and the record of published batches is lost"):
        while_running(running, lambda: len(topics.read(sink)) == 30)
    assert len(told(jobs)) == 1
    assert topics.read_ids(sink) == list(range(10 * batch))


def test_start_time_is_not_told_to_be_of_no_use_by_a_restart(jobs, topics, topic, monkeypatch):
    source, sink = topic(1), topic(1)
    topics.write_ids(source, 10)
    fail_commits(monkeypatch, times=1)
    job = restarted(jobs.parse(jobs.copy(source, sink)), FixedDelay(attempts=5, delay=SOON))
    job = replace(job, settings=replace(job.settings, start_time=0))
    engine.run(job, jobs.warnings.append)
    assert len(told(jobs)) == 1
    assert not [each for each in jobs.warnings if "--start-time" in each]
    assert topics.read_ids(sink) == list(range(10))


def test_stopping_ends_the_pause_before_a_restart(jobs, topics, topic, monkeypatch):
    source, sink = topic(1), topic(1)
    topics.write_ids(source, 10)
    fail_commits(monkeypatch, times=1)
    strategy = FixedDelay(delay=timedelta(days=1))
    running = engine.start(restarted(jobs.parse(jobs.copy(source, sink)), strategy), jobs.warnings.append)
    jobs.started.append(running)
    while_running(running, lambda: told(jobs))
    running.stop()
    assert running.wait(timeout=0)
    result = running.result()
    assert result.stopped
    assert (result.progress.restarts, result.progress.last_failure) == (0, "a failure before the commit")
    assert supervisors() == []


@pytest.mark.parametrize("error", [FencedError, RetriableError])
def test_what_a_restart_does_not_heal_is_told_of_a_job_that_is_being_stopped(jobs, topics, topic, monkeypatch, error):
    from penstock.connectors.kafka.sink.committer import KafkaCommitter

    publishing = threading.Event()

    def fail_when_stopped(self, batch, frame):
        publishing.set()
        eventually(self.context.stopping)
        raise error("it came while the job was being stopped")

    monkeypatch.setattr(KafkaCommitter, "publish", fail_when_stopped)
    source, sink = topic(1), topic(1)
    topics.write_ids(source, 10)
    running = jobs.start(jobs.copy(source, sink))
    while_running(running, publishing.is_set)
    running.stop()
    if error is FencedError:
        with pytest.raises(FencedError, match="while the job was being stopped"):
            running.wait()
    else:
        assert running.wait()
    assert running.result().stopped


# --- what closing a run fails with ---------------------------------------------------------------------------


def fail_closings(monkeypatch, times):
    """Lets so many sources fail when they are closed, after they are."""
    from penstock.connectors.kafka.spark.scan import KafkaScan

    original, left = KafkaScan.close, [times]

    def close(self):
        original(self)
        if left[0]:
            left[0] -= 1
            raise OSError("the disk is away")

    monkeypatch.setattr(KafkaScan, "close", close)


CLOSED_BADLY = "job 'job' was not closed properly: the disk is away"


def test_a_job_that_has_read_everything_has_not_failed_because_closing_it_did(jobs, topics, topic, monkeypatch):
    source, sink = topic(1), topic(1)
    topics.write_ids(source, 10)
    fail_closings(monkeypatch, times=2)  # the job is closed when it has ended, and again when it is stopped
    result = jobs.run(jobs.copy(source, sink))
    assert not result.stopped
    assert topics.read_ids(sink) == list(range(10))
    assert jobs.warnings == [CLOSED_BADLY]


def test_stopping_a_job_whose_closing_fails_tells_that_and_ends_it(jobs, topics, topic, monkeypatch):
    """All that is open is closed, whatever of it fails."""
    from penstock.connectors.kafka.sink.committer import KafkaCommitter

    source, sink = topic(1), topic(1)
    topics.write_ids(source, 10)
    running = jobs.start(jobs.copy(source, sink, bounded=False))
    while_running(running, jobs.idle)
    fail_closings(monkeypatch, times=1)
    monkeypatch.setattr(KafkaCommitter, "close", lambda _: (_ for _ in ()).throw(RetriableError("no answer")))
    running.stop()
    assert running.wait(timeout=0)
    assert running.result().stopped
    assert supervisors() == []
    assert "job 'job' was not closed properly: no answer; the disk is away" in jobs.warnings


def test_figures_that_cannot_be_gathered_fail_nothing_and_are_told_of_once(jobs, topics, topic, monkeypatch):
    from penstock.engine.runs.reports import Reports

    def deliver(*_):
        raise CheckpointError("'offsets/0' cannot be read")

    monkeypatch.setattr(Reports, "deliver", deliver)
    source, sink = topic(1), topic(1)
    topics.write_ids(source, 20)
    running = jobs.start(jobs.copy(source, sink, scan_max__records__per__trigger="10"))
    ended(running)
    assert running.metrics is not None
    assert not running.result().stopped
    assert topics.read_ids(sink) == list(range(20))
    assert jobs.warnings == [
        "job 'job': its metrics and watermarks lack the reports of a batch: 'offsets/0' cannot be read"
    ]


# --- queries that somebody else stops ------------------------------------------------------------------------


def stop_queries():
    """Stops Spark's queries as a cell of a notebook may."""
    for query in SparkSession.getActiveSession().streams.active:
        query.stop()


def test_a_stream_that_somebody_else_stops_has_not_finished(jobs, topics, topic):
    source, sink = topic(1), topic(1)
    topics.write_ids(source, 10)
    running = jobs.start(jobs.copy(source, sink, bounded=False))
    while_running(running, jobs.idle)
    stop_queries()
    with pytest.raises(QueryStoppedError, match="something other than penstock stopped its query"):
        ended(running)
    assert running.result().stopped


def test_a_bounded_job_that_somebody_else_stops_has_not_finished(jobs, topics, topic):
    """Its rate makes it last a minute."""
    source, sink = topic(1), topic(1)
    topics.write_ids(source, 60)
    running = jobs.start(jobs.copy(source, sink, scan_max__records__per__second="1"))
    while_running(running, lambda: running.progress.batches)
    stop_queries()
    with pytest.raises(ExecutionError):
        ended(running)
    assert running.result().stopped
    assert running.progress.records_out < 60
    jobs.run(jobs.copy(source, sink))
    assert topics.read_ids(sink) == list(range(60))


def test_a_query_that_somebody_else_stopped_is_not_started_again(jobs, topics, topic):
    """Two sessions that run one job stop each other's query: with a strategy each they would do so forever."""
    source, sink = topic(1), topic(1)
    topics.write_ids(source, 10)
    job = restarted(jobs.parse(jobs.copy(source, sink, bounded=False)), FixedDelay(attempts=5, delay=SOON))
    running = engine.start(job, jobs.warnings.append)
    jobs.started.append(running)
    while_running(running, jobs.idle)
    stop_queries()
    with pytest.raises(QueryStoppedError, match="something other than penstock stopped its query"):
        ended(running)
    assert running.progress.restarts == 0
    assert told(jobs) == []


def test_failures_while_starting_again_count_and_those_of_the_first_start_end_it(jobs, topics, topic, monkeypatch):
    """As a broker that cannot be reached would cause them."""
    from penstock.connectors.kafka.sink.committer import KafkaCommitter

    source, sink = topic(1), topic(1)
    topics.write_ids(source, 10)
    opened, failures, original = [], {1: True, 3: True, 4: True}, KafkaCommitter.open

    def open_sometimes(self):
        opened.append(self)
        if failures.get(len(opened)):
            raise RetriableError("no broker answers")
        original(self)

    def fail_once(_):
        if len(opened) == 2:
            raise ExecutionError("a failure of another kind")

    monkeypatch.setattr(KafkaCommitter, "open", open_sometimes)
    before_commit(monkeypatch, fail_once)
    job = restarted(jobs.parse(jobs.copy(source, sink)), FixedDelay(attempts=3, delay=SOON))
    with pytest.raises(RetriableError, match="no broker answers"):
        engine.run(job, jobs.warnings.append)
    assert told(jobs) == []
    result = engine.run(job, jobs.warnings.append)
    assert [text.rpartition(": ")[2] for text in told(jobs)] == [
        "a failure of another kind",
        "no broker answers",
        "no broker answers",
    ]
    assert (result.progress.restarts, result.progress.last_failure) == (3, "no broker answers")
    assert topics.read_ids(sink) == list(range(10))


def test_restarts_leave_no_threads_behind(jobs, topics, topic, monkeypatch):
    source, sink = topic(1), topic(1)
    topics.write_ids(source, 10)
    fail_commits(monkeypatch, times=4)
    threads = []

    def count(text):
        if ": restart " in text:
            threads.append(threading.active_count())

    engine.run(restarted(jobs.parse(jobs.copy(source, sink)), FixedDelay(attempts=4, delay=SOON)), count)
    assert len(threads) == 4
    # A connection of the JVM's that is not used any more is closed at the restart after the next.
    assert threads[-1] <= threads[0] + 1, threads


@pytest.mark.rule("one identity per job")
def test_a_second_job_of_the_same_name_is_refused_before_it_fences_the_first(jobs, topics, topic):
    source, sink = topic(1), topic(1)
    topics.write_ids(source, 10)
    sql = jobs.copy(source, sink, bounded=False)
    running = jobs.start(sql)
    with pytest.raises(OptionsError, match="a job of this name already runs in this process"):
        jobs.start(sql)
    while_running(running, lambda: running.progress.records_out >= 10)
    topics.write_ids(source, 10, start=10)
    while_running(running, lambda: running.progress.records_out >= 20)
    assert topics.read_ids(sink) == list(range(20))
