"""What user-defined offset initializers may ask about the cluster."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from penstock.deadline import Deadline
from penstock.errors import KafkaError
from penstock.kafka.offsets import EARLIEST, LATEST, CommittedOffset, LogOffset, committed_offsets, list_offsets
from penstock.kafka.partitions import TopicPartition
from penstock.kafka.session import Session

if TYPE_CHECKING:
    from penstock.connectors.kafka.source.spec import KafkaScanSpec


class Retriever:
    """Answers questions about partitions, as Flink's ``OffsetsInitializer.PartitionOffsetsRetriever`` does."""

    def __init__(self, session: Session, scan: KafkaScanSpec):
        self._session = session
        self._scan = scan

    def committed_offsets(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """The offsets that the scan's group has committed. Raises KafkaError without a group."""
        return {tp: each.offset for tp, each in group_offsets(self._session, self._scan, partitions).items()}

    def end_offsets(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """The ends of the logs."""
        return {tp: at.offset for tp, at in list_offsets(self._session, partitions, LATEST).items() if at}

    def beginning_offsets(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """The beginnings of the logs."""
        return {tp: at.offset for tp, at in list_offsets(self._session, partitions, EARLIEST).items() if at}

    def offsets_for_times(self, times: Mapping[TopicPartition, int]) -> dict[TopicPartition, LogOffset | None]:
        """The first record of each partition that is not older than its time, in ms since 1970, or None."""
        found: dict[TopicPartition, LogOffset | None] = {}
        for millis in sorted(set(times.values())):
            if millis < 0:  # in the protocol negative times have other meanings
                raise ValueError(f"expected milliseconds since 1970, not {millis}")
            found |= list_offsets(self._session, [tp for tp, each in times.items() if each == millis], millis)
        return found


def group_offsets(
    session: Session, scan: KafkaScanSpec, partitions: Iterable[TopicPartition], deadline: Deadline | None = None
) -> dict[TopicPartition, CommittedOffset]:
    """The offsets that the scan's group has committed. Raises KafkaError without a group."""
    if not scan.group_id:
        raise KafkaError(f"table '{scan.table}': 'group-offsets' needs 'properties.group.id'; name the consumer group")
    return committed_offsets(session, scan.group_id, partitions, deadline)
