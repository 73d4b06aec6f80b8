"""``penstock check --live``: what a pipeline would find in its topics, and what it would do to its tables."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from penstock.cli.main import main
from penstock.engine.checkpoint import job_location, read_location
from penstock.engine.checkpoint.committed import STATE, write_state
from penstock.flow.state.manifest import Manifest
from penstock.flow.state.schema_log import append_versions
from penstock.flow.state.storage import Storage
from penstock.schemas import SchemaVersion, Side, TableSchema
from penstock.spi import Batch
from penstock.types import parse_columns

if TYPE_CHECKING:
    from penstock_testing.services import KafkaCluster


def produce(kafka: KafkaCluster, topic: str, values: Sequence[Any], partition: int = 0) -> None:
    from confluent_kafka import Producer

    producer = Producer({"bootstrap.servers": kafka.bootstrap})
    for value in values:
        content = value if isinstance(value, bytes) else json.dumps(value).encode()
        producer.produce(topic, content, partition=partition)
    assert producer.flush(60) == 0


def topics_of(kafka: KafkaCluster) -> set[str]:
    from confluent_kafka.admin import AdminClient

    return set(AdminClient({"bootstrap.servers": kafka.bootstrap}).list_topics(timeout=60).topics)


@pytest.fixture
def check(kafka: KafkaCluster, tmp_path: Path) -> Callable[..., int]:
    """Checks the pipeline from a topic with tables of JSON to topics, with further lines for its source and its end."""

    def check(topic: str, *lines: str, more: str = "", options: Sequence[str] = ("--live",)) -> int:
        place = f"  type: kafka\n  properties.bootstrap.servers: {kafka.bootstrap}\n"
        own = (f"topic: {topic}", "scan.startup.mode: earliest-offset", "value.format: json", *lines)
        text = f"source:\n{place}" + "".join(f"  {each}\n" for each in own) + f"sink:\n{place}{more}"
        file = tmp_path / "sync.yaml"
        file.write_text(text)
        return main(["check", str(file), "--checkpoint-dir", str(tmp_path / "checkpoints"), *options])

    return check


TABLES = "json.decode.parser-table-id.fields: db,t"
ROUTES = """
route:
  - source-table: shop.orders
    sink-table: archive.orders
  - source-table: shop.nothing
    sink-table: x
transform:
  - source-table: shop.orders
    projection: \\*, id + 1 AS next
    primary-keys: id
