"""Event time: watermarks of partitions, the smallest of which is a table's, and partitions that are idle."""

from __future__ import annotations

import time

import pytest

from tests.waiting import while_running

COLUMNS = "id INT, ts TIMESTAMP_LTZ(3), WATERMARK FOR ts AS ts - INTERVAL '2' SECOND"
#: 2026-11-22 10:00:00 in UTC, in seconds since 1970.
DAY = 1795341600
SET_UTC = "SET 'table.local-time-zone' = 'UTC';\n"
SEE = "INSERT INTO t SELECT id, CURRENT_WATERMARK(ts) FROM s;"


def at(second):
    """A moment of the test's day, as a JSON message has it."""
    return f"2026-11-22 10:{second // 60:02}:{second % 60:02}Z"


def events(*seconds, first=0):
    return [{"id": first + i, "ts": at(second)} for i, second in enumerate(seconds)]


def seconds(watermark_millis):
    """Seconds into the test's day, None when there is no watermark."""
    return None if watermark_millis is None else watermark_millis / 1000 - DAY


def watermark(running):
    return seconds(running.metrics.get("operator.s.currentOutputWatermark"))


@pytest.fixture
def see(jobs, topics, topic):
    """Starts a job that copies rows with the watermark that they met."""

    def start(source, columns=COLUMNS, extra="", insert=SEE, table_of=jobs.table):
        sink = topic(1)
        table = jobs.table("s", columns, source, scan_startup_mode="earliest-offset")
        target = table_of("t", "id INT, seen TIMESTAMP_LTZ(3)", sink)
        return jobs.start(SET_UTC + extra + table + target + insert), sink

    return start


def test_the_watermark_of_a_table_is_the_smallest_of_its_partitions(see, topics, topic):
    source = topic(2)
    topics.write(source, events(10, 70, 40), partition=0)
    running, sink = see(source)
    while_running(running, lambda: running.lag() == 0)
    topics.write(source, events(30, first=3), partition=1)
    while_running(running, lambda: watermark(running) == 28)  # not 68
    topics.write(source, events(90, first=4), partition=1)
    while_running(running, lambda: watermark(running) == 68)  # that of partition 0 now
    topics.write(source, events(65, first=5), partition=1)
    while_running(running, lambda: len(topics.read(sink)) == 6)
    seen = {message.json["id"]: message.json["seen"] for message in topics.read(sink)}
    # What is known when a batch is planned: nothing as long as a partition has not told.
    assert [seen[i] for i in range(4)] == [None] * 4
    assert seen[4] == at(28)
    assert seen[5] == at(68)


def test_a_partition_that_gives_nothing_holds_the_watermark_back_until_it_is_idle(see, topics, topic):
    source = topic(2)
    topics.write(source, events(10), partition=0)
    running, _ = see(source, extra="SET 'table.exec.source.idle-timeout' = '2 s';\n")

    def moved(before, second):
        """The watermark when it is another one. Partition 0 has rows all the time, so that it is never idle itself."""
        topics.write(source, events(second, first=1), partition=0)
        return (found := watermark(running)) != before and found

    assert while_running(running, lambda: watermark(running)) == 8
    assert while_running(running, lambda: moved(8, 20)) == 18
    # A partition that comes back with older rows takes nothing away, and is waited for again.
    topics.write(source, events(12, first=2), partition=1)
    while_running(running, lambda: running.lag() == 0)
    assert while_running(running, lambda: moved(18, 40)) == 38  # once partition 1 is idle again


def test_without_an_idle_timeout_a_silent_partition_is_waited_for(see, topics, topic):
    source = topic(2)
    topics.write(source, events(10), partition=0)
    running, _ = see(source)
    while_running(running, lambda: running.lag() == 0)
    for i in range(3):  # several batches
        topics.write(source, events(20 + i, first=1 + i), partition=0)
        while_running(running, lambda: running.lag() == 0)
    assert watermark(running) is None


@pytest.mark.parametrize(
    ("columns", "made"),
    [
        pytest.param(
            "id INT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts - INTERVAL '1' MINUTE",
            lambda second: {"ts": at(second).rstrip("Z")},
            id="timestamp without zone",
        ),
        pytest.param(
            "id INT, ms BIGINT, ts AS TO_TIMESTAMP_LTZ(ms, 3), WATERMARK FOR ts AS ts - INTERVAL '60' SECOND",
            lambda second: {"ms": (DAY + second) * 1000},
            id="milliseconds",
            marks=pytest.mark.slow,
        ),
        pytest.param(
            "id INT, s BIGINT, ts AS TO_TIMESTAMP_LTZ(s, 0), WATERMARK FOR ts AS ts - INTERVAL '1' MINUTE",
            lambda second: {"s": DAY + second},
            id="seconds",
            marks=pytest.mark.slow,
        ),
        pytest.param(
            "id INT, text STRING, ts AS TO_TIMESTAMP(text), "
            "WATERMARK FOR ts AS ts - INTERVAL '00:01:00' HOUR TO SECOND",
            lambda second: {"text": at(second).rstrip("Z")},
            id="a computed column",
        ),
        pytest.param(
            "id INT, ts TIMESTAMP_LTZ(3), last BOOLEAN, "
            "WATERMARK FOR ts AS CASE WHEN last THEN ts - INTERVAL '1' MINUTE END",
            lambda second: {"ts": at(second), "last": True},
            id="an expression of one's own",
        ),
    ],
)
def test_every_form_of_watermark_for(see, topics, topic, columns, made):
    source = topic(1)
    topics.write(source, [{"id": i, **made(each)} for i, each in enumerate((100, 130, 110))])
    insert = "INSERT INTO t SELECT id, CAST(CURRENT_WATERMARK(ts) AS TIMESTAMP_LTZ(3)) FROM s;"
    running, sink = see(source, columns, insert=insert)
    assert while_running(running, lambda: watermark(running)) == 70
    topics.write(source, [{"id": 3, **made(120)}])
    while_running(running, lambda: len(topics.read(sink)) == 4)
    assert [message.json["seen"] for message in topics.read(sink)] == [None] * 3 + [at(70)]


