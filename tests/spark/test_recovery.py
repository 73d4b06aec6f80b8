"""Ways in which a restart, a take-over or a lost process could have repeated or lost records unnoticed."""

from __future__ import annotations

import json
import os
import shutil
import uuid
from dataclasses import replace
from pathlib import Path

import pytest

from penstock.errors import CheckpointError, ExecutionError, FencedError, PossibleDataLossError, RetriableError
from penstock.plan.nodes import MapRows
from tests.scans import recreate
from tests.waiting import while_running


def session_of(kafka):
    from penstock.kafka.properties import ClientConfig
    from penstock.kafka.session import session_for

    return session_for(ClientConfig.from_properties({"bootstrap.servers": kafka.bootstrap}))


def commit(session, client, topic, batch_id):
    from penstock.delivery import Progress
    from penstock.kafka.produce import Producer
    from penstock.kafka.progress import encode_progress

    with Producer(session, client.begin(), transactional_id=client.transactional_id) as producer:
        progress = Progress("q", batch_id, {"at": batch_id}, {"at": batch_id + 1})
        producer.submit(topic.name, *encode_progress(topic, client.transactional_id, progress))
        producer.flush()
    client.commit()


@pytest.mark.rule("outcomes are never guessed")
def test_a_copy_that_took_over_while_the_outcome_was_looked_up_is_not_overtaken(kafka, topic, monkeypatch):
    """Stopped (SIGSTOP) between asking who owns the id and taking a new epoch. Meanwhile a copy publishes batches 1
    and 2. Redoing batch 1 would repeat its records."""
    from penstock.delivery import Progress
    from penstock.kafka import ownership
    from penstock.kafka.ownership import claim, settle
    from penstock.kafka.progress import ProgressTopic
    from penstock.kafka.transactions import State, TransactionClient, describe_transaction

    session, name = session_of(kafka), topic(1, configs={"cleanup.policy": "compact"})
    place = ProgressTopic(name, session.topic(name).topic_id, 1)
    client = TransactionClient(session, f"tx-{name}", 60_000)
    client.init()
    claim(session, client, place, "run-1")
    commit(session, client, place, 0)
    client.begin()
    client.state = State.UNKNOWN

    def stopped_for_a_while(*args, **kwargs):
        seen = describe_transaction(*args, **kwargs)
        other = TransactionClient(session, client.transactional_id, 60_000)
        other.init()
        claim(session, other, place, "run-2")
        commit(session, other, place, 1)
        commit(session, other, place, 2)
        return seen

    monkeypatch.setattr(ownership, "describe_transaction", stopped_for_a_while)
    with pytest.raises(FencedError):
        settle(session, client, place, Progress("q", 1, {"at": 1}, {"at": 2}), "run-1")


def test_f11_a_topic_created_anew_with_more_partitions_is_noticed(kafka, kafka_admin, jobs, topics, topic):
    """Discovery of the new partitions must not make the new topic's id the expected one."""
    from penstock.connectors.kafka.source.enumerator import Enumerator, ReaderSpec
    from penstock.connectors.kafka.source.starts_and_stops import resolve_start

    name = topic(1)
    topics.write_ids(name, 10)
    job = jobs.parse(jobs.copy(name, topic(1), bounded=False, scan_topic__partition__discovery_interval="1 ms"))
    scan = job.sinks[0].input.spec
    session = session_of(kafka)
    start = resolve_start(session, scan)
    enumerator = Enumerator(ReaderSpec(scan, 0, 1, start, None))
    at = enumerator.latest(start)
    assert at.at[name, 0].offset == 10

    recreate(kafka_admin, name, 2)
    topics.write_ids(name, 20, start=100, partition=0)  # ten of them lie below the position

    def plan_three_batches():
        position = at
        for _ in range(3):
            position = enumerator.latest(position)

    with pytest.raises(PossibleDataLossError, match="recreated"):
        plan_three_batches()


def test_an_error_before_the_transaction_has_begun_is_told(jobs, topics, topic, monkeypatch):
    from penstock.kafka import transactions

    source, sink = topic(1), topic(1)
    topics.write_ids(source, 10)
    original, asked = transactions.transaction_version, []

    def fail(*args, **kwargs):
        asked.append(None)
        if len(asked) > 3:  # after init and claim
            raise RetriableError("asking for the cluster's features: no broker answers")
        return original(*args, **kwargs)

    monkeypatch.setattr(transactions, "transaction_version", fail)
    with pytest.raises(RetriableError, match="no broker answers"):
        jobs.run(jobs.copy(source, sink, scan_max__records__per__trigger="3"))


