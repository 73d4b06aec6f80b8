"""WATERMARK FOR and CURRENT_WATERMARK: what a connector measures, and what Spark computes."""

from __future__ import annotations

from datetime import timedelta

import pytest

from penstock.errors import DefinitionError, OptionsError
from penstock.flow.rows.calc import calc_of
from penstock.plan.explain import explain
from penstock.plan.nodes import AssignWatermarks, Project, Scan, scans
from penstock.spi import WATERMARK, Watermark
from penstock.sql import parse_script

WITH = (
    "WITH ('connector' = 'kafka', 'topic' = 'in', 'properties.bootstrap.servers' = 'localhost:9092', 'format' = 'json')"
)


def job(columns, query="SELECT 1 FROM s"):
    text = f"CREATE TABLE s ({columns}) {WITH};\nCREATE TABLE t (x STRING) WITH ('connector' = 'print');\n"
    (found,) = parse_script(text + f"INSERT INTO t SELECT CAST(x AS STRING) FROM s WHERE {query};").jobs
    return found


def parts(columns, condition="x IS NOT NULL"):
    """The plan's node with the event time, and the scan under it."""
    node = job(f"x INT, {columns}", condition).sinks[0].input
    while not isinstance(node, AssignWatermarks):
        node = node.input
    scan = node.input
    while not isinstance(scan, Scan):
        scan = scan.input
    return node, scan


@pytest.mark.parametrize(
    ("columns", "expected"),
    [
        ("ts TIMESTAMP_LTZ(3), WATERMARK FOR ts AS ts", Watermark("ts", 0)),
        (
            "ts TIMESTAMP(3), WATERMARK FOR ts AS ts - INTERVAL '5' SECOND",
            Watermark("ts", 5000),
        ),
        ("ts TIMESTAMP_LTZ(3), WATERMARK FOR ts AS ts - INTERVAL '0.0015' SECOND", Watermark("ts", 2)),
        (
            "ts TIMESTAMP_LTZ(3), WATERMARK FOR ts AS ts - INTERVAL '1 02:03:04.5' DAY TO SECOND",
            Watermark("ts", 93_784_500),
        ),
        (
            "ts TIMESTAMP_LTZ(3), WATERMARK FOR ts AS ts - INTERVAL '2:30' MINUTE TO SECOND",
            Watermark("ts", 150_000),
        ),
        ("ts TIMESTAMP_LTZ(3), WATERMARK FOR ts AS ts - INTERVAL '-2' HOUR", Watermark("ts", -7_200_000)),
        ("ms BIGINT, ts AS TO_TIMESTAMP_LTZ(ms, 3), WATERMARK FOR ts AS ts", Watermark("ms", 0, unit=1)),
        (
            "s INT, ts AS TO_TIMESTAMP_LTZ(s, 0), WATERMARK FOR ts AS ts - INTERVAL '1' DAY",
            Watermark("s", 86_400_000, unit=1000),
        ),
        # Kernels compute these: months differ in length, and the rest is no column less a time.
        ("ts TIMESTAMP_LTZ(3), WATERMARK FOR ts AS ts - INTERVAL '1' MONTH", Watermark(lag=None)),
        ("ts TIMESTAMP_LTZ(3), u TIMESTAMP_LTZ(3), WATERMARK FOR ts AS u", Watermark(lag=None)),
        ("ts TIMESTAMP_LTZ(3), WATERMARK FOR ts AS COALESCE(ts, ts)", Watermark(lag=None)),
        ("c STRING, ts AS TO_TIMESTAMP(c), WATERMARK FOR ts AS ts", Watermark(lag=None)),
        ("ms BIGINT, ts AS TO_TIMESTAMP_LTZ(ms + 1, 3), WATERMARK FOR ts AS ts", Watermark(lag=None)),
        # A metadata column as it is read, and one that is cast.
        ("ts TIMESTAMP_LTZ(3) METADATA FROM 'timestamp', WATERMARK FOR ts AS ts", Watermark("ts", 0)),
        ("ts TIMESTAMP(3) METADATA FROM 'timestamp', WATERMARK FOR ts AS ts", Watermark(lag=None)),
    ],
)
def test_what_the_connector_measures_and_what_spark_observes(columns, expected):
    node, scan = parts(columns)
    assert (node.column, scan.spec.watermark) == ("ts", expected)


