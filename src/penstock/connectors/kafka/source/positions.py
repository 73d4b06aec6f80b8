"""Positions in topics, as Spark's offset log holds them, and how a range between two is divided among tasks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from penstock.errors import CheckpointError
from penstock.kafka.partitions import TopicPartition

#: A batch of fewer records than this is one task: starting a second one costs more than it saves.
_RECORDS_WORTH_A_TASK = 25_000
_MOST_RECORDS_IN_A_TASK = 500_000


#: The place of :attr:`Positions.woken` among the topics, none of which has an empty name.
_WOKEN = ""


@dataclass(frozen=True)
class Position:
    """The next offset to read, and the leader epoch of the record before it (-1: not known).

    ``lost`` counts the offsets before it that were skipped because the log no longer had them. In a scan with event
    time ``watermark`` is the partition's (ms since 1970; None: none yet), and an ``idle`` partition has had no records
    for so long that the watermark of the scan does not wait for it.
    """

    offset: int
    epoch: int = -1
    lost: int = 0
    watermark: int | None = None
    idle: bool = False

    def to_json(self) -> dict[str, int]:
        """The JSON object of the position."""
        extras = {"lost": self.lost or None, "watermark": self.watermark, "idle": int(self.idle) or None}
        given = {name: value for name, value in extras.items() if value is not None}
        return {"offset": self.offset, "epoch": self.epoch, **given}

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> Position:
        """The position of a JSON object. Raises KeyError, TypeError or ValueError for another document."""
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
    """Positions by (topic, partition), with the topics' ids, which show that a topic was recreated. ``woken`` is the
    time, in ms since 1970, of the last batch that was planned by request."""

    at: Mapping[TopicPartition, Position]
    topic_ids: Mapping[str, str] = field(default_factory=dict)
    woken: int = 0

    def to_json(self) -> dict[str, Any]:
        """The canonical JSON object: equal positions have equal texts."""
        topics: dict[str, Any] = {}
        for (topic, partition), position in sorted(self.at.items()):
            entry = topics.setdefault(topic, {"id": self.topic_ids.get(topic, ""), "partitions": {}})
            entry["partitions"][str(partition)] = position.to_json()
        return topics | ({_WOKEN: {"id": str(self.woken), "partitions": {}}} if self.woken else {})

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> Positions:
        """The positions of a JSON object. Raises CheckpointError for another document."""
        try:
            at = {
                (topic, int(partition)): Position.from_json(each)
                for topic, entry in document.items()
                for partition, each in entry["partitions"].items()
            }
            ids = {topic: str(entry["id"]) for topic, entry in document.items()}
            woken = int(ids.pop(_WOKEN, 0))
            return cls(at, ids, woken)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise CheckpointError(
                f"the checkpoint holds positions that are not penstock's ({error!r}). Another program may have written "
                "it: name another checkpoint directory"
            ) from error

    @property
    def watermark(self) -> int | None:
        """The watermark of all, in ms since 1970: the smallest of the partitions that are not idle, None while one
        of them has none. When all are idle it is the smallest known one."""
        awaited = [at.watermark for at in self.at.values() if not at.idle]
        known = [each for each in awaited or (at.watermark for at in self.at.values()) if each is not None]
        return min(known) if known and len(known) >= len(awaited) else None

    def offset(self, tp: TopicPartition, default: int) -> int:
        """The offset at ``tp``, or ``default`` when it has no position."""
        position = self.at.get(tp)
        return default if position is None else position.offset

    def partitions(self) -> tuple[TopicPartition, ...]:
        """All partitions, in the order of their numbers."""
        return tuple(sorted(self.at))


@dataclass(frozen=True)
class Split:
    """The offsets of one partition from ``start`` to ``end`` (exclusive). ``number`` is the partition's
    (:meth:`penstock.spi.Source.partition`), ``epoch`` the leader epoch of the end (-1: not known)."""

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
    """The ranges as tasks of about equal volume: one for a small batch, as many as run at a time for a larger one, and
    at most ``most``.

    Tasks are contiguous in the order of partitions and offsets: of two tasks that read one partition, the one with the
    lower number reads the lower offsets.
    """
    wanted = [each for each in ranges if len(each) > 0]
    total = sum(len(each) for each in wanted)
    if not total:
        return []
    tasks = max(1, min(parallelism, total // _RECORDS_WORTH_A_TASK))
    tasks *= -(-total // (tasks * _MOST_RECORDS_IN_A_TASK))  # in rounds
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
