"""Metrics over HTTP, read as Prometheus reads them."""

from __future__ import annotations

import socket
from urllib.request import urlopen

import pytest
from prometheus_client.parser import text_string_to_metric_families

from penstock.engine import MetricsServer
from penstock.errors import OptionsError
from penstock.spi import MetricGroup


def scraped(port):
    with urlopen(f"http://127.0.0.1:{port}/metrics") as answer:
        families = text_string_to_metric_families(answer.read().decode())
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value for each in families for sample in each.samples
    }


def test_groups_become_names_and_labels():
    jobs = [MetricGroup((("job", name),)) for name in ("copy", "other")]
    for number, job in enumerate(jobs):
        job.gauge("numRestarts", lambda number=number: number)
        reader = job.add_group("operator", "orders").add_group("KafkaSourceReader")
        reader.counter("commitsSucceeded").inc(3)
        reader.add_group("topic", "my-topic").add_group("partition", "1").gauge("currentOffset", lambda: 41)
        reader.add_group("KafkaConsumer").counter("records-consumed-total").inc(5)
    with MetricsServer(lambda: jobs, 0, "127.0.0.1") as server:
        found = scraped(server.port)
    labels = {"job": "copy", "operator": "orders"}
    reader = "penstock_operator_KafkaSourceReader"
    assert found["penstock_numRestarts", frozenset({("job", "other")})] == 1
    assert found[f"{reader}_commitsSucceeded", frozenset(labels.items())] == 3
    assert found[f"{reader}_KafkaConsumer_records_consumed_total", frozenset(labels.items())] == 5
    place = frozenset({**labels, "topic": "my-topic", "partition": "1"}.items())
    assert found[f"{reader}_topic_partition_currentOffset", place] == 41
    assert len(found) == 8


def test_a_metric_says_what_it_is_and_comes_once():
    job = MetricGroup((("job", "copy"),))
    orders = job.add_group("operator", "orders")
    for name in ("numBytesInPerSecond", "numBytesInPerScond", "mine"):
        orders.gauge(name, lambda: 1)
    orders.add_group("KafkaProducer").gauge("batch-size-avg", lambda: 1)
    with MetricsServer(lambda: [job], 0, "127.0.0.1") as server, urlopen(f"http://127.0.0.1:{server.port}") as answer:
        text = answer.read().decode()
    assert [line for line in text.splitlines() if line.startswith("# HELP")] == [
        "# HELP penstock_operator_numBytesInPerSecond Bytes read per second, of the last minute",
        "# HELP penstock_operator_mine See docs/metrics.md for mine",
        "# HELP penstock_operator_KafkaProducer_batch_size_avg As batch-size-avg of Kafka's own client",
    ]


def test_a_port_that_is_taken_is_refused_with_its_name():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(OptionsError, match=rf"cannot listen on 127\.0\.0\.1:{port}.*choose another port"):
            MetricsServer(list, port, "127.0.0.1")
