"""Offsets and partitions as text: ``partition:0,offset:42;partition:1,offset:300``, and ``partition:0;partition:3``.

The grammar is Flink's: case matters, blanks are not allowed, and of a repeated partition the last offset counts. Tables
with one topic need no more. Builders may name several topics, with ``topic:<name>,`` before an entry; elsewhere the
topic is empty, and the table's only topic is meant.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping

from penstock.kafka.partitions import TopicPartition
from penstock.options import Codec

#: Partitions and the next offset to read of each, sorted.
PartitionOffsets = tuple[tuple[TopicPartition, int], ...]

_PARTITION = r"(?:topic:(?P<topic>[a-zA-Z0-9._-]+),)?partition:(?P<partition>\d+)"
_ENTRY = _PARTITION + r",offset:(?P<offset>\d+)"


def _parse_entries(pattern: str, expected: str, text: str) -> Iterator[tuple[TopicPartition, re.Match[str]]]:
    for entry in text.strip().rstrip(";").split(";"):
        match = re.fullmatch(pattern, entry)
        if match is None:
            raise ValueError(f"expected '{expected}', joined by ';' and without blanks")
        yield (match["topic"] or "", int(match["partition"])), match


def _parse(text: str) -> PartitionOffsets:
    entries = _parse_entries(_ENTRY, "partition:<number>,offset:<number>", text)
    return tuple(sorted({tp: int(match["offset"]) for tp, match in entries}.items()))


def _parse_partitions(text: str) -> tuple[TopicPartition, ...]:
    return tuple(sorted({tp for tp, _ in _parse_entries(_PARTITION, "partition:<number>", text)}))


def _format_partition(topic: str, partition: int) -> str:
    return (f"topic:{topic}," if topic else "") + f"partition:{partition}"


def format_offsets(offsets: Mapping[TopicPartition, int]) -> str:
    """Offsets by (topic, partition) as the text that :data:`OFFSETS` reads."""
    return ";".join(f"{_format_partition(*tp)},offset:{offset}" for tp, offset in sorted(offsets.items()))


def format_partitions(partitions: Iterable[TopicPartition]) -> str:
    """A set of (topic, partition) as the text that :data:`PARTITIONS` reads; the topic may be empty."""
    return ";".join(_format_partition(*tp) for tp in sorted(partitions))


OFFSETS = Codec("Offsets", _parse, lambda offsets: format_offsets(dict(offsets)))
PARTITIONS = Codec("Partitions", _parse_partitions, format_partitions)
