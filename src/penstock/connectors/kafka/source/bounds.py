"""Where a scan starts and where it stops: resolved once, on the driver, when its job first starts (rule 1)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import replace
from uuid import UUID

from penstock.connectors.kafka.source.initializer import CustomOffsets, Found
from penstock.connectors.kafka.source.positions import Position, Positions
from penstock.connectors.kafka.source.spec import KafkaScanSpec
from penstock.connectors.kafka.table.options import BoundedMode, ResetStrategy, StartupMode
from penstock.deadline import Deadline
from penstock.errors import ExecutionError, KafkaError, PenstockError, PossibleDataLossError
from penstock.kafka.offsets import EARLIEST, LATEST, committed_offsets, list_offsets
from penstock.kafka.session import Session, TopicInfo, TopicPartition
from penstock.kafka.topics import matching_topics

#: How long brokers are asked for a leader epoch that a group's offset names and none of them tells of.
_EPOCH_SECONDS = 5.0


def resolve_start(
    session: Session,
    scan: KafkaScanSpec,
    start_time: int | None = None,
    *,
    warn: Callable[[str], None] = lambda _: None,
) -> Positions:
    """Where reading starts: one position for each partition that exists now.

    The order is that of seed 003: ``start_time`` (``penstock run --start-time``, ms since 1970), then the start
    option, then the group's offsets, then ``auto.offset.reset``; a partition that none of them places is an error.
    ``warn`` is told of offsets of the group that were committed in a log of former times.
    """
    topics = _topics_of(session, scan)
    places = places_of(topics, scan)
    mode, options = scan.options.startup_mode, scan.options
    found: dict[TopicPartition, Position] = {}
    if start_time is not None:
        found = _at_time(session, places, start_time)
    elif scan.start_by is not None:
        given = _chosen(session, scan, places, scan.start_by)
        found = given | _reset(session, scan, [place for place in places if place not in given])
    elif mode is StartupMode.EARLIEST:
        found = listed(session, places, EARLIEST)
    elif mode is StartupMode.LATEST:
        found = listed(session, places, LATEST)
    elif mode is StartupMode.TIMESTAMP and options.startup_timestamp is not None:
        found = _at_time(session, places, options.startup_timestamp)
    elif mode is StartupMode.SPECIFIC_OFFSETS:
        given = {(each.topic, each.partition): Position(each.offset) for each in scan.start_offsets}
        _check_known(given, places, "scan.startup.specific-offsets", scan)
        found = given | _of_group(session, scan, [place for place in places if place not in given])
    elif mode is StartupMode.GROUP_OFFSETS:
        found = _of_group(session, scan, places)
    ids = topic_ids(topics)
    found = _without_foreign_epochs(session, found, ids, warn)
    note_epochs(session, Positions(found, ids))
    return Positions(_within_log(session, scan, found), ids)


def resolve_stop(session: Session, scan: KafkaScanSpec, start: Positions) -> Positions | None:
    """Where a bounded scan stops (the offset itself is not read), or None when it does not.

    As in Flink, a partition without a stop in 'specific-offsets' stops at the group's offset, and is not read at all
    where there is none; with 'group-offsets' that is an error. A stop may lie behind the present end of the log: it is
    waited for.
    """
    mode, options = scan.options.bounded_mode, scan.options
    if not scan.bounded:
        return None
    places = start.places()
    if scan.stop_by is not None:
        found = _chosen(session, scan, places, scan.stop_by)
        for topic, partition in sorted(set(places) - found.keys()):
            raise ExecutionError(
                f"table '{scan.table}': the offsets initializer of the stop gives none for topic '{topic}', partition "
                f"{partition}; a source that is to end needs one for every partition"
            )
    elif mode is BoundedMode.TIMESTAMP and options.bounded_timestamp is not None:
        found = _at_time(session, places, options.bounded_timestamp)
    elif mode is BoundedMode.SPECIFIC_OFFSETS:
        given = {(each.topic, each.partition): Position(each.offset) for each in scan.end_offsets}
        _check_known(given, places, "scan.bounded.specific-offsets", scan)
        left = [place for place in places if place not in given]
        found = given | (_committed(session, scan, left) if left and scan.group_id else {})
    elif mode is BoundedMode.GROUP_OFFSETS:
        found = _committed(session, scan, places)
        for topic, partition in sorted(set(places) - found.keys()):
            raise KafkaError(
                f"table '{scan.table}': group '{scan.group_id}' has no committed offset for topic '{topic}', partition "
                f"{partition}, to stop at; commit one, or choose another 'scan.bounded.mode'"
            )
    else:
        found = listed(session, places, LATEST)
    # Never before the start: an empty range ends at once.
    stops = {
        place: Position(max(start.at[place].offset, found[place].offset) if place in found else start.at[place].offset)
        for place in places
    }
    return Positions(stops, start.topic_ids)


def present_ends(session: Session, stop: Positions) -> dict[TopicPartition, Position]:
    """Where the logs that are to be read up to ``stop`` end at present, without those of topics that exist no more."""
    there = session.topics({topic for topic, _ in stop.at})
    return listed(session, [place for place in stop.at if place[0] in there], LATEST)


def behind_the_end(stop: Positions, ends: Mapping[TopicPartition, Position]) -> bool:
    """Whether a stop lies behind what its log holds (:func:`present_ends`), so that it has to be waited for. Topics
    that exist no more are not waited for: what was read of them was read, and the rest is missed by the tasks."""
    return any(at.offset > ends[place].offset for place, at in stop.at.items() if place in ends)


def with_epochs(stop: Positions, ends: Mapping[TopicPartition, Position]) -> Positions:
    """``stop`` with the leader epochs of ``ends`` (:func:`present_ends`), to tell later whether the logs were cut below
    it. Nothing is known of topics that exist no more."""
    return Positions(
        {place: Position(at.offset, ends[place].epoch if place in ends else -1) for place, at in stop.at.items()},
        stop.topic_ids,
    )


def _topics_of(session: Session, scan: KafkaScanSpec) -> dict[str, TopicInfo]:
    """The topics that are read. Raises KafkaError for one that was named and does not exist."""
    if scan.options.topic_pattern:
        return matching_topics(session, scan.options.topic_pattern)
    session.forget_topics(scan.options.topic)  # the session is shared: what it knows may be minutes old
    return {name: session.topic(name) for name in scan.options.topic}


def topics_there(session: Session, scan: KafkaScanSpec) -> dict[str, TopicInfo]:
    """The topics that are to be read and exist, as the brokers know them now."""
    return _topics_of(session, scan) if scan.options.topic_pattern else session.topics(scan.options.topic)


def places_of(topics: Mapping[str, TopicInfo], scan: KafkaScanSpec) -> list[TopicPartition]:
    """The partitions of ``topics`` that are read. Raises KafkaError when 'scan.partitions' names one that is not."""
    places = [(name, each.partition) for name, info in sorted(topics.items()) for each in info.partitions]
    if not scan.partitions:
        return places
    _check_known(scan.partitions, places, "scan.partitions", scan)
    return [place for place in places if place in scan.partitions]


def topic_ids(topics: Mapping[str, TopicInfo]) -> dict[str, str]:
    """The ids of ``topics`` as text, empty where the broker gives none."""
    return {name: str(info.topic_id or "") for name, info in topics.items()}


def note_epochs(session: Session, positions: Positions) -> None:
    """Let ``session`` not ask leaders that were deposed before these positions were reached: their logs may end before,
    though nothing is lost."""
    epochs: dict[str, dict[int, int]] = defaultdict(dict)
    for (topic, partition), at in positions.at.items():
        if at.epoch >= 0 and positions.topic_ids.get(topic):
            epochs[topic][partition] = at.epoch
    for topic, read in epochs.items():
        session.read_in(topic, UUID(positions.topic_ids[topic]), read)


def listed(session: Session, places: Iterable[TopicPartition], at: int) -> dict[TopicPartition, Position]:
    """Where the logs begin (EARLIEST) or end (LATEST), or the first record from a time on; none where there is none."""
    found = list_offsets(session, places, at)
    return {place: Position(offset.offset, offset.leader_epoch) for place, offset in found.items() if offset}


def _at_time(session: Session, places: Iterable[TopicPartition], millis: int) -> dict[TopicPartition, Position]:
    """The first record that is not older than ``millis``; the log's end where there is none."""
    places = list(places)
    found = list_offsets(session, places, millis)
    late = [place for place in places if found.get(place) is None]
    at = {place: Position(offset.offset, offset.leader_epoch) for place, offset in found.items() if offset}
    return at | listed(session, late, LATEST)


