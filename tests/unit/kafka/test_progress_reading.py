"""What is read of the progress topic, from bytes as brokers give them."""

from __future__ import annotations

from penstock.kafka.batches import SCAN_BYTES, stamp
from penstock.kafka.fetch import Chunk
from penstock.kafka.progress import Progress, ProgressTopic, _Reader, progress_batch


def test_all_records_are_read_also_when_what_was_fetched_takes_more_than_one_scan() -> None:
    """Positions are much alike, and compressed to a fraction."""
    topic = ProgressTopic("progress", None, 1)
    positions = "1" * (10 << 20)
    log, count = b"", 5
    for number in range(count):
        _, data, _ = progress_batch(topic, "tx", Progress("query", number, positions, positions))
        record = bytearray(data)
        stamp(record, producer_id=1, producer_epoch=0, base_sequence=number, transactional=True)
        log += number.to_bytes(8, "big") + bytes(record[8:])
    assert count * 2 * len(positions) > SCAN_BYTES
    reader = _Reader(0, ["tx"], None)
    reader.take(Chunk(0, "progress", 0, memoryview(log), 0, count, count, (), count, count, 0))
    assert [written.record.batch_id for _, written in reader._open] == [*range(count)]
