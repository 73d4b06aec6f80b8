"""Rule "one writer per partition": under exactly-once each partition has one writer, whatever decides which partition a
row goes to."""

from __future__ import annotations

import pytest

RECORDS = 100_000
PARTITIONS = 4


def keyed(topics, source, values):
    """Records with a key each, in both partitions of a topic, so that two tasks read them."""
    for partition in range(2):
        mine = values[partition::2]
        topics.write(source, mine, partition=partition, keys=[b"key %d" % i for i in range(partition, len(values), 2)])


@pytest.mark.rule("one writer per partition")
def test_rows_with_raw_keys_have_one_writer_for_each_partition(jobs, topics, topic):
    """Both tasks have rows for every partition: the raw key, not the task, decides where a row goes."""
    source, sink = topic(2), topic(PARTITIONS)
    keyed(topics, source, [{"id": i} for i in range(RECORDS)])
    columns = "id BIGINT, k BYTES METADATA FROM '__raw_key__'"
    sql = (
        jobs.bounded("s", columns, source)
        + jobs.exactly_once("t", columns, sink)
        + "INSERT INTO t SELECT id, k FROM s;"
    )
    jobs.run(sql)
    assert sorted(message.json["id"] for message in topics.read(sink)) == list(range(RECORDS))
    assert not [warning for warning in jobs.warnings if "is retried" in warning]


@pytest.mark.rule("one writer per partition")
def test_dead_letters_have_one_writer_for_each_partition(jobs, topics, topic):
    """Dead letters keep their keys, and go where these say, beside rows that go where their task says."""
    source, sink, dead = topic(2), topic(PARTITIONS), topic(PARTITIONS)
    keyed(topics, source, [b"no json, %d" % i for i in range(RECORDS)])
    sql = (
        jobs.bounded("s", "id BIGINT", source, scan_dead__letter_topic=dead)
        + jobs.exactly_once("t", "id BIGINT", sink)
        + "INSERT INTO t SELECT id FROM s;"
    )
    jobs.run(sql)
    assert sorted(message.value for message in topics.read(dead)) == sorted(b"no json, %d" % i for i in range(RECORDS))
    assert not [warning for warning in jobs.warnings if "is retried" in warning]


@pytest.mark.rule("one writer per partition")
def test_a_batch_whose_sequences_clash_is_redone_through_owners(jobs, topics, topic, monkeypatch):
    """Two writers of one partition show as a gap in its sequences, before their acknowledgements can be compared."""
    from penstock.connectors.kafka.sink.writing_committer import WritingCommitter

    source, sink = topic(2), topic(PARTITIONS)
    keyed(topics, source, [{"id": i} for i in range(RECORDS)])
    columns = "id BIGINT, k BYTES METADATA FROM '__raw_key__'"
    monkeypatch.setattr(WritingCommitter, "one_writer_each", lambda self, tasks: True)
    jobs.run(
        jobs.bounded("s", columns, source)
        + jobs.exactly_once("t", columns, sink)
        + "INSERT INTO t SELECT id, k FROM s;"
    )
    assert sorted(message.json["id"] for message in topics.read(sink)) == list(range(RECORDS))
    (redone,) = [warning for warning in jobs.warnings if "is retried" in warning]
    assert "OUT_OF_ORDER_SEQUENCE_NUMBER" in redone


@pytest.mark.parametrize("partitioner", ["round-robin", "all-to-zero", "fixed"])
@pytest.mark.rule("one writer per partition")
def test_no_partitioner_makes_two_writers_of_one_partition(jobs, topics, topic, partitioner):
    source, sink = topic(2), topic(PARTITIONS if partitioner == "round-robin" else 1)
    keyed(topics, source, [{"id": i} for i in range(2000)])
    sql = (
        jobs.bounded("s", "id BIGINT", source)
        + jobs.exactly_once("t", "id BIGINT", sink, sink_partitioner=partitioner)
        + "INSERT INTO t SELECT id FROM s;"
    )
    jobs.run(sql)
    assert sorted(message.json["id"] for message in topics.read(sink)) == list(range(2000))
    assert not [warning for warning in jobs.warnings if "is retried" in warning]