def _committed(
    session: Session, scan: KafkaScanSpec, places: Iterable[TopicPartition]
) -> dict[TopicPartition, Position]:
    if not scan.group_id:
        raise KafkaError(f"table '{scan.table}': 'group-offsets' needs 'properties.group.id'; name the consumer group")
    found = committed_offsets(session, scan.group_id, places)
    return {place: Position(each.offset, each.leader_epoch) for place, each in found.items()}


def _of_group(
    session: Session, scan: KafkaScanSpec, places: Iterable[TopicPartition]
) -> dict[TopicPartition, Position]:
    places = list(places)
    # Without a group there is nothing committed: only 'group-offsets' itself needs one.
    named = scan.group_id or scan.options.startup_mode is StartupMode.GROUP_OFFSETS
    found = _committed(session, scan, places) if places and named else {}
    return found | _reset(session, scan, [place for place in places if place not in found])


def _without_foreign_epochs(
    session: Session, found: Mapping[TopicPartition, Position], ids: dict[str, str], warn: Callable[[str], None]
) -> dict[TopicPartition, Position]:
    """``found`` without leader epochs that none of the brokers knows of, more than half of which have to answer.

    A group's offset does not say which topic it was committed for: one of this name that was deleted since, in whose
    last epoch the present topic will perhaps never be, or, where a tool has copied it, one of another cluster.
    """
    hints = {place: at.epoch for place, at in found.items() if at.epoch >= 0}
    topics = session.topics({name for name, _ in hints}, fresh=False)
    known = {(name, each.partition): each.leader_epoch for name, info in topics.items() for each in info.partitions}
    late = {name for (name, partition), epoch in hints.items() if 0 <= known.get((name, partition), -1) < epoch}
    if not late:
        return dict(found)
    told = session.known_epochs(late, Deadline.after(_EPOCH_SECONDS * 1000))  # the first may be cut off from the others
    latest = {place: max((each.get(place, -1) for each in told), default=-1) for place in hints if place[0] in late}
    if 2 * len(told) <= len(session.brokers()):
        return dict(found)
    foreign = {place for place, epoch in latest.items() if epoch < hints[place]}
    for topic, partition in sorted(foreign):
        warn(
            f"topic '{topic}', partition {partition}: its offset was committed in leader epoch "
            f"{hints[topic, partition]}, of which no broker knows; the topic was perhaps deleted and created anew "
            "since. Reading starts at that offset all the same, if the log has it"
        )
    note_epochs(session, Positions({place: replace(found[place], epoch=latest[place]) for place in foreign}, ids))
    return {place: replace(at, epoch=-1) if place in foreign else at for place, at in found.items()}


