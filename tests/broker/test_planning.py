"""Planning a scan on a real broker, and in a process that has been told nothing but the scan's options."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

from penstock.connectors.kafka.admission import Admission
from penstock.connectors.kafka.planning import Planner
from penstock.connectors.kafka.runtime import KafkaDataSource, _pickled
from tests.scans import planner_of, write

#: Plans one batch as Spark's planning process does, with options and a start from standard input.
PLANNING = """
import json, sys
from pyspark.sql.streaming.datasource import ReadAllAvailable
from penstock.connectors.kafka.runtime import KafkaDataSource
told = json.load(sys.stdin)
reader = KafkaDataSource(told["options"]).streamReader(None)
end = reader.latestOffset(told["start"] or reader.initialOffset(), ReadAllAvailable())
tasks = reader.partitions(told["start"] or reader.initialOffset(), end)
print(json.dumps({"start": reader.initialOffset(), "end": end, "tasks": len(tasks)}))
"""


def test_rule_29_offsets_carry_topic_ids_and_leader_epochs(kafka, topic):
    name = topic(2)
    write(kafka, name, 5)
    planner = planner_of(kafka, name)
    spec = planner.spec
    topic_id = str(planner.session.topic(name).topic_id)
    assert spec.start.to_json() == {
        name: {"id": topic_id, "partitions": {str(n): {"offset": 0, "epoch": 0} for n in (0, 1)}}
    }
    write(kafka, name, 3, 1)
    assert planner.latest(spec.start, None).to_json() == {
        name: {"id": topic_id, "partitions": {"0": {"offset": 5, "epoch": 0}, "1": {"offset": 3, "epoch": 0}}}
    }


def test_rule_29_planning_knows_the_options_and_nothing_else(kafka, topic, tmp_path):
    """Another process, in another folder, without this one's environment, plans what this one plans."""
    name = topic(2)
    write(kafka, name, 5)
    spec = planner_of(kafka, name).spec
    options = {"secret.spec": _pickled(spec)}

    def plan(start: dict[str, Any] | None) -> dict[str, Any]:
        told = subprocess.run(
            [sys.executable, "-W", "ignore", "-c", PLANNING],
            input=json.dumps({"options": options, "start": start}),
            capture_output=True,
            text=True,
            check=False,
            cwd=tmp_path,
            env={"PATH": "/usr/bin:/bin"},
        )
        assert told.returncode == 0, told.stderr
        return json.loads(told.stdout)

    here = KafkaDataSource(options).streamReader(None)
    assert here.initialOffset() == spec.start.to_json()
    first = plan(None)
    assert first == {
        "start": spec.start.to_json(),
        "end": Planner(spec).latest(spec.start, None).to_json(),
        "tasks": 1,
    }
    # And goes on from an end of its own, which it has from Spark's offset log alone.
    write(kafka, name, 4, 1)
    second = plan(first["end"])
    assert second["start"] == first["start"]
    assert second["end"][name]["partitions"] == {"0": {"offset": 5, "epoch": 0}, "1": {"offset": 4, "epoch": 0}}


def test_no_batch_is_planned_before_the_minimum_is_there(kafka, topic):
    name = topic(2)
    planner = planner_of(kafka, name, scan_min__records__per__trigger="5", scan_max__trigger__delay="1 h")
    spec = planner.spec
    write(kafka, name, 3)
    write(kafka, name, 1, 1)
    assert planner.latest(spec.start, None) == spec.start
    write(kafka, name, 1, 1)
    found = planner.latest(spec.start, None)
    assert [found.at[place].offset for place in found.places()] == [3, 2]


def test_a_rate_holds_over_all_partitions_together(kafka, topic):
    """By a clock that stands: the first planning gives what a second gives, the next one nothing."""
    name = topic(2)
    write(kafka, name, 300)
    write(kafka, name, 300, 1)
    planner = planner_of(kafka, name, scan_max__records__per__second="40")
    spec = planner.spec
    planner._admission = Admission(spec.scan.options, lambda: 7.0)
    first = planner.latest(spec.start, 1000)
    assert sum(each.offset for each in first.at.values()) == 40
    assert all(each.offset for each in first.at.values())
    assert planner.latest(first, 1000) == first
