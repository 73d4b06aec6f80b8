"""When offsets are committed, by a clock that the test moves."""

from __future__ import annotations

import pytest

from penstock.connectors.kafka.factory import KafkaConnector
from penstock.connectors.kafka.source.commits import CommitTimes
from penstock.connectors.kafka.table.options import KafkaSourceOptions
from penstock.errors import OptionsError
from penstock.spi import Column, Surface, TableDefinition
from penstock.types import BIGINT


def options(surface: Surface = Surface.SQL, **given: str) -> KafkaSourceOptions:
    base = {"topic": "a", "properties.bootstrap.servers": "localhost:1", "format": "json"}
    base |= {f"properties.{key.replace('_', '.')}": value for key, value in given.items()}
    return KafkaConnector().scan(TableDefinition("t", (Column("id", BIGINT),), base, surface=surface)).options


class Clock:
    """Stands still until it is moved."""

    now = 100.0

    def __call__(self):
        return self.now


def test_with_checkpointing_every_batch_is_committed_whatever_the_automatic_says():
    for automatic in ("true", "false"):
        times = CommitTimes(options(enable_auto_commit=automatic), checkpointing=True, clock=Clock())
        assert [times.due({"batch": number}) for number in range(3)] == [True] * 3
        assert times.left is None


def test_without_checkpointing_nothing_is_committed_unless_it_is_asked_for():
    times = CommitTimes(options(), checkpointing=False, clock=Clock())
    assert not times.due({"batch": 0})
    assert times.left is None


def test_automatic_commits_keep_their_interval_and_leave_the_rest_for_the_end():
    clock = Clock()
    given = options(enable_auto_commit="true", auto_commit_interval_ms="1000")
    times = CommitTimes(given, checkpointing=False, clock=clock)
    assert not times.due({"batch": 0})
    clock.now += 0.999
    assert not times.due({"batch": 1})
    assert times.left == {"batch": 1}
    clock.now += 0.001
    assert times.due({"batch": 2})
    assert times.left is None
    assert not times.due({"batch": 3})


def test_the_interval_is_kafka_s_own_without_one():
    assert options().auto_commit_interval.total_seconds() == 5
    with pytest.raises(OptionsError, match=r"'properties.auto.commit.interval.ms': expected 0 or more"):
        options(auto_commit_interval_ms="-1")


def test_automatic_commits_need_a_group():
    with pytest.raises(OptionsError, match=r"'properties.enable.auto.commit': needs a consumer group"):
        options(Surface.BUILDER, enable_auto_commit="true")
