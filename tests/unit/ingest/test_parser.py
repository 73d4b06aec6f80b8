"""YAML text to a pipeline's definition."""

from __future__ import annotations

import pytest

from penstock.errors import PipelineError
from penstock.ingest import PipelineDef, PipelineOptions, RouteDef, SinkDef, SourceDef, TransformDef, parse_pipeline
from penstock.ingest.definition import RouteMode

WHOLE = r"""
source:
  type: kafka
  name: Kafka source
  topic: ${kafka.topic}
  scan.max.pre.fetch.records: 0
transform:
  - source-table: \.*\.\.*
    projection: \*, id + 1 AS next
    filter: id > 3
    primary-keys: id, next
route:
  - source-table: db.orders
    sink-table: ods.orders
    description: to the lake
sink:
  type: Kafka
  properties.bootstrap.servers: "${host}:9092"
pipeline:
  name: copy
  route-mode: first_match
"""

VARIABLES = {"kafka.topic": "orders", "host": "broker"}
MINIMAL = "source:\n  type: kafka\nsink:\n  type: print\n"


def problems_of(text: str, **variables: str) -> list[str]:
    with pytest.raises(PipelineError) as error:
        parse_pipeline(text, file="p.yaml", variables=variables)
    return str(error.value).splitlines()


def test_a_pipeline_is_values():
    assert parse_pipeline(WHOLE, variables=VARIABLES) == PipelineDef(
        SourceDef("kafka", "Kafka source", (("scan.max.pre.fetch.records", "0"), ("topic", "orders"))),
        SinkDef("kafka", "", (("properties.bootstrap.servers", "broker:9092"),)),
        (RouteDef("db.orders", "ods.orders", description="to the lake"),),
        (TransformDef(r"\.*\.\.*", r"\*, id + 1 AS next", "id > 3", ("id", "next")),),
        PipelineOptions(name="copy", route_mode=RouteMode.FIRST_MATCH),
    )


def test_everything_knows_its_place():
    found = parse_pipeline(WHOLE, file="p.yaml", variables=VARIABLES)

    assert found.source.origin.locate("topic") == "p.yaml, line 5, column 3"
    assert found.transforms[0].origin.locate("filter") == "p.yaml, line 10, column 5"
    assert found.sink.origin.locate("") == "p.yaml, line 16, column 1"
    assert not found.warnings


def test_every_problem_is_reported_with_file_line_and_column():
    text = """\
source:
  topic: ${kafka.topik}
  name:
  typo: [1, 2]
sinc:
  type: kafka
route:
  - source-table: a
    sink-tabel: b
  - just text
transform:
  source-table: a
pipeline:
  paralelism: 2
  parallelism: many
  parallelism: 2
"""
    found = problems_of(text, **{"kafka.topic": "orders"})

    assert found == [
        "p.yaml, line 5, column 1: 'sinc': unknown key (did you mean 'sink'?)",
        "p.yaml, line 2, column 10: 'topic': variable 'kafka.topik' is not defined (did you mean 'kafka.topic'?)",
        "p.yaml, line 3, column 3: 'name': has no value (write '' for an empty value, or remove the line)",
        "p.yaml, line 4, column 9: 'typo': expected one value",
        "p.yaml, line 1, column 1: 'source': needs a 'type' (for example 'type: kafka')",
        "p.yaml, line 1, column 1: 'sink': is required (write 'sink:' and 'type: kafka' below it)",
        "p.yaml, line 9, column 5: 'sink-tabel': unknown key (did you mean 'sink-table'?)",
        "p.yaml, line 8, column 5: 'sink-table': is required in a route",
        "p.yaml, line 10, column 5: 'route': expected 'key: value' lines",
        "p.yaml, line 10, column 5: 'source-table': is required in a route",
        "p.yaml, line 10, column 5: 'sink-table': is required in a route",
        "p.yaml, line 12, column 3: 'transform': expected a list, each item beginning with '- '",
        "p.yaml, line 16, column 3: 'parallelism': is given twice (first in line 15, column 3)",
        "p.yaml, line 14, column 3: 'paralelism': unknown key (did you mean 'parallelism'?)",
        "p.yaml, line 15, column 3: 'parallelism': expected a whole number, not 'many'",
    ]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", "p.yaml: the pipeline is empty"),
        ("# nothing\n", "p.yaml: the pipeline is empty"),
        ("source: [", "p.yaml, line 1, column 10: this is not YAML"),
        ("just text", "p.yaml, line 1, column 1: 'pipeline': expected 'key: value' lines"),
        ("source:\n  type: kafka\n\t sink: x", "p.yaml, line 3, column 1: this is not YAML"),
    ],
)
def test_what_is_no_pipeline_is_refused(text, expected):
    assert problems_of(text)[0].startswith(expected)


