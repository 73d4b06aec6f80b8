"""What brokers tell about a start before Spark is asked for."""

from __future__ import annotations

import copy
import json

import pytest

from penstock.connectors.kafka.factory import KafkaConnector
from penstock.connectors.kafka.source.starts_and_stops import describe_data, resolve_start
from penstock.connectors.kafka.start_checks import check_scan, check_sink
from penstock.engine.checkpoint import read_location
from penstock.engine.runs.start_checks import JobStart, check_sources
from penstock.errors import CheckpointError, KafkaError, OptionsError, PossibleDataLossError
from penstock.kafka.session import session_for
from penstock.settings import Settings
from penstock.spi import Column, StartContext, TableDefinition
from penstock.sql import parse_script
from penstock.types import BIGINT
from tests.scans import delete_below, recreate, scan_of, write


@pytest.fixture
def context(tmp_path):
    """A start on a new checkpoint, or on one that has read ``scan`` up to ``reached``, by batches that are done up to
    ``done``."""

    def make(scan=None, reached=None, done=None):
        checkpoint = read_location(str(tmp_path / "checkpoint"))
        if scan is None:
            return StartContext("a", Settings(), checkpoint)
        session = session_for(scan.client_config)
        start = resolve_start(session, scan).to_json()
        checkpoint.write("source-0", {"source": describe_data(session, scan), "start": start, "stop": None})
        if reached is not None:
            (topic,) = start
            start[topic]["partitions"]["0"]["offset"] = reached
        known = copy.deepcopy(start)
        if done is not None:
            known[topic]["partitions"]["0"]["offset"] = done
        return StartContext("a", Settings(), checkpoint, [start], [known])

    return make


def earliest(kafka, topic, **options):
    return scan_of(kafka, topic, scan_startup_mode="earliest-offset", **options)


def sink_of(kafka, topic, **options):
    given = {"topic": topic, "properties.bootstrap.servers": kafka.bootstrap, "format": "json"}
    given |= {key.replace("__", "-").replace("_", "."): value for key, value in options.items()}
    return KafkaConnector().sink(TableDefinition("t", (Column("id", BIGINT),), given))


# --- sources ----------------------------------------------------------------------------------------------------


def test_a_topic_that_is_there_can_be_read(kafka, topic, context):
    name = topic()
    check_scan(earliest(kafka, name), 0, context())
    check_scan(earliest(kafka, name), 0, context(earliest(kafka, name)))


def test_a_topic_that_is_missing(kafka, context):
    with pytest.raises(KafkaError, match="topic 'absent' does not exist"):
        check_scan(earliest(kafka, "absent"), 0, context())


def test_a_topic_that_is_missing_may_have_been_read_where_spark_alone_reads_the_checkpoint(kafka):
    check_scan(earliest(kafka, "absent"), 0, StartContext("a", Settings(), None))


def test_a_group_without_offsets(kafka, topic, context):
    name = topic()
    scan = scan_of(kafka, name, scan_startup_mode="group-offsets", properties_group_id=f"group-{name}")
    with pytest.raises(KafkaError, match=rf"group 'group-{name}' has no committed offset for topic '{name}'"):
        check_scan(scan, 0, context())


def test_a_partition_that_does_not_exist(kafka, topic, context):
    name = topic()
    options = {"scan_startup_specific__offsets": "partition:7,offset:0"}
    with pytest.raises(KafkaError, match="names partition 7"):
        check_scan(scan_of(kafka, name, scan_startup_mode="specific-offsets", **options), 0, context())


def test_the_checkpoint_of_another_topic(kafka, topic, context):
    one, two = topic(), topic()
    start = context(earliest(kafka, one))
    with pytest.raises(CheckpointError, match=rf"topic was \['{one}'\], and is \['{two}'\]"):
        check_scan(earliest(kafka, two), 0, start)


