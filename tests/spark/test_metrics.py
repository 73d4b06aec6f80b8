"""What jobs count: the metrics of Flink's documentation, on the running job and as Prometheus reads them."""

from __future__ import annotations

import re
import time
from pathlib import Path

import pytest

from tests.waiting import while_running

DIRECT = "INSERT INTO t SELECT id FROM s;"
COMPUTED = "INSERT INTO t SELECT id FROM s WHERE TRY_CAST(CAST(id AS STRING) || 'x' AS TIME) IS NULL;"


def sql(jobs, source, sink, insert, **options):
    return (
        jobs.bounded("s", "id BIGINT", source, scan_max__records__per__trigger="50", **options)
        + jobs.exactly_once("t", "id BIGINT", sink)
        + insert
    )


def done(running):
    assert running.wait(120)
    return {name.removeprefix("operator."): value for name, value in running.metrics.items()}


@pytest.mark.parametrize("insert", [DIRECT, COMPUTED], ids=["read and written by one task", "through Spark SQL"])
def test_a_job_counts_what_it_reads_and_writes(jobs, topics, topic, insert):
    source, sink = topic(2), topic(1)
    begun = time.time()
    topics.write(source, [{"id": i} for i in range(120)], partition=0)
    topics.write(source, [{"id": i} for i in range(30)], partition=1)
    options = {"properties_group_id": f"g-{source}"}
    found = done(jobs.start(sql(jobs, source, sink, insert, **options)))
    passed = (time.time() - begun) * 1000
    reader = "s.KafkaSourceReader"
    assert found["s.numRecordsIn"] == found[f"{reader}.KafkaConsumer.records-consumed-total"] == 150
    assert found["s.numBytesIn"] == found[f"{reader}.KafkaConsumer.bytes-consumed-total"] > 150 * len('{"id": 0}')
    assert found["s.numRecordsInPerSecond"] > 0
    assert found["s.numBytesInPerSecond"] == pytest.approx(found["s.numBytesInPerScond"], rel=0.5)
    assert 0 < found["s.currentFetchEventTimeLag"] <= found["s.currentEmitEventTimeLag"] < passed
    assert 0 <= found["s.sourceIdleTime"] < passed
    assert found["s.pendingRecords"] == 0
    for partition, count in ((0, 120), (1, 30)):
        place = f"topic.{source}.partition.{partition}"
        assert found[f"{reader}.{place}.currentOffset"] == count - 1
        assert found[f"{reader}.{place}.committedOffset"] == count
        assert found[f"s.KafkaConsumer.{place}.current-offsets"] == count - 1
        assert found[f"s.KafkaConsumer.{place}.committed-offsets"] == count
    assert found[f"{reader}.commitsSucceeded"] == 3
    assert found[f"{reader}.commitsFailed"] == 0
    assert found["t.numRecordsOut"] == found["t.KafkaProducer.record-send-total"] == 150
    assert found["t.numBytesOut"] > 150 * len('{"id":0}')
    assert found["t.numRecordsOutPerSecond"] > 0
    assert found["t.numBytesOutPerSecond"] > 0
    assert 0 < found["t.currentSendTime"] < passed
    assert found["numRestarts"] == 0


def test_the_names_of_kafkas_own_clients_may_be_left_out(jobs, topics, topic):
    source, sink = topic(1), topic(1)
    topics.write(source, [{"id": i} for i in range(10)])
    found = done(
        jobs.start(
            jobs.bounded("s", "id BIGINT", source, properties_register_consumer_metrics="false")
            + jobs.table("t", "id BIGINT", sink, properties_register_producer_metrics="false")
            + DIRECT
        )
    )
    assert found["s.numRecordsIn"] == 10
    assert not [name for name in found if "KafkaSourceReader.KafkaConsumer" in name or "KafkaProducer" in name]


def test_records_that_are_left_out_are_counted(jobs, topics, topic):
    from confluent_kafka import Producer

    source, sink = topic(1), topic(1)
    producer = Producer({"bootstrap.servers": topics.bootstrap})
    for i in range(20):
        producer.produce(source, b'{"id": 1}' if i % 4 else b"nonsense", headers=[("kind", b"x" if i < 10 else b"y")])
    assert producer.flush(60) == 0
    options = {"scan_header__filter": "kind:y", "json_ignore__parse__errors": "true"}
    found = done(jobs.start(sql(jobs, source, sink, DIRECT, **options)))
    assert (found["s.numRecordsIn"], found["s.numRecordsFiltered"]) == (20, 10)
    assert found["s.numRecordsInErrors"] == len([i for i in range(10, 20) if i % 4 == 0])
    assert found["t.numRecordsOut"] == 10 - found["s.numRecordsInErrors"]


def test_each_sink_counts_its_own_records(jobs, topics, topic):
    source, one, other = topic(1), topic(1), topic(1)
    topics.write(source, [{"id": i} for i in range(10)])
    found = done(
        jobs.start(
            jobs.bounded("s", "id BIGINT", source)
            + jobs.table("t", "id BIGINT", one)
            + jobs.table("u", "id BIGINT", other)
            + "BEGIN STATEMENT SET; INSERT INTO t SELECT * FROM s; INSERT INTO u SELECT * FROM s WHERE id < 3; END;"
        )
    )
    assert (found["t.numRecordsOut"], found["u.numRecordsOut"]) == (10, 3)


