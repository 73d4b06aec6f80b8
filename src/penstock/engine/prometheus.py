"""Metrics of running jobs over HTTP, as Prometheus reads them.

Names are joined with underscores and values are gauges, as in Flink's own reporter for Prometheus:
``penstock_operator_KafkaSourceReader_topic_partition_currentOffset{job="copy",operator="orders",topic="t",partition="0"}``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from typing import Self

from prometheus_client import CollectorRegistry, start_http_server
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from penstock.engine.metric_help import SECOND_NAMES, help_of
from penstock.errors import OptionsError, Problem
from penstock.spi import Metric, MetricGroup

_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9_]")


class MetricsServer:
    """Answers ``GET /metrics`` with the current metrics of ``groups()``. Port 0 is any free port.

    Raises OptionsError if it cannot listen on the address.
    """

    def __init__(self, groups: Callable[[], Iterable[MetricGroup]], port: int, host: str = "0.0.0.0"):  # noqa: S104
        registry = CollectorRegistry(auto_describe=False)
        registry.register(_Collector(groups))
        try:
            self._server, self._thread = start_http_server(port, host, registry)
        except (OSError, OverflowError) as error:
            reason = f"cannot listen on {host}:{port}: {error}"
            raise OptionsError((Problem(reason, where="--metrics-port", hint="choose another port"),)) from error
        #: The port of the server.
        self.port = int(self._server.server_port)

    def close(self) -> None:
        """Stop answering."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class _Collector(Collector):
    def __init__(self, groups: Callable[[], Iterable[MetricGroup]]):
        self._groups = groups

    def collect(self) -> Iterator[GaugeMetricFamily]:
        families: dict[tuple[str, tuple[str, ...]], GaugeMetricFamily] = {}
        for group in self._groups():
            for metric in group.metrics():
                value = metric.value
                if value is None or metric.name in SECOND_NAMES:
                    continue
                name, labels = _name(metric)
                within = next((part for part in reversed(metric.scope) if isinstance(part, str)), "")
                family = GaugeMetricFamily(name, help_of(metric.name, within), labels=[*labels])
                families.setdefault((name, tuple(labels)), family).add_metric([*labels.values()], value)
        yield from families.values()


def _name(metric: Metric) -> tuple[str, dict[str, str]]:
    """The metric's name, and its labels: the groups of which there are many."""
    parts, labels = ["penstock"], {}
    for part in metric.scope:
        if isinstance(part, tuple):
            labels[_safe(part[0])] = part[1]
        group = part[0] if isinstance(part, tuple) else part
        if group != "job":
            parts.append(_safe(group))
    return "_".join([*parts, _safe(metric.name)]), labels


def _safe(name: str) -> str:
    return _NOT_IN_NAMES.sub("_", name)
