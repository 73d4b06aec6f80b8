"""How many producer ids a job takes from the brokers."""

from __future__ import annotations

import pytest


def ids_in(kafka, topic):
    """The producer ids of a topic's record batches."""
    from penstock.kafka.fetch import Fetcher, Range
    from penstock.kafka.offsets import LATEST, list_offsets
    from penstock.kafka.properties import ClientConfig
    from penstock.kafka.record_batches import read_batch_headers
    from penstock.kafka.session import session_for

    session = session_for(ClientConfig.from_properties(kafka.client_settings()))
    places = [(topic, each.partition) for each in session.topic(topic).partitions]
    ends = list_offsets(session, places, LATEST)
    ranges = [Range(*place, 0, end.offset) for place, end in ends.items() if end.offset]
    heads = [read_batch_headers(chunk.records) for chunk in Fetcher(session, ranges)]
    return [int(producer_id) for each in heads for producer_id in each["producer_id"]]


def copy(jobs, source, sink, *, records_per_batch=50, **options):
    return (
        jobs.bounded("s", "id BIGINT", source, scan_max__records__per__trigger=str(records_per_batch))
        + jobs.table("t", "id BIGINT", sink, **options)
        + "INSERT INTO t SELECT * FROM s;"
    )


@pytest.mark.rule("producer ids are scarce")
def test_a_job_has_producer_ids_for_workers_and_none_per_task(kafka, jobs, topics, topic):
    """At least once: twenty batches, each a task, by the few workers that Spark keeps and gives its tasks in turn.

    How many they are is Spark's affair: a worker that is still being given back makes it start one more.
    """
    source, sink = topic(1), topic(1)
    topics.write(source, [{"id": i} for i in range(300)])
    result = jobs.run(copy(jobs, source, sink, records_per_batch=15))
    assert result.progress.batches == 20
    found = ids_in(kafka, sink)
    assert len(found) >= 20
    assert -1 not in found
    assert len(set(found)) <= 10


@pytest.mark.rule("producer ids are scarce")
def test_without_idempotence_there_is_none(kafka, jobs, topics, topic):
    source, sink = topic(1), topic(1)
    topics.write(source, [{"id": i} for i in range(100)])
    jobs.run(copy(jobs, source, sink, properties_enable_idempotence="false"))
    assert set(ids_in(kafka, sink)) == {-1}
    assert sorted(message.json["id"] for message in topics.read(sink)) == list(range(100))
