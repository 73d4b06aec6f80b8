"""What topics have lost since a position was reached: found when a batch is planned, refused or passed over, and told.

A position that jumps - to the end of a log that was cut, into a topic that was created anew, or away with a topic that
exists no more - is logged as the end of a batch that reads nothing, so that a batch never spans the jump. Offsets that
retention has removed are passed over inside a batch: the end says how many (``Position.lost``). Everything that the
driver tells of them is in the positions.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace

from penstock.connectors.kafka.source.bounds import listed
from penstock.connectors.kafka.source.positions import Position, Positions
from penstock.errors import PossibleDataLossError
from penstock.kafka.offsets import EARLIEST, LATEST, end_of_epochs
from penstock.kafka.session import Session, TopicInfo, TopicPartition

#: What an error of lost records suggests.
SKIPPING = "'scan.fail-on-data-loss' = 'false' goes on without them"


def without(start: Positions, gone: Collection[str], seen: Mapping[TopicPartition, int], skips: bool) -> Positions:
    """``start`` without the topics that are ``gone``. ``seen`` are the ends that their logs had when last looked at.

    Raises PossibleDataLossError, unless ``skips``, for a partition that was not read to its end as far as is known.
    """
    for place in start.places():
        topic, partition = place
        if topic not in gone or skips:
            continue
        reached, end = start.at[place].offset, seen.get(place)
        if end is None or reached < end:
            known = "where it ended is not known" if end is None else f"its log ended at {end}"
            raise PossibleDataLossError(
                f"topic '{topic}' exists no more, and its partition {partition} was read up to offset {reached} only: "
                f"{known}; {SKIPPING}"
            )
    return _with(start, {place: at for place, at in start.at.items() if place[0] not in gone}, start.topic_ids)


def created_anew(session: Session, start: Positions, topics: Mapping[str, TopicInfo], skips: bool) -> Positions:
    """``start`` with topics that were deleted and created anew at the beginnings of the new ones.

    Raises PossibleDataLossError for such a topic, unless ``skips``. Gives ``start`` itself when there is none.
    """
    ids = {topic: str(topics[topic].topic_id or "") for topic in start.topic_ids if topic in topics}
    anew = [topic for topic, known in start.topic_ids.items() if known and ids.get(topic) and ids[topic] != known]
    if not anew:
        return start
    if not skips:
        raise PossibleDataLossError(
            f"topic '{anew[0]}' was deleted and created anew (its id was {start.topic_ids[anew[0]]}, now it is "
            f"{ids[anew[0]]}), so the offsets read so far mean nothing in it; start with a new checkpoint directory to "
            f"read it, or {SKIPPING}"
        )
    there = {(topic, each.partition) for topic in anew for each in topics[topic].partitions}
    begun = listed(session, there & start.at.keys(), EARLIEST)
    kept = {place: at for place, at in start.at.items() if place[0] not in anew}
    moved = {place: replace(at, lost=start.at[place].lost) for place, at in begun.items()}
    return _with(start, kept | moved, {**start.topic_ids, **{topic: ids[topic] for topic in anew}})


def jumped(session: Session, start: Positions) -> Positions:
    """``start`` with positions beyond what is left of a log that was cut at the cut; ``start`` itself without any."""
    ends = listed(session, start.at, LATEST)
    moved = {place: end for place, end in ends.items() if end.offset < start.at[place].offset}
    doubtful = {
        place: at.epoch for place, at in start.at.items() if place not in moved and ends[place].epoch > at.epoch >= 0
    }
    for place, end in end_of_epochs(session, doubtful).items() if doubtful else ():
        if 0 <= end.offset < start.at[place].offset:
            moved[place] = Position(end.offset, end.leader_epoch)
    if not moved:
        return start
    cut = {place: replace(at, lost=start.at[place].lost) for place, at in moved.items()}
    return _with(start, {**start.at, **cut}, start.topic_ids)


def passed_over(session: Session, start: Positions) -> Positions:
    """``start`` with positions that retention has overtaken at the present beginnings of their logs."""
    begun = listed(session, start.at, EARLIEST)
    moved = {
        place: Position(first.offset, -1, start.at[place].lost + first.offset - start.at[place].offset)
        for place, first in begun.items()
        if first.offset > start.at[place].offset
    }
    return _with(start, {**start.at, **moved}, start.topic_ids) if moved else start


def described(start: Positions, end: Positions) -> Iterator[str]:
    """What was lost between two positions, a sentence for each partition."""
    for place in start.places():
        before, after = start.at[place], end.at.get(place)
        where = f"topic '{place[0]}', partition {place[1]}"
        if after is None:
            yield f"{where} exists no more; it was read up to offset {before.offset}"
        elif start.topic_ids.get(place[0], "") != end.topic_ids.get(place[0], ""):
            yield (
                f"{where} was deleted and created anew; the former one was read up to offset {before.offset}, the new "
                f"one is read from {after.offset} on"
            )
        elif after.lost > before.lost:
            count = after.lost - before.lost
            yield (
                f"{where}: offsets {before.offset} to {before.offset + count} are not in the log any more; "
                f"{count:,} were passed over"
            )
        elif after.offset < before.offset:
            yield (
                f"{where} was read up to offset {before.offset}, but its log was cut at {after.offset}; what is "
                "written from there on is read"
            )


def _with(start: Positions, at: Mapping[TopicPartition, Position], ids: Mapping[str, str]) -> Positions:
    topics = {topic for topic, _ in at}
    return Positions(dict(at), {topic: known for topic, known in ids.items() if topic in topics})
