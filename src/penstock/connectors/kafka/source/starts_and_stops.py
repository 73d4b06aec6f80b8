"""Where a scan starts and stops: resolved once, on the driver, when its job first starts (rule "starts are resolved
once")."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import replace
from typing import Any
from uuid import UUID

from penstock.connectors.kafka.source.positions import Position, Positions
from penstock.connectors.kafka.source.retriever import Retriever, fetch_group_offsets
from penstock.connectors.kafka.source.spec import CustomOffsets, KafkaScanSpec
from penstock.connectors.kafka.table.offsets import PartitionOffsets, format_partitions
from penstock.connectors.kafka.table.options import BoundedMode, ResetStrategy, StartupMode
from penstock.deadline import Deadline
from penstock.errors import ExecutionError, KafkaError, PenstockError, PossibleDataLossError
from penstock.kafka.offsets import EARLIEST, LATEST, CommittedOffset, list_offsets
from penstock.kafka.partitions import TopicPartition
from penstock.kafka.session import Session, TopicInfo
from penstock.kafka.topics import cluster_id, find_matching_topics

#: How long brokers are asked for a leader epoch that a group's offset names and none of them knows.
_EPOCH_SECONDS = 5.0


def describe_data(session: Session, scan: KafkaScanSpec) -> dict[str, Any]:
    """The data that the positions of a scan refer to, for the checkpoint's document of the source."""
    return {
        "cluster_id": cluster_id(session),
        "topic": list(scan.options.topic),
        "topic_pattern": scan.options.topic_pattern or "",
        "partitions": format_partitions(scan.partitions),
        "bounded": scan.bounded,
    }


def resolve_start(
    session: Session,
    scan: KafkaScanSpec,
    start_time: int | None = None,
    *,
    warn: Callable[[str], None] = lambda _: None,
    note_group: Callable[[Mapping[TopicPartition, CommittedOffset]], None] = lambda _: None,
) -> Positions:
    """Where reading starts: one position for each partition that exists now.

    The order follows Flink's documentation: ``start_time`` (``penstock run --start-time``, ms since 1970), then the
    start option, then the group's offsets, then ``auto.offset.reset``; a partition without a position is an error. A
    table that upserts is read from its beginning, whatever the ``start_time``. ``warn`` gets a message about that, and
    about each offset that the group committed in a former topic of the same name. ``note_group`` gets the group's
    offsets if reading starts at them.
    """
    if start_time is not None and scan.upserts:
        warn(f"table '{scan.table}' of 'upsert-kafka' is read from its beginning; --start-time has no effect on it")
        start_time = None
    topics = find_topics(session, scan)
    partitions = select_partitions(topics, scan)
    mode, options = scan.options.startup_mode, scan.options
    positions: dict[TopicPartition, Position] = {}
    if start_time is not None:
        positions = _find_by_time(session, partitions, start_time)
    elif scan.start_by is not None:
        positions = _reset_missing(
            session, scan, partitions, _ask_initializer(session, scan, partitions, scan.start_by)
        )
    elif mode is StartupMode.EARLIEST:
        positions = list_positions(session, partitions, EARLIEST)
    elif mode is StartupMode.LATEST:
        positions = list_positions(session, partitions, LATEST)
    elif mode is StartupMode.TIMESTAMP and options.startup_timestamp is not None:
        positions = _find_by_time(session, partitions, options.startup_timestamp)
    elif mode is StartupMode.SPECIFIC_OFFSETS:
        positions, left = _resolve_specific(scan, partitions, options.startup_offsets, "scan.startup.specific-offsets")
        positions |= _resolve_group_offsets(session, scan, left, note_group)
    elif mode is StartupMode.GROUP_OFFSETS:
        positions = _resolve_group_offsets(session, scan, partitions, note_group)
    ids = topic_ids(topics)
    positions = _drop_foreign_epochs(session, positions, ids, warn)
    note_epochs(session, Positions(positions, ids))
    return Positions(_reset_outside_log(session, scan, positions), ids)


