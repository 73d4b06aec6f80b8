"""Where a scan starts, where it stops, and how far each micro-batch reads."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from penstock.connectors.kafka.client import completed
from penstock.connectors.kafka.options import BoundedMode, ResetStrategy, StartupMode
from penstock.connectors.kafka.positions import PLACES_PER_SOURCE, Place, Position, Positions, Range, cut
from penstock.connectors.kafka.scan import KafkaScan
from penstock.errors import KafkaError, PossibleDataLossError
from penstock.kafka.offsets import EARLIEST, LATEST, LogOffset, check_truncation, committed_offsets, list_offsets
from penstock.kafka.properties import ClientConfig
from penstock.kafka.session import Session, TopicInfo, session_for
from penstock.kafka.topics import matching_topics

__all__ = ["Planner", "ReaderSpec", "client_of", "resolve_start", "resolve_stop"]


@dataclass(frozen=True)
class ReaderSpec:
    """All that planning and reading need to know; goes to other processes by pickling.

    ``start`` was resolved once, before the query first started; ``stop`` likewise, None for an unbounded scan.
    """

    scan: KafkaScan
    ordinal: int
    parallelism: int
    start: Positions
    stop: Positions | None


def client_of(scan: KafkaScan) -> ClientConfig:
    """The client that reads for ``scan``."""
    return ClientConfig.from_properties(dict(completed(scan.client, scan.group_id)), f"table '{scan.table}'")


# --- start and stop ------------------------------------------------------------------------------------------


def resolve_start(session: Session, scan: KafkaScan) -> Positions:
    """Where reading starts: one position for each partition that exists now.

    The order is that of seed 003: the start option, then the group's offsets, then ``auto.offset.reset``; a partition
    that none of them places is an error.
    """
    topics = _topics(session, scan)
    places = _places(topics)
    mode, options = scan.options.startup_mode, scan.options
    found: dict[Place, Position] = {}
    if mode is StartupMode.EARLIEST:
        found = _listed(session, places, EARLIEST)
    elif mode is StartupMode.LATEST:
        found = _listed(session, places, LATEST)
    elif mode is StartupMode.TIMESTAMP and options.startup_timestamp is not None:
        found = _at_time(session, places, options.startup_timestamp)
    elif mode is StartupMode.SPECIFIC_OFFSETS:
        given = {(each.topic, each.partition): Position(each.offset) for each in scan.start_offsets}
        _check_known(given, places, "scan.startup.specific-offsets", scan)
        found = given | _of_group(session, scan, [place for place in places if place not in given])
    elif mode is StartupMode.GROUP_OFFSETS:
        found = _of_group(session, scan, places)
    return Positions(_within_log(session, scan, found), _ids(topics))


def resolve_stop(session: Session, scan: KafkaScan, start: Positions) -> Positions | None:
    """Where a bounded scan stops (the offset itself is not read), or None when it does not.

    A partition without a stop in 'specific-offsets', and one that the group has not committed, is not read at all.
    """
    mode, options = scan.options.bounded_mode, scan.options
    if mode is BoundedMode.UNBOUNDED:
        return None
    places = start.places()
    if mode is BoundedMode.TIMESTAMP and options.bounded_timestamp is not None:
        found = _at_time(session, places, options.bounded_timestamp)
    elif mode is BoundedMode.SPECIFIC_OFFSETS:
        found = {(each.topic, each.partition): Position(each.offset) for each in scan.end_offsets}
        _check_known(found, places, "scan.bounded.specific-offsets", scan)
    elif mode is BoundedMode.GROUP_OFFSETS:
        found = _committed(session, scan, places)
    else:
        found = _listed(session, places, LATEST)
    # Never before the start: an empty range ends at once.
    stops = {
        place: Position(max(start.at[place].offset, found[place].offset) if place in found else start.at[place].offset)
        for place in places
    }
    return Positions(stops, start.topic_ids)


def _topics(session: Session, scan: KafkaScan) -> dict[str, TopicInfo]:
    if scan.options.topic_pattern:
        return matching_topics(session, scan.options.topic_pattern)
    return {name: session.topic(name) for name in scan.options.topic}


def _places(topics: Mapping[str, TopicInfo]) -> list[Place]:
    return [(name, each.partition) for name, info in sorted(topics.items()) for each in info.partitions]


def _ids(topics: Mapping[str, TopicInfo]) -> dict[str, str]:
    return {name: str(info.topic_id or "") for name, info in topics.items()}


def _listed(session: Session, places: Iterable[Place], at: int) -> dict[Place, Position]:
    found = list_offsets(session, places, at)
    return {place: Position(offset.offset, offset.leader_epoch) for place, offset in found.items() if offset}


def _at_time(session: Session, places: Iterable[Place], millis: int) -> dict[Place, Position]:
    """The first record that is not older than ``millis``; the log's end where there is none."""
    places = list(places)
    found = list_offsets(session, places, millis)
    late = [place for place in places if found.get(place) is None]
    at = {place: Position(offset.offset, offset.leader_epoch) for place, offset in found.items() if offset}
    return at | _listed(session, late, LATEST)


