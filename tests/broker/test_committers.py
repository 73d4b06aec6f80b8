"""What the driver refuses of what its tasks report."""

from __future__ import annotations

from dataclasses import replace

import pytest

from penstock.connectors.kafka.factory import KafkaConnector
from penstock.connectors.kafka.sink.committer import KafkaCommitter, PlainCommitter
from penstock.errors import RecordError
from penstock.kafka.properties import ClientConfig
from penstock.kafka.session import session_for
from penstock.kafka.transactions import describe_transaction
from penstock.spi import Batch, Column, Output, TableDefinition
from penstock.types import STRING
from tests.committers import Reporting, context_of


@pytest.mark.parametrize("guarantee", ["none", "at-least-once", "exactly-once"])
@pytest.mark.parametrize("reported", ["progress", "__penstock_progress", "__consumer_offsets"])
def test_a_batch_with_records_in_a_reserved_topic_is_not_committed(kafka, topic, guarantee, reported):
    name, progress = topic(1), topic(1, configs={"cleanup.policy": "compact"})
    options = {
        "connector": "kafka",
        "topic": name,
        "properties.bootstrap.servers": kafka.bootstrap,
        "format": "raw",
        "sink.delivery-guarantee": guarantee,
    }
    options |= {"sink.transactional-id-prefix": name} if guarantee == "exactly-once" else {}
    spec = KafkaConnector().sink(TableDefinition("t", (Column("v", STRING),), options))
    reported = progress if reported == "progress" else reported
    made = KafkaCommitter if guarantee == "exactly-once" else PlainCommitter
    committer = made([Output(0, "t", spec, spec.schema, None, ("v",))], context_of(progress), Reporting(reported))
    committer.open()
    with pytest.raises(RecordError, match=f"written to '{reported}', a topic of Kafka's or penstock's own"):
        committer.publish(Batch(0, (None,), ({},), tasks=1), None)
    if guarantee == "exactly-once":
        session = session_for(ClientConfig.from_properties({"bootstrap.servers": kafka.bootstrap}))
        state = describe_transaction(session, f"{name}-job").state
        assert state in {"PrepareAbort", "CompleteAbort"}


@pytest.mark.parametrize(("acks", "warned"), [("1", True), ("all", False)])
def test_acks_that_weaken_at_least_once_are_warned_of(kafka, topic, acks, warned):
    options = {
        "connector": "kafka",
        "topic": topic(1),
        "properties.bootstrap.servers": kafka.bootstrap,
        "properties.acks": acks,
        "format": "raw",
    }
    spec = KafkaConnector().sink(TableDefinition("t", (Column("v", STRING),), options))
    warnings = []
    context = replace(context_of("progress"), warn=warnings.append)
    PlainCommitter([Output(0, "t", spec, spec.schema, None, ("v",))], context, Reporting("")).open()
    assert [warning.startswith("table 't': 'properties.acks' = '1' weakens") for warning in warnings] == [True] * warned
