"""Planning a scan on a real broker, and in a process that has been told nothing but the scan's options."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import time
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from penstock.connectors.kafka.source.admission import Admission
from penstock.connectors.kafka.source.enumerator import Enumerator
from penstock.connectors.kafka.source.positions import Position, Positions
from penstock.connectors.kafka.source.reader import RangeReader
from penstock.connectors.kafka.source.spec import KafkaScanSpec
from penstock.connectors.kafka.source.starts_and_stops import resolve_stop
from penstock.connectors.kafka.spark.reader import KafkaDataSource
from penstock.kafka.offsets import LATEST, list_offsets
from penstock.kafka.partitions import TopicPartition
from penstock.spi import Watermark, pickle_text
from tests.scans import enumerator_of, scan_of, write
from tests.waiting import eventually

#: Plans one batch as Spark's planning process does, with options and a start from standard input.
PLANNING = """
import json, sys
from pyspark.sql.streaming.datasource import ReadAllAvailable
from penstock.connectors.kafka.spark.reader import KafkaDataSource
from penstock.spi import Watermark, pickle_text
told = json.load(sys.stdin)
reader = KafkaDataSource(told["options"]).streamReader(None)
end = reader.latestOffset(told["start"] or reader.initialOffset(), ReadAllAvailable())
tasks = reader.partitions(told["start"] or reader.initialOffset(), end)
print(json.dumps({"start": reader.initialOffset(), "end": end, "tasks": len(tasks)}))
"""


@pytest.mark.rule("planning knows only its options")
def test_offsets_carry_topic_ids_and_leader_epochs(kafka, topic):
    name = topic(2)
    write(kafka, name, 5)
    enumerator = enumerator_of(kafka, name)
    spec = enumerator.spec
    topic_id = str(enumerator.session.topic(name).topic_id)
    assert spec.start.to_json() == {
        name: {"id": topic_id, "partitions": {str(n): {"offset": 0, "epoch": 0} for n in (0, 1)}}
    }
    write(kafka, name, 3, 1)
    assert enumerator.latest(spec.start).to_json() == {
        name: {"id": topic_id, "partitions": {"0": {"offset": 5, "epoch": 0}, "1": {"offset": 3, "epoch": 0}}}
    }


@pytest.mark.rule("planning knows only its options")
def test_planning_knows_only_its_options(kafka, topic, tmp_path):
    """Another process, in another folder, without this one's environment, plans what this one plans."""
    name = topic(2)
    write(kafka, name, 5)
    spec = enumerator_of(kafka, name).spec
    options = {"secret.spec": pickle_text((spec, None))}

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
        "end": Enumerator(spec).latest(spec.start).to_json(),
        "tasks": 1,
    }
    # And goes on from an end of its own, which it has from Spark's offset log alone.
    write(kafka, name, 4, 1)
    second = plan(first["end"])
    assert second["start"] == first["start"]
    assert second["end"][name]["partitions"] == {"0": {"offset": 5, "epoch": 0}, "1": {"offset": 4, "epoch": 0}}


def test_no_batch_is_planned_before_the_minimum_is_there(kafka, topic):
    name = topic(2)
    enumerator = enumerator_of(kafka, name, scan_min__records__per__trigger="5", scan_max__trigger__delay="1 h")
    spec = enumerator.spec
    write(kafka, name, 3)
    write(kafka, name, 1, 1)
    assert enumerator.latest(spec.start) == spec.start
    write(kafka, name, 1, 1)
    found = enumerator.latest(spec.start)
    assert [found.at[place].offset for place in found.partitions()] == [3, 2]


def test_a_rate_holds_over_all_partitions_together(kafka, topic):
    """By a clock that stands: the first planning gives what a second gives, the next one nothing."""
    name = topic(2)
    write(kafka, name, 300)
    write(kafka, name, 300, 1)
    enumerator = enumerator_of(kafka, name, scan_max__records__per__second="40")
    spec = enumerator.spec
    enumerator._admission = Admission(spec.scan.options, lambda: 7.0)
    first = enumerator.latest(spec.start)
    assert sum(each.offset for each in first.at.values()) == 40
    assert all(each.offset for each in first.at.values())
    assert enumerator.latest(first) == first


@pytest.mark.parametrize("idle", [None, timedelta(milliseconds=1)], ids=["without event time", "event time"])
def test_in_batch_mode_nothing_is_read_before_all_partitions_reach_their_stops(kafka, topic, tmp_path, idle):
    """One of them is at its stop from the beginning, and one may be idle."""
    name = topic(3)
    write(kafka, name, 5)
    spec = enumerator_of(kafka, name).spec
    stop = Positions({(name, 0): Position(5), (name, 1): Position(2), (name, 2): Position(0)}, spec.start.topic_ids)
    watermark = idle and Watermark("", lag=0, idle_timeout=idle)
    scan = replace(spec.scan, watermark=watermark)
    spec = replace(spec, scan=scan, stop=stop, waits=True, whole=True, notes=str(tmp_path / "notes"))
    planning = Enumerator(spec)
    for _ in range(3):
        assert planning.latest(spec.start) == spec.start
        time.sleep(0.01)
    write(kafka, name, 1, 1)
    assert planning.latest(spec.start) == spec.start
    write(kafka, name, 3, 1)
    end = planning.latest(spec.start)
    assert [end.at[name, partition].offset for partition in range(3)] == [5, 2, 0]
    assert planning.latest(end) == end