def _committed(session: Session, scan: KafkaScan, places: Iterable[Place]) -> dict[Place, Position]:
    if not scan.group_id:
        raise KafkaError(f"table '{scan.table}': 'group-offsets' needs 'properties.group.id'; name the consumer group")
    found = committed_offsets(session, scan.group_id, places)
    return {place: Position(each.offset, each.leader_epoch) for place, each in found.items()}


def _of_group(session: Session, scan: KafkaScan, places: Iterable[Place]) -> dict[Place, Position]:
    places = list(places)
    found = _committed(session, scan, places) if places else {}
    missing = [place for place in places if place not in found]
    if not missing:
        return found
    if scan.reset is ResetStrategy.NONE:
        topic, partition = missing[0]
        raise KafkaError(
            f"table '{scan.table}': group '{scan.group_id}' has no committed offset for topic '{topic}', partition "
            f"{partition}, and 'properties.auto.offset.reset' is not set; set it to earliest or latest, or choose "
            "another 'scan.startup.mode'"
        )
    return found | _listed(session, missing, EARLIEST if scan.reset is ResetStrategy.EARLIEST else LATEST)


def _within_log(session: Session, scan: KafkaScan, found: Mapping[Place, Position]) -> dict[Place, Position]:
    """``found`` with positions that the log does not have (any more) reset as ``auto.offset.reset`` says."""
    first, last = _listed(session, found, EARLIEST), list_offsets(session, found, LATEST, isolation="read_uncommitted")
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


def _check_known(given: Mapping[Place, Position], places: Iterable[Place], option: str, scan: KafkaScan) -> None:
    for topic, partition in given.keys() - set(places):
        raise KafkaError(
            f"table '{scan.table}': '{option}' names partition {partition} of topic '{topic}', which does not exist"
        )


# --- batches -------------------------------------------------------------------------------------------------


