"""Records that topics have lost since a position was reached: found when a batch is planned, then an error or skipped.

A position jumps to the end of a log that was truncated, to the start of a topic that was recreated, or away with a
topic that was deleted. It is logged as the end of a batch that reads nothing, so that a batch never spans the jump.
Offsets that retention has removed are skipped inside a batch, whose end counts them (``Position.lost``). The driver's
messages about losses follow from the positions alone.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace

from penstock.connectors.kafka.source.positions import Position, Positions
from penstock.connectors.kafka.source.starts_and_stops import list_positions
from penstock.errors import PossibleDataLossError
from penstock.kafka.offsets import EARLIEST, LATEST, find_epoch_ends
from penstock.kafka.partitions import TopicPartition
from penstock.kafka.session import Session, TopicInfo

#: Ends errors about lost records.
SKIPPING = "'scan.fail-on-data-loss' = 'false' continues without them"


#: Why another start option does not help a job that has a checkpoint.
_NO_RESET = "'properties.auto.offset.reset' is for starts without a checkpoint"


def truncation_error(tp: TopicPartition, reached: int, end: int) -> PossibleDataLossError:
    """The error of a log that ends before the end of what was read."""
    return PossibleDataLossError(
        f"topic '{tp[0]}', partition {tp[1]} was read up to offset {reached}, but its log ends at {end}; was it "
        f"truncated, or the topic recreated? Compare the published records before you restart from other offsets; "
        f"{SKIPPING}"
    )


def retention_error(tp: TopicPartition, reached: int, first: int, done: int) -> PossibleDataLossError:
    """The error of a log that begins after the end of what was read. Batches that are known to be ``done`` end
    before that, perhaps."""
    until = f" (up to {done} by batches that are done)" if done < reached else ""
    return PossibleDataLossError(
        f"topic '{tp[0]}', partition {tp[1]} was read up to offset {reached}{until}, but its log now begins at "
        f"{first}: the {first - reached:,} records between were deleted before they were read. Raise the topic's "
        f"retention; "
        f"{SKIPPING} ({_NO_RESET})"
    )


def drop_topics(start: Positions, gone: Collection[str], seen: Mapping[TopicPartition, int], skips: bool) -> Positions:
    """``start`` without the topics that are ``gone``. ``seen`` are the last known ends of their logs.

    Unless it ``skips``, raises PossibleDataLossError for a partition that is not known to be read to its end.
    """
    for tp in start.partitions():
        topic, partition = tp
        if topic not in gone or skips:
            continue
        reached, end = start.at[tp].offset, seen.get(tp)
        if end is None or reached < end:
            known = "where it ended is not known" if end is None else f"its log ended at {end}"
            raise PossibleDataLossError(
                f"topic '{topic}' no longer exists, and its partition {partition} was only read up to offset "
                f"{reached}: {known}; {SKIPPING}"
            )
    return _replace_positions(start, {tp: at for tp, at in start.at.items() if tp[0] not in gone}, start.topic_ids)


def skip_recreated(session: Session, start: Positions, topics: Mapping[str, TopicInfo], skips: bool) -> Positions:
    """``start``, moved to the beginning of topics that were recreated; ``start`` itself when there are none.

    Unless it ``skips``, raises PossibleDataLossError for a recreated topic.
    """
    ids = {topic: str(topics[topic].topic_id or "") for topic in start.topic_ids if topic in topics}
    new = [topic for topic, known in start.topic_ids.items() if known and ids.get(topic) and ids[topic] != known]
    if not new:
        return start
    if not skips:
        read = ((each, at.offset) for (topic, each), at in start.at.items() if topic == new[0])
        partition, at = min(read, default=(0, 0))
        raise PossibleDataLossError(
            f"topic '{new[0]}', partition {partition} was read up to offset {at}, and was deleted and recreated (the "
            f"topic's id was {start.topic_ids[new[0]]}, now it is {ids[new[0]]}), so the offsets read so far mean "
            f"nothing in it; start with a new checkpoint directory to read it, or {SKIPPING}"
        )
    there = {(topic, each.partition) for topic in new for each in topics[topic].partitions}
    begun = list_positions(session, there & start.at.keys(), EARLIEST)
    kept = {tp: at for tp, at in start.at.items() if tp[0] not in new}
    moved = {tp: replace(at, lost=start.at[tp].lost) for tp, at in begun.items()}
    return _replace_positions(start, kept | moved, {**start.topic_ids, **{topic: ids[topic] for topic in new}})


def skip_truncated(session: Session, start: Positions) -> Positions:
    """``start``, moved to the end of logs that were truncated below it; ``start`` itself when there are none."""
    ends = list_positions(session, start.at, LATEST)
    moved = {tp: end for tp, end in ends.items() if end.offset < start.at[tp].offset}
    doubtful = {tp: at.epoch for tp, at in start.at.items() if tp not in moved and ends[tp].epoch > at.epoch >= 0}
    for tp, end in find_epoch_ends(session, doubtful).items() if doubtful else ():
        if 0 <= end.offset < start.at[tp].offset:
            moved[tp] = Position(end.offset, end.leader_epoch)
    if not moved:
        return start
    cut = {tp: replace(at, lost=start.at[tp].lost) for tp, at in moved.items()}
    return _replace_positions(start, {**start.at, **cut}, start.topic_ids)


def skip_expired(session: Session, start: Positions) -> Positions:
    """``start``, moved to the beginning of logs from which retention has removed the next records."""
    begun = list_positions(session, start.at, EARLIEST)
    moved = {
        tp: Position(first.offset, -1, start.at[tp].lost + first.offset - start.at[tp].offset)
        for tp, first in begun.items()
        if first.offset > start.at[tp].offset
    }
    return _replace_positions(start, {**start.at, **moved}, start.topic_ids) if moved else start


def describe_losses(start: Positions, end: Positions) -> Iterator[str]:
    """The losses between two positions, as a sentence for each partition."""
    for tp in start.partitions():
        before, after = start.at[tp], end.at.get(tp)
        where = f"topic '{tp[0]}', partition {tp[1]}"
        if after is None:
            yield f"{where} no longer exists; it was read up to offset {before.offset}"
        elif start.topic_ids.get(tp[0], "") != end.topic_ids.get(tp[0], ""):
            yield (
                f"{where} was deleted and recreated; the former one was read up to offset {before.offset}, the new "
                f"one is read from {after.offset} on"
            )
        elif after.lost > before.lost:
            count = after.lost - before.lost
            yield (
                f"{where}: offsets {before.offset} to {before.offset + count} are no longer in the log; "
                f"{count:,} were skipped"
            )
        elif after.offset < before.offset:
            yield (
                f"{where} was read up to offset {before.offset}, but its log was truncated at {after.offset}; reading "
                "continues there"
            )


def _replace_positions(start: Positions, at: Mapping[TopicPartition, Position], ids: Mapping[str, str]) -> Positions:
    topics = {topic for topic, _ in at}
    return Positions(dict(at), {topic: known for topic, known in ids.items() if topic in topics})
