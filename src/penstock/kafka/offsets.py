"""Offsets: where logs begin and end, what groups have committed, and whether a log was cut since it was read."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
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
from penstock.kafka.faults import Action, KafkaFault, fault_of
from penstock.kafka.leaders import PartitionInfo
from penstock.kafka.properties import READ_COMMITTED
from penstock.kafka.session import GROUP, Session, TopicPartition

#: What :func:`list_offsets` can be asked for besides a timestamp in ms (numbers of the Kafka protocol).
EARLIEST = -2
LATEST = -1
MAX_TIMESTAMP = -3

_UNKNOWN_TOPIC_OR_PARTITION = 3


@dataclass(frozen=True)
class LogOffset:
    """A position in a log: offset, timestamp of the record there (ms, -1 if not asked by time) and leader epoch."""

    offset: int
    timestamp: int = -1
    leader_epoch: int = -1


@dataclass(frozen=True)
class CommittedOffset:
    """What a group has committed for a partition: the next offset to read, its leader epoch (-1: not known)."""

    offset: int
    leader_epoch: int = -1
    metadata: str = ""


def list_offsets(
    session: Session,
    partitions: Iterable[TopicPartition],
    at: int,
    *,
    isolation: str | None = None,
    deadline: Deadline | None = None,
) -> dict[TopicPartition, LogOffset | None]:
    """One offset per partition, one request per leader.

    ``at`` is :data:`EARLIEST` (log start), :data:`LATEST` (high watermark; last stable offset when ``isolation`` is
    ``read_committed``), :data:`MAX_TIMESTAMP` (the record with the largest timestamp) or a timestamp in ms: the first
    record that is not older. None where no record qualifies. ``isolation`` defaults to the session's.
    """
    committed = (isolation or session.config.isolation_level) == READ_COMMITTED
    Topic = ListOffsetsRequest.ListOffsetsTopic

    def build(group: Sequence[tuple[str, PartitionInfo]]) -> Any:
        topics = [
            Topic(
                name=topic,
                partitions=[
                    Topic.ListOffsetsPartition(
                        partition_index=info.partition, current_leader_epoch=info.leader_epoch, timestamp=at
                    )
                    for _, info in infos
                ],
            )
            for topic, infos in groupby(group, lambda each: each[0])
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
        for topic in answer.topics:
            for each in topic.partitions:
                found = LogOffset(each.offset, each.timestamp, each.leader_epoch) if each.offset >= 0 else None
                yield (topic.name, each.partition_index), each.error_code, found

    return session.ask_leaders("listing offsets", partitions, build, read, deadline)


def end_of_epochs(
    session: Session, epochs: Mapping[TopicPartition, int], *, deadline: Deadline | None = None
) -> dict[TopicPartition, LogOffset]:
    """Where each partition's given leader epoch ended, or the last epoch before it that the leader knows (KIP-320).

    Offset and epoch are -1 where the leader knows neither.
    """
    Topic = OffsetForLeaderEpochRequest.OffsetForLeaderTopic

    def build(group: Sequence[tuple[str, PartitionInfo]]) -> Any:
        topics = [
            Topic(
                topic=topic,
                partitions=[
                    Topic.OffsetForLeaderPartition(
                        partition=info.partition,
                        current_leader_epoch=info.leader_epoch,
                        leader_epoch=epochs[topic, info.partition],
                    )
                    for _, info in infos
                ],
            )
            for topic, infos in groupby(group, lambda each: each[0])
        ]
        return OffsetForLeaderEpochRequest(replica_id=-1, topics=topics, min_version=2)

    def read(answer: Any) -> Iterator[tuple[TopicPartition, int, LogOffset]]:
        for topic in answer.topics:
            for each in topic.partitions:
                yield (topic.topic, each.partition), each.error_code, LogOffset(each.end_offset, -1, each.leader_epoch)

    return session.ask_leaders("asking for the ends of leader epochs", epochs, build, read, deadline)


def check_truncation(
    session: Session, positions: Mapping[TopicPartition, LogOffset], *, deadline: Deadline | None = None
) -> None:
    """Make sure that what was read up to these positions is still in the logs (rule 28).

    A position's epoch is that of the last record read; positions without one cannot be checked. Raises
    PossibleDataLossError naming the first partition whose log was cut below its position.
    """
    known = {place: position.leader_epoch for place, position in positions.items() if position.leader_epoch >= 0}
    for (topic, partition), end in end_of_epochs(session, known, deadline=deadline).items():
        position = positions[topic, partition]
        if end.offset < position.offset:
            raise PossibleDataLossError(
                f"topic '{topic}', partition {partition}: records were read up to offset {position.offset} in leader "
                f"epoch {position.leader_epoch}, but the log of epoch {end.leader_epoch} ends at {end.offset}: it was "
                "cut by an unclean leader election; compare what was published with the log before restarting from "
                "other offsets"
            )


def committed_offsets(
    session: Session, group: str, partitions: Iterable[TopicPartition], *, deadline: Deadline | None = None
) -> dict[TopicPartition, CommittedOffset]:
    """What a group has committed; partitions without a commit are left out. Open transactions are waited for."""
    topics = _by_topic(partitions)

    def build() -> Any:
        Group = OffsetFetchRequest.OffsetFetchRequestGroup
        old = [
            OffsetFetchRequest.OffsetFetchRequestTopic(name=name, partition_indexes=indexes)
            for name, indexes in topics.items()
        ]
        new = [Group.OffsetFetchRequestTopics(name=name, partition_indexes=indexes) for name, indexes in topics.items()]
        return OffsetFetchRequest(
            group_id=group,
            topics=old,
            groups=[Group(group_id=group, member_id=None, member_epoch=-1, topics=new)],
            require_stable=True,
            max_version=9,  # later versions name topics by id alone
        )

    def check(answer: Any) -> dict[TopicPartition, CommittedOffset]:
        result = answer.groups[0] if answer.groups else answer
        _raise(result.error_code, f"group '{group}'", "Describe")
        found = {}
        for topic in result.topics:
            for each in topic.partitions:
                _raise(each.error_code, f"topic '{topic.name}', partition {each.partition_index}", "Describe")
                if each.committed_offset >= 0:
                    found[topic.name, int(each.partition_index)] = CommittedOffset(
                        each.committed_offset, each.committed_leader_epoch, each.metadata or ""
                    )
        return found

    if not topics:
        return {}
    what = f"reading the offsets of group '{group}'"
    return session.ask_coordinator(what, GROUP, group, build, check, deadline)


def commit_offsets(
    session: Session, group: str, offsets: Mapping[TopicPartition, CommittedOffset], *, deadline: Deadline | None = None
) -> None:
    """Commit a group's offsets outside any transaction, as a client that is no member of it (generation -1).

    Offsets of partitions that exist no more are left out. Raises KafkaError when the group has members: they would
    overwrite these offsets.
    """
    deadline = deadline or session.deadline()
    Topic = OffsetCommitRequest.OffsetCommitRequestTopic

    def build() -> Any:
        topics = [
            Topic(
                name=name,
                partitions=[
                    Topic.OffsetCommitRequestPartition(
                        partition_index=index,
                        committed_offset=offsets[name, index].offset,
                        committed_leader_epoch=offsets[name, index].leader_epoch,
                        committed_metadata=offsets[name, index].metadata,
                    )
                    for index in indexes
                ],
            )
            for name, indexes in _by_topic(offsets).items()
        ]
        return OffsetCommitRequest(
            group_id=group,
            generation_id_or_member_epoch=-1,
            member_id="",
            topics=topics,
            max_version=9,
        )

    def check(answer: Any) -> None:
        for topic in answer.topics:
            for each in topic.partitions:
                if not is_gone(session, (topic.name, each.partition_index), each.error_code, deadline):
                    _raise(each.error_code, f"topic '{topic.name}', partition {each.partition_index}", "Read")

    if offsets:
        session.ask_coordinator(f"committing offsets of group '{group}'", GROUP, group, build, check, deadline)


def is_gone(session: Session, place: TopicPartition, code: int, deadline: Deadline) -> bool:
    """Whether the error ``code`` that ``place`` was answered with means that the partition exists no more, so that no
    group can be given an offset in it, and asking again would not help."""
    if code != _UNKNOWN_TOPIC_OR_PARTITION:
        return False
    topic = session.topics([place[0]], deadline).get(place[0])
    return topic is None or all(each.partition != place[1] for each in topic.partitions)


def group_members(session: Session, group: str, *, deadline: Deadline | None = None) -> int:
    """How many members a consumer group has at present; 0 for a group that does not exist."""

    def check(answer: Any) -> int:
        found = answer.groups[0]
        _raise(found.error_code, f"group '{group}'", "Describe")
        return len(found.members)

    return session.ask_coordinator(
        f"describing group '{group}'",
        GROUP,
        group,
        lambda: DescribeGroupsRequest(groups=[group], include_authorized_operations=False, max_version=5),
        check,
        deadline,
    )


def _by_topic(partitions: Iterable[TopicPartition]) -> dict[str, list[int]]:
    topics: dict[str, list[int]] = {}
    for topic, partition in sorted(set(partitions)):
        topics.setdefault(topic, []).append(partition)
    return topics


def _raise(code: int, where: str, operation: str) -> None:
    fault = fault_of(code)
    if fault.action is not Action.NONE:
        raise KafkaFault(fault.lacking(operation), where)