def resolve_stop(session: Session, scan: KafkaScanSpec, start: Positions) -> Positions | None:
    """Where a bounded scan stops (the record there is not read), or None for an unbounded one.

    As in Flink, a partition without a stop in 'specific-offsets' stops at the group's offset, and without that is not
    read at all; with 'group-offsets' it is an error. A stop may be beyond the present end of the log: the scan then
    waits for it.
    """
    mode, options = scan.options.bounded_mode, scan.options
    if not scan.bounded:
        return None
    partitions = start.partitions()
    if scan.stop_by is not None:
        positions = _ask_initializer(session, scan, partitions, scan.stop_by)
        for topic, partition in sorted(set(partitions) - positions.keys()):
            raise ExecutionError(
                f"table '{scan.table}': the offsets initializer of the stop returns no offset for topic '{topic}', "
                f"partition {partition}; a bounded source needs one for every partition"
            )
    elif mode is BoundedMode.TIMESTAMP and options.bounded_timestamp is not None:
        positions = _find_by_time(session, partitions, options.bounded_timestamp)
    elif mode is BoundedMode.SPECIFIC_OFFSETS:
        positions, left = _resolve_specific(scan, partitions, options.bounded_offsets, "scan.bounded.specific-offsets")
        positions |= _fetch_committed(session, scan, left) if left and scan.group_id else {}
    elif mode is BoundedMode.GROUP_OFFSETS:
        positions = _fetch_committed(session, scan, partitions)
        for topic, partition in sorted(set(partitions) - positions.keys()):
            raise KafkaError(
                f"table '{scan.table}': group '{scan.group_id}' has no committed offset for topic '{topic}', partition "
                f"{partition}, to stop at; commit one, or choose another 'scan.bounded.mode'"
            )
    else:
        positions = list_positions(session, partitions, LATEST)
    # Not before the start: an empty range ends at once.
    stops = {tp: Position(max(at.offset, positions.get(tp, at).offset)) for tp, at in start.at.items()}
    return Positions(stops, start.topic_ids)


def resolve_present_stop(session: Session, scan: KafkaScanSpec, start: Positions, stop: Positions | None) -> Positions:
    """Where a scan of what is there now stops: at the present ends of the logs, or at its own stops where these are
    earlier. Partitions that were added since ``start`` are read too, unless the scan has stops."""
    there = select_partitions(find_existing_topics(session, scan), scan)
    if stop is None:
        return Positions(list_positions(session, there, LATEST), start.topic_ids)
    ends = list_positions(session, [tp for tp in there if tp in stop.at], LATEST)
    return Positions(
        {tp: end if end.offset < stop.at[tp].offset else stop.at[tp] for tp, end in ends.items()}, stop.topic_ids
    )


def list_present_ends(session: Session, stop: Positions) -> dict[TopicPartition, Position]:
    """The present ends of the logs that are read up to ``stop``, without those of topics that no longer exist."""
    there = session.topics({topic for topic, _ in stop.at})
    return list_positions(session, [tp for tp in stop.at if tp[0] in there], LATEST)


def is_beyond_end(stop: Positions, ends: Mapping[TopicPartition, Position]) -> bool:
    """Whether a stop is beyond the end of its log (:func:`list_present_ends`), so that the scan waits for it. It does
    not wait for topics that no longer exist: the tasks report their missing records."""
    return any(at.offset > ends[tp].offset for tp, at in stop.at.items() if tp in ends)


def with_epochs(stop: Positions, ends: Mapping[TopicPartition, Position]) -> Positions:
    """``stop`` with the leader epochs of ``ends`` (:func:`list_present_ends`), which show later whether a log was
    truncated below it. The epochs of topics that no longer exist are not known."""
    return Positions(
        {tp: Position(at.offset, ends[tp].epoch if tp in ends else -1) for tp, at in stop.at.items()},
        stop.topic_ids,
    )


def find_topics(session: Session, scan: KafkaScanSpec) -> dict[str, TopicInfo]:
    """The topics that are read. Raises KafkaError for a named topic that does not exist."""
    if scan.options.topic_pattern:
        return find_matching_topics(session, scan.options.topic_pattern)
    session.forget_topics(scan.options.topic)  # the session is shared, and its metadata may be minutes old
    return {name: session.topic(name) for name in scan.options.topic}


def find_existing_topics(session: Session, scan: KafkaScanSpec) -> dict[str, TopicInfo]:
    """The topics to read that exist, by the brokers' present metadata."""
    return find_topics(session, scan) if scan.options.topic_pattern else session.topics(scan.options.topic)


