"""Checks without Spark that a job can start: topics and offsets exist, and the cluster accepts the options."""

from __future__ import annotations

from penstock.connectors.kafka.sink.spec import KafkaSinkSpec
from penstock.connectors.kafka.sink.topics import find_writable_topics
from penstock.connectors.kafka.source.losses import retention_error, skip_recreated, truncation_error
from penstock.connectors.kafka.source.positions import Positions
from penstock.connectors.kafka.source.retriever import fetch_group_offsets
from penstock.connectors.kafka.source.spec import KafkaScanSpec
from penstock.connectors.kafka.source.starts_and_stops import (
    describe_data,
    find_existing_topics,
    find_topics,
    list_positions,
    note_epochs,
    resolve_start,
    resolve_stop,
    select_partitions,
)
from penstock.connectors.kafka.table.options import BoundedMode, StartupMode
from penstock.errors import RetriableError
from penstock.kafka.offsets import EARLIEST, LATEST, list_offsets
from penstock.kafka.session import Session, session_for
from penstock.kafka.transactions import transaction_timeout_ms
from penstock.spi import Guarantee, StartContext, check_source

#: How long a check waits for offsets of a group that an open transaction holds back.
_PENDING_MS = 2000


def check_scan(scan: KafkaScanSpec, ordinal: int, context: StartContext) -> None:
    """Raise what stops the source of this number: topics that are missing, offsets that the log does not have, and the
    checkpoint of another source."""
    session = session_for(scan.client_config)
    if context.checkpoint is None:  # where reading continues is not known yet: a topic that is gone may have been read
        find_existing_topics(session, scan)
        return
    known = check_source(context.checkpoint, ordinal, scan.table, describe_data(session, scan))
    if known is None or "start" not in known:
        _check_start(session, scan, context.settings.start_time)
        return
    reached = context.reached[ordinal] if ordinal < len(context.reached) else known["start"]
    done = context.done[ordinal] if ordinal < len(context.done) else known["start"]
    stop = known.get("stop")
    ends = Positions.from_json(stop) if stop else None
    _check_reached(session, scan, Positions.from_json(reached), Positions.from_json(done), ends)


def _check_start(session: Session, scan: KafkaScanSpec, start_time: int | None) -> None:
    """Resolve start and stop of a scan that was never read. Objects of the user choose once, when the source starts,
    and so do groups whose offsets an open transaction holds back."""
    partitions = select_partitions(find_topics(session, scan), scan)
    if scan.start_by is not None or scan.stop_by is not None:
        return
    startup = {StartupMode.GROUP_OFFSETS, StartupMode.SPECIFIC_OFFSETS}
    bounded = {BoundedMode.GROUP_OFFSETS, BoundedMode.SPECIFIC_OFFSETS}
    asks = (start_time is None and scan.options.startup_mode in startup) or scan.options.bounded_mode in bounded
    if asks and scan.group_id and partitions:
        try:
            fetch_group_offsets(session, scan.table, scan.group_id, partitions, session.deadline(_PENDING_MS))
        except RetriableError:
            return
    resolve_stop(session, scan, resolve_start(session, scan, start_time))


def _check_reached(
    session: Session, scan: KafkaScanSpec, reached: Positions, done: Positions, stop: Positions | None
) -> None:
    """Raises PossibleDataLossError where the logs lack records that a job has still to read. Topics that are gone may
    have been read to their ends, which planning finds out."""
    if not scan.options.fail_on_data_loss:
        return
    note_epochs(session, reached)
    topics = session.topics({topic for topic, _ in reached.at})
    for each in (done, reached):
        skip_recreated(session, each, topics, skips=False)
    left = [
        tp
        for tp, at in reached.at.items()
        if tp[0] in topics and (stop is None or at.offset < stop.offset(tp, at.offset + 1))
    ]
    first, last = (
        list_positions(session, left, EARLIEST),
        list_offsets(session, left, LATEST, isolation="read_uncommitted"),
    )
    for tp in sorted(left):
        at, end = reached.at[tp].offset, last[tp]
        if end is not None and end.offset < at:
            raise truncation_error(tp, at, end.offset)
        if first[tp].offset > at:
            known = done.at.get(tp)
            raise retention_error(tp, at, first[tp].offset, at if known is None else known.offset)


def check_sink(spec: KafkaSinkSpec, context: StartContext) -> None:
    """Raise what stops the committer of a table: topics that are missing or that no table may write, and a time-out of
    transactions that the brokers do not allow."""
    client = spec.client_config
    session = session_for(client)
    find_writable_topics(session, spec, (context.settings.progress_topic,), create=client.allow_auto_create_topics)
    if spec.guarantee is Guarantee.EXACTLY_ONCE and client.transaction_timeout_ms is not None:
        transaction_timeout_ms(session, client.transaction_timeout_ms)