def test_the_present_watermark_is_a_column_for_those_who_ask():
    columns = "ts TIMESTAMP_LTZ(3), WATERMARK FOR ts AS ts"
    node, scan = parts(columns)
    assert node.input is scan
    assert WATERMARK not in node.schema.names
    node, _ = parts(columns, "ts > CURRENT_WATERMARK(ts)")
    assert isinstance(node.input, Project)
    assert node.schema.names == ("x", "ts", WATERMARK)
    assert str(calc_of(node)) == "CURRENT_WATERMARK"


def test_explain_names_the_event_time_and_the_idle_timeout():
    columns = "x INT, ts TIMESTAMP_LTZ(3), WATERMARK FOR ts AS ts - INTERVAL '5' SECOND"
    text = f"SET 'table.exec.source.idle-timeout' = '30 s'; CREATE TABLE s ({columns}) {WITH};"
    text += "CREATE TABLE t (x INT) WITH ('connector' = 'print'); INSERT INTO t SELECT x FROM s;"
    (found,) = parse_script(text).jobs
    shown = explain(found)
    assert "event time `ts`, watermark `ts` - INTERVAL '5' SECOND" in shown
    assert "watermark of a partition: ts less 5000 ms; of the table: the smallest" in shown
    assert "partitions are idle after: 30 s" in shown


@pytest.mark.parametrize(
    ("columns", "condition", "problem"),
    [
        ("x INT, ts TIMESTAMP(3)", "CURRENT_WATERMARK(ts) IS NULL", r"declare WATERMARK FOR it"),
        (
            "x INT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts",
            "CURRENT_WATERMARK(x) = 1",
            r"write CURRENT_WATERMARK\(ts\)",
        ),
        ("x INT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts", "CURRENT_WATERMARK() = ts", "takes 1 argument, not 0"),
        ("x INT, ts TIMESTAMP(3), WATERMARK FOR ts AS x", "x = 1", "a watermark must be a TIMESTAMP, not INT"),
        (
            "x INT, ts TIMESTAMP(3), WATERMARK FOR ts AS DATE '2026-01-01'",
            "x = 1",
            "a watermark must be a TIMESTAMP, not DATE",
        ),
        ("x INT, ts DATE, WATERMARK FOR ts AS ts", "x = 1", "needs a TIMESTAMP column, and 'ts' is DATE"),
    ],
)
def test_what_is_no_watermark_is_refused(columns, condition, problem):
    with pytest.raises(DefinitionError, match=problem):
        job(columns, condition)


def test_a_text_that_looks_like_the_watermarks_column_is_a_text():
    (found,) = parse_script(
        f"CREATE TABLE s (x INT) {WITH}; CREATE TABLE t (x STRING) WITH ('connector' = 'print'); "
        f"INSERT INTO t SELECT '`{WATERMARK}`' FROM s;"
    ).jobs
    assert isinstance(found.sinks[0].input.input, Scan)


TIMED = "CREATE TABLE s (x INT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts) WITH ({options}{more});\n"
INTO = "CREATE TABLE t (x INT) WITH ('connector' = 'blackhole');\nINSERT INTO t SELECT x FROM s"
KAFKA = "'connector' = 'kafka', 'topic' = 'in', 'properties.bootstrap.servers' = 'localhost:9092', 'format' = 'json'"


