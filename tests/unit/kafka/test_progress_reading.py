"""What is read of the progress topic, from bytes as brokers give them."""

from __future__ import annotations

from penstock.kafka.batches import SCAN_BYTES
from penstock.kafka.fetch import Chunk
from penstock.kafka.progress import Progress, ProgressTopic, _Reader, progress_batch


def test_the_last_record_counts_also_when_what_was_fetched_takes_more_than_one_scan() -> None:
    """Positions are much alike, and compressed to a fraction."""
    topic = ProgressTopic("progress", None, 1)
    positions = "1" * (10 << 20)
    log, count = b"", 5
    for number in range(count):
        _, data, _ = progress_batch(topic, "tx", Progress("query", number, positions, positions))
        log += number.to_bytes(8, "big") + bytes(data[8:])
    assert count * 2 * len(positions) > SCAN_BYTES
    reader = _Reader(["tx"])
    reader.take(Chunk(0, "progress", 0, memoryview(log), 0, count, count, (), count, count, 0))
    written = reader.committed["tx", Progress].record
    assert isinstance(written, Progress)
    assert written.batch_id == count - 1
