"""The metrics of Kafka tables: what the reports of tasks and the ends of batches add up to."""

from __future__ import annotations

import pytest

from penstock.connectors.kafka.source.metrics import SourceMetrics
from penstock.connectors.kafka.source.positions import Position, Positions
from penstock.connectors.kafka.source.reports import ReadReport
from penstock.spi import MetricGroup

PARTITION = "KafkaSourceReader.topic.orders.partition.1"


@pytest.fixture
def operator():
    return MetricGroup().add_group("operator", "orders")


def metrics_of(operator, *, consumer=True, pending=lambda: 7):
    return SourceMetrics(operator, pending, consumer=consumer)


class TestReports:
    def test_a_report_travels_as_bytes(self):
        report = ReadReport(records=3, fetched_bytes=90, fetch_lag=1.5, behind=4, watermarks=[("orders", 1, 1000)])
        assert ReadReport.merge([report.to_bytes()]) == report

    def test_counters_add_up_and_of_lags_the_largest_counts(self):
        first = ReadReport(records=3, fetched_bytes=90, filtered=1, refused=2, lost=5, fetches=1, fetch_lag=9.0)
        first.latency, first.latency_max, first.throttled, first.size_max, first.ahead = 8.0, 5.0, 1.0, 60, 4
        second = ReadReport(
            records=4, fetched_bytes=10, filtered=2, refused=1, lost=1, fetches=2, emit_lag=2.0, behind=6
        )
        second.latency, second.latency_max, second.size_max, second.ahead = 2.0, 2.0, 70, 2
        second.throttled = second.throttled_max = 3.0
        whole = ReadReport.merge([first.to_bytes(), second.to_bytes()])

        assert (whole.records, whole.fetched_bytes, whole.filtered, whole.refused) == (7, 100, 3, 3)
        assert (whole.lost, whole.fetches) == (6, 3)
        assert (whole.fetch_lag, whole.emit_lag, whole.behind) == (9.0, 2.0, 6)
        assert (whole.latency, whole.latency_max, whole.throttled, whole.size_max) == (10.0, 5.0, 4.0, 70)
        assert (whole.throttled_max, whole.ahead) == (3.0, 2)

    def test_no_reports_are_an_empty_one(self):
        assert ReadReport.merge([]) == ReadReport()


class TestSourceMetrics:
    def test_reports_are_counted(self, operator):
        metrics = metrics_of(operator)
        for _ in range(2):
            metrics.read(ReadReport(records=3, fetched_bytes=90, filtered=1, refused=2, lost=5, fetches=1, behind=4))

        counted = {
            "numRecordsIn": 6,
            "numBytesIn": 180,
            "numRecordsInErrors": 4,
            "numRecordsFiltered": 2,
            "numRecordsLost": 10,
            "KafkaSourceReader.KafkaConsumer.records-consumed-total": 6,
            "KafkaSourceReader.KafkaConsumer.bytes-consumed-total": 180,
            "KafkaSourceReader.KafkaConsumer.fetch-total": 2,
            "KafkaSourceReader.KafkaConsumer.records-lag-max": 4,
            "pendingRecords": 7,
        }
        assert {name: operator[name] for name in counted} == counted

    def test_averages_are_those_of_the_fetches_of_the_last_batch(self, operator):
        metrics = metrics_of(operator)
        for _ in range(2):
            report = ReadReport(records=6, fetched_bytes=90, fetches=3, latency=12.0, latency_max=5.0, throttled=6.0)
            report.throttled_max, report.size_max, report.ahead = 4.0, 60, 7
            metrics.read(report)
        metrics.finish_batch(Positions({}), committed=True)
        names = ("fetch-latency", "fetch-throttle-time", "fetch-size")
        found = {
            name: operator[f"KafkaSourceReader.KafkaConsumer.{name}"]
            for each in names
            for name in (f"{each}-avg", f"{each}-max")
        }
        assert list(found.values()) == [4.0, 5.0, 2.0, 4.0, 30.0, 60]
        rest = ("records-per-request-avg", "records-lead-min", "commit-total")
        assert [operator[f"KafkaSourceReader.KafkaConsumer.{name}"] for name in rest] == [2.0, 7, 1]

    def test_lags_are_those_of_the_last_batch_with_records(self, operator):
        metrics = metrics_of(operator)
        metrics.read(ReadReport(records=1, fetch_lag=5.0, emit_lag=6.0))
        metrics.read(ReadReport())

        assert (operator["currentFetchEventTimeLag"], operator["currentEmitEventTimeLag"]) == (5.0, 6.0)

    def test_what_is_not_known_is_not_shown(self, operator):
        metrics_of(operator, pending=lambda: None)
        assert {"pendingRecords", "currentOutputWatermark", "watermarkLag", "currentFetchEventTimeLag"}.isdisjoint(
            operator
        )

    def test_the_names_of_kafkas_consumer_can_be_left_out(self, operator):
        metrics_of(operator, consumer=False).read(ReadReport(records=1, fetches=1))
        assert not [name for name in operator if name.startswith("KafkaSourceReader.KafkaConsumer")]

    def test_offsets_follow_what_is_done_and_what_is_committed(self, operator):
        metrics = metrics_of(operator)
        metrics.finish_batch(Positions({("orders", 1): Position(10)}), committed=None)
        assert (operator[f"{PARTITION}.currentOffset"], operator[f"{PARTITION}.committedOffset"]) == (9, -1)
        metrics.finish_batch(Positions({("orders", 1): Position(20)}), committed=True)
        metrics.finish_batch(Positions({("orders", 1): Position(30)}), committed=False)

        assert (operator[f"{PARTITION}.currentOffset"], operator[f"{PARTITION}.committedOffset"]) == (29, 20)
        former = "KafkaConsumer.topic.orders.partition.1"
        assert (operator[f"{former}.current-offsets"], operator[f"{former}.committed-offsets"]) == (29, 20)
        reader = operator["KafkaSourceReader.commitsSucceeded"], operator["KafkaSourceReader.commitsFailed"]
        assert reader == (1, 1)

    def test_the_watermark_is_that_of_the_last_batch(self, operator):
        metrics = metrics_of(operator)
        metrics.finish_batch(Positions({("orders", 1): Position(10, watermark=5000)}), committed=None)
        assert operator["currentOutputWatermark"] == 5000
        assert operator["watermarkLag"] > 0
