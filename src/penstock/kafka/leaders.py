"""The leaders of partitions. Metadata from a broker may be out of date (KIP-320).

A leader that was replaced while it was paused, or that is cut off from the other brokers, still names itself as the
leader, and its log ends where it ended then. The leader epoch reveals it, as it only grows while a topic keeps its id.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from uuid import UUID

#: For a partition that is not known.
_NEVER = (-1, -1)


@dataclass(frozen=True)
class PartitionInfo:
    """A partition: its leader (-1: none at present, or not known), the leader's epoch, and the replicas."""

    partition: int
    leader: int
    leader_epoch: int
    replicas: tuple[int, ...]
    in_sync: tuple[int, ...]


class Leaders:
    """The latest known leader of each partition, also for topics that are not in the cache.

    Nothing is compared for topics without an id (brokers below 2.8), or without an epoch (-1). Not thread-safe.
    """

    def __init__(self) -> None:
        self._latest: dict[tuple[UUID, int], tuple[int, int]] = {}  # epoch and leader

    def note_epochs(self, topic_id: UUID, epochs: Mapping[int, int]) -> bool:
        """Note that partitions were read in these epochs, of any leader. Returns whether some of the epochs are new."""
        new = {
            (topic_id, partition): (epoch, -1)
            for partition, epoch in epochs.items()
            if epoch > self._latest.get((topic_id, partition), _NEVER)[0]
        }
        self._latest |= new
        return bool(new)

    def is_former(self, topic_id: UUID | None, partition: int, epoch: int) -> bool:
        """Whether a later epoch of the partition is known."""
        return topic_id is not None and 0 <= epoch < self._latest.get((topic_id, partition), _NEVER)[0]

    def choose_latest(self, topic_id: UUID | None, info: PartitionInfo) -> PartitionInfo:
        """A partition as a broker describes it, but with the latest leader and epoch if the broker's are older."""
        if topic_id is None or info.leader_epoch < 0:
            return info
        epoch, leader = self._latest.get((topic_id, info.partition), _NEVER)
        if info.leader_epoch < epoch:
            return replace(info, leader=leader, leader_epoch=epoch)
        self._latest[topic_id, info.partition] = info.leader_epoch, info.leader
        return info
