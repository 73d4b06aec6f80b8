"""Messages of many tables that a pipeline has found: made together as each table's would be by themselves."""

from __future__ import annotations

import json
from collections import defaultdict
from typing import Any

import pytest

from penstock.connectors.kafka.sink.encoding import RowEncoder, describe_work
from penstock.flow.graph.outlets import _hide
from penstock.kafka.properties import ClientConfig
from penstock.kafka.record_batches import scan
from penstock.spi import Task
from tests.unit.ingest.pipelines import Message, Pipeline

TEXT = """
source:
  type: kafka
  topic: orders
  properties.bootstrap.servers: localhost:9092
  scan.startup.mode: earliest-offset
sink:
  type: kafka
  properties.bootstrap.servers: localhost:9092
"""
KEYS = "transform:\n  - source-table: db.\\.*\n    primary-keys: id\n"


def change(table: int, op: str, before: Any = None, after: Any = None) -> Message:
    return Message({"op": op, "before": before, "after": after, "source": {"db": "db", "table": f"t{table}"}})


def make_changes() -> list[Message]:
    """Insertions, updates and deletions of three tables in turns."""
    found = []
    for number in range(30):
        table, row = number % 3, {"id": number, "note": f"n{number}"}
        kinds = {0: ("c", None, row), 1: ("u", {**row, "note": None}, row), 2: ("d", row, None)}
        found.append(change(table, *kinds[number // 3 % 3]))
    return found


def encode(pipeline: Pipeline, *, together: bool) -> dict[tuple[str, int], list[Any]]:
    """The messages of the last batch by topic and partition."""
    client = ClientConfig.from_properties({"bootstrap.servers": "localhost:9092"})
    parts, works = [], []
    for each in pipeline.batches:
        spec = pipeline.work.output(each.version).spec
        works.append(describe_work(spec, client, {}))
        encoder = RowEncoder(spec, client, lambda topic: 3 if topic == "out" else 2, {}, Task(0, 1))
        encoder._turn = 0
        parts.append((encoder, each.rows.select(list(each.version.schema.row.names)), _hide(each.rows)))
    assert len({repr(each) for each in works}) == 1
    assert None not in works
    if together:
        made = [(topic, batch) for _, topic, batch in RowEncoder.encode_together(parts, share_topics=True)]
    else:
        made = [each for encoder, rows, hidden in parts for each in encoder.encode(rows, hidden)]
    found = defaultdict(list)
    for topic, batch in made:
        records = scan(batch.data, start_offset=0, end_offset=batch.count, headers=True)
        columns = records.keys.to_pylist(), records.values.to_pylist(), records.headers.to_pylist()
        found[topic, batch.partition] += zip(*columns, strict=True)
    return dict(found)


@pytest.mark.parametrize("format", ["debezium-json", "canal-json"])
@pytest.mark.parametrize(
    "lines",
    [
        (),
        ("topic: out",),
        ("partition.strategy: hash-by-key",),
        ("topic: out", "key.format: json", "sink.add-tableId-to-header-enabled: true"),
    ],
    ids=["a topic each", "one topic", "by key", "one topic with headers"],
)
def test_messages_of_tables_are_those_of_each_by_itself(format, lines):
    text = TEXT + f"  value.format: {format}\n" + "".join(f"  {each}\n" for each in lines) + KEYS
    pipeline = Pipeline(text).run(*make_changes())
    found = encode(pipeline, together=True)

    assert found == encode(pipeline, together=False)
    messages = [each for every in found.values() for each in every]
    assert len(messages) == 30  # an update is one message
    named = {json.dumps(json.loads(value).get("source") or json.loads(value)["table"]) for _, value, _ in messages}
    assert len(named) == 3
