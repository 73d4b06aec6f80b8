"""Who leads which partition, and that what a broker tells of it may be of former times (KIP-320).

A leader that was deposed while it stood still, or that is cut off from the other brokers, answers as if nothing had
happened: it names itself as the leader, and its log ends where it ended then. What gives it away is the leader epoch,
which only grows for as long as a topic keeps its id.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from uuid import UUID

#: Of a partition that nothing is known of.
_NEVER = (-1, -1)


@dataclass(frozen=True)
class PartitionInfo:
    """A partition: the broker that leads it (-1: none at present, or nobody says which), since which epoch, and its
    replicas."""

    partition: int
    leader: int
    leader_epoch: int
    replicas: tuple[int, ...]
    in_sync: tuple[int, ...]


class Leaders:
    """The latest leader of each partition that was heard of, also of topics that are to be asked for anew.

    Nothing is compared of topics without an id (brokers below 2.8), nor where a broker tells no epoch (-1). Not
    thread-safe.
    """

    def __init__(self) -> None:
        self._latest: dict[tuple[UUID, int], tuple[int, int]] = {}  # epoch and leader

    def read_in(self, topic_id: UUID, epochs: Mapping[int, int]) -> bool:
        """Note that partitions were read in these epochs, whoever led in them. Whether some of them are news."""
        news = {
            (topic_id, partition): (epoch, -1)
            for partition, epoch in epochs.items()
            if epoch > self._latest.get((topic_id, partition), _NEVER)[0]
        }
        self._latest |= news
        return bool(news)

    def is_former(self, topic_id: UUID | None, partition: int, epoch: int) -> bool:
        """Whether a later epoch of the partition is known."""
        return topic_id is not None and 0 <= epoch < self._latest.get((topic_id, partition), _NEVER)[0]

    def latest(self, topic_id: UUID | None, told: PartitionInfo) -> PartitionInfo:
        """What a broker tells of a partition, but with the latest leader and epoch where it tells of former ones."""
        if topic_id is None or told.leader_epoch < 0:
            return told
        epoch, leader = self._latest.get((topic_id, told.partition), _NEVER)
        if told.leader_epoch < epoch:
            return replace(told, leader=leader, leader_epoch=epoch)
        self._latest[topic_id, told.partition] = told.leader_epoch, told.leader
        return told
