"""Topics of Kafka's and penstock's own are out of reach for rows, whatever the guarantee."""

from __future__ import annotations

import uuid

import pytest

from penstock.errors import OptionsError, RecordError
from tests.waiting import while_running

GUARANTEES = ["none", "at-least-once", "exactly-once"]


def script(jobs, topic, guarantee, name, **sink):
    """Three rows, the second of which goes to the topic ``name``."""
    prefix = {"sink_transactional__id__prefix": f"tx-{topic}"} if guarantee == "exactly-once" else {}
    target = jobs.table(
        "t",
        "id BIGINT, place STRING METADATA FROM 'topic'",
        topic,
        sink_delivery__guarantee=guarantee,
        **prefix,
        **sink,
    )
    return (
        jobs.bounded("s", "id BIGINT", topic)
        + target.replace(f"'topic' = '{topic}', ", "")
        + f"INSERT INTO t SELECT id, IF(id = 1, '{name}', '{topic}') FROM s;"
    )


def rows_in(topics, kafka_admin, name):
    """What is in a topic and looks like a row, in aborted transactions too."""
    if name not in kafka_admin.list_topics():
        return []
    return [message.value for message in topics.read(name, "read_uncommitted") if message.value == b'{"id":1}']


@pytest.mark.parametrize("guarantee", GUARANTEES)
@pytest.mark.parametrize("name", ["__penstock_progress", "__consumer_offsets"])
def test_a_row_that_names_a_reserved_topic_fails_the_job(jobs, topics, topic, kafka_admin, guarantee, name):
    """Named by the metadata column, and matched by the table's pattern."""
    source = topic(1)
    topics.write(source, [{"id": i} for i in range(3)])
    topics.read(source)  # makes __consumer_offsets
    with pytest.raises(
        RecordError, match=f"the row's topic is '{name}', which is an internal topic of Kafka or"
    ) as raised:
        jobs.run(script(jobs, source, guarantee, name, topic__pattern=".*"))
    assert (raised.value.topic, raised.value.offset) == (source, 1)
    assert not rows_in(topics, kafka_admin, name)


@pytest.mark.parametrize("guarantee", GUARANTEES)
def test_a_row_that_names_the_job_s_progress_topic_fails_the_job(jobs, topics, topic, kafka_admin, guarantee):
    """Which may have a name that says nothing."""
    source, progress = topic(1), topic(1, configs={"cleanup.policy": "compact"})
    topics.write(source, [{"id": i} for i in range(3)])
    sql = f"SET 'penstock.progress-topic' = '{progress}';\n" + script(
        jobs, source, guarantee, progress, topic__pattern=".*"
    )
    with pytest.raises(RecordError, match=f"the row's topic is '{progress}', which is an internal topic of Kafka or"):
        jobs.run(sql)
    assert not rows_in(topics, kafka_admin, progress)


def test_a_row_that_names_the_progress_topic_that_the_checkpoint_keeps_fails_the_job(jobs, topics, topic, kafka_admin):
    """Though the job was given another one since."""
    source, progress = topic(1), topic(1, configs={"cleanup.policy": "compact"})
    sql = script(jobs, source, "exactly-once", progress, topic__pattern=".*")
    sql = sql.replace(", 'scan.bounded.mode' = 'latest-offset'", "")
    topics.write(source, [{"id": 0}])
    running = jobs.start(f"SET 'penstock.progress-topic' = '{progress}';\n{sql}")
    while_running(running, lambda: running.progress.records_out == 1)
    running.stop()
    topics.write(source, [{"id": 1}])
    running = jobs.start(sql)
    with pytest.raises(RecordError, match=f"the row's topic is '{progress}', which is an internal topic of Kafka or"):
        while_running(running, lambda: running.progress.records_out > 1)
    assert not rows_in(topics, kafka_admin, progress)
    assert [each for each in jobs.warnings if f"the progress topic stays '{progress}'" in each]


@pytest.mark.parametrize("guarantee", GUARANTEES)
def test_a_table_of_the_job_s_progress_topic_does_not_start(jobs, topic, guarantee):
    source, progress = topic(1), f"progress-{uuid.uuid4().hex}"
    exact = {"sink_transactional__id__prefix": "p"} if guarantee == "exactly-once" else {}
    sql = (
        f"SET 'penstock.progress-topic' = '{progress}';\n"
        + jobs.bounded("s", "id BIGINT", source)
        + jobs.table("t", "id BIGINT", progress, sink_delivery__guarantee=guarantee, **exact)
        + "INSERT INTO t SELECT id FROM s;"
    )
    with pytest.raises(OptionsError, match=f"table 't': 'topic': '{progress}' is the job's own progress topic"):
        jobs.run(sql)
