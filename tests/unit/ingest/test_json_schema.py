"""The JSON Schema of pipelines: what the parser accepts is valid, and what it does not know is not."""

from __future__ import annotations

import enum
import json
from pathlib import Path

import pytest

from penstock.cli.main import main
from penstock.connectors.kafka.table.options import KafkaSinkOptions, KafkaSourceOptions
from penstock.errors import PenstockError
from penstock.ingest import PipelineOptions, parse_pipeline
from penstock.ingest.json_schema import describe_value
from penstock.ingest.kafka_options import KafkaIngestSinkOptions, KafkaIngestSourceOptions
from penstock.options import BOOLEAN, DURATION, INTEGER, TEXT, Codec, choice, number, one_of
from penstock.settings.given import KEYS
from penstock.settings.ignored import WITHOUT_EFFECT
from penstock.settings.refused import REFUSED
from tests.json_schemas import Validator, find_schema_errors, pipeline_validator
from tests.unit.ingest import test_parser

VARIABLE = {"variable": {"type": "string", "pattern": r"\$\{[^{}]*\}"}}
MINIMAL = "source:\n  type: kafka\nsink:\n  type: print\n"


errors = find_schema_errors


def test_it_is_printed(capsys):
    assert main(["schema"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found == pipeline_validator().schema
    assert found["$schema"] == "https://json-schema.org/draft/2020-12/schema"


def test_it_is_a_schema():
    pipeline_validator().check_schema()
    with pytest.raises(ValueError, match="propertys"):
        Validator({"items": {"propertys": {}}}).check_schema()
    with pytest.raises(KeyError):
        Validator({"properties": {"a": {"$ref": "#/$defs/none"}}}).check_schema()


@pytest.mark.parametrize("text", [test_parser.WHOLE, test_parser.MINIMAL, test_parser.SEED.replace("mysql", "kafka")])
def test_what_the_parser_reads_is_valid(text):
    known = text.replace("  tables: mydb.mytable1,mydb.mytable2\n", "")  # an option of databases
    assert errors(known) == []


def test_the_pipelines_of_the_documents_are_valid():
    root = Path(__file__).parents[3]
    for name in ("README.md", "docs/pipelines.md"):
        first = (root / name).read_text("utf-8").split("```yaml\n")[1].split("```")[0]
        assert errors(first) == [], name


@pytest.mark.parametrize(
    ("lines", "error"),
    [
        ("source:\n  type: kafka\nsinc:\n  type: print\n", "unknown key 'sinc'"),
        ("source:\n  type: kafka\n", "lacks 'sink'"),
        ("source:\n  topic: a\nsink:\n  type: print\n", "lacks 'type'"),
        ("source:\n  type: mysql\nsink:\n  type: print\n", "'mysql' is not one of"),
        (MINIMAL.replace("print", "prnt"), "'prnt' is not one of"),
        (MINIMAL + "  topic: a\n", "unknown key 'topic'"),
        (MINIMAL.replace("sink:", "  scan.startup.mod: latest-offset\nsink:"), "unknown key 'scan.startup.mod'"),
        (MINIMAL.replace("sink:", "  scan.startup.mode: newest\nsink:"), "'newest' is not one of"),
        (MINIMAL.replace("sink:", "  value.format: jsno\nsink:"), "'jsno' is not one of"),
        (MINIMAL.replace("sink:", "  json.ignore-parse-errors: ys\nsink:"), "'ys' is not of type boolean"),
        (MINIMAL.replace("sink:", "  json.ignore-parse-error: true\nsink:"), "unknown key"),
        (MINIMAL.replace("sink:", "  topic: [a, b]\nsink:"), "is not of type"),
        (MINIMAL.replace("sink:", "  topic:\nsink:"), "None is not of type"),
        (MINIMAL + "  include.schema.changes: [add.colum]\n", "add.colum"),
        (MINIMAL + "route:\n  - source-table: a\n    sink-tabel: b\n", "unknown key 'sink-tabel'"),
        (MINIMAL + "route:\n  - source-table: a\n", "lacks 'sink-table'"),
        (MINIMAL + "transform:\n  source-table: a\n", "is not of type array"),
        (MINIMAL + "transform:\n  - source-table: a\n    converter-after-transform: soft\n", "'soft' is not one of"),
        (MINIMAL + "pipeline:\n  paralelism: 2\n", "unknown key 'paralelism'"),
        (MINIMAL + "pipeline:\n  parallelism: many\n", "'many' is not of type integer"),
        (MINIMAL + "pipeline:\n  schema.change.behavior: strict\n", "'strict' is not one of"),
        (MINIMAL + "pipeline:\n  dirty-data.collector:\n    type: kafka\n", "'kafka' is not one of"),
        (MINIMAL + "pipeline:\n  dirty-data.collector:\n    type: file\n", "lacks 'path'"),
        (MINIMAL + "pipeline:\n  dirty-data.collector:\n    type: logger\n    path: x\n", "unknown key 'path'"),
        (MINIMAL + "pipeline:\n  user-defined-function:\n    - name: f\n", "lacks 'python-code'"),
    ],
)
def test_mistakes_are_not_valid(lines, error):
    assert error in "\n".join(errors(lines))


@pytest.mark.parametrize(
    "lines",
    [
        MINIMAL.replace("kafka", "${kind}").replace("print", "Kafka"),
        MINIMAL.replace("sink:", "  scan.max.pre.fetch.records: ${n}\n  ingestion.ignore-errors: ${ignores}\nsink:"),
        MINIMAL.replace("sink:", "  scan.startup.mode: Latest_Offset\n  value.format: JSON\nsink:"),
        MINIMAL.replace("sink:", "  key.format: json\n  key.json.ignore-parse-errors: true\nsink:"),
        MINIMAL.replace("sink:", "  properties.client.id: 7\n  properties.anything.else: x\nsink:"),
        MINIMAL.replace("print", "kafka") + "  exclude.schema.changes: DROP\n  partition.strategy: hash_by_key\n",
        MINIMAL + "  route:\n    - source-table: a\n      sink-table: b\n",
        "source:\n  type: kafka\n  sink:\n    type: print\n",
        MINIMAL + "pipeline:\n  name: 7\n  parallelism: '2'\n  execution.checkpointing.interval: 10 s\n",
        MINIMAL + "pipeline:\n  table.exec.emit.early-fire.enabled: false\n  pipeline.object-reuse: true\n",
        MINIMAL + "pipeline:\n  dirty-data.collector:\n    type: ${how}\n    path: x\n",
    ],
)
def test_what_is_accepted_by_way_of_exception_is_valid(lines):
    variables = {"kind": "kafka", "n": "1", "ignores": "true", "how": "file"}
    parse_pipeline(lines, variables=variables)
    assert errors(lines) == []


def test_every_key_is_in_it():
    parts = pipeline_validator().schema["$defs"]
    pipeline, source, sink = (parts[name]["properties"] for name in ("pipeline", "source-kafka", "sink-kafka"))
    assert {*PipelineOptions.keys(), *KEYS} <= pipeline.keys()
    assert {*KafkaSourceOptions.keys(), *KafkaIngestSourceOptions.keys()} <= source.keys()
    assert {*KafkaSinkOptions.keys(), *KafkaIngestSinkOptions.keys()} <= sink.keys()
    for key in (*WITHOUT_EFFECT, *REFUSED):
        text = MINIMAL + f"pipeline:\n  {key.replace('*', 'x')}: ${{v}}\n"
        assert not any("unknown key" in each for each in errors(text)), key


def test_options_say_what_they_mean_and_their_defaults():
    source = pipeline_validator().schema["$defs"]["source-kafka"]["properties"]
    assert source["scan.max.pre.fetch.records"]["default"] == 50
    assert source["scan.fail-on-data-loss"]["default"] is True
    assert source["schema.inference.strategy"]["default"] == "continuous"
    assert source["topic"]["description"].startswith("Topic to read")
    assert all(each.get("description") for key, each in source.items() if key != "type")


class Colour(enum.Enum):
    DARK_RED = "dark-red"
    GREEN = "GREEN"


@pytest.mark.parametrize(
    "codec",
    [BOOLEAN, INTEGER, DURATION, TEXT, choice(Colour), number(2, 7), one_of("A", "b.c"), one_of("ON", fold=str.upper)],
    ids=lambda codec: codec.name,
)
def test_texts_are_valid_if_they_can_be_read(codec: Codec):
    validator = Validator({**describe_value(codec), "$defs": VARIABLE})
    texts = ("true", " TRUE ", "yes", "12", "-3", "+4", "1_0", "1.5", "5 min", "5min", "7 Seconds", "3 weeks", "", " ")
    texts += ("dark-red", "Dark_Red", "darkred", "green", "A", "a", "b.c", "bxc", "on", "On ", "x y")
    for text in texts:
        try:
            codec.parse(text)
        except ValueError:
            if codec.low is None:
                assert validator.find_errors(text), text
        else:
            assert not validator.find_errors(text), text
    assert not validator.find_errors("${v}")


def test_numbers_have_their_bounds():
    validator = Validator({**describe_value(number(2, 7)), "$defs": VARIABLE})
    assert [at for at in range(10) if not validator.find_errors(at)] == [2, 3, 4, 5, 6, 7]
    assert validator.find_errors(True)


def test_every_example_and_default_is_valid():
    for part in ("pipeline", "source-kafka", "sink-kafka", "sink-postgres", "sink-hologres", "sink-values"):
        schema = pipeline_validator().schema
        for key, each in schema["$defs"][part]["properties"].items():
            validator = Validator({**each, "$defs": schema["$defs"]})
            for value in (*each.get("examples", ()), *([each["default"]] if "default" in each else ())):
                assert not validator.find_errors(value), f"{part}: {key}: {value}"


def test_a_pipeline_that_is_refused_may_be_valid_but_not_the_other_way_round():
    """The schema checks keys and values one by one; what contradicts one another, `penstock check` says."""
    text = MINIMAL.replace("sink:", "  topic: a\n  topic-pattern: b\nsink:")
    assert errors(text) == []
    with pytest.raises(PenstockError):
        parse_pipeline(text + "pipeline:\n  name:\n")