@dataclass
class Planner:
    """Plans the micro-batches of one scan. Lives in the process that Spark plans in; holds no state that matters."""

    spec: ReaderSpec
    _session: Session | None = None
    _discovered: float = field(default_factory=time.monotonic)

    @property
    def session(self) -> Session:
        """The conversation with the cluster."""
        if self._session is None:
            self._session = session_for(client_of(self.spec.scan))
        return self._session

    def latest(self, start: Positions, most: int | None) -> Positions:
        """How far the batch that begins at ``start`` reads: at most ``most`` records (None: all there are).

        New partitions come in at their log's start, with nothing to read in this batch yet, so that their start is in
        the offset log before anything of them is read. Raises PossibleDataLossError when a log ends before ``start``,
        or a topic was deleted and created anew.
        """
        available = self.available(start)
        wanted = {place: end.offset - start.at[place].offset for place, end in available.at.items()}
        shares = _shares(wanted, most)
        at = {
            place: replace(end, offset=start.at[place].offset + shares[place]) if shares[place] < wanted[place] else end
            for place, end in available.at.items()
        }
        new, ids = self._discover(start)
        return Positions(at | new, {**ids, **start.topic_ids})

    def available(self, start: Positions) -> Positions:
        """The ends of the logs, or the stops where they come first, of the places in ``start``."""
        ends = self._ends(start)
        for (topic, partition), end in ends.items():
            before = start.at[topic, partition]
            if end.offset < before.offset:
                raise PossibleDataLossError(
                    f"topic '{topic}', partition {partition} was read up to offset {before.offset}, but its log ends "
                    f"at {end.offset}; was it cut, or the topic created anew? Compare what was published before "
                    "restarting from other offsets"
                )
            if end.epoch != before.epoch >= 0 and end.epoch >= 0:
                check_truncation(self.session, {(topic, partition): LogOffset(before.offset, -1, before.epoch)})
        return Positions(ends, start.topic_ids)

    def _ends(self, start: Positions) -> dict[Place, Position]:
        stop = self.spec.stop
        if stop is not None:
            # Stops were taken once and lie within the logs, so there is nothing to ask.
            return {place: replace(at, offset=stop.offset(place, at.offset)) for place, at in start.at.items()}
        self._check_ids(start)
        return _listed(self.session, start.at, LATEST)

    def _check_ids(self, start: Positions) -> None:
        for topic, known in start.topic_ids.items():
            now = str(self.session.topic(topic).topic_id or "")
            if known and now and now != known:
                raise PossibleDataLossError(
                    f"topic '{topic}' was deleted and created anew (its id was {known}, now it is {now}), so the "
                    "offsets read so far mean nothing in it; start with a new checkpoint directory to read it"
                )

    def _discover(self, start: Positions) -> tuple[dict[Place, Position], dict[str, str]]:
        interval = self.spec.scan.discovery
        now = time.monotonic()
        if interval is None or now - self._discovered < interval.total_seconds():
            return {}, {}
        self._discovered = now
        self.session.forget_topics(self.spec.scan.options.topic)
        topics = _topics(self.session, self.spec.scan)
        self._check_ids(start)
        new = [place for place in _places(topics) if place not in start.at]
        return _listed(self.session, new, EARLIEST) if new else {}, _ids(topics) if new else {}

    def tasks(self, start: Positions, end: Positions) -> list[tuple[Range, ...]]:
        """The batch from ``start`` to ``end`` as tasks."""
        base = self.spec.ordinal * PLACES_PER_SOURCE
        ranges = [
            Range(
                base + number,
                topic,
                end.topic_ids.get(topic, ""),
                partition,
                start.offset((topic, partition), end.at[topic, partition].offset),
                end.at[topic, partition].offset,
            )
            for number, (topic, partition) in enumerate(end.places())
        ]
        return cut(ranges, self.spec.scan.options.parallelism or self.spec.parallelism)

    @property
    def most(self) -> int:
        """Most records that a batch reads."""
        return self.spec.scan.options.max_records_per_trigger


def _shares(wanted: Mapping[Place, int], most: int | None) -> dict[Place, int]:
    """``most`` records over the places, in proportion to what each has; none is left waiting behind a larger one."""
    total = sum(wanted.values())
    if most is None or total <= most:
        return dict(wanted)
    waiting = [place for place, count in sorted(wanted.items()) if count]
    least = 1 if len(waiting) <= most else 0
    rest = most - least * len(waiting)
    shares = dict.fromkeys(wanted, 0)
    for place in waiting:
        shares[place] = least + (wanted[place] - least) * rest // (total - least * len(waiting))
    left = most - sum(shares.values())  # less than the number of places
    for place in waiting:
        if left and shares[place] < wanted[place]:
            shares[place] += 1
            left -= 1
    return shares
