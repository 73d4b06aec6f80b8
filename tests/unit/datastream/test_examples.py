"""The examples give plans."""

from __future__ import annotations

import runpy
from datetime import UTC, datetime
from pathlib import Path

from penstock.datastream import execution
from penstock.ingest import lower, parse_pipeline
from penstock.plan.nodes import Filter, Job, MapRows, Project

EXAMPLES = Path(__file__).parents[3] / "examples"


def test_the_pipeline():
    path = EXAMPLES / "flights.yaml"
    variables = {"bootstrap": "localhost:9092", "topic_prefix": "test-"}
    definition = parse_pipeline(path.read_text(), file=path.name, variables=variables)
    job = lower(definition, path.stem)
    (sink,) = job.sinks

    assert not definition.warnings
    assert (job.name, sink.table, sink.spec.topics) == ("flights-delayed", "delayed", ("test-flights-delayed",))
    assert isinstance(sink.input, Project)
    assert isinstance(sink.input.input, Filter)


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
