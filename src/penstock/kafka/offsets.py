"""Offsets: the bounds of logs, the commits of groups, and whether a log was truncated since it was read."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from kafka.protocol.admin import DescribeGroupsRequest
from kafka.protocol.consumer import (
    ListOffsetsRequest,
    OffsetCommitRequest,
    OffsetFetchRequest,
    OffsetForLeaderEpochRequest,
)

from penstock.deadline import Deadline
from penstock.errors import PossibleDataLossError
from penstock.kafka.faults import check_code
from penstock.kafka.leaders import PartitionInfo
from penstock.kafka.partitions import TopicPartition, format_partition, group_by_topic
from penstock.kafka.properties import READ_COMMITTED
from penstock.kafka.session import GROUP, Session, iter_partitions

#: Besides a timestamp in ms, :func:`list_offsets` accepts these numbers of the Kafka protocol.
EARLIEST = -2
LATEST = -1
MAX_TIMESTAMP = -3

_UNKNOWN_TOPIC_OR_PARTITION = 3


@dataclass(frozen=True)
class LogOffset:
    """A position in a log: offset, timestamp of the record there (ms, -1 unless requested by time) and leader epoch."""

    offset: int
    timestamp: int = -1
    leader_epoch: int = -1


@dataclass(frozen=True)
class CommittedOffset:
    """A group's commit for a partition: the next offset to read, its leader epoch (-1: not known)."""

    offset: int
    leader_epoch: int = -1
    metadata: str = ""


@dataclass(frozen=True)
class GroupOffsets:
    """The offsets of a consumer group in a cluster after a batch."""

    cluster_id: str
    group: str
    offsets: dict[TopicPartition, CommittedOffset]


def list_offsets(
    session: Session,
    partitions: Iterable[TopicPartition],
    at: int,
    *,
    isolation: str | None = None,
    deadline: Deadline | None = None,
) -> dict[TopicPartition, LogOffset | None]:
    """One offset per partition, with one request per leader.

    ``at`` is :data:`EARLIEST` (log start), :data:`LATEST` (high watermark; last stable offset if ``isolation`` is
    ``read_committed``), :data:`MAX_TIMESTAMP` (the record with the largest timestamp) or a timestamp in ms: the first
    record that is not older. The offset is None if there is no such record. ``isolation`` defaults to the session's.
    """
    committed = (isolation or session.config.isolation_level) == READ_COMMITTED
    Topic = ListOffsetsRequest.ListOffsetsTopic
    Partition = Topic.ListOffsetsPartition

    def build(group: Mapping[str, Sequence[PartitionInfo]]) -> Any:
        topics = [
            Topic(
                name=topic,
                partitions=[
                    Partition(partition_index=each.partition, current_leader_epoch=each.leader_epoch, timestamp=at)
                    for each in infos
                ],
            )
            for topic, infos in group.items()
        ]
        return ListOffsetsRequest(
            replica_id=-1,
            isolation_level=int(committed),
            topics=topics,
            timeout_ms=session.config.request_timeout_ms,
            min_version=7 if at == MAX_TIMESTAMP else 1,
            max_version=10,
        )

    def read(answer: Any) -> Iterator[tuple[TopicPartition, int, LogOffset | None]]:
        for tp, each in iter_partitions(answer.topics):
            found = LogOffset(each.offset, each.timestamp, each.leader_epoch) if each.offset >= 0 else None
            yield tp, each.error_code, found

    return session.ask_leaders("listing offsets", partitions, build, read, deadline)


def find_epoch_ends(
    session: Session, epochs: Mapping[TopicPartition, int], *, deadline: Deadline | None = None
) -> dict[TopicPartition, LogOffset]:
    """The end of each partition's leader epoch, or of the last epoch before it that the leader knows (KIP-320).

    Offset and epoch are -1 where the leader knows neither.
    """
    Topic = OffsetForLeaderEpochRequest.OffsetForLeaderTopic

    def build(group: Mapping[str, Sequence[PartitionInfo]]) -> Any:
        topics = [
            Topic(
                topic=topic,
                partitions=[
                    Topic.OffsetForLeaderPartition(
                        partition=each.partition,
                        current_leader_epoch=each.leader_epoch,
                        leader_epoch=epochs[topic, each.partition],
                    )
                    for each in infos
                ],
            )
            for topic, infos in group.items()
        ]
        return OffsetForLeaderEpochRequest(replica_id=-1, topics=topics, min_version=2)

    def read(answer: Any) -> Iterator[tuple[TopicPartition, int, LogOffset]]:
        for topic in answer.topics:
            for each in topic.partitions:
                yield (topic.topic, each.partition), each.error_code, LogOffset(each.end_offset, -1, each.leader_epoch)

    return session.ask_leaders("asking for the ends of leader epochs", epochs, build, read, deadline)