def test_a_commit_that_fails_is_counted_and_the_job_goes_on(jobs, topics, topic):
    """A group whose members read for themselves does not take offsets from anybody else."""
    from confluent_kafka import Consumer

    source, sink = topic(1), topic(1)
    group = f"g-{source}"
    topics.write(source, [{"id": i} for i in range(100)])
    settings = {"group.id": group, "auto.offset.reset": "earliest", "enable.auto.commit": False}
    member = Consumer({"bootstrap.servers": topics.bootstrap, **settings})
    try:
        member.subscribe([source])
        assert member.poll(60) is not None
        running = jobs.start(
            jobs.bounded("s", "id BIGINT", source, scan_max__records__per__trigger="50", properties_group_id=group)
            + jobs.table("t", "id BIGINT", sink)
            + DIRECT
        )
        found = done(running)
    finally:
        member.close()
    assert found["t.numRecordsOut"] == 100
    assert found["s.KafkaSourceReader.commitsFailed"] == 2
    assert found["s.KafkaSourceReader.commitsSucceeded"] == 0
    assert found[f"s.KafkaSourceReader.topic.{source}.partition.0.committedOffset"] == -1
    (told,) = [each for each in jobs.warnings if "are not committed" in each]
    assert told.startswith(f"offsets of group '{group}' are not committed: ")


def documented(heading):
    """The names in the table of docs/metrics.md after the line that begins with ``heading``."""
    text = (Path(__file__).parents[2] / "docs" / "metrics.md").read_text("utf-8")
    _, _, below = text.partition(f"{heading}:\n\n")
    found = set()
    for row in re.findall(r"^\| (`.*?) \|", below.partition("\n\n")[0], re.MULTILINE):
        first, *others = re.findall(r"`([^`]+)`", row)
        scope, _, name = first.rpartition(".")
        found.add(first)
        for other in others:
            if other.startswith("-"):  # of a counter, its rate
                found.add(f"{scope}.{name.rpartition('-')[0]}{other}")
            else:
                name = other.removeprefix(".")
                found.add(f"{scope}.{name}" if scope else name)
    return found


def test_every_metric_of_a_table_that_is_documented_is_there_under_its_scope(jobs, topics, topic):
    """A job that reads, decodes and writes counts every metric that docs/metrics.md has from Flink's documentation."""
    source, sink = topic(1), topic(1)
    topics.write(source, [{"id": i} for i in range(10)])
    columns = "id BIGINT, ts TIMESTAMP_LTZ(3) METADATA FROM 'timestamp', WATERMARK FOR ts AS ts"
    table = jobs.bounded("s", columns, source, properties_group_id=f"g-{source}")
    found = done(jobs.start(table + jobs.exactly_once("t", "id BIGINT", sink) + DIRECT))
    names = documented("Below a table") | {"numBytesInPerScond"}
    place = {"<topic>": source, "<partition>": "0"}
    wanted = {re.sub("<[a-z]+>", lambda match: place[match[0]], name) for name in names}
    there = {name.partition(".")[2] for name in found if name.startswith(("s.", "t."))}
    assert there == wanted


def test_every_metric_of_a_step_that_is_documented_is_there_under_its_scope(jobs, topics, topic):
    source, sink = topic(1), topic(1)
    topics.write(source, [{"id": i} for i in range(10)])
    columns = "id BIGINT, ts TIMESTAMP_LTZ(3) METADATA FROM 'timestamp', WATERMARK FOR ts AS ts"
    counts = (
        "INSERT INTO t SELECT COUNT(*) FROM TABLE(TUMBLE(TABLE s, DESCRIPTOR(ts), INTERVAL '1' HOUR)) "
        "GROUP BY window_start, window_end;"
    )
    table = jobs.table("s", columns, source, scan_startup_mode="earliest-offset")
    running = jobs.start(table + jobs.exactly_once("t", "id BIGINT", sink) + counts)
    step = re.compile(r"operator\..*: window\(s\)\.(\w+)")
    wanted = documented("Below a step")
    assert wanted
    while_running(running, lambda: {match[1] for match in map(step.fullmatch, running.metrics) if match} == wanted)


@pytest.mark.parametrize(
    ("where", "count"),
    [("", 10), (" WHERE id < 3", 3)],
    ids=["dropped where read", "computed where read"],
)
def test_a_blackhole_counts_what_it_swallows(jobs, topics, topic, where, count):
    source = topic(1)
    topics.write(source, [{"id": i} for i in range(10)])
    hole = "CREATE TABLE t (id BIGINT) WITH ('connector' = 'blackhole');"
    found = done(jobs.start(jobs.bounded("s", "id BIGINT", source) + hole + f"INSERT INTO t SELECT * FROM s{where};"))
    assert (found["s.numRecordsIn"], found["t.numRecordsOut"]) == (10, count)
