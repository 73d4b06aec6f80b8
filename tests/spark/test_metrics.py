"""What jobs count: the metrics of the seeds, on the running job and as Prometheus reads them."""

from __future__ import annotations

import time

import pytest

DIRECT = "INSERT INTO t SELECT id FROM s;"
COMPUTED = "INSERT INTO t SELECT id FROM s WHERE id >= 0;"


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
    assert producer.flush(30) == 0
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


def test_a_group_that_may_not_be_written_is_counted(jobs, topics, topic, monkeypatch):
    """(The broker's refusal itself is tested with rights.)"""
    from penstock.connectors.kafka import runtime
    from penstock.errors import AuthorizationError

    def refuse(*_, **__):
        raise AuthorizationError("GROUP_AUTHORIZATION_FAILED")

    monkeypatch.setattr(runtime, "commit_offsets", refuse)
    source, sink = topic(1), topic(1)
    topics.write(source, [{"id": i} for i in range(100)])
    running = jobs.start(
        jobs.bounded("s", "id BIGINT", source, scan_max__records__per__trigger="50", properties_group_id="g")
        + jobs.table("t", "id BIGINT", sink)
        + DIRECT
    )
    found = done(running)
    assert found["s.KafkaSourceReader.commitsFailed"] == 2
    assert found[f"s.KafkaSourceReader.topic.{source}.partition.0.committedOffset"] == -1
    assert len([each for each in jobs.warnings if "are not committed" in each]) == 1


@pytest.mark.parametrize(("where", "count"), [("", 10), (" WHERE id < 3", 3)], ids=["dropped where read", "computed"])
def test_a_blackhole_counts_what_it_swallows(jobs, topics, topic, where, count):
    source = topic(1)
    topics.write(source, [{"id": i} for i in range(10)])
    hole = "CREATE TABLE t (id BIGINT) WITH ('connector' = 'blackhole');"
    found = done(jobs.start(jobs.bounded("s", "id BIGINT", source) + hole + f"INSERT INTO t SELECT * FROM s{where};"))
    assert (found["s.numRecordsIn"], found["t.numRecordsOut"]) == (10, count)