def test_a_metadata_column_is_the_event_time(jobs, topics, topic, see):
    source = topic(1)
    columns = "id INT, ts TIMESTAMP_LTZ(3) METADATA FROM 'timestamp', WATERMARK FOR ts AS ts"
    before = time.time()
    topics.write(source, [{"id": 0}])
    insert = "INSERT INTO t SELECT id, CAST(CURRENT_WATERMARK(ts) AS TIMESTAMP_LTZ(3)) FROM s;"
    running, _ = see(source, columns, insert=insert)
    found = while_running(running, lambda: watermark(running))
    assert before - 1 <= found + DAY <= time.time()
    assert 0 <= running.metrics["operator.s.watermarkLag"] <= (time.time() - before + 1) * 1000


def test_a_datastream_takes_the_timestamps_of_kafka(kafka, topics, topic, tmp_path):
    from penstock.common import Configuration, Duration, SimpleStringSchema, WatermarkStrategy
    from penstock.datastream import StreamExecutionEnvironment
    from penstock.datastream.connectors.kafka import KafkaOffsetsInitializer, KafkaSource

    source = topic(1)
    before = time.time()
    topics.write(source, [b"one", b"two"])
    configuration = Configuration()
    configuration.set_string("execution.checkpointing.dir", str(tmp_path))
    env = StreamExecutionEnvironment.get_execution_environment(configuration)
    built = (
        KafkaSource.builder()
        .set_bootstrap_servers(kafka.bootstrap)
        .set_topics(source)
        .set_starting_offsets(KafkaOffsetsInitializer.earliest())
        .set_value_only_deserializer(SimpleStringSchema())
        .build()
    )
    strategy = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_seconds(20)).with_idleness(
        Duration.of_seconds(5)
    )
    env.from_source(built, strategy, "s").print()
    job = env.to_job("stamps")
    from penstock import engine

    running = engine.start(job)
    try:
        found = while_running(running, lambda: watermark(running))
    finally:
        running.stop()
    last = found + DAY + 20.001
    assert before - 0.002 <= last <= time.time()


def test_rows_that_are_compared_with_others_see_the_watermark_of_the_batch_before(see, topics, topic):
    source = topic(1)
    topics.write(source, events(10))
    running, sink = see(source, insert="INSERT INTO t SELECT DISTINCT id, CURRENT_WATERMARK(ts) FROM s;")
    while_running(running, lambda: len(topics.read(sink)) == 1)
    topics.write(source, events(20, first=1))
    while_running(running, lambda: len(topics.read(sink)) == 2)
    assert [message.json["seen"] for message in topics.read(sink)] == [None, at(8)]


def test_the_watermark_goes_on_from_the_checkpoint(see, jobs, topics, topic):
    from penstock import engine

    source = topic(1)
    topics.write(source, events(50))
    running, sink = see(source, table_of=jobs.exactly_once)
    while_running(running, lambda: watermark(running) == 48)
    running.stop()
    topics.write(source, events(20, first=1))
    jobs.started.append(engine.start(running.job))
    while_running(jobs.started[-1], lambda: len(topics.read(sink)) == 2)
    assert [message.json["seen"] for message in topics.read(sink)] == [None, at(48)]
    assert while_running(jobs.started[-1], lambda: watermark(jobs.started[-1])) == 48


def test_rows_that_need_no_computing_are_written_where_they_are_read(see, topics, topic):
    from penstock.flow.graph.routes import plan_reading
    from penstock.flow.kernels.session import UNKNOWN
    from penstock.plan.nodes import scans

    source = topic(1)
    topics.write(source, events(10, 12))
    running, sink = see(source, insert="INSERT INTO t SELECT id, ts FROM s;")
    assert plan_reading(running.job, scans(*running.job.sinks), UNKNOWN) is not None
    assert while_running(running, lambda: watermark(running)) == 10
    assert [message.json["seen"] for message in topics.read(sink)] == [at(10), at(12)]


def test_two_tables_written_from_one_see_the_same_watermark(jobs, topics, topic):
    source, first, second = topic(1), topic(1), topic(1)
    topics.write(source, events(10))
    running = jobs.start(
        SET_UTC
        + jobs.table(
            "s",
            COLUMNS.replace("AS ts - INTERVAL '2' SECOND", "AS CASE WHEN id >= 0 THEN ts END"),
            source,
            scan_startup_mode="earliest-offset",
        )
        + jobs.table("t", "id INT, seen TIMESTAMP_LTZ(3)", first)
        + jobs.table("u", "id INT, late BOOLEAN", second)
        + "EXECUTE STATEMENT SET BEGIN INSERT INTO t SELECT id, CURRENT_WATERMARK(ts) FROM s WHERE id > 0; "
        "INSERT INTO u SELECT id, ts < CURRENT_WATERMARK(ts) FROM s; END;"
    )
    while_running(running, lambda: watermark(running) == 10)
    topics.write(source, events(5, 15, first=1))
    while_running(running, lambda: len(topics.read(second)) == 3)
    while_running(running, lambda: len(topics.read(first)) == 2)
    assert [message.json["seen"] for message in topics.read(first)] == [at(10)] * 2
    assert [message.json["late"] for message in topics.read(second)] == [None, True, False]
