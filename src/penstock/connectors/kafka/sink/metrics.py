"""A sink's metrics, by the names of Kafka's own producer."""

from __future__ import annotations

from functools import partial

from penstock.kafka.produce import SendCounts
from penstock.spi import MetricGroup


def count_sends(group: MetricGroup, sends: SendCounts) -> None:
    """Count the requests of a batch by the names of Kafka's own producer. Averages are over the last batch with
    records."""
    group.count("request-total", "request-rate", sends.requests)
    group.count("record-retry-total", "record-retry-rate", sends.retried)
    if sends.requests and sends.batches:
        gauges = {
            "request-latency-avg": sends.latency / sends.requests,
            "request-latency-max": sends.latency_max,
            "produce-throttle-time-avg": sends.throttled / sends.requests,
            "produce-throttle-time-max": sends.throttled_max,
            "batch-size-avg": sends.bytes / sends.batches,
            "batch-size-max": sends.batch_max,
            "records-per-request-avg": sends.records / sends.requests,
        }
        for name, value in gauges.items():
            group.gauge(name, partial(float, value))