@pytest.mark.rule("batches are redone in place")
def test_f2_a_batch_whose_worker_was_killed_is_redone(jobs, topics, topic, tmp_path):
    source, sink = topic(1), topic(1)
    topics.write_ids(source, 100)
    mark = str(tmp_path / "killed")

    def rows(given):
        if not Path(mark).exists():
            Path(mark).touch()
            os.kill(os.getpid(), 9)
        yield from given

    job = jobs.parse(jobs.copy(source, sink))
    (written,) = job.sinks
    mapped = MapRows(written.input.schema, written.input, rows)
    from penstock import engine

    engine.run(replace(job, sinks=(replace(written, input=mapped),)), jobs.warnings.append)
    assert topics.read_ids(sink) == list(range(100))
    assert any("is retried" in warning for warning in jobs.warnings)


@pytest.mark.parametrize("lost", ["job.json", "source-0.json"])
def test_f7_a_document_missing_beside_an_unfinished_first_batch_stops_the_job(jobs, topics, topic, lost):
    """Batch 0 is committed in Kafka and planned, but not committed, in the checkpoint."""
    source, sink = topic(1), topic(1)
    topics.write_ids(source, 10)
    sql = jobs.copy(source, sink)
    jobs.run(sql)
    (jobs.checkpoint() / "commits" / "0").unlink()
    (jobs.checkpoint() / "penstock" / lost).unlink()
    with pytest.raises(CheckpointError):
        jobs.run(sql)
    assert topics.read_ids(sink) == list(range(10))


def test_a_local_checkpoint_stays_local_where_hadoops_default_is_another_file_system(jobs, topics, topic):
    from pyspark.sql import SparkSession

    source, sink = topic(1), topic(1)
    topics.write_ids(source, 10)
    jobs.run(jobs.copy(source, sink), name="first")  # makes the session
    configuration = SparkSession.getActiveSession().sparkContext._jsc.hadoopConfiguration()
    before = configuration.get("fs.defaultFS")
    configuration.set("fs.defaultFS", "hdfs://localhost:1")
    try:
        jobs.run(jobs.copy(source, sink), name="second")
    finally:
        configuration.set("fs.defaultFS", before)
    assert topics.read_ids(sink) == sorted([*range(10)] * 2)


def test_a_record_of_a_new_partition_is_named_after_a_restart(jobs, kafka_admin, topics, topic):
    from penstock.errors import RecordError

    source, sink = topic(1), topic(1, configs={"max.message.bytes": "2000"})
    topics.write(source, [{"id": 1, "text": "x"}])
    sql = (
        jobs.table(
            "s",
            "id INT, text STRING",
            source,
            scan_startup_mode="earliest-offset",
            scan_topic__partition__discovery_interval="1 ms",
        )
        + jobs.exactly_once("t", "id INT, text STRING", sink)
        + "INSERT INTO t SELECT * FROM s;"
    )
    running = jobs.start(sql)
    while_running(running, lambda: running.progress.records_out == 1 and jobs.idle())
    running.stop()
    kafka_admin.create_partitions({source: 2})
    running = jobs.start(sql)
    while_running(running, lambda: running.progress.batches == 1)  # the batch that takes the new partition in
    running.stop()
    topics.write(source, [{"id": 3, "text": "y" * 5000}], partition=1)
    running = jobs.start(sql)
    with pytest.raises(RecordError) as raised:
        running.wait(timeout=60)
    assert (raised.value.topic, raised.value.partition, raised.value.offset) == (source, 1, 0)


@pytest.mark.rule("one writer per partition")
def test_a_batch_with_two_writers_of_one_partition_is_redone_through_owners(jobs, topics, topic, monkeypatch):
    """The driver knows more partitions than its workers do (yet): the tasks get in each other's way. Another attempt
    of the same kind would fail for as long as the workers keep what they know."""
    from penstock.connectors.kafka.sink.writing_committer import WritingCommitter

    source, sink = topic(2), topic(1)
    for partition in range(2):
        topics.write_ids(source, 30_000, start=partition * 30_000, partition=partition)
    monkeypatch.setattr(WritingCommitter, "one_writer_each", lambda self, tasks: True)
    jobs.run(jobs.copy(source, sink))
    assert any("is retried" in warning for warning in jobs.warnings)
    assert topics.read_ids(sink) == list(range(60_000))