def test_offsets_that_retention_has_deleted(kafka, kafka_admin, topic, context):
    name = topic()
    write(kafka, name, 9)
    scan = earliest(kafka, name)
    start = context(scan, reached=2)
    check_scan(scan, 0, start)
    delete_below(kafka_admin, name, 5)
    with pytest.raises(PossibleDataLossError) as caught:
        check_scan(scan, 0, start)
    assert str(caught.value) == (
        f"topic '{name}', partition 0 was read up to offset 2, but its log now begins at 5: the 3 records between "
        "were deleted before they were read. Raise the topic's retention; 'scan.fail-on-data-loss' = 'false' continues "
        "without them ('properties.auto.offset.reset' is for starts without a checkpoint)"
    )
    check_scan(earliest(kafka, name, scan_fail__on__data__loss="false"), 0, start)
    with pytest.raises(PossibleDataLossError, match=r"up to offset 2 \(up to 1 by batches that are done\), but"):
        check_scan(scan, 0, context(scan, reached=2, done=1))


def test_records_of_a_batch_that_may_be_committed_are_not_missed(kafka, kafka_admin, topic, context, tmp_path):
    """It was planned, and Spark has not logged it as done: whether it was committed is known by its targets."""
    name = topic()
    write(kafka, name, 9)
    table = f"'connector' = 'kafka', 'topic' = '{name}', 'properties.bootstrap.servers' = '{kafka.bootstrap}'"
    (job,) = parse_script(
        f"CREATE TABLE t (id BIGINT) WITH ({table}, 'format' = 'json', 'scan.startup.mode' = 'earliest-offset');"
        "CREATE TABLE p (id BIGINT) WITH ('connector' = 'print');"
        "INSERT INTO p SELECT id FROM t;",
        file="a.sql",
        default_name="a",
    ).jobs
    (at,) = context(earliest(kafka, name), reached=2).reached
    checkpoint = read_location(str(tmp_path / "checkpoint"))
    checkpoint.write("job", {"job": "a", "query_id": "q", "sinks": [], "sources": ["t"]})
    start = JobStart(job, checkpoint, print, print)
    for number, offset in enumerate((2, 5)):
        at[name]["partitions"]["0"]["offset"] = offset
        log = tmp_path / "checkpoint" / "offsets" / str(number)
        log.parent.mkdir(exist_ok=True)
        log.write_text(f"v1\n{{}}\n{json.dumps(at)}\n")
    (tmp_path / "checkpoint" / "commits").mkdir()
    (tmp_path / "checkpoint" / "commits" / "0").write_text("v1\n{}")
    delete_below(kafka_admin, name, 5)
    check_sources(start)
    delete_below(kafka_admin, name, 6)
    with pytest.raises(
        PossibleDataLossError, match=r"up to offset 5 \(up to 2 by batches that are done\), but its log now begins at 6"
    ):
        check_sources(start)


def test_a_log_that_ends_before_what_was_read(kafka, topic, context):
    name = topic()
    write(kafka, name, 3)
    scan = earliest(kafka, name)
    with pytest.raises(PossibleDataLossError, match="was read up to offset 7, but its log ends at 3"):
        check_scan(scan, 0, context(scan, reached=7))


def test_a_topic_that_was_recreated(kafka, kafka_admin, topic, context):
    name = topic()
    scan = earliest(kafka, name)
    start = context(scan)
    recreate(kafka_admin, name, 1)
    with pytest.raises(PossibleDataLossError, match=f"topic '{name}', partition 0 .*deleted and recreated"):
        check_scan(scan, 0, start)


# --- sinks ------------------------------------------------------------------------------------------------------


def test_a_topic_to_write_that_is_missing(kafka, topic, context):
    check_sink(sink_of(kafka, topic()), context())
    with pytest.raises(KafkaError, match="topic 'absent'"):
        check_sink(sink_of(kafka, "absent", properties_allow_auto_create_topics="false"), context())


def test_the_progress_topic_cannot_be_written(kafka, topic):
    name = topic()
    with pytest.raises(OptionsError, match="is the job's own progress topic"):
        check_sink(sink_of(kafka, name), StartContext("a", Settings(progress_topic=name), None))


def test_a_time_out_above_that_of_the_brokers(kafka, topic, context):
    options = {"sink_delivery__guarantee": "exactly-once", "sink_transactional__id__prefix": "p"}
    with pytest.raises(OptionsError, match=r"is above the brokers' transaction\.max\.timeout\.ms"):
        check_sink(sink_of(kafka, topic(), properties_transaction_timeout_ms="900000000", **options), context())
