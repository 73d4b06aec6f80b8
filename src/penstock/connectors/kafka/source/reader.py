"""The work of a reading task: fetch ranges, scan and decode them, and report."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from uuid import UUID

import pyarrow as pa

from penstock.clock import now_ms
from penstock.connectors.kafka.source.decoding import RowReader
from penstock.connectors.kafka.source.enumerator import ReaderSpec
from penstock.connectors.kafka.source.positions import Split
from penstock.connectors.kafka.source.reports import ReadReport
from penstock.kafka import fetch
from penstock.kafka.record_batches import scan
from penstock.kafka.session import session_for
from penstock.spi import REPORT, WATERMARK

#: Batches up to this size are put together.
_SMALL_BYTES = 256 << 10


class RangeReader:
    """Reads the ranges of one task, once. :attr:`report` counts what :meth:`rows` has read so far."""

    def __init__(self, spec: ReaderSpec, ranges: Sequence[Split]):
        self._spec, self._ranges = spec, ranges
        self._reader = RowReader(spec.scan)
        #: The Arrow schema of the result of :meth:`rows`.
        self.schema = self._reader.schema
        self._report = ReadReport()
        self._lags: dict[int, tuple[int, int]] = {}
        self._fetcher: fetch.Fetcher | None = None

    def rows(self) -> Iterator[pa.RecordBatch]:
        """The rows of the ranges: each range in the order of its offsets, different ranges in any order.

        Raises RecordError for a message that cannot be decoded, and PossibleDataLossError for lost offsets unless the
        user skips those.
        """
        if not self._ranges:
            return
        client = self._spec.scan.client_config
        wanted = [
            fetch.Range(
                each.topic,
                each.partition,
                each.start,
                each.end,
                UUID(each.topic_id) if each.topic_id else None,
                each.epoch,
            )
            for each in self._ranges
        ]
        skips = not self._spec.scan.options.fail_on_data_loss
        self._fetcher = fetcher = fetch.Fetcher(session_for(client), wanted, skip_lost=skips)
        for chunk in fetcher:
            fetched = now_ms()
            self._note(chunk)
            at, end = chunk.start, min(chunk.next_offset, chunk.end)
            while at < end:
                records = scan(
                    chunk.records,
                    start_offset=at,
                    end_offset=chunk.end,
                    check_crcs=client.check_crcs,
                    aborted=chunk.aborted,
                    headers=self._reader.wants_headers,
                    where=f"topic '{chunk.topic}', partition {chunk.partition}",
                )
                if len(records):
                    self._report.records += len(records)
                    rows = self._reader.rows(records, self._ranges[chunk.range])
                    timestamp = int(records.timestamps[-1])
                    if timestamp >= 0:
                        self._lags[chunk.range] = (fetched - timestamp, now_ms() - timestamp)
                    if rows.num_rows:
                        yield rows
                if records.next_offset <= at:  # the rest up to the end was compacted away
                    break
                at = records.next_offset

    @property
    def report(self) -> ReadReport:
        """The counts so far."""
        report = self._report
        report.filtered, report.refused = self._reader.filtered, self._reader.refused
        if self._fetcher is not None:
            counts = self._fetcher.counts
            report.lost, report.fetches, report.size_max = self._fetcher.lost, counts.answers, counts.size_max
            report.latency, report.latency_max = counts.latency, counts.latency_max
            report.throttled, report.throttled_max = counts.throttled, counts.throttled_max
        if self._reader.measure is not None:
            report.watermarks = [(*tp, at) for tp, at in self._reader.measure.reached.items()]
        if self._lags:
            report.fetch_lag, report.emit_lag = (max(lags) for lags in zip(*self._lags.values(), strict=True))
        return report

    def _note(self, chunk: fetch.Chunk) -> None:
        report = self._report
        report.fetched_bytes += len(chunk.records)
        end = chunk.last_stable_offset if chunk.last_stable_offset >= 0 else chunk.high_watermark
        report.behind = max(report.behind or 0, end - chunk.next_offset)
        if chunk.log_start_offset >= 0:
            ahead = max(0, chunk.next_offset - chunk.log_start_offset)
            report.ahead = ahead if report.ahead is None else min(report.ahead, ahead)


def merge_small_batches(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The same rows in fewer batches: small ones that follow one another become one, because what is computed for a
    batch takes about as long for few rows as for a thousand."""
    small: list[pa.RecordBatch] = []
    size = 0
    for batch in batches:
        more = batch.nbytes
        if small and size + more > _SMALL_BYTES:
            yield pa.concat_batches(small)
            small, size = [], 0
        if more > _SMALL_BYTES:
            yield batch
        else:
            small.append(batch)
            size += more
    if small:
        yield pa.concat_batches(small)


def add_report(
    batches: Iterable[pa.RecordBatch], schema: pa.Schema, report: Callable[[], ReadReport]
) -> Iterator[pa.RecordBatch]:
    """``batches`` with the engine's report column, and a last row that holds only the report."""
    field = pa.field(REPORT, pa.binary())
    for batch in batches:
        yield batch.append_column(field, pa.nulls(batch.num_rows, pa.binary()))
    nulls = [pa.nulls(1, each) for each in schema.types]
    reported = pa.array([report().to_bytes()], pa.binary())
    yield pa.RecordBatch.from_arrays([*nulls, reported], schema=schema.append(field))


def add_watermark(reported: Iterable[pa.RecordBatch], watermark: int | None) -> Iterator[pa.RecordBatch]:
    """Batches of :func:`add_report`, with the engine's watermark column before the report."""
    field, value = pa.field(WATERMARK, pa.int64()), pa.scalar(watermark, pa.int64())
    for batch in reported:
        yield batch.add_column(batch.num_columns - 1, field, pa.repeat(value, batch.num_rows))