def check_truncation(session: Session, positions: Mapping[TopicPartition, LogOffset]) -> None:
    """Check that the records up to these positions are still in the logs (rule "truncated logs are noticed").

    A position's epoch is the epoch of the last record read; positions without one cannot be checked. Raises
    PossibleDataLossError, which names the first partition whose log was truncated below its position.
    """
    known = {tp: position.leader_epoch for tp, position in positions.items() if position.leader_epoch >= 0}
    for tp, end in find_epoch_ends(session, known).items():
        position = positions[tp]
        if end.offset < position.offset:
            raise PossibleDataLossError(
                f"{format_partition(tp)}: records were read up to offset {position.offset} in leader "
                f"epoch {position.leader_epoch}, but the log of epoch {end.leader_epoch} ends at {end.offset}: an "
                "unclean leader election truncated it; compare the published records with the log before you restart "
                "from other offsets"
            )


def fetch_committed_offsets(
    session: Session, group: str, partitions: Iterable[TopicPartition], deadline: Deadline | None = None
) -> dict[TopicPartition, CommittedOffset]:
    """The offsets that a group has committed, without partitions that have no commit. Waits for open transactions."""
    topics = group_by_topic(partitions)

    def build() -> Any:
        Group = OffsetFetchRequest.OffsetFetchRequestGroup
        old, new = (
            [Topic(name=name, partition_indexes=indexes) for name, indexes in topics.items()]
            for Topic in (OffsetFetchRequest.OffsetFetchRequestTopic, Group.OffsetFetchRequestTopics)
        )
        return OffsetFetchRequest(
            group_id=group,
            topics=old,
            groups=[Group(group_id=group, member_id=None, member_epoch=-1, topics=new)],
            require_stable=True,
            max_version=9,  # later versions name topics by id alone
        )

    def check(answer: Any) -> dict[TopicPartition, CommittedOffset]:
        result = answer.groups[0] if answer.groups else answer
        check_code(result.error_code, f"group '{group}'", "Describe")
        found = {}
        for tp, each in iter_partitions(result.topics):
            check_code(each.error_code, format_partition(tp), "Describe")
            if each.committed_offset >= 0:
                epoch, metadata = each.committed_leader_epoch, each.metadata or ""
                found[tp] = CommittedOffset(each.committed_offset, epoch, metadata)
        return found

    if not topics:
        return {}
    label = f"reading the offsets of group '{group}'"
    return session.ask_coordinator(label, GROUP, group, build, check, deadline)


def commit_offsets(
    session: Session, group: str, offsets: Mapping[TopicPartition, CommittedOffset], *, deadline: Deadline | None = None
) -> None:
    """Commit a group's offsets outside any transaction, without being a member of the group (generation -1).

    Leaves out offsets of partitions that no longer exist. Raises KafkaError if the group has members: they would
    overwrite these offsets.
    """
    deadline = deadline or session.deadline()
    Topic = OffsetCommitRequest.OffsetCommitRequestTopic

    def build() -> Any:
        topics = build_offset_topics(Topic, Topic.OffsetCommitRequestPartition, offsets)
        return OffsetCommitRequest(
            group_id=group, generation_id_or_member_epoch=-1, member_id="", topics=topics, max_version=9
        )

    def check(answer: Any) -> None:
        for tp, each in iter_partitions(answer.topics):
            if not is_gone(session, tp, each.error_code, deadline):
                check_code(each.error_code, format_partition(tp), "Read")

    if offsets:
        session.ask_coordinator(f"committing offsets of group '{group}'", GROUP, group, build, check, deadline)


def build_offset_topics(Topic: Any, Partition: Any, offsets: Mapping[TopicPartition, CommittedOffset]) -> list[Any]:
    """The topics of a request that commits offsets, in its own classes."""
    return [
        Topic(
            name=name,
            partitions=[
                Partition(
                    partition_index=index,
                    committed_offset=offsets[name, index].offset,
                    committed_leader_epoch=offsets[name, index].leader_epoch,
                    committed_metadata=offsets[name, index].metadata,
                )
                for index in indexes
            ],
        )
        for name, indexes in group_by_topic(offsets).items()
    ]


def is_gone(session: Session, tp: TopicPartition, code: int, deadline: Deadline) -> bool:
    """Whether the error ``code`` for a partition means that it no longer exists, so that a retry would not help."""
    if code != _UNKNOWN_TOPIC_OR_PARTITION:
        return False
    topic = session.topics([tp[0]], deadline).get(tp[0])
    return topic is None or all(each.partition != tp[1] for each in topic.partitions)


def count_group_members(session: Session, group: str) -> int:
    """The number of members that a consumer group has; 0 for a group that does not exist."""

    def check(answer: Any) -> int:
        found = answer.groups[0]
        check_code(found.error_code, f"group '{group}'", "Describe")
        return len(found.members)

    build = partial(DescribeGroupsRequest, groups=[group], include_authorized_operations=False, max_version=5)
    return session.ask_coordinator(f"describing group '{group}'", GROUP, group, build, check)
