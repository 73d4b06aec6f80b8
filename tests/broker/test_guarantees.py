"""What a task that writes without a transaction waits for, with a broker that stands still or refuses."""

from __future__ import annotations

from functools import partial

import pyarrow as pa
import pytest

from penstock.connectors.kafka.factory import KafkaConnector
from penstock.connectors.kafka.sink.writer import WRITTEN, Instructions, KafkaOutput, WriteSpec, open_writer
from penstock.errors import KafkaError, RetriableError
from penstock.kafka.offsets import LATEST, list_offsets
from penstock.kafka.properties import ClientConfig
from penstock.kafka.session import session_for
from penstock.spi import HIDDEN, Column, TableDefinition, Task, WriterFactory, pickle_text
from penstock.types import STRING
from tests.committers import rows_of_outputs

TASK = Task(0, 1, pickle_text(Instructions()))
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
    branch = KafkaOutput(0, "t", sink, sink.schema, client=client)
    return WriteSpec((branch,), client, {topic: LARGE})


def write(spec, *values):
    count = len(values)
    columns = {
        "v": list(values),
        HIDDEN.names[0]: pa.array([0] * count, pa.int32()),
        HIDDEN.names[1]: pa.array(range(count)),
    }
    rows = rows_of_outputs(spec.branches, pa.RecordBatch.from_pydict(columns))
    (told,) = WriterFactory(partial(open_writer, spec), WRITTEN).run(TASK, rows)
    return told.to_pylist()


def end(spec, topic):
    (at,) = list_offsets(session_for(spec.client), [(topic, 0)], LATEST).values()
    return at.offset


@pytest.mark.parametrize("guarantee", ["none", "at-least-once"])
def test_a_task_waits_for_the_acknowledgement(kafka, topic, guarantee):
    name = topic(1)
    spec = spec_of(kafka, name, guarantee)
    assert [row["count"] for row in write(spec, "a", "b")] == [2, 2]
    assert end(spec, name) == 2
    kafka.pause(1)
    try:
        with pytest.raises(RetriableError, match=f"topic '{name}', partition 0"):
            write(spec, "c")
    finally:
        kafka.resume(1)


@pytest.mark.parametrize("guarantee", ["none", "at-least-once"])
def test_a_refused_record_fails_the_task_and_the_next_one_goes_on(kafka, topic, guarantee):
    name = topic(1, configs={"max.message.bytes": "1000"})
    spec = spec_of(kafka, name, guarantee)
    write(spec, "a")
    with pytest.raises(KafkaError, match="MESSAGE_TOO_LARGE"):
        write(spec, "x" * 5000)
    write(spec, "c")
    assert end(spec, name) == 2