@pytest.mark.rule("starts are resolved once")
def test_the_jobs_own_open_transaction_does_not_hold_back_the_offsets_that_it_starts_from(kafka, jobs, topics, topic):
    """A run died between TxnOffsetCommit and EndTxn. The next one has a new checkpoint and starts from the group's
    offsets, which are unstable until the id has been taken."""
    from penstock.kafka.offsets import CommittedOffset, commit_offsets
    from penstock.kafka.transactions import TransactionClient, describe_transaction

    session, source, sink = session_of(kafka), topic(1), topic(1)
    group = f"group-{source}"
    topics.write_ids(source, 10)
    commit_offsets(session, group, {(source, 0): CommittedOffset(4)})
    dead = TransactionClient(session, f"tx-{sink}-job", 600_000)
    dead.init()
    dead.begin()
    dead.add_offsets(group, {(source, 0): CommittedOffset(8)})
    assert describe_transaction(session, dead.transactional_id).state == "Ongoing"
    columns = "id BIGINT"
    jobs.run(
        jobs.table(
            "s",
            columns,
            source,
            scan_startup_mode="group-offsets",
            scan_bounded_mode="latest-offset",
            properties_group_id=group,
            properties_default_api_timeout_ms="10000",
        )
        + jobs.exactly_once("t", columns, sink)
        + "INSERT INTO t SELECT * FROM s;"
    )
    assert topics.read_ids(sink) == list(range(4, 10))


def group_offset(kafka, topic):
    """What the topic's group has committed in partition 0; None when that is nothing."""
    from penstock.kafka.offsets import fetch_committed_offsets

    found = fetch_committed_offsets(session_of(kafka), f"group-{topic}", [(topic, 0)]).get((topic, 0))
    return None if found is None else found.offset


def from_the_group(jobs, name, topic):
    """A table that is read from where the topic's group has got to, or from its beginning, to its present end."""
    return jobs.bounded(
        name,
        "id BIGINT",
        topic,
        scan_startup_mode="group-offsets",
        properties_group_id=f"group-{topic}",
        properties_auto_offset_reset="earliest",
    )


def fail_once(monkeypatch, kind, call):
    """Lets one call of ``kind.publish``, counted from 1, fail before anything is written."""
    original, calls = kind.publish, []

    def publish(self, batch, frame):
        calls.append(batch)
        if len(calls) == call:
            raise ExecutionError("the job dies")
        return original(self, batch, frame)

    monkeypatch.setattr(kind, "publish", publish)


def test_a_groups_offsets_are_committed_when_all_targets_have_the_batch(kafka, jobs, topics, topic, monkeypatch):
    """The job dies when one of its targets has the batch, and its checkpoint is lost."""
    from penstock.connectors.kafka.sink.plain_committer import PlainCommitter

    source, one, two = topic(1), topic(1), topic(1)
    topics.write_ids(source, 10)
    sql = (
        from_the_group(jobs, "s", source)
        + jobs.exactly_once("t", "id BIGINT", one)
        + jobs.table("u", "id BIGINT", two, sink_delivery__guarantee="at-least-once")
        + "EXECUTE STATEMENT SET BEGIN INSERT INTO t SELECT * FROM s; INSERT INTO u SELECT * FROM s; END;"
    )
    fail_once(monkeypatch, PlainCommitter, 1)
    with pytest.raises(ExecutionError, match="the job dies"):
        jobs.run(sql)
    assert group_offset(kafka, source) is None
    assert topics.read(one) == []  # its transaction takes the offsets along, so it comes last
    shutil.rmtree(jobs.checkpoint())
    jobs.run(sql)
    assert topics.read_ids(two) == list(range(10))
    assert topics.read_ids(one) == list(range(10))
    assert group_offset(kafka, source) == 10