def select_partitions(topics: Mapping[str, TopicInfo], scan: KafkaScanSpec) -> list[TopicPartition]:
    """The partitions of ``topics`` that are read. Raises KafkaError when 'scan.partitions' names one that is not."""
    partitions = [(name, each.partition) for name, info in sorted(topics.items()) for each in info.partitions]
    if not scan.partitions:
        return partitions
    _check_known(scan.partitions, partitions, "scan.partitions", scan)
    return [tp for tp in partitions if tp in scan.partitions]


def topic_ids(topics: Mapping[str, TopicInfo]) -> dict[str, str]:
    """The ids of ``topics`` as text, empty where the broker gives none."""
    return {name: str(info.topic_id or "") for name, info in topics.items()}


def note_epochs(session: Session, positions: Positions) -> None:
    """Keep ``session`` from asking leaders that were replaced before these positions were reached: their logs may end
    earlier, although nothing is lost."""
    epochs: dict[str, dict[int, int]] = defaultdict(dict)
    for (topic, partition), at in positions.at.items():
        if at.epoch >= 0 and positions.topic_ids.get(topic):
            epochs[topic][partition] = at.epoch
    for topic, read in epochs.items():
        session.note_epochs(topic, UUID(positions.topic_ids[topic]), read)


def list_positions(session: Session, partitions: Iterable[TopicPartition], at: int) -> dict[TopicPartition, Position]:
    """The beginnings (EARLIEST) or ends (LATEST) of the logs, or the first records from a time on, where there is
    one."""
    offsets = list_offsets(session, partitions, at)
    return {tp: Position(offset.offset, offset.leader_epoch) for tp, offset in offsets.items() if offset}


def _find_by_time(
    session: Session, partitions: Collection[TopicPartition], millis: int
) -> dict[TopicPartition, Position]:
    """The first record that is not older than ``millis``, or the log's end."""
    positions = list_positions(session, partitions, millis)
    return positions | list_positions(session, [tp for tp in partitions if tp not in positions], LATEST)


def _resolve_specific(
    scan: KafkaScanSpec, partitions: Collection[TopicPartition], offsets: PartitionOffsets, option: str
) -> tuple[dict[TopicPartition, Position], list[TopicPartition]]:
    """The positions that ``option`` names, and the partitions that it leaves out."""
    given = {scan.with_topic(tp): Position(offset) for tp, offset in offsets}
    _check_known(given, partitions, option, scan)
    return given, [tp for tp in partitions if tp not in given]


def _fetch_committed(
    session: Session,
    scan: KafkaScanSpec,
    partitions: Iterable[TopicPartition],
    note_group: Callable[[Mapping[TopicPartition, CommittedOffset]], None] = lambda _: None,
) -> dict[TopicPartition, Position]:
    offsets = fetch_group_offsets(session, scan.table, scan.group_id, partitions)
    note_group(offsets)
    return {tp: Position(each.offset, each.leader_epoch) for tp, each in offsets.items()}


def _resolve_group_offsets(
    session: Session,
    scan: KafkaScanSpec,
    partitions: Collection[TopicPartition],
    note_group: Callable[[Mapping[TopicPartition, CommittedOffset]], None],
) -> dict[TopicPartition, Position]:
    # Without a group nothing is committed, and only 'group-offsets' itself needs one.
    named = scan.group_id or scan.options.startup_mode is StartupMode.GROUP_OFFSETS
    positions = _fetch_committed(session, scan, partitions, note_group) if partitions and named else {}
    return _reset_missing(session, scan, partitions, positions)


