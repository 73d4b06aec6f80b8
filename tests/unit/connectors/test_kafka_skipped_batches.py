"""Batches that progress has are skipped only for the tables that got them. Without a broker."""

from __future__ import annotations

from uuid import uuid4

import pytest

from penstock.connectors.kafka.factory import KafkaConnector
from penstock.connectors.kafka.sink.committer import KafkaCommitter
from penstock.delivery import Progress
from penstock.errors import CheckpointError
from penstock.kafka.progress import ProgressTopic
from penstock.spi import Batch, Column, Output, TableDefinition
from penstock.types import STRING
from tests.committers import context_of


def committer_of(**topics: str) -> KafkaCommitter:
    """The committer of tables with these topics, opened as if no broker were needed."""
    outputs = []
    for number, (table, topic) in enumerate(topics.items()):
        options = {
            "connector": "kafka",
            "topic": topic,
            "properties.bootstrap.servers": "localhost:1",
            "format": "raw",
            "sink.delivery-guarantee": "exactly-once",
            "sink.transactional-id-prefix": "tx",
        }
        # Names may be made of positions: each table has the name before the first "_" of its own.
        name = table.partition("_")[0]
        spec = KafkaConnector().sink(TableDefinition(name, (Column("v", STRING),), options))
        outputs.append(Output(number, name, spec, spec.schema))
    committer = KafkaCommitter(outputs, context_of())
    committer._topic = ProgressTopic("__penstock_progress", uuid4(), 1)
    return committer


BATCH = Batch(0, (None,), ({"at": 8},), 1)


@pytest.mark.rule("skip publishing only")
@pytest.mark.parametrize(
    ("now", "missing"),
    [
        pytest.param({"t": "old", "u": "new"}, "'u -> new'", id="another table"),
        pytest.param({"t": "new"}, "'t -> new'", id="another topic"),
        pytest.param({"t": "old", "t_again": "old"}, "'t -> old'", id="a second INSERT"),
    ],
)
def test_a_batch_is_not_skipped_for_a_table_that_did_not_get_it(now: dict[str, str], missing: str) -> None:
    """What only has the name of a table that got the batch did not get it."""
    before, after = committer_of(t="old"), committer_of(**now)
    after._progress = Progress.from_batch("query", BATCH, before._tables)
    with pytest.raises(CheckpointError, match=rf"batch 0 .* into 't -> old', but not into {missing}") as raised:
        after.commit_status(BATCH)
    assert "Start the job once with its former definition" in str(raised.value)
    before._progress = after._progress
    assert before.commit_status(BATCH).done
