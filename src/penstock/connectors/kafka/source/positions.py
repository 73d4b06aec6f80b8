"""Positions in topics, as they stand in Spark's offset log, and how a range between two is cut into tasks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from penstock.errors import CheckpointError

#: (topic, partition)
TopicPartition = tuple[str, int]

#: A batch of fewer records than this is one task: starting a second one costs more than it saves.
_RECORDS_WORTH_A_TASK = 25_000
_MOST_RECORDS_IN_A_TASK = 500_000


@dataclass(frozen=True)
class Position:
    """The next offset to read, and the leader epoch of the record before it (-1: not known).

    ``lost`` counts the offsets before it that were passed over because the log had them no more. In a scan with event
    time ``watermark`` (ms since 1970, None: none yet) is how far that has come in the partition, and ``idle`` says that
    the partition has been silent for too long to be waited for.
    """

    offset: int
    epoch: int = -1
    lost: int = 0
    watermark: int | None = None
    idle: bool = False

    def to_json(self) -> dict[str, int]:
        """As :meth:`Positions.to_json` holds it."""
        extras = {"lost": self.lost or None, "watermark": self.watermark, "idle": int(self.idle) or None}
        return {
            "offset": self.offset,
            "epoch": self.epoch,
            **{name: value for name, value in extras.items() if value is not None},
        }

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> Position:
        """Read what :meth:`to_json` wrote. Raises KeyError, TypeError or ValueError when it is something else."""
        watermark = document.get("watermark")
        return cls(
            int(document["offset"]),
            int(document["epoch"]),
            int(document.get("lost", 0)),
            None if watermark is None else int(watermark),
            bool(document.get("idle", 0)),
        )


@dataclass(frozen=True)
class Positions:
    """Positions by (topic, partition), with the topics' ids, so that a topic that was created anew is noticed."""

    at: Mapping[TopicPartition, Position]
    topic_ids: Mapping[str, str] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """Canonical: equal positions give equal text."""
        topics: dict[str, Any] = {}
        for (topic, partition), position in sorted(self.at.items()):
            entry = topics.setdefault(topic, {"id": self.topic_ids.get(topic, ""), "partitions": {}})
            entry["partitions"][str(partition)] = position.to_json()
        return topics

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> Positions:
        """Read what :meth:`to_json` wrote. Raises CheckpointError when it is something else."""
        try:
            at = {
                (topic, int(partition)): Position.from_json(each)
                for topic, entry in document.items()
                for partition, each in entry["partitions"].items()
            }
            return cls(at, {topic: str(entry["id"]) for topic, entry in document.items()})
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise CheckpointError(
                f"the checkpoint holds positions that are not penstock's ({error!r}); was it written by another job?"
            ) from error

    @property
    def watermark(self) -> int | None:
        """The event time, in ms since 1970, up to which all has come: the smallest of the partitions that are not idle,
        None as long as one of them has none. When all are idle it is the smallest that is known."""
        awaited = [at.watermark for at in self.at.values() if not at.idle]
        known = [each for each in awaited or (at.watermark for at in self.at.values()) if each is not None]
        return min(known) if known and len(known) >= len(awaited) else None

    def offset(self, place: TopicPartition, default: int) -> int:
        """The offset at ``place``, or ``default`` when it has no position."""
        position = self.at.get(place)
        return default if position is None else position.offset

    def places(self) -> tuple[TopicPartition, ...]:
        """All places, in the order by which they are numbered."""
        return tuple(sorted(self.at))


@dataclass(frozen=True)
class Split:
    """Offsets ``start`` up to, without, ``end`` of one partition. ``number`` is that of its place, ``epoch`` the leader
    epoch in which the end was there (-1: not known)."""

    number: int
    topic: str
    topic_id: str
    partition: int
    start: int
    end: int
    epoch: int = -1

    def __len__(self) -> int:
        return self.end - self.start


def cut(ranges: Iterable[Split], parallelism: int, most: int | None = None) -> list[tuple[Split, ...]]:
    """The ranges as tasks of about equal volume: one for little, as many as run at a time for more, ``most`` at most.

    Tasks are contiguous in the order of places and offsets, so that of two tasks that read one partition the one
    with the lower number reads the lower offsets.
    """
    wanted = [each for each in ranges if len(each) > 0]
    total = sum(len(each) for each in wanted)
    if not total:
        return []
    tasks = max(1, min(parallelism, total // _RECORDS_WORTH_A_TASK))
    if total > tasks * _MOST_RECORDS_IN_A_TASK:
        rounds = -(-total // (tasks * _MOST_RECORDS_IN_A_TASK))
        tasks *= rounds
    tasks = min(tasks, most or tasks)
    size = -(-total // tasks)
    cuts: list[tuple[Split, ...]] = []
    current: list[Split] = []
    room = size
    for each in wanted:
        start = each.start
        while start < each.end:
            end = min(each.end, start + room)
            current.append(replace(each, start=start, end=end))
            room -= end - start
            start = end
            if room == 0:
                cuts.append(tuple(current))
                current, room = [], size
    if current:
        cuts.append(tuple(current))
    return cuts
