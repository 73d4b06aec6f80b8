"""What tasks report to the driver: each batch's reports reach its sources, once and in order."""

from __future__ import annotations

from penstock.engine.runs.reports import BatchReports, Reports


class Recorder:
    """The part of a source that is given reports."""

    def __init__(self):
        self.reports = []
        self.watermarks = []

    def receive_reports(self, reports):
        self.reports.append(reports)

    def receive_watermarks(self, watermarks, end):
        self.watermarks.append((watermarks, end))


def batch(number, **named):
    """The reports of a batch: of sources as ``penstock_0``, of watermarks as ``penstock_0_watermarks``."""
    return BatchReports(number, {name.replace("_", "-"): reports for name, reports in named.items()}.get)


def test_each_batch_is_delivered_once_and_in_order():
    reports, source = Reports(), Recorder()
    batches = [batch(number, penstock_0=[b"%d" % number]) for number in range(3)]

    reports.deliver(reversed(batches[:2]), [source])
    assert source.reports == [[b"0"], [b"1"]]
    reports.deliver(reversed(batches[:2]), [source])
    reports.deliver(reversed(batches), [source])
    assert source.reports == [[b"0"], [b"1"], [b"2"]]


def test_a_batch_that_spark_has_no_reports_of_yet_is_delivered_later():
    """Spark also reports progress while a query waits for rows, and then observes nothing."""
    reports, source = Reports(), Recorder()
    reports.deliver([batch(1), batch(0, penstock_0=[b"0"])], [source])
    assert source.reports == [[b"0"]]
    reports.deliver([batch(1, penstock_0=[b"1"]), batch(0, penstock_0=[b"0"])], [source])
    assert source.reports == [[b"0"], [b"1"]]


def test_a_batch_whose_tasks_reported_nothing_is_delivered_as_empty():
    reports, source = Reports(), Recorder()
    reports.deliver([batch(0, penstock_0=[])], [source])
    assert source.reports == [[]]


def test_each_source_gets_its_own_reports():
    reports, first, second = Reports(), Recorder(), Recorder()
    reports.deliver([batch(0, penstock_0=[b"a", b"b"], penstock_1=[b"c"])], [first, second])
    assert (first.reports, second.reports) == ([[b"a", b"b"]], [[b"c"]])
    reports.deliver([batch(1, penstock_1=[b"d"])], [first, second])
    assert (first.reports, second.reports) == ([[b"a", b"b"]], [[b"c"], [b"d"]])
