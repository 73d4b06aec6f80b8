"""What is read of the progress topic, from bytes as brokers give them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from penstock.delivery import Claim, Progress
from penstock.kafka.fetch import Chunk
from penstock.kafka.produce import ProducerIdentity
from penstock.kafka.progress import ProgressTopic, Seal, encode_progress
from penstock.kafka.progress.reading import _choose_later, _Reader, _Written
from penstock.kafka.progress.records import encode_record
from penstock.kafka.record_batches import SCAN_BYTES, stamp


def test_all_records_are_read_also_when_what_was_fetched_takes_more_than_one_scan() -> None:
    """Positions are much alike, and compressed to a fraction."""
    topic = ProgressTopic("progress", None, 1)
    positions = "1" * (10 << 20)
    log, count = b"", 5
    for number in range(count):
        _, data, _ = encode_progress(topic, "tx", Progress("query", number, positions, positions))
        record = bytearray(data)
        stamp(record, producer_id=1, producer_epoch=0, base_sequence=number, transactional=True)
        log += number.to_bytes(8, "big") + bytes(record[8:])
    assert count * 2 * len(positions) > SCAN_BYTES
    reader = _Reader(0, ["tx"], None)
    reader.take(Chunk(0, "progress", 0, memoryview(log), 0, count, count, (), count, count, 0))
    assert [written.record.batch_id for _, written in reader._open] == [*range(count)]


PROGRESS = {"query_id": "another", "batch_id": 3, "start": None, "end": None}
CLAIM = {"run_id": "another", "host": "there", "pid": 1, "started_ms": 1}


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        *((Progress, PROGRESS | change) for change in ({"batch_id": "3"}, {"query_id": 5}, {"tables": 7})),
        *((Claim, CLAIM | change) for change in ({"run_id": None}, {"started_ms": "now"}, {"host": []}, {"pid": {}})),
        (Progress, {}),
        (Progress, []),
        (Claim, "claim"),
    ],
)
def test_a_record_that_somebody_else_made_is_ignored_whatever_its_fields_are(
    kind: type[Progress | Claim], value: Any
) -> None:
    reader = _Reader(0, ["tx"], Seal("query", "secret"))
    read(reader, kind, value)
    assert len(reader.ignored["tx"]) == 1
    assert "is not one of penstock's" in reader.ignored["tx"][0]
    assert reader._open == []


def test_fields_that_a_later_version_may_add_are_left_out() -> None:
    reader = _Reader(0, ["tx"], Seal("query", "secret"))
    read(reader, Claim, CLAIM | {"tables": [], "more": 1})
    read(reader, Progress, PROGRESS | {"more": 1})
    assert [type(written.record) for _, written in reader._open] == [Claim, Progress]
    assert reader.ignored == {}


def read(reader: _Reader, kind: type[Progress | Claim], value: Any) -> None:
    key = b"tx\0claim" if kind is Claim else b"tx"
    record = bytearray(encode_record(key, json.dumps(value).encode(), 0).data)
    stamp(record, producer_id=1, producer_epoch=0, base_sequence=0, transactional=True)
    reader.take(Chunk(0, "progress", 0, memoryview(bytes(record)), 0, 1, 1, (), 1, 1, 0))


def written(batch_id: int, query_id: str = "mine", *, producer_id: int = 1, epoch: int = 0, at: int) -> _Written:
    return _Written(Progress(query_id, batch_id, None, None), ProducerIdentity(producer_id, epoch), at)


@pytest.mark.parametrize(
    ("later", "earlier"),
    [
        pytest.param(written(7, at=1), written(6, at=2), id="one query: the batch id"),
        pytest.param(written(7, producer_id=1, at=1), written(6, producer_id=2, at=2), id="also of two producer ids"),
        pytest.param(written(0, "other", epoch=9, at=1), written(6, epoch=8, at=2), id="one producer id: the epoch"),
        pytest.param(written(0, "other", producer_id=1, at=2), written(6, producer_id=2, at=1), id="else the clock"),
    ],
)
@pytest.mark.rule("progress reads are definite")
def test_of_records_in_two_partitions_the_last_written_counts(later: _Written, earlier: _Written) -> None:
    assert (
        _choose_later(later, earlier)
        == _choose_later(earlier, later)
        == _choose_later(_choose_later(None, later), earlier)
        == later
    )
