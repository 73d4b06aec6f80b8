"""Which scans treat a record without an event time as a bad one."""

from __future__ import annotations

import pytest

from penstock.plan.nodes import scans
from penstock.plan.planning import plan_job
from penstock.sql import parse_script

TABLES = """
CREATE TABLE t (k STRING, ms BIGINT, ts TIMESTAMP(3){computed}, WATERMARK FOR {time} AS {time}) WITH (
  'connector' = 'kafka', 'topic' = 't', 'properties.bootstrap.servers' = 'localhost:9092', 'format' = 'json',
  'scan.startup.mode' = 'earliest-offset', 'scan.dead-letter.topic' = 'dead'
);
CREATE TABLE o (k STRING) WITH ('connector' = 'blackhole');
CREATE TABLE p (k STRING) WITH ('connector' = 'blackhole');
"""
WINDOWS = "SELECT k FROM TABLE(TUMBLE({}, DESCRIPTOR({}), INTERVAL '1' MINUTE)) GROUP BY k, window_start, window_end"
COMPUTED = ", at AS TO_TIMESTAMP_LTZ(ms, 3)"


def columns(query: str, time: str = "ts", computed: str = "", settings: str = "") -> list[str]:
    """The columns that no record of the table may lack because of its event time."""
    text = settings + TABLES.format(time=time, computed=computed) + query
    (job,) = parse_script(text).jobs
    return [scan.spec.time_column for scan in scans(*plan_job(job).sinks)]  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("query", "found"),
    [
        (WINDOWS.format("TABLE t", "ts"), ["ts"]),
        ("SELECT k FROM TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '1' MINUTE))", ["ts"]),
        ("SELECT k FROM t GROUP BY k, SESSION(ts, INTERVAL '1' MINUTE)", ["ts"]),
        ("SELECT k FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY k ORDER BY ts) AS n FROM t) WHERE n = 1", ["ts"]),
        ("SELECT k FROM t ORDER BY ts", ["ts"]),
        ("SELECT k FROM t", [""]),
        ("SELECT k FROM t GROUP BY k", [""]),
        (WINDOWS.format("(SELECT * FROM t WHERE ts IS NOT NULL)", "ts"), [""]),
        (WINDOWS.format("(SELECT k, ts FROM t)", "ts"), ["ts"]),
    ],
)
def test_it_is_where_rows_go_to_windows_as_they_are(query: str, found: list[str]) -> None:
    assert columns(f"INSERT INTO o {query};") == found


def test_it_is_the_column_that_the_event_time_follows_from() -> None:
    query = f"INSERT INTO o {WINDOWS.format('TABLE t', 'at')};"
    assert columns(query, "at", COMPUTED) == ["ms"]
    # What cannot be told from a column is found when the event time is computed.
    assert columns(query, "at", ", at AS TO_TIMESTAMP_LTZ(ms + 1, 3)") == [""]


def test_it_is_not_where_such_rows_are_late() -> None:
    settings = "SET 'penstock.null-event-time' = 'late';"
    assert columns(f"INSERT INTO o {WINDOWS.format('TABLE t', 'ts')};", settings=settings) == [""]


def test_queries_of_one_job_read_the_table_once() -> None:
    both = f"INSERT INTO o {WINDOWS.format('TABLE t', 'ts')}; INSERT INTO p SELECT k FROM t;"
    assert columns(f"EXECUTE STATEMENT SET BEGIN {both} END;") == ["ts"]
