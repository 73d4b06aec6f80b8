"""How far each micro-batch of a scan reads."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from penstock.connectors.kafka.source.admission import Admission
from penstock.connectors.kafka.source.bounds import listed, note_epochs, places_of, topic_ids, topics_there
from penstock.connectors.kafka.source.losses import SKIPPING, created_anew, jumped, passed_over, without
from penstock.connectors.kafka.source.positions import Position, Positions, Split, cut
from penstock.connectors.kafka.source.spec import KafkaScanSpec
from penstock.connectors.kafka.source.watermarks import Notes, Watermarks
from penstock.connectors.kafka.table.client import completed
from penstock.errors import KafkaError, PossibleDataLossError
from penstock.kafka.offsets import EARLIEST, LATEST, LogOffset, check_truncation
from penstock.kafka.properties import ClientConfig
from penstock.kafka.session import Session, TopicPartition, session_for
from penstock.spi import PARTITIONS_PER_SOURCE


@dataclass(frozen=True)
class ReaderSpec:
    """All that planning and reading need to know; goes to other processes by pickling.

    ``start`` was resolved once, before the query first started; ``stop`` likewise, None for an unbounded scan.
    ``waits``: a stop lay behind the end of its log when the query was started. ``notes``: the file of
    :class:`~penstock.connectors.kafka.source.watermarks.Notes`.
    """

    scan: KafkaScanSpec
    ordinal: int
    parallelism: int
    start: Positions
    stop: Positions | None
    waits: bool = False
    notes: str = ""


def client_of(scan: KafkaScanSpec) -> ClientConfig:
    """The client that reads for ``scan``."""
    return ClientConfig.from_properties(dict(completed(scan.client, scan.group_id)), f"table '{scan.table}'")


# --- batches -------------------------------------------------------------------------------------------------


@dataclass
class Planner:
    """Plans the micro-batches of one scan. Lives in the process that Spark plans in; holds no state that matters."""

    spec: ReaderSpec
    _session: Session | None = None
    _discovered: float = field(default_factory=time.monotonic)
    _seen: dict[TopicPartition, int] = field(default_factory=dict)
    _waiting: frozenset[TopicPartition] = frozenset()
    _looked: bool = False
    _admission: Admission = field(init=False)
    _watermarks: Watermarks | None = field(init=False, default=None)

    def __post_init__(self) -> None:
        self._admission = Admission(self.spec.scan.options)
        if self.spec.scan.watermark is not None:
            self._watermarks = Watermarks(self.spec.scan.watermark.idle_timeout, Notes(self.spec.notes))

    @property
    def session(self) -> Session:
        """The conversation with the cluster."""
        if self._session is None:
            self._session = session_for(client_of(self.spec.scan))
        return self._session

    def latest(self, start: Positions, most: int | None) -> Positions:
        """How far the batch that begins at ``start`` reads: at most ``most`` records (None: all there are).

        New partitions come in at their log's start, with nothing to read in this batch yet, so that their start is in
        the offset log before anything of them is read. Raises PossibleDataLossError when records were lost: a log ends
        before ``start``, a topic was deleted and created anew, or is gone before it was read to its end. With
        'scan.fail-on-data-loss' = 'false' positions move on instead (:mod:`penstock.connectors.kafka.source.losses`).

        In a scan with event time the watermark moves on too, which makes a batch even when there is nothing to read.
        """
        reached = self._latest(start, most)
        if self._watermarks is None:
            return reached
        return self._watermarks.advanced(start, reached, self._waiting, self.spec.stop)

    def _latest(self, start: Positions, most: int | None) -> Positions:
        note_epochs(self.session, start)
        begin = self._resumed(start) if self._fixed else self._settled(start)
        if _jumps(start, begin):
            return begin
        try:
            available = self.available(begin)
        except KafkaError:
            gone = self._gone(start)
            if not gone:
                raise
            return without(start, gone, self._seen, self._skips)
        wanted = {place: end.offset - begin.at[place].offset for place, end in available.at.items()}
        self._waiting = frozenset(place for place, count in wanted.items() if count)
        shares = self._admitted(wanted, most, available)
        at = {}
        for place, end in available.at.items():
            before, share = begin.at[place], shares[place]
            if share == wanted[place]:
                at[place] = end
            else:  # equal to the start where nothing is read, for a difference of epochs would make a batch
                at[place] = replace(end, offset=before.offset + share) if share else before
        if any(shares.values()):
            self._admission.began()
        new, ids = self._discover(start)
        return Positions(at | new, {**ids, **start.topic_ids})

    def _admitted(
        self, wanted: Mapping[TopicPartition, int], most: int | None, available: Positions
    ) -> dict[TopicPartition, int]:
        """How many of the ``wanted`` records of each place this batch reads: none when it is to wait for more."""
        waiting, stop = sum(wanted.values()), self.spec.stop
        last = stop is not None and all(
            at.offset >= stop.offset(place, at.offset) for place, at in available.at.items()
        )
        if not last and self._admission.postpones(waiting):
            return dict.fromkeys(wanted, 0)
        granted = self._admission.grant(most)
        while granted == 0 and waiting and self._fixed:  # no batch would mean to Spark that everything was read
            time.sleep(self._admission.pause())
            granted = self._admission.grant(most)
        return _shares(wanted, granted)

    def available(self, start: Positions) -> Positions:
        """The ends of the logs, or the stops where they come first, of the places in ``start``."""
        ends = self._ends(start)
        for (topic, partition), end in ends.items():
            before = start.at[topic, partition]
            if end.offset < before.offset:
                raise PossibleDataLossError(
                    f"topic '{topic}', partition {partition} was read up to offset {before.offset}, but its log ends "
                    f"at {end.offset}; was it cut, or the topic created anew? Compare what was published before "
                    f"restarting from other offsets; {SKIPPING}"
                )
            if end.epoch != before.epoch >= 0 and end.epoch >= 0:
                check_truncation(self.session, {(topic, partition): LogOffset(before.offset, -1, before.epoch)})
        self._seen |= {place: end.offset for place, end in ends.items()}
        return Positions(
            {place: replace(end, lost=start.at[place].lost) for place, end in ends.items()}, start.topic_ids
        )

    def _ends(self, start: Positions) -> dict[TopicPartition, Position]:
        stop = self.spec.stop
        if stop is not None and self._fixed:
            ends = {place: replace(stop.at.get(place, at), lost=at.lost) for place, at in start.at.items()}
            # A difference of epochs alone would make a batch.
            return {
                place: end if end.offset > start.at[place].offset else start.at[place] for place, end in ends.items()
            }
        ends = listed(self.session, start.at, LATEST)
        if stop is None:
            return ends
        return {
            place: replace(end, offset=min(end.offset, max(stop.offset(place, end.offset), start.at[place].offset)))
            for place, end in ends.items()
        }

    @property
    def _fixed(self) -> bool:
        """Whether the ends are known: stops were taken once and lie within the logs, so there is nothing to ask."""
        return self.spec.stop is not None and not self.spec.waits

    @property
    def _skips(self) -> bool:
        return not self.spec.scan.options.fail_on_data_loss

    # --- what the logs have lost -----------------------------------------------------------------------------

    def _resumed(self, start: Positions) -> Positions:
        """``start`` of a scan whose ends are known: where a log was cut below it while no process planned, the cut."""
        if self._looked or not self._skips:
            return start
        self._looked = True
        begun, ends = self.spec.start, self._ends(start)
        read = {place: at for place, at in start.at.items() if begun.offset(place, 0) < at.offset < ends[place].offset}
        if not read:
            return start
        # Topics that are gone, or others by now, are the tasks' to tell of.
        ids = topic_ids(self.session.topics({topic for topic, _ in read}))
        left = {place: at for place, at in read.items() if ids.get(place[0]) == start.topic_ids.get(place[0])}
        return Positions({**start.at, **jumped(self.session, Positions(left, start.topic_ids)).at}, start.topic_ids)

    def _settled(self, start: Positions) -> Positions:
        """``start`` as far as the logs have it: unchanged, or changed by what they have lost."""
        topics = self.session.topics(_topics_in(start), fresh=self._skips)
        gone = self._gone(start) if _topics_in(start) - topics.keys() else set()
        if gone:
            return without(start, gone, self._seen, self._skips)
        begin = created_anew(self.session, start, topics, self._skips)
        if begin is not start or not self._skips:
            return begin
        begin = jumped(self.session, start)
        return begin if begin is not start else passed_over(self.session, start)

    def _gone(self, start: Positions) -> set[str]:
        """The topics of ``start`` that do not exist any more, after a moment in which they might have come back."""
        missing = _topics_in(start) - self.session.topics(_topics_in(start)).keys()
        return {topic for topic in missing if not self._exists(topic)}

    def _exists(self, topic: str) -> bool:
        try:
            self.session.topic(topic)
        except KafkaError:
            return topic in self.session.topics([topic])
        return True

    # --- new partitions --------------------------------------------------------------------------------------

    def _discover(self, start: Positions) -> tuple[dict[TopicPartition, Position], dict[str, str]]:
        interval = self.spec.scan.discovery
        now = time.monotonic()
        if interval is None or now - self._discovered < interval.total_seconds():
            return {}, {}
        self._discovered = now
        topics = topics_there(self.session, self.spec.scan)
        if created_anew(self.session, start, topics, self._skips) is not start:
            return {}, {}
        new = [place for place in places_of(topics, self.spec.scan) if place not in start.at]
        return listed(self.session, new, EARLIEST) if new else {}, topic_ids(topics) if new else {}

    # --- tasks -----------------------------------------------------------------------------------------------

    def ranges(self, start: Positions, end: Positions) -> list[Split]:
        """What the batch from ``start`` to ``end`` reads of each place, in the order of places; perhaps nothing."""
        base = self.spec.ordinal * PARTITIONS_PER_SOURCE
        found = []
        for number, place in enumerate(end.places()):
            topic, partition = place
            after = end.at[place]
            before = start.at.get(place, after)
            begin = min(before.offset + after.lost - before.lost, after.offset)
            if place in start.at and start.topic_ids.get(topic, "") != end.topic_ids.get(topic, ""):
                begin = after.offset
            id_ = end.topic_ids.get(topic, "")
            found.append(Split(base + number, topic, id_, partition, begin, after.offset, after.epoch))
        return found

    def tasks(self, start: Positions, end: Positions) -> list[tuple[Split, ...]]:
        """The batch from ``start`` to ``end`` as tasks; one without ranges tells of a watermark that moves alone."""
        most = self.spec.scan.options.parallelism
        tasks = cut(self.ranges(start, end), most or self.spec.parallelism, most)
        return tasks or ([()] if end.watermark != start.watermark else [])

    @property
    def most(self) -> int:
        """Most records that a batch reads."""
        return self.spec.scan.options.max_records_per_trigger


def _topics_in(positions: Positions) -> set[str]:
    return {topic for topic, _ in positions.at}


def _jumps(start: Positions, begin: Positions) -> bool:
    """Whether ``begin`` differs from ``start`` in more than that the logs now begin later."""
    return begin.topic_ids != start.topic_ids or any(
        begin.at[place].offset - at.offset != begin.at[place].lost - at.lost for place, at in start.at.items()
    )


def _shares(wanted: Mapping[TopicPartition, int], most: int | None) -> dict[TopicPartition, int]:
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
