"""What a job reads: from where, how far, of which partitions, and how much at a time."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path

import pytest

from penstock.common import SimpleStringSchema, WatermarkStrategy
from penstock.datastream import StreamExecutionEnvironment
from penstock.datastream.connectors.kafka import (
    KafkaOffsetsInitializer,
    KafkaRecordSerializationSchema,
    KafkaSink,
    KafkaSource,
    KafkaTopicPartition,
)
from tests.scans import delete, delete_below
from tests.spark.conftest import spark_jobs
from tests.waiting import eventually

COLUMNS = "id BIGINT"
COPY = "INSERT INTO t SELECT * FROM s;"
PATIENCE = 60


def ids(*numbers):
    return [{"id": number} for number in numbers]


def read(topics, name):
    return sorted(message.json["id"] for message in topics.read(name))


def ended(running):
    """Waits for the end of a job that is to end by itself."""
    assert running.wait(PATIENCE), "the job has not ended"
    return running.result()


@pytest.mark.slow
def test_a_checkpoint_wins_over_the_start_time_which_wins_over_the_start_option(jobs, topics, topic):
    from penstock import engine

    source, sink = topic(1), topic(1)
    topics.write(source, ids(1, 2))
    at = time.time_ns() // 1_000_000 + 1
    eventually(lambda: time.time_ns() // 1_000_000 > at)
    topics.write(source, ids(3, 4))
    sql = jobs.bounded("s", COLUMNS, source) + jobs.exactly_once("t", COLUMNS, sink) + COPY
    job = jobs.parse(sql)
    job = replace(job, settings=replace(job.settings, start_time=at))

    engine.run(job, jobs.warnings.append)
    assert read(topics, sink) == [3, 4]
    assert not [each for each in jobs.warnings if "--start-time" in each]

    engine.run(replace(job, settings=replace(job.settings, start_time=0)), jobs.warnings.append)
    assert read(topics, sink) == [3, 4]
    (told,) = [each for each in jobs.warnings if "--start-time" in each]
    assert told.startswith("table 's' continues from the checkpoint '")


def test_a_checkpoint_goes_on_where_it_ended_whatever_the_group_says(jobs, kafka, topics, topic):
    """What the group has is for others to see: it is moved back, and ahead, while the job does not run."""
    from penstock.kafka.offsets import CommittedOffset, commit_offsets
    from penstock.kafka.properties import ClientConfig
    from penstock.kafka.session import session_for

    source, sink = topic(1), topic(1)
    group = f"group-{source}"
    session = session_for(ClientConfig.from_properties({"bootstrap.servers": kafka.bootstrap}))
    sql = (
        jobs.table("s", COLUMNS, source, properties_group_id=group, properties_auto_offset_reset="earliest")
        + jobs.exactly_once("t", COLUMNS, sink)
        + COPY
    )

    def goes_on(first):
        topics.write(source, ids(*range(first, first + 3)))
        running = jobs.start(sql)
        eventually(lambda: read(topics, sink) == [*range(first + 3)])
        running.stop()

    goes_on(0)
    commit_offsets(session, group, {(source, 0): CommittedOffset(1)})
    goes_on(3)
    commit_offsets(session, group, {(source, 0): CommittedOffset(7)})
    goes_on(6)


def strings(kafka, folder, source_topic, sink_topic, start=None, stop=None, unbounded=None, partitions=None):
    """A job of the Python builders that copies strings."""
    builder = KafkaSource.builder().set_bootstrap_servers(kafka.bootstrap)
    builder.set_value_only_deserializer(SimpleStringSchema())
    if partitions is None:
        builder.set_topics(source_topic)
    else:
        builder.set_partitions(partitions)
    if start is not None:
        builder.set_starting_offsets(start)
    if stop is not None:
        builder.set_bounded(stop)
    if unbounded is not None:
        builder.set_unbounded(unbounded)
    serializer = KafkaRecordSerializationSchema.builder().set_topic(sink_topic)
    serializer.set_value_serialization_schema(SimpleStringSchema())
    sink = KafkaSink.builder().set_bootstrap_servers(kafka.bootstrap).set_record_serializer(serializer.build()).build()
    env = StreamExecutionEnvironment.get_execution_environment()
    env.enable_checkpointing(200)
    env.get_checkpoint_config().set_checkpoint_storage_dir(str(folder))
    env.from_source(builder.build(), WatermarkStrategy.no_watermarks(), "strings").sink_to(sink)
    return env.to_job("strings")


def test_an_initializer_of_ones_own_is_called_once_in_the_life_of_a_job(kafka, tmp_path, topics, topic):
    from penstock import engine
    from penstock.datastream.connectors.kafka import KafkaOffsetResetStrategy

    class Last:
        """The last record of each partition. Cannot be pickled, nor need it be."""

        def __init__(self):
            self.calls = 0
            self.unpicklable = lambda: None

        def get_partition_offsets(self, partitions, partition_offsets_retriever):
            self.calls += 1
            return {each: at - 1 for each, at in partition_offsets_retriever.end_offsets(partitions).items()}

        def get_auto_offset_reset_strategy(self):
            return KafkaOffsetResetStrategy.NONE

    source, sink, last = topic(2), topic(1), Last()
    for partition in (0, 1):
        topics.write(source, [b"a", b"b", b"c%d" % partition], partition=partition)
    job = strings(kafka, tmp_path, source, sink, start=last, stop=KafkaOffsetsInitializer.latest())
    engine.run(job)
    engine.run(job)
    assert sorted(message.value for message in topics.read(sink)) == [b"c0", b"c1"]
    assert last.calls == 1


def test_a_set_of_partitions_is_all_that_is_read(kafka, tmp_path, topics, topic):
    from penstock import engine

    one, two, sink = topic(3), topic(2), topic(1)
    for partition in (0, 1, 2):
        topics.write(one, [b"one-%d" % partition], partition=partition)
    for partition in (0, 1):
        topics.write(two, [b"two-%d" % partition], partition=partition)
    wanted = {KafkaTopicPartition(one, 0), KafkaTopicPartition(one, 2), KafkaTopicPartition(two, 1)}
    engine.run(strings(kafka, tmp_path, "", sink, stop=KafkaOffsetsInitializer.latest(), partitions=wanted))
    assert sorted(message.value for message in topics.read(sink)) == [b"one-0", b"one-2", b"two-1"]


def test_a_source_that_was_set_unbounded_ends_at_its_stop_and_keeps_the_interval(kafka, tmp_path, topics, topic):
    from penstock import engine

    source, sink = topic(1), topic(1)
    topics.write(source, [b"a", b"b", b"c"])
    stop = KafkaOffsetsInitializer.offsets({KafkaTopicPartition(source, 0): 2})
    job = strings(kafka, tmp_path, source, sink, unbounded=stop)
    running = engine.start(job)
    try:
        eventually(lambda: running._run.spark_query is not None)
        trigger = running._run.spark_query._jsq.streamingQuery().trigger().toString()
        assert "200" in trigger
        assert not ended(running).stopped
    finally:
        running.stop()
    assert [message.value for message in topics.read(sink)] == [b"a", b"b"]
    # Started again, it is at its end from the beginning.
    again = engine.run(job)
    assert (again.progress.batches, again.stopped) == (0, False)
    assert len(topics.read(sink)) == 2


def test_a_stop_that_is_not_there_yet_is_waited_for(jobs, topics, topic):
    source, sink = topic(2), topic(1)
    topics.write(source, ids(1), partition=0)
    options = {
        "scan_startup_mode": "earliest-offset",
        "scan_bounded_mode": "specific-offsets",
        "scan_bounded_specific__offsets": "partition:0,offset:2;partition:1,offset:1",
    }
    running = jobs.start(
        jobs.table("s", COLUMNS, source, **options) + jobs.exactly_once("t", COLUMNS, sink) + COPY,
    )
    eventually(lambda: read(topics, sink) == [1])
    topics.write(source, ids(3), partition=1)
    eventually(lambda: read(topics, sink) == [1, 3])
    assert not running.wait(0)
    topics.write(source, ids(2, 4), partition=0)
    assert not ended(running).stopped
    assert read(topics, sink) == [1, 2, 3]


def test_a_range_that_is_empty_or_lies_before_the_log_ends_at_once(jobs, kafka_admin, topics, topic):
    from kafka.structs import TopicPartition

    source, sink = topic(1), topic(1)
    topics.write(source, ids(*range(10)))
    kafka_admin.delete_records({TopicPartition(source, 0): 6})
    stop = {"scan_bounded_mode": "specific-offsets"}
    for name, offset in (("empty", 6), ("gone", 3)):
        result = jobs.run(
            jobs.bounded("s", COLUMNS, source, **stop, scan_bounded_specific__offsets=f"partition:0,offset:{offset}")
            + jobs.table("t", COLUMNS, sink)
            + COPY,
            name,
        )
        assert (result.progress.records_in, result.stopped) == (0, False)
    assert topics.read(sink) == []


def test_a_compacted_end_is_passed_and_not_waited_for(jobs, kafka_admin, topics, topic):
    """The stop is taken while the records before it are there; they are compacted away before they are read."""
    settings = {
        "cleanup.policy": "compact",
        "segment.ms": "100",
        "min.cleanable.dirty.ratio": "0.001",
        "delete.retention.ms": "0",
        "file.delete.delay.ms": "0",
    }
    source, sink = topic(1, configs=settings), topic(1)
    topics.write(source, ids(*range(20)), keys=["k"] * 20)

    def compacted():
        topics.write(source, ids(99), keys=["k"])  # a new record closes the segment before it
        return len(topics.read(source)) < 10

    eventually(compacted, 120)
    first = topics.read(source)[0].offset
    stop = {"scan_bounded_mode": "specific-offsets"}
    result = jobs.run(
        jobs.bounded("s", COLUMNS, source, **stop, scan_bounded_specific__offsets=f"partition:0,offset:{first}")
        + jobs.table("t", COLUMNS, sink)
        + COPY
    )
    assert first > 0
    assert not result.stopped
    assert topics.read(sink) == []


# --- how much -------------------------------------------------------------------------------------------------


def test_a_batch_waits_for_its_minimum_but_not_for_ever(jobs, topics, topic):
    """The ten records come with the minimum, the rest by the delay."""
    source, sink = topic(1), topic(1)
    table = jobs.table(
        "s",
        COLUMNS,
        source,
        scan_startup_mode="earliest-offset",
        scan_min__records__per__trigger="10",
        scan_max__trigger__delay="3 s",
    )
    topics.write(source, ids(*range(10)))
    jobs.start(table + jobs.exactly_once("t", COLUMNS, sink) + COPY)
    eventually(lambda: read(topics, sink) == [*range(10)])
    topics.write(source, ids(10, 11, 12))
    eventually(lambda: read(topics, sink) == [*range(13)])


def test_a_bounded_scan_ends_whatever_its_minimum_and_its_rate(jobs, topics, topic):
    source, sink = topic(2), topic(1)
    topics.write(source, ids(*range(50)))
    result = jobs.run(
        jobs.bounded("s", COLUMNS, source, scan_max__records__per__second="40", scan_min__records__per__trigger="1000")
        + jobs.table("t", COLUMNS, sink)
        + COPY
    )
    assert not result.stopped
    assert read(topics, sink) == [*range(50)]


def test_the_scan_s_parallelism_caps_the_tasks_that_read(jobs, topics, topic):
    """There is enough for four tasks, which the job allows."""
    from penstock import engine

    source = topic(2)
    for partition in (0, 1):
        topics.write(source, [b"%d" % number for number in range(60_000)], partition=partition)
    job = jobs.parse(
        jobs.bounded("s", "v STRING", source, format="raw", scan_parallelism="3")
        + "CREATE TABLE t (v STRING) WITH ('connector' = 'blackhole'); INSERT INTO t SELECT * FROM s;"
    )
    running = engine.start(replace(job, settings=replace(job.settings, parallelism=4)))
    jobs.started.append(running)
    result = ended(running)
    assert result.progress.records_in == 120_000
    found = spark_jobs(running)
    tracker = running._spark.sparkContext.statusTracker()
    stages = [tracker.getStageInfo(stage) for each in found for stage in tracker.getJobInfo(each).stageIds]
    assert [stage.numTasks for stage in stages if stage] == [3]


# --- what is lost ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("guarantee", [pytest.param("at-least-once", marks=pytest.mark.slow), "exactly-once"])
def test_what_retention_removed_ends_the_job_or_is_passed_over_and_told_once(
    jobs, kafka_admin, topics, topic, guarantee
):
    from penstock.errors import PossibleDataLossError

    source, sink = topic(1), topic(1)
    target = jobs.table(
        "t", COLUMNS, sink, sink_delivery__guarantee=guarantee, sink_transactional__id__prefix=f"tx-{sink}"
    )

    def sql(**options):
        return jobs.table("s", COLUMNS, source, scan_startup_mode="earliest-offset", **options) + target + COPY

    topics.write(source, ids(*range(10)))
    running = jobs.start(sql())
    eventually(lambda: read(topics, sink) == [*range(10)] and jobs.idle())  # else it reads them again
    running.stop()
    topics.write(source, ids(*range(10, 40)))
    delete_below(kafka_admin, source, 25)

    with pytest.raises(PossibleDataLossError, match="read up to offset 10, but its log now begins at 25"):
        jobs.start(sql())
    running = jobs.start(sql(scan_fail__on__data__loss="false"))
    eventually(lambda: read(topics, sink) == [*range(10), *range(25, 40)] and jobs.idle())
    running.stop()

    topics.write(source, ids(*range(40, 50)))
    delete_below(kafka_admin, source, 45)
    running = jobs.start(sql(scan_fail__on__data__loss="false"))
    eventually(lambda: read(topics, sink) == [*range(10), *range(25, 40), *range(45, 50)])
    topics.write(source, ids(50))
    eventually(lambda: read(topics, sink)[-1] == 50)
    told = [each for each in jobs.warnings if "skipped" in each]
    assert told == [
        f"table 's': topic '{source}', partition 0: offsets {left} are no longer in the log; {count} were skipped"
        for left, count in (("10 to 25", 15), ("40 to 45", 5))
    ]


def test_a_batch_that_is_redone_after_a_loss_publishes_what_is_left_once(jobs, kafka_admin, topics, topic, tmp_path):
    """Its ends are those that were planned, whatever its records have come to."""
    from penstock import engine
    from penstock.errors import PenstockError
    from penstock.plan.nodes import MapRows

    source, sink = topic(1), topic(1)
    topics.write(source, ids(*range(20)))
    job = jobs.parse(
        jobs.bounded("s", COLUMNS, source, scan_fail__on__data__loss="false")
        + jobs.exactly_once("t", COLUMNS, sink)
        + COPY
    )
    mended = tmp_path / "mended"

    def rows(given, mark=str(mended)):
        for (number,) in given:
            if number == 12 and not Path(mark).exists():
                raise RuntimeError("not yet")
            yield (number,)

    (only,) = job.sinks
    job = replace(job, sinks=(replace(only, input=MapRows(only.input.schema, only.input, rows)),))
    with pytest.raises(PenstockError, match="not yet"):
        engine.run(job, jobs.warnings.append)
    assert topics.read(sink) == []
    delete_below(kafka_admin, source, 8)
    mended.touch()
    result = engine.run(job, jobs.warnings.append)
    assert not result.stopped
    assert read(topics, sink) == [*range(8, 20)]
    assert engine.run(job, jobs.warnings.append).progress.batches == 0
    assert read(topics, sink) == [*range(8, 20)]


def test_a_planned_batch_whose_topic_goes_is_done_with_what_is_left_and_so_are_its_groups_offsets(
    jobs, kafka, kafka_admin, topics, topic, tmp_path
):
    """A group cannot be given offsets of a topic that is gone, not in the batch's transaction either."""
    from penstock import engine
    from penstock.errors import PenstockError
    from penstock.kafka.offsets import fetch_committed_offsets
    from penstock.kafka.properties import ClientConfig
    from penstock.kafka.session import session_for
    from penstock.plan.nodes import MapRows

    one, two, sink = topic(1), topic(2), topic(1)
    topics.write(one, ids(*range(10)))
    topics.write(two, ids(*range(10, 20)), partition=1)
    job = jobs.parse(
        jobs.table(
            "s",
            COLUMNS,
            f"{one};{two}",
            scan_startup_mode="earliest-offset",
            scan_fail__on__data__loss="false",
            properties_group_id=f"group-{sink}",
        )
        + jobs.exactly_once("t", COLUMNS, sink)
        + COPY
    )
    gone = tmp_path / "gone"

    def rows(given, mark=str(gone)):
        for (number,) in given:
            if not Path(mark).exists():
                raise RuntimeError("not yet")
            yield (number,)

    (only,) = job.sinks
    job = replace(job, sinks=(replace(only, input=MapRows(only.input.schema, only.input, rows)),))
    running = engine.start(job, jobs.warnings.append)
    with pytest.raises(PenstockError, match="not yet"):
        running.wait(PATIENCE)
    running.stop()
    delete(kafka_admin, one)
    gone.touch()
    jobs.warnings.clear()

    running = engine.start(job, jobs.warnings.append)
    jobs.started.append(running)
    eventually(lambda: read(topics, sink) == [*range(10, 20)])
    topics.write(two, ids(20))
    eventually(lambda: read(topics, sink) == [*range(10, 21)])
    session = session_for(ClientConfig.from_properties({"bootstrap.servers": kafka.bootstrap}))

    def committed():
        places = [(two, 0), (two, 1)]
        return sum(each.offset for each in fetch_committed_offsets(session, f"group-{sink}", places).values())

    eventually(lambda: committed() == 11)
    assert not running.wait(0)
    assert not topics.open_transactions(sink)
    assert jobs.warnings == [f"table 's': topic '{one}', partition 0 no longer exists; it was read up to offset 10"]


def test_a_topic_that_goes_while_it_is_read_is_told_of_and_the_rest_goes_on(jobs, kafka_admin, topics, topic):
    one, two, sink = topic(1), topic(1), topic(1)
    topics.write(one, ids(1))
    topics.write(two, ids(2))
    running = jobs.start(
        jobs.table("s", COLUMNS, f"{one};{two}", scan_startup_mode="earliest-offset")
        + jobs.exactly_once("t", COLUMNS, sink)
        + COPY
    )
    eventually(lambda: read(topics, sink) == [1, 2])
    kafka_admin.delete_topics([one])
    eventually(lambda: any("no longer exists" in each for each in jobs.warnings))
    topics.write(two, ids(3))
    eventually(lambda: read(topics, sink) == [1, 2, 3])
    assert not running.wait(0)
    told = [each for each in jobs.warnings if "no longer exists" in each]
    assert told == [f"table 's': topic '{one}', partition 0 no longer exists; it was read up to offset 1"]
