"""Batches of few records, which the driver reads, computes and writes by itself."""

from __future__ import annotations

import os

import pytest

from penstock.common import Configuration, SimpleStringSchema, Types, WatermarkStrategy
from penstock.datastream import StreamExecutionEnvironment
from penstock.datastream.connectors.kafka import (
    KafkaOffsetsInitializer,
    KafkaRecordSerializationSchema,
    KafkaSink,
    KafkaSource,
)
from penstock.errors import FunctionError
from tests.spark.conftest import spark_jobs
from tests.waiting import while_running

FEW = "SET 'penstock.driver.max-records' = '10';\n"
GUARANTEES = {"exactly-once": {"sink_transactional__id__prefix": "small"}, "at-least-once": {}}


@pytest.mark.parametrize("guarantee", GUARANTEES)
def test_only_batches_of_more_records_start_tasks(jobs, topics, topic, guarantee):
    source, sink = topic(2), topic(2)
    for partition in range(2):
        topics.write(source, [{"id": 2 * i + partition} for i in range(11)], partition=partition)
    sql = FEW + jobs.table(
        "s", "id INT", source, scan_startup_mode="earliest-offset", scan_max__records__per__trigger="12"
    )
    options = {"sink_delivery__guarantee": guarantee, **GUARANTEES[guarantee]}
    sql += jobs.table("t", "id INT", sink, **options) + "INSERT INTO t SELECT id FROM s WHERE id <> 5;"
    running = jobs.start(sql)
    while_running(running, lambda: running.progress.records_in == 22)

    assert running.progress.batches == 2
    assert len(spark_jobs(running)) == 1  # of the batch of 12 records
    assert sorted(message.json["id"] for message in topics.read(sink)) == [i for i in range(22) if i != 5]
    assert running.progress.records_out == 21
    while_running(running, lambda: running.metrics["operator.s.numRecordsIn"] == 22)
    assert running.metrics["operator.t.numRecordsOut"] == 21


def test_blackholes_count_the_rows_of_small_batches(jobs, topics, topic):
    source = topic(2)
    topics.write(source, [{"id": i} for i in range(9)])
    sql = jobs.bounded("s", "id INT", source)
    sql += "CREATE TABLE t (id INT) WITH ('connector' = 'blackhole'); INSERT INTO t SELECT id FROM s WHERE id > 2;"
    running = jobs.start(sql)
    assert running.wait(60)
    assert spark_jobs(running) == []
    assert running.progress.records_out == 6


def test_functions_of_the_user_stay_out_of_the_driver(kafka, topics, topic, tmp_path):
    source, sink = topic(1), topic(1)
    topics.write(source, [b"a", b"b"])
    env = StreamExecutionEnvironment.get_execution_environment(
        Configuration().set_string("execution.checkpointing.dir", str(tmp_path))
    )
    env.enable_checkpointing(100)
    read = (
        KafkaSource.builder()
        .set_bootstrap_servers(kafka.bootstrap)
        .set_topics(source)
        .set_starting_offsets(KafkaOffsetsInitializer.earliest())
        .set_bounded(KafkaOffsetsInitializer.latest())
        .set_value_only_deserializer(SimpleStringSchema())
        .build()
    )
    record = KafkaRecordSerializationSchema.builder().set_topic(sink)
    written = KafkaSink.builder().set_bootstrap_servers(kafka.bootstrap)
    stream = env.from_source(read, WatermarkStrategy.no_watermarks(), "source")
    processes = stream.map(lambda _: str(os.getpid()), Types.STRING())
    processes.sink_to(
        written.set_record_serializer(record.set_value_serialization_schema(SimpleStringSchema()).build()).build()
    )
    env.execute("processes")

    found = {message.value for message in topics.read(sink)}
    assert len(found) == 1
    assert found != {str(os.getpid()).encode()}


def test_functions_of_sql_stay_out_of_the_driver(jobs, topics, topic, tmp_path):
    """One that ends its process ends the job, with the record's place."""
    (tmp_path / "leaving.py").write_text(
        "import os, sys\n"
        "def process(x: int) -> int:\n    return os.getpid()\n"
        "def leaves(x: int) -> int:\n    return sys.exit() if x == 3 else x\n"
    )
    source, sink = topic(1), topic(1)
    topics.write_ids(source, 5)
    sql = f"SET 'python.files' = '{tmp_path}';\n" + "".join(
        f"CREATE FUNCTION {name} AS 'leaving.{name}' LANGUAGE PYTHON;\n" for name in ("process", "leaves")
    )
    sql += jobs.bounded("s", "id BIGINT", source) + jobs.table("t", "x BIGINT", sink)

    jobs.run(sql + "INSERT INTO t SELECT process(id) FROM s;")
    found = {message.json["x"] for message in topics.read(sink)}
    assert len(found) == 1
    assert found != {os.getpid()}
    with pytest.raises(FunctionError, match=f"topic '{source}', partition 0, offset 3: LEAVES: .* raised SystemExit"):
        jobs.run(sql + "INSERT INTO t SELECT leaves(id) FROM s;", "leaving")


def test_the_driver_computes_small_batches_of_a_job_with_state(jobs, topics, topic, tmp_path):
    """Batches of both kinds share the state, which a restart continues."""
    source, sink = topic(2), topic(2)
    options = {"scan_startup_mode": "earliest-offset", "scan_max__records__per__trigger": "12"}
    sql = FEW + jobs.table("s", "id INT, k STRING", source, **options)
    sql += (
        "CREATE TABLE t (k STRING, n BIGINT, total BIGINT, PRIMARY KEY (k) NOT ENFORCED) WITH ("
        f"'connector' = 'upsert-kafka', 'topic' = '{sink}', 'properties.bootstrap.servers' = '{jobs.bootstrap}', "
        "'key.format' = 'json', 'value.format' = 'json', 'sink.delivery-guarantee' = 'exactly-once', "
        f"'sink.transactional-id-prefix' = '{sink}');\n"
        "INSERT INTO t SELECT k, COUNT(*), SUM(id) FROM s GROUP BY k;"
    )

    def add(ids):
        for partition in range(2):
            topics.write(source, [{"id": i, "k": f"k{i % 3}"} for i in ids if i % 2 == partition], partition=partition)

    def table():
        rows = {}
        for message in topics.read(sink):
            row = message.json
            rows[row["k"]] = row["n"], row["total"]
        return rows

    def expected(ids):
        return {f"k{k}": (len(found), sum(found)) for k in range(3) if (found := [i for i in ids if i % 3 == k])}

    add(range(22))
    running = jobs.start(sql)
    while_running(running, lambda: running.progress.records_in == 22)
    assert running.progress.batches == 2
    started = len(spark_jobs(running))
    assert started == 1  # of the batch of 12 records
    add(range(22, 30))
    while_running(running, lambda: running.progress.records_in == 30)
    assert len(spark_jobs(running)) == started
    assert table() == expected(range(30))
    running.stop()

    add(range(30, 34))
    running = jobs.start(sql)
    while_running(running, lambda: running.progress.records_in >= 4)
    assert spark_jobs(running) == []
    while_running(running, lambda: table() == expected(range(34)))
    assert not topics.open_transactions(sink)
