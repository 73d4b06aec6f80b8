"""What user-defined offset initializers may ask about the cluster."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from penstock.deadline import Deadline
from penstock.errors import KafkaError
from penstock.kafka.offsets import EARLIEST, LATEST, CommittedOffset, LogOffset, fetch_committed_offsets, list_offsets
from penstock.kafka.partitions import TopicPartition
from penstock.kafka.session import Session


class Retriever:
    """Answers questions about partitions, as Flink's ``OffsetsInitializer.PartitionOffsetsRetriever`` does, to a scan
    of ``table`` with the consumer group ``group`` (empty: none)."""

    def __init__(self, session: Session, table: str, group: str):
        self._session = session
        self._table, self._group = table, group

    def committed_offsets(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """The offsets that the scan's group has committed. Raises KafkaError without a group."""
        return {
            tp: each.offset
            for tp, each in fetch_group_offsets(self._session, self._table, self._group, partitions).items()
        }

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


def fetch_group_offsets(
    session: Session,
    table: str,
    group: str,
    partitions: Iterable[TopicPartition],
    deadline: Deadline | None = None,
) -> dict[TopicPartition, CommittedOffset]:
    """The offsets that the ``group`` of a scan of ``table`` has committed. Raises KafkaError without a group."""
    if not group:
        raise KafkaError(f"table '{table}': 'group-offsets' needs 'properties.group.id'; name the consumer group")
    return fetch_committed_offsets(session, group, partitions, deadline)