def timed(more, hint="", options=KAFKA):
    """The script, and how its table is read."""
    script = parse_script(TIMED.format(options=options, more=more) + INTO + hint, file="f.sql")
    return script, [each.spec for each in scans(*script.jobs[0].sinks)]


@pytest.mark.parametrize(
    ("more", "hint", "expected"),
    [
        ("", "", None),
        (", 'scan.watermark.idle-timeout' = '30 s'", "", timedelta(seconds=30)),
        (", 'scan.watermark.idle-timeout' = '30 s'", "'1 min'", timedelta(minutes=1)),
        ("", "'500'", timedelta(milliseconds=500)),
        (", 'scan.watermark.idle-timeout' = '0'", "", timedelta(days=36_500)),
    ],
)
def test_the_idle_timeout_is_that_of_one_table(more, hint, expected):
    hint = hint and f" /*+ OPTIONS('scan.watermark.idle-timeout' = {hint}) */"
    script, (spec,) = timed(more, hint)
    assert spec.watermark == Watermark("ts", 0, idle_timeout=expected)
    assert script.warnings == ()


def test_a_table_that_waits_for_ever_is_shown_so():
    script, _ = timed(", 'scan.watermark.idle-timeout' = '0'")
    assert ", never idle; of the table: the smallest" in explain(script.jobs[0])


def test_tables_with_other_idle_timeouts_are_read_apart():
    hinted = "s /*+ OPTIONS('scan.watermark.idle-timeout' = '1 s') */"
    script, specs = timed("", f" UNION ALL SELECT x FROM {hinted}")
    assert [each.watermark.idle_timeout for each in specs] == [None, timedelta(seconds=1)]
    assert explain(script.jobs[0]).count("idle after 1 s") == 1


@pytest.mark.parametrize(
    "options",
    [
        KAFKA,
        "'connector' = 'datagen'",
        "'connector' = 'filesystem', 'path' = '/p', 'format' = 'json'",
        KAFKA.replace("'format'", "'value.format' = 'json', 'key.format'").replace("'kafka'", "'upsert-kafka'"),
    ],
    ids=["kafka", "datagen", "filesystem", "upsert-kafka"],
)
def test_every_table_takes_the_options_of_watermarks(options):
    more = ", 'scan.watermark.emit.strategy' = 'on_event', 'scan.watermark.alignment.group' = 'g'"
    more += ", 'scan.watermark.idle-timeout' = '1 s'"
    if "upsert" in options:
        text = TIMED.format(options=options, more=more).replace("WATERMARK", "PRIMARY KEY (x) NOT ENFORCED, WATERMARK")
        warnings = parse_script(text + INTO, file="f.sql").warnings
    else:
        warnings = timed(more, options=options)[0].warnings
    emission, alignment = warnings
    assert "'scan.watermark.emit.strategy' has no effect here: the watermark advances with each batch" in emission
    assert "'scan.watermark.alignment.group' has no effect here: a batch reads what each of its tables has" in alignment
    assert emission.startswith("f.sql, line 1, column ")


def test_what_is_wrong_with_options_of_watermarks_has_its_place():
    more = ",\n'scan.watermark.idle-timeot' = '1 s',\n'scan.watermark.emit.strategy' = 'often',\n'scan.startup' = 'x'"
    with pytest.raises(OptionsError) as caught:
        timed(more)
    assert [str(each) for each in caught.value.problems] == [
        "f.sql, line 2, column 1: 'scan.watermark.idle-timeot': unknown option (did you mean "
        "'scan.watermark.idle-timeout'?)",
        "f.sql, line 3, column 1: 'scan.watermark.emit.strategy': expected one of on-event, on-periodic, not 'often'",
        "f.sql, line 4, column 1: 'scan.startup': unknown option (did you mean 'scan.startup.mode'?)",
    ]
    with pytest.raises(OptionsError, match="expected a duration of 0 or more, not '-1 s'"):
        timed(", 'scan.watermark.idle-timeout' = '-1 s'")
