"""Partitions of topics by topic and number."""

from __future__ import annotations

from collections.abc import Iterable

#: (topic, partition)
TopicPartition = tuple[str, int]


def format_partition(tp: TopicPartition) -> str:
    """A partition's name in messages."""
    return f"topic '{tp[0]}', partition {tp[1]}"


def group_by_topic(partitions: Iterable[TopicPartition]) -> dict[str, list[int]]:
    """The partition numbers of each topic; topics and numbers are sorted."""
    topics: dict[str, list[int]] = {}
    for topic, partition in sorted(set(partitions)):
        topics.setdefault(topic, []).append(partition)
    return topics
