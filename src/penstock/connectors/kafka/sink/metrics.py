"""The metrics of a kafka sink, with the names and groups of Flink's connector."""

from __future__ import annotations

from penstock.spi import MetricGroup, Written


def count_produced(operator: MetricGroup, written: Written) -> None:
    """Count the records and bytes of a batch, under the names of Kafka's own producer."""
    group = operator.add_group("KafkaProducer")
    group.count("record-send-total", "record-send-rate", written.records)
    group.count("outgoing-byte-total", "outgoing-byte-rate", written.bytes)
