"""What a reading task does: fetch ranges, scan them, decode them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from uuid import UUID

import pyarrow as pa

from penstock.connectors.kafka.planning import ReaderSpec, client_of
from penstock.connectors.kafka.positions import Range
from penstock.connectors.kafka.rows import RowReader
from penstock.kafka import fetch
from penstock.kafka.batches import scan
from penstock.kafka.session import session_for

__all__ = ["read_ranges"]


def read_ranges(spec: ReaderSpec, ranges: Sequence[Range]) -> Iterator[pa.RecordBatch]:
    """The rows of ``ranges``: each range in the order of its offsets, different ranges in any order.

    Raises RecordError for a message that cannot be decoded, PossibleDataLossError for offsets that
    are gone unless those are to be passed over.
    """
    client = client_of(spec.scan)
    reader = RowReader(spec.scan)
    wanted = [
        fetch.Range(each.topic, each.partition, each.start, each.end, UUID(each.topic_id) if each.topic_id else None)
        for each in ranges
    ]
    fetcher = fetch.Fetcher(session_for(client), wanted, skip_lost=not spec.scan.options.fail_on_data_loss)
    for chunk in fetcher:
        at, end = chunk.start, min(chunk.next_offset, chunk.end)
        while at < end:
            records = scan(
                chunk.records,
                start_offset=at,
                end_offset=chunk.end,
                check_crcs=client.check_crcs,
                aborted=chunk.aborted,
                headers=reader.wants_headers,
                where=f"topic '{chunk.topic}', partition {chunk.partition}",
            )
            if len(records):
                rows = reader.rows(records, chunk.topic, chunk.partition, ranges[chunk.range].number)
                if rows.num_rows:
                    yield rows
            if records.next_offset <= at:  # what is left up to the end was compacted away
                break
            at = records.next_offset
    reader.lost = fetcher.lost
