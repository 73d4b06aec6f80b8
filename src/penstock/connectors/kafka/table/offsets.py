"""Positions in partitions as text: ``partition:0,offset:42;partition:1,offset:300``.

The grammar is Flink's: case matters, no blanks inside, a repeated partition keeps the last offset. Tables name one
topic, so that is all they need; builders may name several, and then write ``topic:<name>,`` before an entry. Sets of
partitions are written likewise, without offsets: ``partition:0;partition:3``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from penstock.options import Codec

_PARTITION = re.compile(r"(?:topic:(?P<topic>[a-zA-Z0-9._-]+),)?partition:(?P<partition>\d+)")
_ENTRY = re.compile(_PARTITION.pattern + r",offset:(?P<offset>\d+)")


@dataclass(frozen=True, order=True)
class PartitionOffset:
    """The next offset to read of one partition. ``topic`` is empty where the table's only topic is meant."""

    topic: str
    partition: int
    offset: int


def _parse(text: str) -> tuple[PartitionOffset, ...]:
    found: dict[tuple[str, int], int] = {}
    for entry in text.strip().rstrip(";").split(";"):
        match = _ENTRY.fullmatch(entry)
        if match is None:
            raise ValueError("expected 'partition:<number>,offset:<number>', joined by ';' and without blanks")
        found[match["topic"] or "", int(match["partition"])] = int(match["offset"])
    return tuple(sorted(PartitionOffset(topic, partition, offset) for (topic, partition), offset in found.items()))


def _show(offsets: tuple[PartitionOffset, ...]) -> str:
    return ";".join(
        (f"topic:{each.topic}," if each.topic else "") + f"partition:{each.partition},offset:{each.offset}"
        for each in offsets
    )


def offsets_text(offsets: Mapping[tuple[str, int], int]) -> str:
    """Offsets by (topic, partition) as the text that :data:`OFFSETS` reads."""
    return _show(tuple(PartitionOffset(topic, partition, at) for (topic, partition), at in sorted(offsets.items())))


OFFSETS = Codec("Offsets", _parse, _show)


def _parse_partitions(text: str) -> tuple[tuple[str, int], ...]:
    found = set()
    for entry in text.strip().rstrip(";").split(";"):
        match = _PARTITION.fullmatch(entry)
        if match is None:
            raise ValueError("expected 'partition:<number>', joined by ';' and without blanks")
        found.add((match["topic"] or "", int(match["partition"])))
    return tuple(sorted(found))


def partitions_text(partitions: Iterable[tuple[str, int]]) -> str:
    """A set of (topic, partition) as the text that :data:`PARTITIONS` reads; the topic may be empty."""
    return ";".join((f"topic:{topic}," if topic else "") + f"partition:{at}" for topic, at in sorted(partitions))


PARTITIONS = Codec("Partitions", _parse_partitions, partitions_text)
