"""What tasks report to the driver: each batch's reports reach its sources, once and in order."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest

from penstock.engine.checkpoint.documents import JobCheckpoint
from penstock.engine.checkpoint.local import LocalFiles
from penstock.engine.runs.reports import BatchReports, Reports, largest_watermarks


class Recorder:
    """The part of a source that is given reports."""

    def __init__(self):
        self.reports = []
        self.watermarks = []

    def reported(self, reports):
        self.reports.append(reports)

    def progressed(self, watermarks, end):
        self.watermarks.append((watermarks, end))


@pytest.fixture
def checkpoint(tmp_path):
    """A checkpoint with the positions of two sources in three batches."""
    (tmp_path / "offsets").mkdir()
    for batch in range(3):
        ends = (json.dumps({"first": batch}), json.dumps({"second": batch}))
        (tmp_path / "offsets" / str(batch)).write_text("\n".join(["v1", "{}", *ends]))
    return JobCheckpoint(str(tmp_path), LocalFiles(tmp_path))


def batch(number, **named):
    """The reports of a batch: of sources as ``penstock_0``, of watermarks as ``penstock_0_watermarks``."""
    return BatchReports(number, {name.replace("_", "-"): reports for name, reports in named.items()}.get)


def test_each_batch_is_delivered_once_and_in_order(checkpoint):
    reports, source = Reports(), Recorder()
    batches = [batch(number, penstock_0=[b"%d" % number]) for number in range(3)]

    reports.deliver(reversed(batches[:2]), [source], checkpoint)
    assert source.reports == [[b"0"], [b"1"]]
    reports.deliver(reversed(batches[:2]), [source], checkpoint)
    reports.deliver(reversed(batches), [source], checkpoint)
    assert source.reports == [[b"0"], [b"1"], [b"2"]]


def test_a_batch_that_spark_has_no_reports_of_yet_is_delivered_later(checkpoint):
    """Spark also reports progress while a query waits for rows, and then observes nothing."""
    reports, source = Reports(), Recorder()
    reports.deliver([batch(1), batch(0, penstock_0=[b"0"])], [source], checkpoint)
    assert source.reports == [[b"0"]]
    reports.deliver([batch(1, penstock_0=[b"1"]), batch(0, penstock_0=[b"0"])], [source], checkpoint)
    assert source.reports == [[b"0"], [b"1"]]


def test_a_batch_whose_tasks_reported_nothing_is_delivered_as_empty(checkpoint):
    reports, source = Reports(), Recorder()
    reports.deliver([batch(0, penstock_0=[])], [source], checkpoint)
    assert source.reports == [[]]


def test_each_source_gets_its_own_reports(checkpoint):
    reports, first, second = Reports(), Recorder(), Recorder()
    reports.deliver([batch(0, penstock_0=[b"a", b"b"], penstock_1=[b"c"])], [first, second], checkpoint)
    assert (first.reports, second.reports) == ([[b"a", b"b"]], [[b"c"]])
    reports.deliver([batch(1, penstock_1=[b"d"])], [first, second], checkpoint)
    assert (first.reports, second.reports) == ([[b"a", b"b"]], [[b"c"], [b"d"]])


def test_the_largest_watermark_of_each_place_goes_with_the_batch_s_end(checkpoint):
    reports, first, second = Reports(), Recorder(), Recorder()
    tasks = [json.dumps([[0, 5], [1, 70]]).encode(), json.dumps([[1, 60], [0, 9], [2, -1]]).encode()]
    given = batch(2, penstock_0=[b""], penstock_1=[b""], penstock_1_watermarks=tasks)
    reports.deliver([given], [first, second], checkpoint)
    assert first.watermarks == []
    assert second.watermarks == [({0: 9, 1: 70, 2: -1}, {"second": 2})]


def test_a_batch_whose_positions_are_gone_gives_no_watermarks(checkpoint):
    """Spark deletes the log's oldest entries."""
    reports, source = Reports(), Recorder()
    reports.deliver([batch(7, penstock_0=[b"a"], penstock_0_watermarks=[b"[[0, 1]]"])], [source], checkpoint)
    assert (source.reports, source.watermarks) == ([[b"a"]], [])


@pytest.mark.parametrize(
    ("places", "watermarks", "report"),
    [
        ([0, 1, 0, 1], [3, 8, 5, 7], {0: 5, 1: 8}),
        ([0, 0, 1], [None, 4, None], {0: 4}),
        ([3], [-(10**15)], {3: -(10**15)}),
        ([0, 1], [None, None], {}),
    ],
)
def test_a_task_reports_the_largest_watermark_of_each_place_in_its_first_row(places, watermarks, report):
    found = largest_watermarks(pa.array(places, pa.int32()), pa.array(watermarks, pa.int64()))
    assert (found.type, len(found)) == (pa.binary(), len(places))
    assert dict(json.loads(found[0].as_py())) == report
    assert found[1:].null_count == len(places) - 1


def test_a_batch_without_rows_has_no_report():
    found = largest_watermarks(pa.array([], pa.int32()), pa.array([], pa.int64()))
    assert (found.type, len(found)) == (pa.binary(), 0)
