"""The cases of tests/specs/ingest, as pipelines and messages.

A case has the lines of a pipeline (``source``, ``sink``, ``route``, ``transform``, ``pipeline``) beside those that its
file gives for all, and ``batches`` of events. An event is a message's value, or a text that is the value as it stands.
``[c, orders, {row}]`` is a change in the envelope of the source's format: of the table ``shop.orders``, unless a dotted
id is given; ``r``, ``u`` with two rows, and ``d`` are others. A place goes before either: ``[topic/partition, ..]``.

``schema`` among the fields that envelopes have makes messages of Debezium that contain their schema: a type of Kafka
Connect for each column, ``int32 io.debezium.time.Date`` with its name, and ``scale=2`` with parameters.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import date, datetime, time
from decimal import Decimal
from pathlib import Path
from typing import Any

import yaml

from penstock.errors import PenstockError
from tests.unit.ingest.pipelines import Message, Pipeline

FOLDER = Path(__file__).parents[2] / "specs/ingest"
_PARTS = ("source", "sink", "pipeline")
_KAFKA = {"type": "kafka", "properties.bootstrap.servers": "localhost:9092"}
_SOURCE = _KAFKA | {"topic": "orders", "scan.startup.mode": "earliest-offset"}
_CANAL = {"c": "INSERT", "r": "INSERT", "u": "UPDATE", "d": "DELETE"}
#: What a case may say of the outcome.
OUTCOMES = ("changes", "seen", "columns", "keys", "rows", "refused", "error", "warns", "sources")


def load(name: str) -> dict[str, Any]:
    """A file of cases."""
    return yaml.safe_load((FOLDER / f"{name}.yaml").read_text("utf-8"))


def definition(spec: Mapping[str, Any], case: Mapping[str, Any]) -> dict[str, Any]:
    """The pipeline of a case."""
    given = {part: {**spec.get(part, {}), **case.get(part, {})} for part in _PARTS}
    found = {"source": _SOURCE | given["source"], "sink": _KAFKA | given["sink"]}
    found |= {part: case[part] for part in ("route", "transform") if part in case}
    return found | ({"pipeline": given["pipeline"]} if given["pipeline"] else {})


def write(defn: Mapping[str, Any]) -> str:
    """The pipeline as text."""
    return yaml.safe_dump(defn, sort_keys=False, width=1000, allow_unicode=True)


def run(spec: Mapping[str, Any], case: Mapping[str, Any], tasks: int = 1) -> tuple[Pipeline | None, str]:
    """The pipeline after all batches, or after the error; and that error. It is None if it cannot even be made."""
    defn = definition(spec, case)
    form = defn["source"].get("value.format", "debezium-json")
    more = {**spec.get("message", {}), **case.get("message", {})}
    pipeline = None
    try:
        pipeline = Pipeline(write(defn), tasks)
        for batch in case["batches"]:
            pipeline.run(*(read_event(each, form, more) for each in batch))
    except PenstockError as error:
        return pipeline, str(error)
    return pipeline, ""


def read_event(event: Any, form: str, more: Mapping[str, Any]) -> Message:
    """The message of an event. ``more`` has fields that all envelopes have."""
    topic, partition = "orders", 0
    if isinstance(event, list) and isinstance(event[0], str) and "/" in event[0]:
        place, *event = event
        topic, _, number = place.rpartition("/")
        partition = int(number)
        if len(event) == 1:
            (event,) = event
    if isinstance(event, list) and event and isinstance(event[0], str) and event[0] in _CANAL:
        event = _wrap(event, form, more)
    elif isinstance(event, str):
        event = event.encode("latin-1" if event.startswith("\xff") else "utf-8")
    return Message(event, topic, partition)


def _wrap(event: Sequence[Any], form: str, more: Mapping[str, Any]) -> dict[str, Any]:
    op, table, *rows = event
    *spaces, name = (table if "." in table else f"shop.{table}").split(".")
    extra = rows.pop() if len(rows) > (2 if op == "u" else 1) else {}
    before = rows[0] if op in "ud" else None
    after = None if op == "d" else rows[-1]
    if form == "canal-json":
        old = {"old": [before]} if op == "u" else {}
        data = before if op == "d" else after
        return {"data": [data], **old, "type": _CANAL[op], "database": spaces[-1], "table": name, **more, **extra}
    source = {"db": spaces[0], **({"schema": spaces[1]} if len(spaces) > 1 else {}), "table": name}
    change = {"before": before, "after": after, "op": op, "source": source, **more, **extra}
    if "schema" not in change:
        return change
    schema = change.pop("schema")
    return {"schema": _write_schema(schema) if isinstance(schema, dict) else schema, "payload": change}


def _write_schema(columns: Mapping[str, str]) -> dict[str, Any]:
    """The schema of a change of a row with these columns."""
    fields = [_write_column(name, *text.split()) for name, text in columns.items()]
    images = [{"type": "struct", "fields": fields, "optional": True, "field": each} for each in ("before", "after")]
    return {"type": "struct", "fields": [*images, {"type": "string", "optional": False, "field": "op"}]}


def _write_column(field: str, kind: str, *more: str) -> dict[str, Any]:
    names = [each for each in more if "=" not in each]
    parameters = dict(each.split("=") for each in more if "=" in each)
    return {
        "type": kind,
        "optional": True,
        "name": names[0] if names else None,
        "parameters": parameters,
        "field": field,
    }


def show_rows(found: Pipeline) -> dict[str, list[list[Any]]]:
    """The rows of each table of the sink: the kind and the values, as YAML has them."""
    rows: dict[str, list[list[Any]]] = {}
    for table, kind, row in found.rows:
        rows.setdefault(table, []).append([kind, *map(show, row.values())])
    return rows


def show(value: Any) -> Any:
    """A value as YAML has it: decimals, dates and times as texts."""
    match value:
        case Decimal():
            return format(value, "f")
        case datetime():
            return str(value.replace(tzinfo=None)) + ("Z" if value.tzinfo else "")
        case date() | time():
            return str(value)
        case [(str(), _), *_]:
            return {name: show(each) for name, each in value}
        case bytes():
            return value.decode("latin-1")
    return value


def shown_outcome(found: Pipeline | None, error: str, wanted: Mapping[str, Any]) -> dict[str, Any]:
    """What a case says of the outcome, as it was."""
    outcome: dict[str, Any] = {}
    if "error" in wanted or error:
        given = wanted.get("error", "")
        parts = given if isinstance(given, list) else [given]
        outcome["error"] = wanted["error"] if given and all(each in error for each in parts) else error
    if found is None:
        return outcome
    outcome["changes"] = [text.replace("`", "") for text in found.changes()]
    outcome["seen"] = [text.replace("`", "") for text in found.changes("source")]
    outcome["columns"] = {name: found.columns(name) for name in found.schemas.sinks}
    outcome["sources"] = list(found.schemas.sources)
    outcome["keys"] = {name: list(each.schema.primary_key) for name, each in found.schemas.sinks.items()}
    outcome["rows"] = show_rows(found)
    outcome["refused"] = found.refused
    warnings = " ".join(found.warnings)
    outcome["warns"] = wanted["warns"] if wanted.get("warns", "\n") in warnings else warnings
    return {key: outcome[key] for key in outcome if key in wanted or key == "error"}


def expected_outcome(case: Mapping[str, Any]) -> dict[str, Any]:
    """What a case says of the outcome."""
    return {key: case[key] for key in OUTCOMES if key in case}


def partitions(case: Mapping[str, Any]) -> int:
    """How many partitions the messages of a case are in."""
    events = [read_event(each, "", {}) for batch in case["batches"] for each in batch]
    return len({(each.topic, each.partition) for each in events})


def dump(value: Any) -> str:
    """A value as JSON."""
    return json.dumps(value, ensure_ascii=False)