def test_nothing_in_the_text_becomes_an_object():
    text = MINIMAL + "pipeline:\n  name: !!python/object/apply:os.getcwd []\n"

    assert problems_of(text) == ["p.yaml, line 6, column 9: 'name': expected one value"]


def test_the_text_of_a_value_is_kept_as_it_is_written():
    given = "source:\n  type: kafka\n  a: 0010\n  b: yes\n  c: 1e3\n  d: 2026-01-01\n  e: ''\nsink:\n  type: print\n"

    assert dict(parse_pipeline(given).source.options) == {
        "a": "0010",
        "b": "yes",
        "c": "1e3",
        "d": "2026-01-01",
        "e": "",
    }


def test_what_comes_later_is_named():
    text = MINIMAL + "pipeline:\n  model:\n    - model-name: m\n"

    assert problems_of(text) == [
        "p.yaml, line 6, column 3: 'model': is not supported yet (use the built-in functions of SQL, or functions in "
        "Python)"
    ]


def test_a_collector_has_a_type_and_options():
    found = parse_pipeline(MINIMAL + "pipeline:\n  dirty-data.collector:\n    type: file\n    path: bad\n")
    assert found.collector is not None
    assert (found.collector.type, found.collector.options) == ("file", (("path", "bad"),))
    assert problems_of(MINIMAL + "pipeline:\n  dirty-data.collector:\n    path: x\n") == [
        "p.yaml, line 6, column 3: 'dirty-data.collector': needs a 'type' (for example 'type: logger')"
    ]


def test_kinds_of_schema_changes_are_lists():
    found = parse_pipeline(MINIMAL + "  include.schema.changes: [add.column, create]\n  exclude.schema.changes: drop\n")
    assert (found.sink.include, found.sink.exclude) == (("add.column", "create"), ("drop",))


# --- the seed's misprints ----------------------------------------------------------------------------------------

SEED = """\
source:
  type: mysql
  tables: mydb.mytable1,mydb.mytable2
  sink.tableId-to-topic.mapping: mydb.mytable1,mydb.mytable2:mytable

sink:
  type: kafka
  name: Kafka Sink

 route:
  - source-table: mydb.mytable1,mydb.mytable2
    sink-table: mytable1
"""


def test_a_key_that_is_indented_by_one_blank_is_read_at_the_top():
    found = parse_pipeline(SEED, file="p.yaml")

    assert found.routes == (RouteDef("mydb.mytable1,mydb.mytable2", "mytable1"),)
    assert any(
        each.startswith("p.yaml, line 10, column 2: 'route' is indented by one space too many")
        for each in found.warnings
    )


def test_a_mapping_below_the_source_belongs_to_the_sink():
    found = parse_pipeline(SEED, file="p.yaml")

    assert dict(found.sink.options)["sink.tableId-to-topic.mapping"] == "mydb.mytable1,mydb.mytable2:mytable"
    assert "sink.tableId-to-topic.mapping" not in dict(found.source.options)
    assert any("line 4, column 3" in each and "belongs to the sink" in each for each in found.warnings)


def test_a_route_below_the_sink_is_read_at_the_top():
    text = "source:\n  type: kafka\nsink:\n  type: print\n  route:\n    - source-table: a\n      sink-table: b\n"
    found = parse_pipeline(text, file="p.yaml")

    assert found.routes == (RouteDef("a", "b"),)
    assert found.sink.options == ()
    assert found.warnings == ("p.yaml, line 5, column 3: 'route' is below 'sink'; it is read as a top-level key",)


@pytest.mark.parametrize("key", ["qwertz", "parallelis", "x"])
def test_an_unknown_key_of_the_pipeline_names_a_few_known_ones(key: str):
    with pytest.raises(PipelineError) as raised:
        parse_pipeline(f"source:\n  type: kafka\nsink:\n  type: print\npipeline:\n  {key}: 1\n")
    assert f"'{key}': unknown key" in str(raised.value)
    assert len(str(raised.value)) < 200