def _reset(session: Session, scan: KafkaScanSpec, missing: list[TopicPartition]) -> dict[TopicPartition, Position]:
    """Positions of partitions that nothing places, as ``auto.offset.reset`` says."""
    if not missing:
        return {}
    if scan.reset is ResetStrategy.NONE:
        topic, partition = missing[0]
        who = f"group '{scan.group_id}' has no committed offset" if scan.start_by is None else "no offset was chosen"
        raise KafkaError(
            f"table '{scan.table}': {who} for topic '{topic}', partition {partition}, and "
            "'properties.auto.offset.reset' is not set; set it to earliest or latest, or choose another "
            "'scan.startup.mode'"
        )
    return listed(session, missing, EARLIEST if scan.reset is ResetStrategy.EARLIEST else LATEST)


def _within_log(
    session: Session, scan: KafkaScanSpec, found: Mapping[TopicPartition, Position]
) -> dict[TopicPartition, Position]:
    """``found`` with positions that the log does not have (any more) reset as ``auto.offset.reset`` says."""
    first, last = listed(session, found, EARLIEST), list_offsets(session, found, LATEST, isolation="read_uncommitted")
    result = dict(found)
    for (topic, partition), position in found.items():
        low, high = first[topic, partition], last[topic, partition]
        end = high.offset if high else low.offset
        if low.offset <= position.offset <= end:
            continue
        if scan.reset is ResetStrategy.NONE:
            raise PossibleDataLossError(
                f"table '{scan.table}': topic '{topic}', partition {partition} is to be read from offset "
                f"{position.offset}, but its log has {low.offset} to {end}; choose another start, or set "
                "'properties.auto.offset.reset' to earliest or latest"
            )
        earliest = scan.reset is ResetStrategy.EARLIEST
        result[topic, partition] = low if earliest else Position(end)
    return result