@pytest.mark.parametrize("order", [pytest.param("tu", marks=pytest.mark.slow), "ut"])
def test_no_groups_offsets_run_ahead_where_two_targets_could_commit_some(
    kafka, jobs, topics, topic, monkeypatch, order
):
    """A source and a target in each of two clusters. Offsets that are not in the last transaction follow it."""
    from penstock.connectors.kafka.sink.committer import KafkaCommitter
    from penstock.kafka.topics import create_topic
    from penstock_testing.services import KafkaCluster
    from tests.spark.conftest import Topics

    with KafkaCluster() as elsewhere:
        there = replace(jobs, bootstrap=elsewhere.bootstrap)
        here, read, sent = topic(1), f"read-{uuid.uuid4()}", f"sent-{uuid.uuid4()}"
        for name in (read, sent):
            create_topic(session_of(elsewhere), name, partitions=1)
        source = topic(1)
        topics.write_ids(source, 10)
        Topics(elsewhere.bootstrap).write_ids(read, 10)
        inserts = {"t": "INSERT INTO t SELECT * FROM s;", "u": "INSERT INTO u SELECT * FROM r;"}
        sql = (
            from_the_group(jobs, "s", source)
            + from_the_group(there, "r", read)
            + jobs.exactly_once("t", "id BIGINT", here)
            + there.exactly_once("u", "id BIGINT", sent)
            + f"EXECUTE STATEMENT SET BEGIN {' '.join(inserts[each] for each in order)} END;"
        )
        fail_once(monkeypatch, KafkaCommitter, 2)
        with pytest.raises(ExecutionError, match="the job dies"):
            jobs.run(sql)
        assert (group_offset(kafka, source), group_offset(elsewhere, read)) == (None, None)
        jobs.run(sql)
        assert topics.read_ids(here) == Topics(elsewhere.bootstrap).read_ids(sent) == list(range(10))
        assert (group_offset(kafka, source), group_offset(elsewhere, read)) == (10, 10)


@pytest.mark.parametrize("known", [True, False], ids=["with uids", "of before sources had uids"])
def test_sources_are_found_again_when_their_tables_change_places(jobs, topics, topic, known):
    """A checkpoint that does not know uids has its sources in the order of the job that wrote it."""
    first, second, sink = topic(1), topic(1), topic(1)
    tables = (
        jobs.table("a", "id BIGINT", first, scan_startup_mode="earliest-offset", scan_bounded_mode="latest-offset")
        + jobs.table("b", "id BIGINT", second, scan_startup_mode="earliest-offset", scan_bounded_mode="latest-offset")
        + jobs.exactly_once("t", "id BIGINT", sink)
    )
    inserts = ["INSERT INTO t SELECT id FROM a;", "INSERT INTO t SELECT id + 100 FROM b;"]

    def both(order):
        return tables + f"EXECUTE STATEMENT SET BEGIN {' '.join(order)} END;"

    topics.write(first, [{"id": i} for i in range(5)])
    topics.write(second, [{"id": i} for i in range(9)])
    jobs.run(both(inserts))
    document = max((jobs.checkpoint() / "penstock").glob("job*.json"))
    assert json.loads(document.read_text())["sources"] == ["a", "b"]
    if not known:
        content = json.loads(document.read_text())
        del content["sources"]
        document.write_text(json.dumps(content))
        jobs.run(both(inserts))
    jobs.run(both(inserts[::-1]))
    assert sorted(message.json["id"] for message in topics.read(sink)) == [*range(5), *range(100, 109)]


def test_a_source_that_leaves_the_job_is_named(jobs, topics, topic):
    first, second, sink = topic(1), topic(1), topic(1)
    tables = (
        jobs.bounded("a", "id BIGINT", first)
        + jobs.bounded("b", "id BIGINT", second)
        + jobs.exactly_once("t", "id BIGINT", sink)
    )
    topics.write(first, [{"id": 1}])
    topics.write(second, [{"id": 2}])
    jobs.run(
        tables + "EXECUTE STATEMENT SET BEGIN INSERT INTO t SELECT id FROM a; INSERT INTO t SELECT id FROM b; END;"
    )
    with pytest.raises(CheckpointError, match=r"with 2 source\(s\), 'a', 'b', and this one has 1, 'b'"):
        jobs.run(tables + "INSERT INTO t SELECT id FROM b;")
