"""What a pipeline would make of some records, as `penstock check --live` shows it."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.errors import SchemaError
from penstock.flow.kernels.session import Session
from penstock.ingest.tables.preview import Preview, preview
from tests.unit.ingest.pipelines import SINK, Pipeline

SOURCE = """source:
  type: kafka
  properties.bootstrap.servers: host:9092
  topic: orders
  scan.startup.mode: earliest-offset
  value.format: json
"""
NEXT = "transform:\n  - source-table: orders\n    projection: \\*, id + 1 AS next\n"


def look(pipeline: Pipeline, *messages: Any) -> Preview:
    return preview(pipeline.work, pipeline.read(*messages), pipeline.schemas, Session("UTC"))


def changes(found: Preview) -> list[str]:
    """The changes that follow from the records."""
    return [f"{each.side.value} {each.table}: {'; '.join(each.changes)}" for each in found.by_records]


def test_a_new_pipeline_finds_its_tables():
    found = look(Pipeline(SOURCE + SINK + NEXT), {"id": 1}, {"id": 2}, b"{")
    (table,) = found.tables
    assert (table.table, table.rows, table.refused, table.targets) == ("orders", 2, 1, ("orders",))
    assert changes(found) == [
        "source orders: new table with `id` BIGINT",
        "sink orders: new table with `id` BIGINT, `next` BIGINT",
    ]
    assert [each.offset for each in found.refused] == [2]
    assert not found.lost


def test_values_that_fit_known_columns_change_nothing():
    """The columns of messages alone would be wider than those that the table was declared with."""
    declared = "  scan.value.initial-schemas.ddls: CREATE TABLE orders (id INT, note VARCHAR(5))\n"
    known = Pipeline(SOURCE + declared + SINK).run({"id": 1, "note": "a"})
    assert changes(look(known, {"id": 2, "note": "b"})) == []
    assert changes(look(known, {"id": 2**40, "note": "b"})) == [
        "source orders: other types: `id` BIGINT",
        "sink orders: other types: `id` BIGINT",
    ]


def test_what_the_definition_changes_comes_before_what_records_change():
    known = Pipeline(SOURCE + SINK).run({"id": 1})
    route = "route:\n  - source-table: orders\n    sink-table: others\n"
    found = look(Pipeline(SOURCE + SINK + route, schemas=known.schemas), {"id": 1.5})
    assert [(each.table, *each.changes) for each in found.by_definition] == [
        ("others", "new table with `id` BIGINT"),
    ]
    assert changes(found) == ["source orders: other types: `id` DOUBLE", "sink others: other types: `id` DOUBLE"]


def test_columns_that_do_not_reach_a_table_are_told():
    known = Pipeline(SOURCE + SINK).run({"id": 1})
    ignoring = "pipeline:\n  schema.change.behavior: IGNORE\n"
    found = look(Pipeline(SOURCE + SINK + NEXT + ignoring, schemas=known.schemas), {"id": 2})
    assert list(found.lost) == ["'orders' lacks columns that rows of 'orders' have: next"]


def test_a_change_that_the_pipeline_does_not_allow_is_an_error():
    strict = "pipeline:\n  schema.change.behavior: EXCEPTION\n"
    known = Pipeline(SOURCE + SINK + strict).run({"id": 1})
    with pytest.raises(SchemaError, match="new columns `b` BIGINT"):
        look(known, {"id": 2, "b": 1})
    assert [each.rows for each in look(known, {"id": 2}).tables] == [1]
