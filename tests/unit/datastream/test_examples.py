"""The examples give plans."""

from __future__ import annotations

import runpy
from datetime import UTC, datetime
from pathlib import Path

from penstock.datastream import execution
from penstock.ingest import lower, parse_pipeline
from penstock.plan.nodes import Job, MapRows, Project
from tests.unit.ingest.pipelines import Message, Pipeline

EXAMPLES = Path(__file__).parents[3] / "examples"


def test_the_pipeline():
    path = EXAMPLES / "flights.yaml"
    variables = {"bootstrap": "localhost:9092", "topic_prefix": "test-"}
    definition = parse_pipeline(path.read_text(), file=path.name, variables=variables)
    job = lower(definition, path.stem)
    assert not definition.warnings
    assert (job.name, job.sinks[0].spec.topics) == ("flights-delayed", ("test-flights-delayed",))


def test_the_rows_of_the_pipeline():
    text = (EXAMPLES / "flights.yaml").read_text().replace("${bootstrap}", "host:9092").replace("${topic_prefix}", "")
    flights = [{"carrier": "UA", "flight": at, "dep_delay": at, "time_hour": None, "year": 2013} for at in (60, 61)]
    found = Pipeline(text).run(*(Message(each, "flights") for each in flights))

    assert found.columns("delayed") == (
        "carrier STRING, flight INT, origin STRING, dest STRING, time_hour TIMESTAMP_LTZ(3), dep_delay INT"
    )
    assert [row["flight"] for row in found.table("delayed")] == [61]


def program(name: str) -> Job:
    jobs: list[Job] = []
    with execution.runner(jobs.append):
        runpy.run_path(str(EXAMPLES / name), run_name="__main__")
    (job,) = jobs
    return job


def test_the_program(monkeypatch):
    monkeypatch.setenv("TOPIC_PREFIX", "test-")
    delayed, cancelled = program("flights.py").sinks

    assert (delayed.spec.topics, cancelled.spec.topics) == (
        ("test-flights-delayed-python",),
        ("test-flights-cancelled-python",),
    )
    assert isinstance(delayed.input, Project)
    assert isinstance(cancelled.input, Project)
    assert delayed.spec.transactional_id_prefix == cancelled.spec.transactional_id_prefix == "test-flights-python"


def test_the_program_with_a_function():
    (sink,) = program("shout.py").sinks

    assert isinstance(sink.input, MapRows)
    at = datetime(2026, 11, 21, tzinfo=UTC)
    assert list(sink.input.rows(iter([("", at), ("hey", at)]))) == [("HEY!", at)]
