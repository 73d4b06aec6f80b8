"""Pipelines whose tables are declared, on a broker: what they read, and what they continue."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from penstock import engine
from penstock.connectors import values
from penstock.ingest import lower, parse_pipeline


@pytest.fixture
def run(jobs) -> Callable[..., None]:
    """Runs a pipeline from a topic to the end that the topic has then."""

    def run(topic: str, ddl: str, *source: str, sink: str = "  type: values\n", more: str = "") -> None:
        given = (
            f"topic: {topic}",
            "scan.startup.mode: earliest-offset",
            "schema.inference.strategy: static",
            f"scan.value.initial-schemas.ddls: {ddl}",
            *source,
        )
        text = f"source:\n  type: kafka\n  properties.bootstrap.servers: {jobs.bootstrap}\n"
        text += "".join(f"  {each}\n" for each in given) + f"sink:\n{sink}"
        text += f"pipeline:\n  name: job\n  execution.checkpointing.dir: {jobs.folder}\n{more}"
        engine.run(lower(parse_pipeline(text, file="p.yaml"), "job"), jobs.warnings.append)

    return run


def rows(table: str) -> list[dict[str, Any]]:
    """The rows that the process keeps of a table."""
    return [each.as_dict() for each in values.rows(table)]


@pytest.mark.parametrize("mode", ["streaming", "batch"])
def test_a_table_of_csv_has_columns_of_keys_metadata_and_computed_ones(topics, topic, run, mode):
    name = topic(1)
    topics.write(name, [b"a", b"b"], keys=[b"1", b"2"])
    ddl = "CREATE TABLE t (id INT, note STRING, at BIGINT METADATA FROM 'offset', next AS id + 1)"
    keys = "key.format: csv", "key.fields: id", "value.fields-include: EXCEPT_KEY"
    route = f"route:\n  - source-table: {name}\n    sink-table: {name}.out\n"
    ends = "scan.bounded.mode: latest-offset"
    run(name, ddl, "value.format: csv", *keys, ends, more=f"  execution.runtime-mode: {mode}\n{route}")
    assert rows(f"{name}.out") == [
        {"id": 1, "note": "a", "at": 0, "next": 2},
        {"id": 2, "note": "b", "at": 1, "next": 3},
    ]


def test_rows_of_several_tables_are_kept_in_memory(topics, topic, run):
    name = topic(1)
    changes = [{"op": "c", "after": {"id": at}, "source": {"db": name, "table": f"t{at % 2}"}} for at in range(4)]
    topics.write(name, changes)
    once = "  penstock.available-now: true\n"
    run(
        name,
        f"CREATE TABLE `{name}`.t0 (id INT, note STRING)",
        sink="  type: values\n  sink-insert-only: false\n",
        more=once,
    )
    assert rows(f"{name}.t0") == [{"id": 0, "note": None}, {"id": 2, "note": None}]
    assert rows(f"{name}.t1") == [{"id": 1}, {"id": 3}]


@pytest.mark.parametrize("guarantee", ["at-least-once", "exactly-once"])
def test_a_job_that_knew_its_only_table_goes_on(jobs, topics, topic, run, guarantee):
    """A job in SQL has the plan that former versions made of such a pipeline."""
    source, target = topic(1), topic(1)
    topics.write(source, [{"id": 1}, {"id": 2}])
    options = {"format": "json", "sink.delivery-guarantee": guarantee, "sink.transactional-id-prefix": target}
    sql = "SET 'penstock.available-now' = 'true';\n"
    sql += jobs.table("orders", "id BIGINT", source, **{"scan.startup.mode": "earliest-offset"})
    jobs.run(f"{sql}{jobs.table('copies', 'id BIGINT', target, **options)}INSERT INTO copies SELECT id FROM orders;")
    topics.write(source, [{"id": 3}])
    place = (
        f"  type: kafka\n  properties.bootstrap.servers: {jobs.bootstrap}\n  topic: {target}\n  value.format: json\n"
    )
    sink = f"{place}  sink.delivery-guarantee: {guarantee}\n  sink.transactional-id-prefix: {target}\n"
    for _ in range(2):
        run(
            source,
            "CREATE TABLE orders (id BIGINT)",
            "value.format: json",
            sink=sink,
            more="  penstock.available-now: true\n",
        )
    assert [message.json["id"] for message in topics.read(target)] == [1, 2, 3]
