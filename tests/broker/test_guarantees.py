"""What a task waits for under each delivery guarantee, with a broker that stands still or refuses."""

from __future__ import annotations

import pyarrow as pa
import pytest

from penstock.connectors.kafka.factory import KafkaConnector
from penstock.connectors.kafka.writing import Branch, WriteSpec, encode_rows_and_publish
from penstock.deadline import Deadline
from penstock.errors import KafkaError, RetriableError
from penstock.kafka.fetch import Fetcher, Range
from penstock.kafka.offsets import LATEST, list_offsets
from penstock.kafka.properties import ClientConfig
from penstock.kafka.session import session_for
from penstock.spi import Column, TableDefinition, Task
from penstock.types import STRING

TASK = Task(0, 1)
LARGE = 1 << 20


def spec_of(kafka, topic, guarantee):
    options = {
        "connector": "kafka",
        "topic": topic,
        "properties.bootstrap.servers": kafka.bootstrap,
        "properties.delivery.timeout.ms": "3000",
        "properties.request.timeout.ms": "2000",
        "properties.linger.ms": "0",
        "format": "raw",
        "sink.delivery-guarantee": guarantee,
    }
    sink = KafkaConnector().sink(TableDefinition("t", (Column("v", STRING),), options))
    client = ClientConfig.from_properties(dict(sink.client))
    branch = Branch(sink, client, None, ("v",))
    return WriteSpec((branch,), client, {topic: LARGE}, awaited=guarantee != "none")


def write(spec, *values):
    count = len(values)
    columns = {"v": list(values), "__place": pa.array([0] * count, pa.int32()), "__offset": pa.array(range(count))}
    (told,) = encode_rows_and_publish(spec, None, TASK, [pa.RecordBatch.from_pydict(columns)])
    return told.to_pylist()


def end(spec, topic):
    (at,) = list_offsets(session_for(spec.client), [(topic, 0)], LATEST).values()
    return at.offset


def test_at_least_once_waits_for_the_acknowledgement(kafka, topic):
    name = topic(1)
    spec = spec_of(kafka, name, "at-least-once")
    assert [row["count"] for row in write(spec, "a", "b")] == [2, 2]
    assert end(spec, name) == 2
    kafka.pause(1)
    try:
        with pytest.raises(RetriableError, match=f"topic '{name}', partition 0"):
            write(spec, "c")
    finally:
        kafka.resume(1)


def test_none_waits_for_nothing_and_what_was_sent_arrives_when_nothing_fails(kafka, topic):
    name = topic(1)
    spec = spec_of(kafka, name, "none")
    write(spec, "a")
    assert end(spec, name) == 1  # asked on the same connection, so the first answer is there too
    kafka.pause(1)
    try:
        (told,) = write(spec, "b", "c")
    finally:
        kafka.resume(1)
    assert told["topic"] == ""
    assert told["count"] == 2
    (chunk,) = Fetcher(session_for(spec.client), [Range(name, 0, 0, 3)])  # waits for what is on its way
    assert chunk.end == 3


def test_none_notices_a_refusal_later_and_goes_on_after_it(kafka, kafka_admin, topic):
    name = topic(1, configs={"max.message.bytes": "1000"})
    spec = spec_of(kafka, name, "none")
    write(spec, "a")

    def write_on():
        write(spec, "x" * 5000)  # more than the broker takes, which the task does not wait to hear
        until = Deadline.after(60_000)
        while not until.passed:
            write(spec, "b")

    with pytest.raises(KafkaError, match="MESSAGE_TOO_LARGE"):
        write_on()
    write(spec, "c")
    assert end(spec, name) >= 1
