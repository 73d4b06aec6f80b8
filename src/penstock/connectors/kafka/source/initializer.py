"""Offsets that a user's own object chooses, and what it may ask the cluster for."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Protocol

from penstock.kafka.session import TopicPartition


@dataclass(frozen=True)
class Found:
    """A record that was looked for by time: its offset, its timestamp in ms, its leader epoch (-1: not known)."""

    offset: int
    timestamp: int
    leader_epoch: int


class Retriever(Protocol):
    """Answers questions about partitions, as Flink's ``OffsetsInitializer.PartitionOffsetsRetriever``."""

    def committed_offsets(self, places: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """What the scan's group has committed; partitions without a commit are left out."""
        ...

    def end_offsets(self, places: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """Where the logs end."""
        ...

    def beginning_offsets(self, places: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """Where the logs begin."""
        ...

    def offsets_for_times(self, times: Mapping[TopicPartition, int]) -> dict[TopicPartition, Found | None]:
        """The first record of each partition that is not older than its time, in ms since 1970; None: there is none."""
        ...


class CustomOffsets(Protocol):
    """Chooses an offset for each partition. Called once, on the driver, when the job first starts."""

    def offsets(self, places: tuple[TopicPartition, ...], retriever: Retriever) -> Mapping[TopicPartition, int]:
        """The offsets, for some or all of ``places``. Whatever it raises fails the start of the job."""
        ...
