"""The metrics of a kafka source, with the names and groups of Flink's connector (seeds 003, 004)."""

from __future__ import annotations

import time
from collections.abc import Callable

from penstock.connectors.kafka.source.positions import Positions
from penstock.connectors.kafka.source.reports import ReadReport
from penstock.kafka.session import TopicPartition
from penstock.spi import MetricGroup


class SourceMetrics:
    """Counters and gauges of one scan. ``pending`` asks how many records are left to be read; without ``consumer`` the
    names of Kafka's own consumer are left out ('register.consumer.metrics')."""

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
        operator.gauge("numBytesInPerScond", operator.meter("numBytesInPerSecond").get_rate)  # as seed 003 spells it
        operator.gauge("currentOutputWatermark", lambda: self._watermark)
        operator.gauge("watermarkLag", self._watermark_lag)
        if self._consumer:
            self._reader.add_group("KafkaConsumer").gauge("records-lag-max", lambda: self._last.behind)

    def read(self, report: ReadReport) -> None:
        """Count what a batch has read."""
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

    def done(self, end: Positions, committed: bool | None) -> None:
        """A batch was done up to ``end``; ``committed``: whether the group has its offsets, None when it has no part in
        this."""
        if committed is not None:
            (self.commits_succeeded if committed else self.commits_failed).inc()
        self._watermark = end.watermark
        for place, position in end.at.items():
            if place not in self._current:
                self._register(place)
            self._current[place] = position.offset - 1
            if committed:
                self._committed[place] = position.offset

    def _watermark_lag(self) -> float | None:
        return None if self._watermark is None else time.time() * 1000 - self._watermark

    def _register(self, place: TopicPartition) -> None:
        """Gauges of a partition: those of the source, and under their former names those of the former consumer."""
        topic, partition = place
        group = self._reader.add_group("topic", topic).add_group("partition", str(partition))
        group.gauge("currentOffset", lambda: self._current.get(place, -1))
        group.gauge("committedOffset", lambda: self._committed.get(place, -1))
        former = (
            self._operator.add_group("KafkaConsumer").add_group("topic", topic).add_group("partition", str(partition))
        )
        former.gauge("current-offsets", lambda: self._current.get(place, -1))
        former.gauge("committed-offsets", lambda: self._committed.get(place, -1))
