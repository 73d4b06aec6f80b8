"""How far each micro-batch of a scan reads."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from penstock.connectors.kafka.bounds import listed, places_of, topic_ids, topics_of
from penstock.connectors.kafka.client import completed
from penstock.connectors.kafka.positions import PLACES_PER_SOURCE, Place, Position, Positions, Range, cut
from penstock.connectors.kafka.scan import KafkaScan
from penstock.errors import PossibleDataLossError
from penstock.kafka.offsets import EARLIEST, LATEST, LogOffset, check_truncation
from penstock.kafka.properties import ClientConfig
from penstock.kafka.session import Session, session_for

__all__ = ["Planner", "ReaderSpec", "client_of"]


@dataclass(frozen=True)
class ReaderSpec:
    """All that planning and reading need to know; goes to other processes by pickling.

    ``start`` was resolved once, before the query first started; ``stop`` likewise, None for an unbounded scan.
    ``waits``: a stop lay behind the end of its log when the query was started.
    """

    scan: KafkaScan
    ordinal: int
    parallelism: int
    start: Positions
    stop: Positions | None
    waits: bool = False


def client_of(scan: KafkaScan) -> ClientConfig:
    """The client that reads for ``scan``."""
    return ClientConfig.from_properties(dict(completed(scan.client, scan.group_id)), f"table '{scan.table}'")


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
        if stop is not None and not self.spec.waits:
            # Stops were taken once and lie within the logs, so there is nothing to ask.
            return {place: replace(at, offset=stop.offset(place, at.offset)) for place, at in start.at.items()}
        self._check_ids(start)
        ends = listed(self.session, start.at, LATEST)
        if stop is None:
            return ends
        return {
            place: replace(end, offset=min(end.offset, stop.offset(place, end.offset))) for place, end in ends.items()
        }

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
        topics = topics_of(self.session, self.spec.scan)
        self._check_ids(start)
        new = [place for place in places_of(topics, self.spec.scan) if place not in start.at]
        return listed(self.session, new, EARLIEST) if new else {}, topic_ids(topics) if new else {}

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
