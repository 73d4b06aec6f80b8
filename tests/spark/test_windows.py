"""Windows of event time in whole jobs: watermarks of partitions, restarts, and the end of input."""

from __future__ import annotations

import json
from collections import Counter, defaultdict

import pytest

from penstock.cli.main import main
from penstock.errors import AbortableError
from tests.spark.failpoints import before_commit, failures
from tests.waiting import eventually, while_running

CLICKS = "page STRING, n BIGINT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts - INTERVAL '2' SECOND"
COUNTS = "page STRING, begins TIMESTAMP(3), clicks BIGINT, total BIGINT"
COUNT = """INSERT INTO counts SELECT page, window_start, COUNT(*), SUM(n)
FROM TABLE(TUMBLE(TABLE clicks, DESCRIPTOR(ts), INTERVAL '10' SECOND)) GROUP BY page, window_start, window_end;
"""


def at(second):
    """A moment of the test's day."""
    return f"2026-11-22 10:{second // 60:02}:{second % 60:02}"


def clicks(*seconds, page="a"):
    return [{"page": page, "n": second, "ts": at(second), "given": at(second)} for second in seconds]


def counted(*rows):
    """The windows of all clicks."""
    found = defaultdict(lambda: [0, 0])
    for each in rows:
        group = found[each["page"], at(each["n"] // 10 * 10)]
        group[0] += 1
        group[1] += each["n"]
    return Counter((*key, *values) for key, values in found.items())


@pytest.fixture
def counts(jobs, topics, topic):
    """A topic of counts: the SQL that declares it, and what it holds."""
    target = topic(2)

    def rows():
        fields = ("page", "begins", "clicks", "total")
        return Counter(tuple(message.json[name] for name in fields) for message in topics.read(target))

    return jobs.exactly_once("counts", COUNTS, target), rows


def test_windows_close_with_the_watermark_and_the_last_ones_with_the_input(jobs, topics, topic, counts):
    source, (target, rows) = topic(2), counts
    first, second = clicks(1, 9, 35, 47), clicks(5, 12, 33, page="b")
    topics.write(source, first, partition=0)
    topics.write(source, second, partition=1)
    jobs.run(jobs.bounded("clicks", CLICKS, source) + target + COUNT)
    assert rows() == counted(*first, *second)


def test_a_restart_in_the_middle_of_a_window_loses_and_repeats_nothing(jobs, topics, topic, counts, capsys):
    source, (target, rows) = topic(2), counts
    sql = jobs.table("clicks", CLICKS, source, scan_startup_mode="earliest-offset") + target + COUNT
    topics.write(source, clicks(1, 14), partition=0)
    topics.write(source, clicks(3, 12, page="b"), partition=1)
    running = jobs.start(sql)
    while_running(running, lambda: rows() == counted(*clicks(1), *clicks(3, page="b")))
    eventually(jobs.idle)
    running.stop()

    topics.write(source, clicks(18, 40), partition=0)
    topics.write(source, [*clicks(2, 13, page="b"), *clicks(40, page="b")], partition=1)  # the first one is late
    running = jobs.start(sql)
    early = counted(*clicks(1, 14, 18), *clicks(3, 12, 13, page="b"))
    while_running(running, lambda: rows() == early)
    running.stop()
    step = "counts: window(clicks)"
    assert running.metrics[f"operator.{step}.numLateRecordsDropped"] == 1
    found = running.progress.steps[step]
    assert (found.late, found.watermark) == (1, running.metrics[f"operator.{step}.currentInputWatermark"])

    # The number is committed with the state: the next run goes on with it.
    topics.write(source, clicks(3, 60), partition=0)
    running = jobs.start(sql)
    while_running(running, lambda: running.progress.records_in == 2)
    running.stop()
    assert running.progress.steps[step].late == 2
    capsys.readouterr()
    assert main(["state", running.checkpoint.location, "--format", "json"]) == 0
    shown, *_ = map(json.loads, capsys.readouterr().out.splitlines())
    assert (shown["late rows"], shown["watermark"]) == (2, found.watermark)


COMPUTED = "page STRING, n BIGINT, given STRING, ts AS CAST(given AS TIMESTAMP(3)), WATERMARK FOR ts AS ts"


@pytest.mark.parametrize("columns", [CLICKS, COMPUTED], ids=["read", "computed"])
def test_a_partition_that_is_idle_does_not_hold_windows_open(jobs, topics, topic, counts, columns):
    source, (target, rows) = topic(2), counts
    sql = "SET 'table.exec.source.idle-timeout' = '2 s';\n"
    sql += jobs.table("clicks", columns, source, scan_startup_mode="earliest-offset") + target + COUNT
    topics.write(source, clicks(1, 14), partition=0)
    running = jobs.start(sql)
    while_running(running, lambda: rows() == counted(*clicks(1)))


@pytest.mark.slow
def test_an_attempt_that_is_aborted_closes_no_window(jobs, topics, topic, counts, monkeypatch):
    source, (target, rows) = topic(1), counts
    given = clicks(*range(0, 60, 3))
    topics.write(source, given)
    before_commit(monkeypatch, failures(2, lambda: AbortableError("the broker aborted it")))
    jobs.run(jobs.bounded("clicks", CLICKS, source, scan_max__records__per__trigger="5") + target + COUNT)
    assert sum("is retried" in each for each in jobs.warnings) == 2
    assert rows() == counted(*given)


def test_a_window_of_processing_time_closes_without_another_row(jobs, topics, topic, counts):
    source, (target, rows) = topic(1), counts
    columns = "page STRING, n BIGINT, at AS PROCTIME()"
    sql = jobs.table("clicks", columns, source, scan_startup_mode="earliest-offset") + target
    insert = COUNT.replace("window_start,", "CAST(NULL AS TIMESTAMP(3)),", 1).replace("(ts)", "(at)")
    topics.write(source, clicks(1, 2))
    sql += insert.replace("'10' SECOND", "'2' SECOND")
    running = jobs.start(sql)
    while_running(running, lambda: sum(row[2] for row in rows().elements()) == 2)
    running.stop()
    assert [each.watermark for each in running.progress.steps.values()] == [None]
    running.stop()
    jobs.run(f"SET 'penstock.available-now' = 'true';\n{sql}")  # ends: no window asks for more batches
