"""The notes of a job's tables, which its start and ``penstock check`` show."""

from __future__ import annotations

from penstock.plan.notes import notes_of
from penstock.sql import parse_script

TABLES = """
CREATE TABLE s (id INT) WITH (
  'connector' = 'kafka', 'topic' = 's', 'format' = 'json', 'properties.bootstrap.servers' = 'h:9092',
  'scan.startup.mode' = 'earliest-offset', 'properties.linger.ms' = '5'
);
CREATE TABLE f (id INT) WITH (
  'connector' = 'filesystem', 'path' = '/tmp/f', 'format' = 'json', 'auto-compaction' = 'true'
);
CREATE TABLE p (id INT) WITH ('connector' = 'print');
"""


def test_each_table_s_notes_are_told_once_with_its_name():
    statements = "INSERT INTO f SELECT a.id FROM s AS a JOIN s AS b ON a.id = b.id"
    (job,) = parse_script(f"{TABLES} {statements};", file="notes.sql").jobs
    kafka, files = notes_of(job)
    assert kafka.startswith("table 's': no effect here: 'properties.linger.ms' (")
    assert files == "table 'f': 'auto-compaction' has no effect: files are not merged"


def test_a_table_without_notes_says_nothing():
    plain = TABLES.replace(", 'properties.linger.ms' = '5'", "")
    (job,) = parse_script(f"{plain} INSERT INTO p SELECT * FROM s;", file="notes.sql").jobs
    assert notes_of(job) == ()
