"""What a committer says of progress that it has read, without a broker."""

from __future__ import annotations

import pytest

from penstock.connectors.kafka.factory import KafkaConnector
from penstock.connectors.kafka.sink.committer import KafkaCommitter
from penstock.delivery import Progress
from penstock.spi import Column, Output, TableDefinition
from penstock.types import STRING
from tests.committers import Reporting, context_of


@pytest.mark.rule("state commits with the output")
def test_the_state_in_progress_that_is_behind_is_not_looked_for() -> None:
    options = {
        "connector": "kafka",
        "topic": "topic",
        "properties.bootstrap.servers": "localhost:1",
        "format": "raw",
        "sink.delivery-guarantee": "exactly-once",
        "sink.transactional-id-prefix": "tx",
    }
    spec = KafkaConnector().sink(TableDefinition("t", (Column("v", STRING),), options))
    committer = KafkaCommitter([Output(0, "t", spec, spec.schema, None, ("v",))], context_of(), Reporting(""))
    assert committer.state(0) == ""
    for query, found in (("query", ["state", "state", "", ""]), ("another", [""] * 4)):
        committer._progress = Progress.from_positions(query, 7, [None], [{"at": 8}], state="state")
        assert [committer.state(upcoming) for upcoming in (7, 8, 9, 20)] == found
