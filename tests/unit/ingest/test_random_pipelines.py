"""Random pipelines, with tables whose columns and values change, beside a plain computation of what they give.

The computation goes through the messages of each batch one after another. It knows nothing of tasks, reports and Arrow.
"""

from __future__ import annotations

import json
import os
import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

import pytest

from penstock.schemas import Schemas
from tests.unit.ingest.pipelines import Message, Pipeline

_SEEDS = [int(each) for each in os.environ.get("SEEDS", "50").split(":")]

SOURCE = """
source:
  type: kafka
  topic: t0;t1;t2
  value.format: json
  json.decode.parser-table-id.fields: t
  properties.bootstrap.servers: localhost:9092
  scan.startup.mode: earliest-offset
sink:
  type: kafka
  properties.bootstrap.servers: localhost:9092
"""
EVOLVE = "pipeline:\n  schema.change.behavior: evolve\n"
ROUTE = "route:\n  - source-table: a|b\n    sink-table: both\n"

Row = dict[str, Any]


# --- the plain computation -----------------------------------------------------------------------------------

#: What each kind of values is widened to, itself first. STRING ends every list.
_WIDER = {"BIGINT": ("BIGINT", "DOUBLE"), "DATE": ("DATE", "TIMESTAMP(0)"), "DOUBLE": ("DOUBLE",)}


def kind_of(value: Any) -> str:
    """The type of a column that has this value alone."""
    match value:
        case bool():
            return "BOOLEAN"
        case int():
            return "BIGINT"
        case float():
            return "DOUBLE"
        case str() if value.startswith("2026-") and ":" in value:
            return "TIMESTAMP(0)"
        case str() if value.startswith("2026-"):
            return "DATE"
    return "STRING"


def wider(one: str, other: str) -> str:
    """The type that holds the values of both."""
    mine, others = (_WIDER.get(each, (each,)) for each in (one, other))
    return next((each for each in mine if each in others), "STRING")


def held(value: Any, type_: str, written: str = "json") -> Any:
    """A value as its column shows it. A text is that of JSON, or that of a value in a column of the type ``written``
    before."""
    if value is None:
        return None
    match type_:
        case "DOUBLE":
            return float(value)
        case "TIMESTAMP(0)":
            return value if ":" in value else f"{value} 00:00:00"
        case "STRING" if not isinstance(value, str):
            if written == "DOUBLE":
                return java_text(float(value))
            return json.dumps(value, separators=(",", ":"))
        case "STRING" if written == "TIMESTAMP(0)":
            return value if ":" in value else f"{value} 00:00:00"
    return value


def java_text(value: float) -> str:
    """A DOUBLE as Java's ``toString`` writes it: with an exponent from 10 million on."""
    if abs(value) < 1e7:
        return repr(value)
    mantissa, exponent = f"{Decimal(repr(value)).normalize():E}".split("E+")
    return f"{mantissa if '.' in mantissa else mantissa + '.0'}E{exponent}"


@dataclass
class Model:
    """Tables of the source and of the sink as plain dictionaries: the types of columns by name, in their order."""

    routes: dict[str, str]
    sources: dict[str, dict[str, str]] = field(default_factory=dict)
    sinks: dict[str, dict[str, str]] = field(default_factory=dict)
    rows: list[tuple[str, Row]] = field(default_factory=list)
    found: list[str] = field(default_factory=list)

    def run(self, messages: Sequence[Message]) -> None:
        """One batch: first all columns, then all rows. ``messages`` are in the order of their places."""
        named: dict[tuple[str, int], dict[str, int]] = {}
        for each in messages:
            columns = self.sources.setdefault(each.value["t"], {})
            names = named.setdefault((each.value["t"], each.partition), {})
            for name in each.value:
                names.setdefault(name, len(names))
            # Columns that one message shows are in the order in which its partition has named them, if only for null.
            for name in sorted(each.value, key=names.__getitem__):
                if each.value[name] is not None:
                    kind = kind_of(each.value[name])
                    columns[name] = wider(columns[name], kind) if name in columns else kind
        for table in self.order:
            target = self.sinks.setdefault(self.routes.get(table, table), {})
            for name, kind in self.sources[table].items():
                target[name] = wider(target[name], kind) if name in target else kind
        for each in messages:
            source, target = each.value["t"], self.routes.get(each.value["t"], each.value["t"])
            row = {
                name: held(each.value.get(name), kind, _written(self.sources[source].get(name, kind), kind))
                for name, kind in self.sinks[target].items()
            }
            self.rows.append((target, row))

    @property
    def order(self) -> list[str]:
        """The tables in the order in which they were found: those of one batch by name."""
        found = [each for each in self.found if each in self.sources]
        self.found = [*found, *sorted(set(self.sources) - set(found))]
        return self.found


def _written(source: str, sink: str) -> str:
    return source if source != sink else "json"


# --- random pipelines ----------------------------------------------------------------------------------------

_NAMES = ("c0", "c1", "c2", "c3", "c4", "c5")


