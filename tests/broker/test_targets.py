"""What the driver refuses of what its tasks report."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest

from penstock.connectors.kafka.factory import KafkaConnector
from penstock.connectors.kafka.targets import Acknowledged, ExactlyOnceTarget, PlainTarget
from penstock.errors import RecordError
from penstock.kafka.properties import ClientConfig
from penstock.kafka.session import session_for
from penstock.kafka.transactions import describe_transaction
from penstock.plan import Settings
from penstock.spi import Batch, Column, JobContext, Output, TableDefinition
from penstock.types import STRING


@dataclass
class Memory:
    """A checkpoint of no duration."""

    location: str = "memory"
    documents: dict[str, Any] = field(default_factory=dict)

    def read(self, name):
        return self.documents.get(name)

    def write(self, name, document):
        self.documents[name] = document


@dataclass(frozen=True)
class Reporting:
    """Tasks that report a record in a topic."""

    topic: str

    def write(self, *_, **__):
        return Acknowledged(records=1, topics=frozenset({self.topic}))

    write_plainly = write


def context_of(progress_topic):
    return JobContext(
        job="job",
        query_id="query",
        run_id="run",
        checkpoint=Memory(),
        settings=Settings(progress_topic=progress_topic),
        parallelism=1,
        spark=None,
        planned=False,
        stopping=lambda: False,
        warn=lambda _: None,
    )


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
    made = ExactlyOnceTarget if guarantee == "exactly-once" else PlainTarget
    target = made([Output(0, "t", spec, spec.schema, None, ("v",))], context_of(progress), Reporting(reported))
    target.open()
    with pytest.raises(RecordError, match=f"written to '{reported}', a topic of Kafka's or penstock's own"):
        target.publish(Batch(0, (None,), ({},), tasks=1), None)
    if guarantee == "exactly-once":
        session = session_for(ClientConfig.from_properties({"bootstrap.servers": kafka.bootstrap}))
        state = describe_transaction(session, f"{name}-job").state
        assert state in {"PrepareAbort", "CompleteAbort"}
