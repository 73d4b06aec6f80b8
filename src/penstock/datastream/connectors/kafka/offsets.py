"""Partitions and offsets as PyFlink names them: where a Kafka source starts and stops.

``OffsetsInitializer`` of one's own is what Flink's Java interface of that name asks for, in snake case: an object with
``get_partition_offsets(partitions, partition_offsets_retriever)``, which gives a dict from
:class:`KafkaTopicPartition` to the offset, and ``get_auto_offset_reset_strategy()``, which gives a
:class:`KafkaOffsetResetStrategy`. It is called once, on the driver, when the job first starts.
"""

from __future__ import annotations

import enum
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

from penstock.connectors.kafka.source.initializer import Retriever
from penstock.connectors.kafka.table.offsets import offsets_text
from penstock.kafka.session import TopicPartition


class KafkaOffsetResetStrategy(enum.Enum):
    """What to do for a partition without a valid start offset."""

    LATEST = 0
    EARLIEST = 1
    NONE = 2


@dataclass(frozen=True)
class KafkaTopicPartition:
    """One partition of one topic."""

    topic: str
    partition: int


@dataclass(frozen=True)
class KafkaOffsetsInitializer:
    """Where to start, or where to stop. Made by its static methods only."""

    mode: str
    value: str = ""
    reset: KafkaOffsetResetStrategy | None = None

    @staticmethod
    def committed_offsets(
        offset_reset_strategy: KafkaOffsetResetStrategy = KafkaOffsetResetStrategy.NONE,
    ) -> KafkaOffsetsInitializer:
        """The offsets that the consumer group committed, else what the strategy says."""
        return KafkaOffsetsInitializer("group-offsets", reset=offset_reset_strategy)

    @staticmethod
    def timestamp(timestamp: int) -> KafkaOffsetsInitializer:
        """The first record at or after ``timestamp``, in milliseconds since 1970."""
        return KafkaOffsetsInitializer("timestamp", str(timestamp))

    @staticmethod
    def earliest() -> KafkaOffsetsInitializer:
        """The first record there is."""
        return KafkaOffsetsInitializer("earliest-offset")

    @staticmethod
    def latest() -> KafkaOffsetsInitializer:
        """Behind the last record there is when the job first starts."""
        return KafkaOffsetsInitializer("latest-offset")

    @staticmethod
    def offsets(
        offsets: Mapping[KafkaTopicPartition, int],
        offset_reset_strategy: KafkaOffsetResetStrategy = KafkaOffsetResetStrategy.EARLIEST,
    ) -> KafkaOffsetsInitializer:
        """These offsets; partitions left out start at the group's offset, else where the strategy says."""
        text = offsets_text({(each.topic, each.partition): offset for each, offset in offsets.items()})
        return KafkaOffsetsInitializer("specific-offsets", text, offset_reset_strategy)

    def options(self, scope: str) -> dict[str, str]:
        """The table options that say the same under ``scope``: ``scan.startup`` or ``scan.bounded``."""
        found = {f"{scope}.mode": self.mode}
        if self.mode == "timestamp":
            found[f"{scope}.timestamp-millis"] = self.value
        if self.mode == "specific-offsets":
            found[f"{scope}.specific-offsets"] = self.value
        return found


#: Flink's own name of the same.
OffsetsInitializer = KafkaOffsetsInitializer


@dataclass(frozen=True)
class OffsetAndTimestamp:
    """A record that was looked for by time: its offset, its timestamp in ms, its leader epoch (-1: not known)."""

    offset: int
    timestamp: int
    leader_epoch: int = -1


class PartitionOffsetsRetriever:
    """What an initializer of one's own may ask the cluster for."""

    def __init__(self, retriever: Retriever):
        self._retriever = retriever

    def committed_offsets(self, partitions: Collection[KafkaTopicPartition]) -> dict[KafkaTopicPartition, int]:
        """What the group has committed; partitions without a commit are left out. Raises KafkaError without a group."""
        return _named(self._retriever.committed_offsets(_places(partitions)))

    def end_offsets(self, partitions: Collection[KafkaTopicPartition]) -> dict[KafkaTopicPartition, int]:
        """Where the logs end: the next offset to be written."""
        return _named(self._retriever.end_offsets(_places(partitions)))

    def beginning_offsets(self, partitions: Collection[KafkaTopicPartition]) -> dict[KafkaTopicPartition, int]:
        """Where the logs begin."""
        return _named(self._retriever.beginning_offsets(_places(partitions)))

    def offsets_for_times(
        self, timestamps_to_search: Mapping[KafkaTopicPartition, int]
    ) -> dict[KafkaTopicPartition, OffsetAndTimestamp | None]:
        """The first record of each partition at or after its time (ms since 1970); None where there is none."""
        times = {(each.topic, each.partition): at for each, at in timestamps_to_search.items()}
        return {
            KafkaTopicPartition(*place): OffsetAndTimestamp(at.offset, at.timestamp, at.leader_epoch) if at else None
            for place, at in self._retriever.offsets_for_times(times).items()
        }


@runtime_checkable
class OwnOffsetsInitializer(Protocol):
    """What an initializer of one's own has; it need not inherit from this."""

    def get_partition_offsets(
        self,
        partitions: Collection[KafkaTopicPartition],
        partition_offsets_retriever: PartitionOffsetsRetriever,
    ) -> Mapping[KafkaTopicPartition, int]:
        """The offsets to start, or to stop, at."""
        ...

    def get_auto_offset_reset_strategy(self) -> KafkaOffsetResetStrategy:
        """What to do for a partition that it gave no offset, or one that the log does not have."""
        ...


@dataclass(frozen=True)
class ChosenOffsets:
    """An initializer of the user's, as the connector asks it."""

    initializer: OwnOffsetsInitializer

    def offsets(self, places: tuple[TopicPartition, ...], retriever: Retriever) -> dict[TopicPartition, Any]:
        """What the initializer gives for ``places``. Raises what it raises."""
        partitions = [KafkaTopicPartition(*place) for place in places]
        found = self.initializer.get_partition_offsets(partitions, PartitionOffsetsRetriever(retriever))
        return {(each.topic, each.partition): offset for each, offset in found.items()}

    @property
    def reset(self) -> KafkaOffsetResetStrategy:
        """The initializer's strategy."""
        return self.initializer.get_auto_offset_reset_strategy()

    def __str__(self) -> str:
        return type(self.initializer).__qualname__


def _places(partitions: Collection[KafkaTopicPartition]) -> list[TopicPartition]:
    return [(each.topic, each.partition) for each in partitions]


def _named(offsets: Mapping[TopicPartition, int]) -> dict[KafkaTopicPartition, int]:
    return {KafkaTopicPartition(*place): offset for place, offset in offsets.items()}
