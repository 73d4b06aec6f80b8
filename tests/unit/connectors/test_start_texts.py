"""What a source says about its start, and whose offsets it starts at."""

from __future__ import annotations

import pytest

from penstock.connectors.kafka.factory import KafkaConnector
from penstock.connectors.kafka.source.positions import Position, Positions
from penstock.connectors.kafka.source.start_texts import (
    CommittedBy,
    describe_positions,
    explain_start,
    warn_about_foreign_start,
)
from penstock.connectors.kafka.upsert.factory import UpsertKafkaConnector
from penstock.kafka.offsets import CommittedOffset
from penstock.spi import Column, TableDefinition
from penstock.types import INT

OWN = CommittedBy("mine", "q1")
FORMER, OTHER = CommittedBy("mine", "q0"), CommittedBy("dbz", "q9")


def scan(**options: str):
    given = {"connector": "kafka", "topic": "o", "properties.bootstrap.servers": "h:9092", "format": "json"}
    given |= {key.replace("__", "-").replace("_", "."): value for key, value in options.items()}
    return KafkaConnector().scan(TableDefinition("orders", (Column("id", INT),), given))


def group(*by: CommittedBy | None) -> dict[tuple[str, int], CommittedOffset]:
    return {("o", n): CommittedOffset(8, 0, each.to_metadata() if each else "") for n, each in enumerate(by)}


@pytest.mark.parametrize(
    ("options", "start_time", "offsets", "reason"),
    [
        ({"scan_startup_mode": "earliest-offset"}, None, (), "at the earliest offsets, by 'scan.startup.mode'"),
        ({"scan_startup_mode": "latest-offset"}, None, (), "at the latest offsets, by 'scan.startup.mode'"),
        (
            {"scan_startup_mode": "timestamp", "scan_startup_timestamp__millis": "1600000000123"},
            None,
            (),
            "at the first records from 2020-09-13T12:26:40.123Z on, by 'scan.startup.timestamp-millis'",
        ),
        ({"scan_startup_mode": "latest-offset"}, 0, (), "from 1970-01-01T00:00:00.000Z on, by --start-time"),
        (
            {"scan_startup_mode": "specific-offsets", "scan_startup_specific__offsets": "partition:0,offset:4"},
            None,
            (None,),
            "at the offsets of 'scan.startup.specific-offsets', else at the offsets of group 'KafkaSource-orders'",
        ),
        ({}, None, (None,), "at the offsets of group 'KafkaSource-orders'"),
        ({}, None, (FORMER,), "which this job with another checkpoint committed"),
        ({}, None, (OTHER, FORMER, OTHER), "which job 'dbz' and this job with another checkpoint committed"),
        (
            {"properties_auto_offset_reset": "earliest"},
            None,
            (),
            "at the earliest offsets, by 'properties.auto.offset.reset', because group 'KafkaSource-orders' has none",
        ),
    ],
)
def test_the_start_of_a_source_has_its_reason(options, start_time, offsets, reason):
    assert reason in explain_start(scan(**options), start_time, group(*offsets), OWN)


def test_a_table_that_upserts_starts_at_the_beginning_whatever_the_start_time():
    options = {"connector": "upsert-kafka", "topic": "o", "properties.bootstrap.servers": "h:9092"}
    options |= {"key.format": "json", "value.format": "json"}
    table = TableDefinition("t", (Column("id", INT.with_nullability(False)),), options, primary_key=("id",))
    assert "'upsert-kafka'" in explain_start(UpsertKafkaConnector().scan(table), 0, {}, OWN)


def test_a_start_at_offsets_of_another_job_is_a_warning():
    warning = warn_about_foreign_start(scan(), group(None, OTHER, FORMER), OWN)
    assert "table 'orders' starts where job 'dbz' left off, by the offsets of group 'KafkaSource-orders'" in warning
    assert "'scan.startup.mode'" in warning
    for own in ((), (None,), (FORMER,)):
        assert warn_about_foreign_start(scan(), group(*own), OWN) == ""


@pytest.mark.parametrize(
    "text", ["", "a", "[]", "null", '{"penstock": 1}', '{"penstock": {"job": "a"}}', "NO_METADATA"]
)
def test_metadata_of_other_programs_names_no_job(text):
    assert CommittedBy.from_metadata(text) is None


def test_who_names_the_group_and_asks_for_its_offsets_is_not_warned():
    """As a job does that takes over from another one, on purpose."""
    offsets = {"scan_startup_mode": "group-offsets"}
    assert warn_about_foreign_start(scan(properties_group_id="g", **offsets), group(OTHER), OWN) == ""
    for given in (offsets, {"properties_group_id": "g"}):
        assert "left off" in warn_about_foreign_start(scan(**given), group(OTHER), OWN)


def test_a_long_name_fits_the_metadata_of_a_commit_and_is_recognised():
    job = CommittedBy("é" * 3000, "q")
    found = CommittedBy.from_metadata(job.to_metadata())
    assert len(job.to_metadata()) < 4096
    assert found is not None
    assert not found.is_other(job)


def test_of_many_partitions_the_first_are_shown():
    positions = Positions({("o", n): Position(n * 10) for n in range(6)}, {"o": ""})
    assert describe_positions(positions) == "o-0 at 0, o-1 at 10, o-2 at 20, o-3 at 30 and 2 more"
    assert describe_positions(Positions({}, {})) == "no partitions yet"