"""


def live_lines(text: str) -> list[str]:
    """What is said of the records, without the indentation of the plan."""
    lines = text.splitlines()
    (at,) = (number for number, line in enumerate(lines) if line.startswith("  live: "))
    return [line[2:] for line in lines[at:]]


def test_tables_columns_and_targets_are_shown_and_nothing_is_written(kafka, topic, check, tmp_path, capsys):
    source = topic(2)
    produce(kafka, source, [{"db": "shop", "t": "orders", "id": at} for at in range(20)])
    produce(kafka, source, [{"db": "shop", "t": "items", "name": "a"}, b"{"], partition=1)
    before = topics_of(kafka)
    dead = f"scan.dead-letter.topic: {source}-dead"
    assert check(source, TABLES, dead, "scan.max.pre.fetch.records: 3", more=ROUTES) == 0
    assert live_lines(capsys.readouterr().out) == [
        f"live: 8 records of 1 topic ('{source}'): at most the oldest and the newest 3 of 2 partitions each",
        "  table 'shop.items', to 'shop.items': 1 row",
        "    `db` STRING, `t` STRING, `name` STRING",
        "  table 'shop.orders', to 'archive.orders': 6 rows",
        "    `db` STRING, `t` STRING, `id` BIGINT",
        "  1 record cannot be read:",
        f"    topic '{source}', partition 1, offset 1: the text ends before the JSON value does",
        "changes of tables:",
        "  source table 'shop.items', version 1: new table with `db` STRING, `t` STRING, `name` STRING",
        "  source table 'shop.orders', version 1: new table with `db` STRING, `t` STRING, `id` BIGINT",
        "  sink table 'archive.orders', version 1: new table with `db` STRING, `t` STRING, `id` BIGINT NOT NULL, "
        "`next` BIGINT",
        "  sink table 'shop.items', version 1: new table with `db` STRING, `t` STRING, `name` STRING",
        "warning: sync.yaml, line 17, column 5: the route for 'shop.nothing' matches none of the tables that were "
        "found so far: shop.items, shop.orders",
    ]
    assert topics_of(kafka) == before
    assert not (tmp_path / "checkpoints").exists()


def test_a_column_that_comes_late_is_found_in_the_newest_records(kafka, topic, check, capsys):
    source = topic(1)
    produce(kafka, source, [{"id": at} for at in range(30)] + [{"id": 1.5, "late": True}])
    assert check(source, "scan.max.pre.fetch.records: 2") == 0
    lines = live_lines(capsys.readouterr().out)
    assert lines[1:3] == [f"  table '{source}', to '{source}': 4 rows", "    `id` DOUBLE, `late` BOOLEAN"]


def test_what_the_changed_pipeline_would_do_to_the_tables_that_the_job_knows(kafka, topic, check, tmp_path, capsys):
    source = topic(1)
    produce(kafka, source, [{"db": "shop", "t": "orders", "id": 1, "price": 1.5}])
    place = read_location(job_location(str(tmp_path / "checkpoints"), "sync"))
    place.write("job", {"job": "sync", "query_id": "q", "sources": ["source"], "sinks": []})
    uri = place.folder(STATE)
    schema = TableSchema(parse_columns("db STRING, t STRING, id INT"))
    versions = [
        SchemaVersion(side, "shop.orders", 1, schema, ("new table",), output=output)
        for side, output in ((Side.SOURCE, -1), (Side.SINK, 0))
    ]
    files = append_versions(Storage.from_uri(uri), (), versions, 0)
    state = Manifest(7, schemas=files).write(Storage.from_uri(uri), "m")
    write_state(place, Batch(7, ({},), ({},), 1), state)

    assert check(source, TABLES, more=ROUTES) == 0
    lines = live_lines(capsys.readouterr().out)
    begin = lines.index(
        f"changes of tables by the definition alone, since the checkpoint '{place.location}', after batch 7:"
    )
    assert lines[begin + 1 : begin + 5] == [
        "  sink table 'archive.orders', version 1: new table with `db` STRING, `t` STRING, `id` INT NOT NULL, "
        "`next` INT",
        "changes by these records:",
        "  source table 'shop.orders', version 2: new columns `price` DOUBLE",
        "  sink table 'archive.orders', version 2: new columns `price` DOUBLE",
    ]
    assert check(source, TABLES, more="pipeline:\n  schema.change.behavior: EXCEPTION\n") == 2
    assert "new columns `price` DOUBLE" in capsys.readouterr().err


DECLARED = "schema.inference.strategy: static", "scan.value.initial-schemas.ddls: CREATE TABLE a (id INT)"


@pytest.mark.parametrize("lines", [(), DECLARED])
def test_what_cannot_be_looked_at_is_said(kafka, topic, check, capsys, lines):
    missing = f"no-{topic(1)}"
    before = topics_of(kafka)
    assert check(missing, *lines) == 1
    assert f"topic '{missing}' does not exist" in capsys.readouterr().err
    assert topics_of(kafka) == before


def test_a_declared_table_is_looked_at_too(kafka, topic, check, capsys):
    source = topic(1)
    produce(kafka, source, [{"id": 1}, {"id": "x"}])
    assert check(source, *DECLARED) == 0
    shown = "\n".join(live_lines(capsys.readouterr().out))
    assert f"table '{source}'" in shown
    assert "1 record cannot be read" in shown
    assert "does not fit its column, which is INT" in shown


def test_a_job_in_sql_has_nothing_to_look_at(tmp_path, capsys):
    file = tmp_path / "job.sql"
    file.write_text(
        "CREATE TABLE s (id INT) WITH ('connector' = 'datagen');\nCREATE TABLE t (id INT) WITH ('connector' = "
        "'blackhole');\nINSERT INTO t SELECT id FROM s;\n"
    )
    assert main(["check", "--live", str(file)]) == 2
    assert "--live" in capsys.readouterr().err
