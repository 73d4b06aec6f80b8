"""What the driver refuses of what its tasks report."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import pytest

from penstock.connectors.kafka.factory import KafkaConnector
from penstock.connectors.kafka.sink.committer import KafkaCommitter
from penstock.connectors.kafka.sink.plain_committer import PlainCommitter
from penstock.errors import AbortableError, RecordError
from penstock.kafka.properties import ClientConfig
from penstock.kafka.session import session_for
from penstock.kafka.transactions import describe_transaction
from penstock.spi import Batch, Column, Output, TableDefinition, TaskResults, connectors
from penstock.types import STRING
from tests.committers import Computed, acknowledged, context_of


@pytest.mark.parametrize("guarantee", ["none", "at-least-once", "exactly-once"])
@pytest.mark.parametrize("reported", ["progress", "__penstock_progress", "__consumer_offsets"])
def test_a_batch_with_records_in_a_reserved_topic_fails_and_is_not_committed(kafka, topic, guarantee, reported):
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
    committer = made([Output(0, "t", spec, spec.schema)], context_of(progress))
    committer.open()
    with pytest.raises(
        RecordError, match=f"to '{reported}', an internal topic of Kafka or penstock .give the rows another"
    ):
        committer.publish(Batch(0, (None,), ({},), tasks=1), Computed(rows=[acknowledged(reported)]))
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
    PlainCommitter([Output(0, "t", spec, spec.schema)], context).open()
    assert [warning.startswith("table 't': 'properties.acks' = '1' weakens") for warning in warnings] == [True] * warned


@pytest.mark.parametrize(
    ("rows", "told"),
    [
        ([{}, {}], "two tasks wrote to one partition; .* start the job again$"),
        ([{}], "0 records were encoded but 1 acknowledged; look for failed tasks in Spark's log"),
        ([{"topic": "", "bytes": 9}], "1 records were encoded but 0 acknowledged; look for failed tasks"),
        (
            [{"topic": "", "bytes": 9}, {"last_sequence": 1}],
            "sequences are not the sent ones; look in Spark's log for tasks that ran twice$",
        ),
        ([{"attempt": 1}], "Spark ran a task of the batch twice within one transaction; "),
    ],
    ids=["two writers", "not encoded", "not acknowledged", "a gap", "a second attempt"],
)
def test_a_report_that_cannot_be_true_says_what_to_do_next(kafka, topic, rows, told):
    options = {
        "connector": "kafka",
        "topic": (name := topic(1)),
        "properties.bootstrap.servers": kafka.bootstrap,
        "format": "raw",
        "sink.delivery-guarantee": "exactly-once",
        "sink.transactional-id-prefix": name,
    }
    spec = KafkaConnector().sink(TableDefinition("t", (Column("v", STRING),), options))
    progress = topic(1, configs={"cleanup.policy": "compact"})
    committer = KafkaCommitter([Output(0, "t", spec, spec.schema)], context_of(progress))
    committer.open()
    tasks = Computed(rows=[acknowledged(**{"topic": name, **row}) for row in rows])
    with pytest.raises(AbortableError, match=told):
        committer.publish(Batch(0, (None,), ({},), tasks=1), tasks)


@dataclass(frozen=True)
class Asked(Computed):
    """Tasks that write nothing, and are asked who is to publish."""

    asked: list[bool] = field(default_factory=list)
    computed: bool = False

    def collect(self, instructions: str = "", *, by_owners: bool = False, once: bool = False) -> TaskResults:
        """Nothing."""
        self.asked.append(by_owners)
        return TaskResults()


def test_changes_of_several_tasks_are_published_by_the_owners_of_partitions(kafka, topic):
    """Tasks that published at once would mix the changes of a key up. Other rows have no order between tasks."""
    common = {"topic": topic(4), "properties.bootstrap.servers": kafka.bootstrap, "key.format": "json"}
    options = {"upsert-kafka": {"value.format": "json"}, "kafka": {"value.format": "json", "key.fields": "v"}}
    for connector, expected in (("upsert-kafka", [False, True]), ("kafka", [False, False])):
        columns = (Column("v", STRING.with_nullability(False)),)
        table = TableDefinition("t", columns, {**common, **options[connector]}, primary_key=("v",))
        spec = connectors.get(connector).sink(table)
        written = Asked()
        context = replace(context_of("progress"), parallelism=3)
        committer = PlainCommitter([Output(0, "t", spec, spec.schema)], context)
        for tasks in (1, 2):
            committer.publish(Batch(0, (None,), ({},), tasks=tasks), written)
        assert written.asked == expected
        assert committer.writers().owners == 3
