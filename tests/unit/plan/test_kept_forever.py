"""Warnings of joins that keep rows forever."""

from __future__ import annotations

import pytest

from penstock.plan.lifetimes import warn_of_growing_steps
from penstock.plan.planning import plan_job
from penstock.sql import parse_script

KAFKA = """CREATE TABLE {name} (id INT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts) WITH (
  'connector' = 'kafka', 'topic' = '{name}', 'properties.bootstrap.servers' = 'b:9092', 'format' = 'json',
  'scan.startup.mode' = 'earliest-offset'{more});
"""
BOUNDED = ", 'scan.bounded.mode' = 'latest-offset'"
SINK = "CREATE TABLE p (id INT) WITH ('connector' = 'blackhole');\n"
JOIN = "INSERT INTO p SELECT a.id FROM a JOIN b ON a.id = b.id;"
BOTH = "the rows of both tables"


def warned(text, *, a="", b=""):
    tables = KAFKA.format(name="a", more=a) + KAFKA.format(name="b", more=b)
    (job,) = parse_script(tables + SINK + text, file="a.sql", default_name="j").jobs
    return warn_of_growing_steps(plan_job(job))


def test_a_join_without_a_time_to_live():
    assert warned(JOIN) == (
        "step 'p: join(a, b)' keeps the rows of both tables forever, so its state grows with them; set "
        "'table.exec.state.ttl', give a STATE_TTL hint, or join in windows, if rows may be forgotten",
    )


@pytest.mark.parametrize(
    ("text", "bounds", "kept"),
    [
        (f"SET 'table.exec.state.ttl' = '1 h';\n{JOIN}", {}, None),
        ("SET 'execution.runtime-mode' = 'BATCH';\n" + JOIN, {"a": BOUNDED, "b": BOUNDED}, None),
        (JOIN, {"a": BOUNDED, "b": BOUNDED}, None),
        (JOIN, {"a": BOUNDED}, "the rows of its right table"),
        (JOIN.replace("SELECT", "SELECT /*+ STATE_TTL('a' = '1 h') */"), {}, "the rows of its right table"),
        (JOIN.replace("= b.id", "= b.id AND a.ts BETWEEN b.ts AND b.ts + INTERVAL '1' HOUR"), {}, BOTH),
        ("INSERT INTO p SELECT id FROM a GROUP BY id;", {}, None),
    ],
)
def test_what_is_kept_forever(text, bounds, kept):
    found = warned(text, **bounds)
    assert len(found) == (kept is not None)
    assert all(f" keeps {kept} forever" in each for each in found)


def test_a_join_of_windows_forgets_with_the_watermark():
    window = "(SELECT * FROM TABLE(TUMBLE(TABLE {0}, DESCRIPTOR(ts), INTERVAL '1' MINUTE)))"
    on = "a.id = b.id AND a.window_start = b.window_start AND a.window_end = b.window_end"
    text = f"INSERT INTO p SELECT a.id FROM {window.format('a')} AS a JOIN {window.format('b')} AS b ON {on};"
    assert warned(text) == ()