def _drop_foreign_epochs(
    session: Session, positions: Mapping[TopicPartition, Position], ids: dict[str, str], warn: Callable[[str], None]
) -> dict[TopicPartition, Position]:
    """``positions`` without leader epochs that no broker knows. More than half of the brokers have to answer.

    A group's offset does not say for which topic it was committed. It may be a deleted topic of this name, whose last
    epoch the present topic may never reach, or, if a tool has copied the offset, one of another cluster.
    """
    hints = {tp: at.epoch for tp, at in positions.items() if at.epoch >= 0}
    topics = session.topics({name for name, _ in hints}, fresh=False)
    known = {(name, each.partition): each.leader_epoch for name, info in topics.items() for each in info.partitions}
    late = {name for (name, partition), epoch in hints.items() if 0 <= known.get((name, partition), -1) < epoch}
    if not late:
        return dict(positions)
    answers = session.known_epochs(late, Deadline.after(_EPOCH_SECONDS * 1000))  # one may be cut off
    latest = {tp: max((each.get(tp, -1) for each in answers), default=-1) for tp in hints if tp[0] in late}
    if 2 * len(answers) <= len(session.brokers()):
        return dict(positions)
    foreign = {tp for tp, epoch in latest.items() if epoch < hints[tp]}
    for topic, partition in sorted(foreign):
        warn(
            f"topic '{topic}', partition {partition}: the group's offset was committed in leader epoch "
            f"{hints[topic, partition]}, which no broker knows; the topic may have been deleted and recreated since. "
            "Reading starts at this offset nevertheless, if the log has it"
        )
    note_epochs(session, Positions({tp: replace(positions[tp], epoch=latest[tp]) for tp in foreign}, ids))
    return {tp: replace(at, epoch=-1) if tp in foreign else at for tp, at in positions.items()}


def _reset_missing(
    session: Session,
    scan: KafkaScanSpec,
    partitions: Iterable[TopicPartition],
    positions: Mapping[TopicPartition, Position],
) -> dict[TopicPartition, Position]:
    """``positions``, and the positions of the other ``partitions`` by ``auto.offset.reset``."""
    missing = [tp for tp in partitions if tp not in positions]
    if not missing:
        return dict(positions)
    if scan.reset is ResetStrategy.NONE:
        topic, partition = missing[0]
        lack = f"group '{scan.group_id}' has no committed offset" if scan.start_by is None else "no offset was chosen"
        raise KafkaError(
            f"table '{scan.table}': {lack} for topic '{topic}', partition {partition}, and "
            "'properties.auto.offset.reset' is not set; set it to earliest or latest, or choose another "
            "'scan.startup.mode'"
        )
    return dict(positions) | list_positions(
        session, missing, EARLIEST if scan.reset is ResetStrategy.EARLIEST else LATEST
    )


def _reset_outside_log(
    session: Session, scan: KafkaScanSpec, positions: Mapping[TopicPartition, Position]
) -> dict[TopicPartition, Position]:
    """``positions``, where positions outside of the log are reset by ``auto.offset.reset``."""
    first, last = (
        list_positions(session, positions, EARLIEST),
        list_offsets(session, positions, LATEST, isolation="read_uncommitted"),
    )
    result = dict(positions)
    for (topic, partition), position in positions.items():
        low, high = first[topic, partition], last[topic, partition]
        end = high.offset if high else low.offset
        if low.offset <= position.offset <= end:
            continue
        if scan.reset is ResetStrategy.NONE:
            raise PossibleDataLossError(
                f"table '{scan.table}': topic '{topic}', partition {partition} should be read from offset "
                f"{position.offset}, but its log has {low.offset} to {end}; choose another start, or set "
                "'properties.auto.offset.reset' to earliest or latest"
            )
        earliest = scan.reset is ResetStrategy.EARLIEST
        result[topic, partition] = low if earliest else Position(end)
    return result


def _check_known(
    given: Collection[TopicPartition], partitions: Iterable[TopicPartition], option: str, scan: KafkaScanSpec
) -> None:
    for topic, partition in sorted(set(given) - set(partitions)):
        raise KafkaError(
            f"table '{scan.table}': '{option}' names partition {partition} of topic '{topic}', which does not exist"
        )


def _ask_initializer(
    session: Session, scan: KafkaScanSpec, partitions: Iterable[TopicPartition], by: CustomOffsets
) -> dict[TopicPartition, Position]:
    """The positions that an object of the user chooses. Raises ExecutionError when it fails or returns others."""
    partitions = tuple(partitions)
    try:
        chosen = dict(by.offsets(partitions, Retriever(session, scan.table, scan.group_id)))
    except PenstockError:
        raise
    except Exception as error:
        raise ExecutionError(f"table '{scan.table}': the offsets initializer {by} failed: {error!r}") from error
    for (topic, partition), offset in chosen.items():
        if (topic, partition) not in partitions or not isinstance(offset, int) or offset < 0:
            raise ExecutionError(
                f"table '{scan.table}': the offsets initializer {by} chose {offset!r} for topic '{topic}', partition "
                f"{partition}; expected whole numbers from 0, for the partitions that it was asked for"
            )
    return {tp: Position(offset) for tp, offset in chosen.items()}