# --- which topics and partitions -------------------------------------------------------------------------------


def found_by(enumerator: Enumerator, start: Positions, *places: TopicPartition) -> Positions:
    """Plans until these places are there."""

    def plan() -> Positions | None:
        end = enumerator.latest(start)
        return end if set(places) <= end.at.keys() else None

    return eventually(plan)


def test_a_pattern_reads_the_topics_whose_whole_name_it_matches_and_finds_new_ones(kafka, kafka_admin, topic):
    name = topic(1)
    one, two, other = f"{name}-1", f"{name}-2", f"x-{name}-1"
    layout = {"num_partitions": 2, "replication_factor": 1}
    kafka_admin.create_topics({one: layout, other: layout}, wait_for_metadata=True)
    write(kafka, one, 3)
    enumerator = enumerator_of(
        kafka,
        "",
        topic__pattern=f"{re.escape(name)}-[0-9]",
        scan_startup_mode="latest-offset",
        scan_topic__partition__discovery_interval="1 ms",
    )
    start = enumerator.spec.start
    assert [(place, at.offset) for place, at in sorted(start.at.items())] == [((one, 0), 3), ((one, 1), 0)]

    # What comes later is read from its beginning, whatever the start option says.
    kafka_admin.create_topics({two: layout}, wait_for_metadata=True)
    write(kafka, two, 4)
    came = found_by(enumerator, start, (two, 0), (two, 1))
    assert [came.at[two, partition].offset for partition in (0, 1)] == [0, 0]
    assert came.topic_ids.keys() == {one, two}
    end = enumerator.latest(came)
    assert [len(each) for each in enumerator.ranges(came, end)] == [0, 0, 4, 0]


@pytest.mark.parametrize("interval", ["1 ms", "0"])
def test_new_partitions_are_looked_for_at_the_interval_and_read_from_their_beginning(
    kafka, kafka_admin, topic, interval
):
    name = topic(1)
    write(kafka, name, 3)
    enumerator = enumerator_of(
        kafka, name, scan_startup_mode="latest-offset", scan_topic__partition__discovery_interval=interval
    )
    kafka_admin.create_partitions({name: 2})
    write(kafka, name, 5, 1)
    # A scan that starts now has them from the first, though the session that it shares was asked before.
    assert len(enumerator_of(kafka, name).spec.start.at) == 2
    start = enumerator.spec.start
    if interval == "0":
        assert enumerator.latest(start) == start
        return
    came = found_by(enumerator, start, (name, 1))
    assert (came.at[name, 0].offset, came.at[name, 1].offset) == (3, 0)
    assert [len(each) for each in enumerator.ranges(came, enumerator.latest(came))] == [0, 5]


# --- isolation -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("isolation", "end"), [("read_uncommitted", 8), ("read_committed", 3)])
def test_the_end_of_a_log_is_before_open_transactions_only_where_they_are_not_read(kafka, topic, isolation, end):
    from confluent_kafka import Producer

    name = topic(1)
    write(kafka, name, 3)
    producer = Producer({"bootstrap.servers": kafka.bootstrap, "transactional.id": name})
    producer.init_transactions(60)
    producer.begin_transaction()
    for number in range(5):
        producer.produce(name, b'{"id": %d}' % number)
    assert producer.flush(60) == 0
    try:
        enumerator = enumerator_of(kafka, name, properties_isolation_level=isolation)
        latest = enumerator_of(kafka, name, properties_isolation_level=isolation, scan_startup_mode="latest-offset")
        stops = resolve_stop(enumerator.session, bounded(kafka, name, isolation), enumerator.spec.start)
        found = [enumerator.latest(enumerator.spec.start), latest.spec.start, stops]
        assert [each.at[name, 0].offset for each in found if each] == [end] * 3
    finally:
        producer.abort_transaction()
    # The marker is written after the abort is answered.
    place = (name, 0)
    eventually(lambda: list_offsets(enumerator.session, [place], LATEST, isolation="read_committed")[place].offset == 9)
    # Aborted, the records are passed over or read; the marker is never one.
    (ranges,) = enumerator.tasks(
        enumerator.spec.start, Positions({(name, 0): Position(9)}, enumerator.spec.start.topic_ids)
    )
    reader = RangeReader(enumerator.spec, ranges)
    assert sum(rows.num_rows for rows in reader.rows()) == end
    assert reader.report.records == end


def bounded(kafka: Any, name: str, isolation: str) -> KafkaScanSpec:
    return scan_of(kafka, name, scan_bounded_mode="latest-offset", properties_isolation_level=isolation)