def _check_known(
    given: Collection[TopicPartition], places: Iterable[TopicPartition], option: str, scan: KafkaScanSpec
) -> None:
    for topic, partition in sorted(set(given) - set(places)):
        raise KafkaError(
            f"table '{scan.table}': '{option}' names partition {partition} of topic '{topic}', which does not exist"
        )


# --- offsets of the user's own ---------------------------------------------------------------------------------


def _chosen(
    session: Session, scan: KafkaScanSpec, places: Iterable[TopicPartition], by: CustomOffsets
) -> dict[TopicPartition, Position]:
    places = tuple(places)
    try:
        chosen = dict(by.offsets(places, _Retriever(session, scan)))
    except PenstockError:
        raise
    except Exception as error:
        raise ExecutionError(f"table '{scan.table}': the offsets initializer {by} failed: {error!r}") from error
    for (topic, partition), offset in chosen.items():
        if (topic, partition) not in places or not isinstance(offset, int) or offset < 0:
            raise ExecutionError(
                f"table '{scan.table}': the offsets initializer {by} chose {offset!r} for topic '{topic}', partition "
                f"{partition}; expected whole numbers from 0 for the partitions that it was given"
            )
    return {place: Position(offset) for place, offset in chosen.items()}


class _Retriever:
    """Answers from the cluster, for the scan's own group."""

    def __init__(self, session: Session, scan: KafkaScanSpec):
        self._session = session
        self._scan = scan

    def committed_offsets(self, places: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        return {place: each.offset for place, each in _committed(self._session, self._scan, places).items()}

    def end_offsets(self, places: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        return {place: each.offset for place, each in listed(self._session, places, LATEST).items()}

    def beginning_offsets(self, places: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        return {place: each.offset for place, each in listed(self._session, places, EARLIEST).items()}

    def offsets_for_times(self, times: Mapping[TopicPartition, int]) -> dict[TopicPartition, Found | None]:
        found: dict[TopicPartition, Found | None] = {}
        for millis in sorted(set(times.values())):
            if millis < 0:  # to the protocol these are other questions
                raise ValueError(f"expected milliseconds since 1970, not {millis}")
            wanted = [place for place, each in times.items() if each == millis]
            for place, at in list_offsets(self._session, wanted, millis).items():
                found[place] = Found(at.offset, at.timestamp, at.leader_epoch) if at else None
        return found
