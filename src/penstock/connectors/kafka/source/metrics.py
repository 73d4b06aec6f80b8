"""The metrics of a kafka source, with the names and groups of Flink's connector."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from functools import partial

from penstock.clock import now_ms
from penstock.connectors.kafka.source.positions import Positions
from penstock.connectors.kafka.source.reports import ReadReport
from penstock.kafka.partitions import TopicPartition
from penstock.spi import MetricGroup

#: Gauges by the names of Kafka's own consumer.
_OF_LAST_BATCH: Mapping[str, Callable[[ReadReport], float | None]] = {
    "records-lag-max": lambda report: report.behind,
    "records-lead-min": lambda report: report.ahead,
    "records-per-request-avg": lambda report: report.records / report.fetches,
    "fetch-size-avg": lambda report: report.fetched_bytes / report.fetches,
    "fetch-size-max": lambda report: report.size_max,
    "fetch-latency-avg": lambda report: report.latency / report.fetches,
    "fetch-latency-max": lambda report: report.latency_max,
    "fetch-throttle-time-avg": lambda report: report.throttled / report.fetches,
    "fetch-throttle-time-max": lambda report: report.throttled_max,
}


class SourceMetrics:
    """Counters and gauges of one scan. ``pending`` returns how many records are left to read. ``consumer`` adds the
    names of Kafka's own consumer ('register.consumer.metrics')."""

    def __init__(self, operator: MetricGroup, pending: Callable[[], int | None], *, consumer: bool):
        self._operator = operator
        self._reader = operator.add_group("KafkaSourceReader")
        self._consumer = consumer
        self._last = ReadReport()
        self._last_records = time.monotonic()
        self._current: dict[TopicPartition, int] = {}
        self._committed: dict[TopicPartition, int] = {}
        self._watermark: int | None = None
        self.commits_succeeded = self._reader.counter("commitsSucceeded")
        self.commits_failed = self._reader.counter("commitsFailed")
        operator.gauge("currentFetchEventTimeLag", lambda: self._last.fetch_lag)
        operator.gauge("currentEmitEventTimeLag", lambda: self._last.emit_lag)
        operator.gauge("sourceIdleTime", lambda: (time.monotonic() - self._last_records) * 1000)
        operator.gauge("pendingRecords", pending)
        operator.gauge(
            "numBytesInPerScond", operator.meter("numBytesInPerSecond").get_rate
        )  # as Flink's documentation spells it
        operator.gauge("currentOutputWatermark", lambda: self._watermark)
        operator.gauge("watermarkLag", lambda: None if self._watermark is None else now_ms() - self._watermark)
        if self._consumer:
            self._register_consumer(self._reader.add_group("KafkaConsumer"))

    def read(self, report: ReadReport) -> None:
        """Count the records of a batch."""
        self._operator.count("numRecordsIn", "numRecordsInPerSecond", report.records)
        self._operator.count("numBytesIn", "numBytesInPerSecond", report.fetched_bytes)
        self._operator.counter("numRecordsInErrors").inc(report.refused)
        self._operator.counter("numRecordsFiltered").inc(report.filtered)
        self._operator.counter("numRecordsLost").inc(report.lost)
        if self._consumer:
            group = self._reader.add_group("KafkaConsumer")
            group.count("records-consumed-total", "records-consumed-rate", report.records)
            group.count("bytes-consumed-total", "bytes-consumed-rate", report.fetched_bytes)
            group.count("fetch-total", "fetch-rate", report.fetches)
        if report.records:
            self._last_records = time.monotonic()
            self._last = report

    def finish_batch(self, end: Positions, committed: bool | None) -> None:
        """A batch was done up to ``end``. ``committed`` says whether the group has its offsets; None when none were
        committed."""
        if committed is not None:
            (self.commits_succeeded if committed else self.commits_failed).inc()
            if self._consumer and committed:
                self._reader.add_group("KafkaConsumer").count("commit-total", "commit-rate", 1)
        self._watermark = end.watermark
        for tp, position in end.at.items():
            if tp not in self._current:
                self._register(tp)
            self._current[tp] = position.offset - 1
            if committed:
                self._committed[tp] = position.offset

    def _register_consumer(self, group: MetricGroup) -> None:
        """The names of Kafka's own consumer for the last batch with records."""
        for name, value in _OF_LAST_BATCH.items():
            group.gauge(name, partial(self._of_last, value))
        group.count("commit-total", "commit-rate", 0)

    def _of_last(self, value: Callable[[ReadReport], float | None]) -> float | None:
        return value(self._last) if self._last.fetches else None

    def _register(self, tp: TopicPartition) -> None:
        """Gauges of a partition, under the source's names and the older ones of Flink's former consumer."""
        names = (
            (self._reader, "currentOffset", "committedOffset"),
            (self._operator.add_group("KafkaConsumer"), "current-offsets", "committed-offsets"),
        )
        for parent, current, committed in names:
            group = parent.add_group("topic", tp[0]).add_group("partition", str(tp[1]))
            group.gauge(current, lambda: self._current.get(tp, -1))
            group.gauge(committed, lambda: self._committed.get(tp, -1))