def random_value(rng: random.Random, kind: str) -> Any:
    """A value of one kind, or null."""
    if rng.random() < 0.1:
        return None
    match kind:
        case "whole":
            return rng.randrange(-(2**53), 2**53)
        case "fraction":
            return rng.randrange(-1000, 1000) / 8
        case "boolean":
            return rng.random() < 0.5
        case "date":
            return f"2026-{rng.randrange(1, 13):02}-{rng.randrange(1, 29):02}"
        case "timestamp":
            return f"2026-{rng.randrange(1, 13):02}-{rng.randrange(1, 29):02} 10:{rng.randrange(60):02}:12"
        case "nested":
            return {"x": rng.randrange(9), "y": [True, None, "z"]}
    return rng.choice(["", "a", "ä ö", 'quo"te', "\\", "10:77"])


KINDS = ("whole", "whole", "fraction", "boolean", "date", "timestamp", "nested", "text")


def random_messages(rng: random.Random) -> list[Message]:
    """Messages of tables in partitions: the columns of a table and the kinds of their values change now and then."""
    tables = rng.sample(["a", "b", "c"], rng.randint(1, 3))
    kinds = {table: {"c0": rng.choice(KINDS)} for table in tables}
    messages = []
    for _ in range(rng.randrange(1, 120)):
        table = rng.choice(tables)
        columns = kinds[table]
        if rng.random() < 0.08:
            columns[rng.choice(_NAMES)] = rng.choice(KINDS)
        if rng.random() < 0.02 and len(columns) > 1:
            del columns[rng.choice(list(columns))]
        row = {name: random_value(rng, kind) for name, kind in columns.items() if rng.random() < 0.9}
        items = [("t", table), *row.items()]
        rng.shuffle(items)
        messages.append(Message(dict(items), f"t{rng.randrange(3)}", rng.randrange(2)))
    return messages


def random_batches(rng: random.Random, messages: Sequence[Message]) -> list[list[Message]]:
    """The messages in batches, some of one message and some of all that are left."""
    batches = []
    left = list(messages)
    while left:
        size = rng.choice([1, 2, 5, 20, len(left)])
        batches.append(left[:size])
        left = left[size:]
    return batches


def sort_places(batch: Sequence[Message]) -> list[Message]:
    """The messages of a batch in the order of their places. The number of a partition is that in its topic."""
    return sorted(batch, key=lambda each: each.partition)


def check(seed: int) -> None:
    """Run one random pipeline. Raises AssertionError if it gives anything else than the plain computation."""
    rng = random.Random(seed)
    routed = rng.random() < 0.5
    text = SOURCE + (ROUTE if routed else rng.choice(["", EVOLVE]))
    model = Model({"a": "both", "b": "both"} if routed else {})
    pipeline = Pipeline(text, rng.choice([1, 2, 3, 8]))
    topics = 1 if rng.random() < 0.5 else 3
    messages = [Message(each.value, f"t{int(each.topic[1]) % topics}", each.partition) for each in random_messages(rng)]
    for batch in random_batches(rng, messages):
        if topics > 1:  # each topic has partitions of its own numbers
            batch = [Message(each.value, each.topic, 2 * int(each.topic[1]) + each.partition) for each in batch]  # noqa: PLW2901
        model.run(sort_places(batch))
        pipeline = run_with_restarts(rng, pipeline, batch)
        found = {name: describe(each.schema.row.fields) for name, each in pipeline.schemas.sinks.items()}
        assert found == {name: list(each.items()) for name, each in model.sinks.items()}, f"seed {seed}"
        sources = {name: describe(each.schema.row.fields) for name, each in pipeline.schemas.sources.items()}
        assert sources == {name: list(each.items()) for name, each in model.sources.items()}, f"seed {seed}"
        shown = sorted(json.dumps([table, show(row)], sort_keys=True) for table, _, row in pipeline.rows)
        assert shown == sorted(json.dumps(list(each), sort_keys=True) for each in model.rows), f"seed {seed}"
        pipeline.rows.clear()
        model.rows.clear()


def run_with_restarts(rng: random.Random, pipeline: Pipeline, batch: Sequence[Message]) -> Pipeline:
    """The pipeline after a batch: perhaps another one, which has the schemas so far, and perhaps after an attempt that
    evolved schemas and was not committed."""
    if rng.random() < 0.3:
        attempt = start_again(pipeline, rng.choice([1, 2, 8]))
        attempt.run(*batch)  # never committed: the next attempt begins with the schemas before it
        pipeline = start_again(pipeline, rng.choice([1, 2, 8]))
    elif rng.random() < 0.3:
        pipeline = start_again(pipeline, rng.choice([1, 2, 8]))
    pipeline.run(*batch)
    return pipeline


def start_again(pipeline: Pipeline, tasks: int) -> Pipeline:
    """A new pipeline with the schemas of another one, as they are read from its checkpoint."""
    schemas = Schemas()
    for each in (*pipeline.schemas.sources.values(), *pipeline.schemas.sinks.values()):
        schemas = schemas.add_versions([type(each).from_json(json.loads(json.dumps(each.to_json())))])
    return Pipeline(pipeline.text, tasks, schemas)


def describe(fields: Sequence[Any]) -> list[tuple[str, str]]:
    """The names and types of columns."""
    return [(each.name, str(each.type)) for each in fields]


def show(row: Row) -> Row:
    """A row with dates and times as texts."""
    return {
        name: each if each is None or isinstance(each, int | float | str) else str(each) for name, each in row.items()
    }


@pytest.mark.parametrize("seed", range(*_SEEDS))
def test_a_pipeline_gives_what_a_plain_computation_gives(seed: int):
    check(seed)
