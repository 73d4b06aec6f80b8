"""Partitions and offsets as PyFlink names them: where a Kafka source starts and stops.

An ``OffsetsInitializer`` of your own follows Flink's Java interface of that name, in snake case: an object with
``get_partition_offsets(partitions, partition_offsets_retriever)``, which returns a dict from
:class:`KafkaTopicPartition` to the offset, and ``get_auto_offset_reset_strategy()``, which returns a
:class:`KafkaOffsetResetStrategy`. It is called once, on the driver, when the job first starts.
"""

from __future__ import annotations

import enum
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, runtime_checkable

from penstock.common.arguments import expect
from penstock.connectors.kafka.source.retriever import Retriever
from penstock.connectors.kafka.table.offsets import format_offsets
from penstock.kafka.partitions import TopicPartition


class KafkaOffsetResetStrategy(enum.Enum):
    """What to do for a partition without a valid start offset."""

    LATEST = 0
    EARLIEST = 1
    NONE = 2


_RESET = "for example KafkaOffsetResetStrategy.EARLIEST"


class KafkaTopicPartition(NamedTuple):
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
        """The offsets that the consumer group committed; the strategy applies to partitions without one."""
        reset = expect(offset_reset_strategy, KafkaOffsetResetStrategy, "committed_offsets", _RESET)
        return KafkaOffsetsInitializer("group-offsets", reset=reset)

    @staticmethod
    def timestamp(timestamp: int) -> KafkaOffsetsInitializer:
        """The first record at or after ``timestamp``, in milliseconds since 1970."""
        return KafkaOffsetsInitializer("timestamp", str(expect(timestamp, int, "timestamp", "milliseconds since 1970")))

    @staticmethod
    def earliest() -> KafkaOffsetsInitializer:
        """The first record there is."""
        return KafkaOffsetsInitializer("earliest-offset")

    @staticmethod
    def latest() -> KafkaOffsetsInitializer:
        """After the last record there is when the job first starts."""
        return KafkaOffsetsInitializer("latest-offset")

    @staticmethod
    def offsets(
        offsets: Mapping[KafkaTopicPartition, int],
        offset_reset_strategy: KafkaOffsetResetStrategy = KafkaOffsetResetStrategy.EARLIEST,
    ) -> KafkaOffsetsInitializer:
        """These offsets. Partitions left out start at the group's offset; the strategy applies to those without one."""
        given = expect(offsets, Mapping, "offsets", "{KafkaTopicPartition('orders', 0): 8}")
        reset = expect(offset_reset_strategy, KafkaOffsetResetStrategy, "offsets", _RESET)
        text = format_offsets({(topic, at): offset for (topic, at), offset in given.items()})
        return KafkaOffsetsInitializer("specific-offsets", text, reset)

    def options(self, scope: str) -> dict[str, str]:
        """The equivalent options of a table, under ``scope``: ``scan.startup`` or ``scan.bounded``."""
        found = {f"{scope}.mode": self.mode}
        if self.mode == "timestamp":
            found[f"{scope}.timestamp-millis"] = self.value
        if self.mode == "specific-offsets":
            found[f"{scope}.specific-offsets"] = self.value
        return found


#: Flink's own name for it.
OffsetsInitializer = KafkaOffsetsInitializer


@dataclass(frozen=True)
class OffsetAndTimestamp:
    """A record found by its time: its offset, its timestamp in ms, its leader epoch (-1: not known)."""

    offset: int
    timestamp: int
    leader_epoch: int = -1


class PartitionOffsetsRetriever:
    """The questions that an initializer of your own may ask the cluster."""

    def __init__(self, retriever: Retriever):
        self._retriever = retriever

    def committed_offsets(self, partitions: Collection[KafkaTopicPartition]) -> dict[KafkaTopicPartition, int]:
        """The offsets that the group committed, for partitions with a commit. Raises KafkaError without a group."""
        return _named(self._retriever.committed_offsets(partitions))

    def end_offsets(self, partitions: Collection[KafkaTopicPartition]) -> dict[KafkaTopicPartition, int]:
        """The ends of the logs: the next offset to be written."""
        return _named(self._retriever.end_offsets(partitions))

    def beginning_offsets(self, partitions: Collection[KafkaTopicPartition]) -> dict[KafkaTopicPartition, int]:
        """The beginnings of the logs."""
        return _named(self._retriever.beginning_offsets(partitions))

    def offsets_for_times(
        self, timestamps_to_search: Mapping[KafkaTopicPartition, int]
    ) -> dict[KafkaTopicPartition, OffsetAndTimestamp | None]:
        """The first record of each partition at or after its time (ms since 1970), or None."""
        times = {(topic, partition): at for (topic, partition), at in timestamps_to_search.items()}
        return {
            KafkaTopicPartition(*partition): OffsetAndTimestamp(at.offset, at.timestamp, at.leader_epoch)
            if at
            else None
            for partition, at in self._retriever.offsets_for_times(times).items()
        }


@runtime_checkable
class OwnOffsetsInitializer(Protocol):
    """An initializer of your own; it does not have to inherit from this."""

    def get_partition_offsets(
        self,
        partitions: Collection[KafkaTopicPartition],
        partition_offsets_retriever: PartitionOffsetsRetriever,
    ) -> Mapping[KafkaTopicPartition, int]:
        """The offsets to start, or to stop, at."""
        ...

    def get_auto_offset_reset_strategy(self) -> KafkaOffsetResetStrategy:
        """What to do for a partition without an offset, or with one that the log does not have."""
        ...


@dataclass(frozen=True)
class ChosenOffsets:
    """A user-defined initializer, as the connector calls it."""

    initializer: OwnOffsetsInitializer

    def offsets(self, partitions: tuple[TopicPartition, ...], retriever: Retriever) -> dict[TopicPartition, Any]:
        """The initializer's offsets of ``partitions``. Raises what the initializer raises."""
        named = [KafkaTopicPartition(*each) for each in partitions]
        found = self.initializer.get_partition_offsets(named, PartitionOffsetsRetriever(retriever))
        return {(topic, partition): offset for (topic, partition), offset in found.items()}

    @property
    def reset(self) -> KafkaOffsetResetStrategy:
        """The initializer's strategy."""
        return self.initializer.get_auto_offset_reset_strategy()

    def __str__(self) -> str:
        return type(self.initializer).__qualname__


def _named(offsets: Mapping[TopicPartition, int]) -> dict[KafkaTopicPartition, int]:
    return {KafkaTopicPartition(*partition): offset for partition, offset in offsets.items()}
