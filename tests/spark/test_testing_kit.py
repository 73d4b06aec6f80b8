"""The public test kit on whole jobs: what docs/testing.md shows, and records at which a job stops or waits."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from penstock import engine
from penstock.errors import ExecutionError
from penstock_testing import Disturbance, Mishap, TransactionInspector

DOCUMENT = Path(__file__).parents[2] / "docs" / "testing.md"


def test_the_example_of_the_document_runs(tmp_path):
    example = re.findall(r"^```python\n(.*?)^```$", DOCUMENT.read_text("utf-8"), re.MULTILINE | re.DOTALL)[0]
    names = {"__name__": "example"}
    exec(compile(example, str(DOCUMENT), "exec"), names)
    names["test_a_killed_worker_leaves_no_trace"](tmp_path)


def test_a_job_stops_at_a_record_and_goes_on_when_it_is_started_again(jobs, topics, topic, tmp_path):
    source, sink = topic(1), topic(1)
    topics.write_ids(source, 100)
    stop = Disturbance(lambda row: row["id"] == 50, Mishap.STOP, tmp_path / "stop")
    job = stop.on(jobs.parse(jobs.copy(source, sink)))
    with pytest.raises(ExecutionError, match="marked to stop the job"):
        engine.run(job)
    assert topics.read(sink) == []
    engine.run(job)
    assert topics.read_ids(sink) == list(range(100))


def test_a_task_waits_at_a_record_until_it_is_released(kafka, jobs, topics, topic, tmp_path):
    source, sink = topic(1), topic(1)
    topics.write_ids(source, 100)
    pause = Disturbance(lambda row: row["id"] == 50, Mishap.PAUSE, tmp_path / "pause")
    running = engine.start(pause.on(jobs.parse(jobs.copy(source, sink))))
    jobs.started.append(running)
    pause.wait(120)
    assert topics.read(sink) == []
    pause.release()
    while not running.wait(timeout=120):
        pass
    assert topics.read_ids(sink) == list(range(100))
    inspector = TransactionInspector(kafka.bootstrap)
    assert inspector.wait_until_none_open([sink]) == []
    # Its end reaches the sink's partition before the coordinator has noted that it has reached them all.
    inspector.wait_for(f"tx-{sink}-job", lambda seen: seen.state == "CompleteCommit", 60)
    assert inspector.open_transactions(f"tx-{sink}") == []
