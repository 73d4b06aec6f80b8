"""Counters, meters and gauges, and the groups that they are in."""

from __future__ import annotations

import pytest

from penstock.spi import MetricGroup
from penstock.spi.plugin.metrics import Meter


class Clock:
    """A clock that stands still until it is set."""

    now = 0.0

    def __call__(self):
        return self.now


class TestMeter:
    def test_without_events_the_rate_is_zero(self):
        assert Meter().get_rate() == 0

    def test_the_rate_of_a_young_meter_is_over_its_life(self):
        clock = Clock()
        meter = Meter(60, clock)
        clock.now = 10
        meter.mark_event(50)
        assert meter.get_rate() == 5
        clock.now = 20
        assert meter.get_rate() == 2.5

    def test_events_before_the_span_do_not_count(self):
        clock = Clock()
        meter = Meter(60, clock)
        for clock.now, events in ((10, 1000), (30, 60), (90, 60)):
            meter.mark_event(events)
        assert meter.get_rate() == 1  # those of second 90; those of second 30 are 60 s old
        clock.now = 150
        assert meter.get_rate() == 0
        assert meter.get_count() == 1120

    def test_old_marks_are_forgotten(self):
        clock = Clock()
        meter = Meter(60, clock)
        for clock.now in range(10_000):
            meter.mark_event()
        assert meter.get_rate() == pytest.approx(1, rel=0.05)
        assert len(meter._marks) <= 62


class TestGroups:
    def test_what_was_there_is_given_again(self):
        job = MetricGroup()
        job.add_group("operator", "orders").counter("n").inc(2)
        job.add_group("operator", "orders").counter("n").inc()
        assert job == {"operator.orders.n": 3}

    def test_names_are_dotted_and_begin_below_the_group(self):
        job = MetricGroup((("job", "copy"),))
        reader = job.add_group("operator", "orders").add_group("KafkaSourceReader")
        reader.add_group("topic", "my.topic").add_group("partition", "1").gauge("currentOffset", lambda: 41)
        (metric,) = job.metrics()
        assert metric.identifier == (
            "job.copy.operator.orders.KafkaSourceReader.topic.my.topic.partition.1.currentOffset"
        )
        assert list(reader) == ["topic.my.topic.partition.1.currentOffset"]
        assert reader["topic.my.topic.partition.1.currentOffset"] == 41

    def test_a_gauge_is_asked_anew_and_replaced(self):
        job, values = MetricGroup(), [1]
        job.gauge("size", lambda: len(values))
        values.append(2)
        assert job["size"] == 2
        job.gauge("size", lambda: 7)
        assert job["size"] == 7

    def test_a_gauge_without_a_value_is_not_shown(self):
        job = MetricGroup()
        job.gauge("lag", lambda: None)
        assert not job
        with pytest.raises(KeyError):
            job["lag"]

    def test_a_name_is_of_one_kind(self):
        job = MetricGroup((("job", "copy"),))
        job.counter("n")
        with pytest.raises(TypeError, match=r"'job.copy.n' is a Counter"):
            job.meter("n")
