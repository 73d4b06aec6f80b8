"""Pipelines that find their tables: from topics to topics, with schemas that change, and stops in between."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from confluent_kafka import KafkaException

from penstock import engine
from penstock.cli.main import main
from penstock.engine import RunningJob
from penstock.engine.checkpoint import read_location
from penstock.engine.checkpoint.job_status import read_status
from penstock.errors import AbortableError, SchemaError
from penstock.flow.state.table_totals import Total
from penstock.ingest import lower, parse_pipeline
from tests.spark.failpoints import before_commit, failures
from tests.waiting import while_running

JSON = "value.format: json"


@pytest.fixture
def start(jobs, tmp_path) -> Callable[..., RunningJob]:
    """Starts the pipeline from a topic to topics, exactly once, with further lines for its source and its end."""

    def start(topic: str, prefix: str, *source: str, more: str = "") -> RunningJob:
        parts = {
            "source": (f"topic: {topic}", "scan.startup.mode: earliest-offset", *source),
            "sink": ("sink.delivery-guarantee: exactly-once", f"sink.transactional-id-prefix: {prefix}"),
        }
        text = ""
        for part, lines in parts.items():
            given = ("type: kafka", f"properties.bootstrap.servers: {jobs.bootstrap}", *lines)
            text += f"{part}:\n" + "".join(f"  {each}\n" for each in given)
        text += f"pipeline:\n  name: job\n  state.checkpoints.dir: {tmp_path / 'checkpoints'}\n"
        job = lower(parse_pipeline(text + more, file="p.yaml"), "job")
        running = engine.start(job, jobs.warnings.append)
        jobs.started.append(running)
        return running

    return start


def rows(topics: Any, topic: str) -> list[Any]:
    """The rows that insertions in a topic of debezium-json have."""
    return [message.json["after"] for message in topics.read(topic)]


def await_rows(running: RunningJob, topics: Any, topic: str, count: int) -> list[Any]:
    """The rows of a topic when there are so many."""

    def found() -> list[Any]:
        try:
            known = rows(topics, topic)
        except KafkaException:  # there is no topic yet
            return []
        return known if len(known) >= count else []

    return while_running(running, found)


def test_tables_are_found_and_followed(jobs, topics, topic, start):
    source, name = topic(3), topic()
    given = [{"db": name, "t": f"t{at % 3}", "id": at} for at in range(30)]
    topics.write(source, given)
    route = f"route:\n  - source-table: {name}.T0\n    sink-table: other\n"
    running = start(source, name, JSON, "json.decode.parser-table-id.fields: db,t", more=route)
    for number in range(3):
        assert sorted(row["id"] for row in await_rows(running, topics, f"{name}.t{number}", 10)) == list(
            range(number, 30, 3)
        )
    more = [
        {"db": name, "t": "t0", "id": "text"},
        {"db": name, "t": "t1", "id": 1, "price": 1.5},
        {"db": name, "t": "new", "flag": True},
    ]
    topics.write(source, more)
    assert await_rows(running, topics, f"{name}.t0", 11)[-1] == more[0]
    assert await_rows(running, topics, f"{name}.t1", 11)[-1] == more[1]
    assert await_rows(running, topics, f"{name}.new", 1) == more[2:]
    (warning,) = (each for each in jobs.warnings if "matches none of the tables" in each)
    assert f"the route for '{name}.T0' matches none of the tables that were found so far: {name}.t0, " in warning


def test_schemas_come_back_with_the_state(topics, topic, start, monkeypatch):
    source, target = topic(), topic()
    route = f"route:\n  - source-table: {source}\n    sink-table: {target}\n"
    topics.write(source, [{"id": 1}, {"id": 2, "a": 1}])
    with monkeypatch.context() as patch:
        before_commit(patch, failures(3, lambda: AbortableError("the brokers aborted it")))
        with pytest.raises(AbortableError):
            start(source, target, JSON, more=route).wait()
    assert rows(topics, target) == []
    running = start(source, target, JSON, more=route)
    assert await_rows(running, topics, target, 2) == [{"id": 1, "a": None}, {"id": 2, "a": 1}]
    running.stop()
    topics.write(source, [{"id": 3}])
    assert await_rows(start(source, target, JSON, more=route), topics, target, 3)[-1] == {"id": 3, "a": None}


def test_rows_are_counted_exactly_over_failures_and_restarts(jobs, topics, topic, start, monkeypatch, capsys):
    source, target = topic(), topic()
    lines = JSON, "ingestion.ignore-errors: true", "scan.max-records-per-trigger: 2"
    route = f"route:\n  - source-table: {source}\n    sink-table: {target}\n"

    def totals(running: RunningJob) -> dict[str, Total]:
        found = read_status(read_location(running.checkpoint.location))
        return {each.table: each.total for each in found.tables}

    topics.write(source, [{"id": 1}, b"{", {"id": 2}, {"id": 3}])
    with monkeypatch.context() as patch:
        before_commit(patch, failures(3, lambda: AbortableError("the brokers aborted it")))
        with pytest.raises(AbortableError):
            start(source, target, *lines, more=route).wait()
    running = start(source, target, *lines, more=route)
    await_rows(running, topics, target, 3)
    running.stop()
    assert totals(running) == {source: Total(3, 1)}
    assert running.metrics[f"operator.tables.table.{source}.numRecordsIn"] == 3
    assert running.metrics[f"operator.tables.table.{source}.numRecordsRefused"] == 1
    assert running.metrics[f"operator.tables.table.{source}.schemaVersion"] == 1
    topics.write(source, [b"[", {"id": 4, "new": True}])
    running = start(source, target, *lines, more=route)
    await_rows(running, topics, target, 4)
    running.stop()
    assert totals(running) == {source: Total(4, 2)}
    assert running.progress.tables == {source: Total(1, 1)}
    topics.write(source, [{"id": at} for at in range(7)])
    place = running.checkpoint.location
    assert main(["status", place, "--live", "--bootstrap-servers", jobs.bootstrap]) == 0
    out = capsys.readouterr().out
    assert "lag: 7 records" in out
    assert f"{source}  4     2         2  " in out


def test_the_totals_of_many_tables_are_in_files_that_are_deleted_when_no_batch_needs_them(
    topics, topic, start, tmp_path
):
    source, target = topic(), topic()
    lines = JSON, "json.decode.parser-table-id.fields: db,t", "scan.max-records-per-trigger: 40"
    route = f"route:\n  - source-table: shop.\\.*\n    sink-table: {target}\n"
    rows = [{"db": "shop", "t": f"t{at % 100}", "id": at} for at in range(300)]
    topics.write(source, rows[:200])
    running = start(source, target, *lines, more=route)
    await_rows(running, topics, target, 200)
    running.stop()
    topics.write(source, rows[200:])
    running = start(source, target, *lines, more=route)
    await_rows(running, topics, target, 300)
    running.stop()
    found = read_status(read_location(running.checkpoint.location))
    assert {each.table: each.total for each in found.tables} == {f"shop.t{at}": Total(3) for at in range(100)}
    files = [each.name for each in (tmp_path / "checkpoints/job/state").iterdir()]
    # Of eight batches: those of the last two, and of the last but one before the restart.
    assert len([each for each in files if each.endswith(".manifest")]) == 3
    assert len([each for each in files if each.endswith(".totals")]) <= 3


def test_a_pipeline_that_allows_no_change_goes_on_when_it_does(topics, topic, start):
    source, target = topic(), topic()
    route = f"route:\n  - source-table: {source}\n    sink-table: {target}\n"
    strict = "  schema.change.behavior: exception\n" + route
    topics.write(source, [{"id": 1}])
    running = start(source, target, JSON, more=strict)
    await_rows(running, topics, target, 1)
    topics.write(source, [{"id": 2, "b": 1}])
    with pytest.raises(SchemaError, match="new columns `b` BIGINT"):
        running.wait()
    assert rows(topics, target) == [{"id": 1}]
    running = start(source, target, JSON, more="  schema.change.behavior: evolve\n" + route)
    assert await_rows(running, topics, target, 2)[-1] == {"id": 2, "b": 1}


def test_tables_begin_with_the_columns_that_they_have_now(topics, topic, start):
    source, target = topic(), topic()
    route = f"route:\n  - source-table: {source}\n    sink-table: {target}\n"
    topics.write(source, [{"id": at} for at in range(30)])
    topics.write(source, [{"id": 30, "late": 1.5}, b"{"])
    lines = JSON, "scan.max-records-per-trigger: 10", "ingestion.ignore-errors: true"
    running = start(source, target, *lines, more=route)
    assert await_rows(running, topics, target, 31)[0] == {"id": 0, "late": None}
