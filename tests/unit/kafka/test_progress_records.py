"""Records of the progress topic."""

from __future__ import annotations

import pytest

from penstock.delivery import Progress, to_canonical_json
from penstock.errors import KafkaError
from penstock.kafka.progress import ProgressTopic, Seal, encode_progress
from penstock.kafka.progress.records import NotBelievedError, encode_value, parse_record
from penstock.kafka.record_batches import scan


class TestRecordsOfManyPartitions:
    """A record holds two offsets of each source partition."""

    @staticmethod
    def progress(partitions: int) -> Progress:
        ends = [
            {str(each): {"epoch": 3, "offset": 10**9 + each * 7919} for each in range(partitions)} for _ in range(2)
        ]
        return Progress(
            "q" * 36, 10**6, *({"sources": [{"orders": {"id": "i" * 22, "partitions": at}}]} for at in ends)
        )

    def test_of_15_000_it_fits_the_default_of_max_message_bytes(self) -> None:
        topic = ProgressTopic("progress", None, 8)
        assert topic.max_message_bytes == 1_048_588
        _, data, count = encode_progress(topic, "tx", self.progress(15_000))
        (value,) = scan(data, start_offset=0, end_offset=1).values.to_pylist()
        assert len(value) > topic.max_message_bytes
        assert count == 1

    def test_what_does_not_fit_is_refused_with_the_command_to_run(self) -> None:
        topic = ProgressTopic("progress", None, 8, max_message_bytes=2000, address="broker:9092")
        encode_progress(topic, "tx", self.progress(10))
        with pytest.raises(
            KafkaError, match=r"'tx' .* max\.message\.bytes of topic 'progress', which is 2000"
        ) as raised:
            encode_progress(topic, "tx", self.progress(1000))
        command = "--bootstrap-server broker:9092 --alter --topic progress --add-config max.message.bytes="
        assert command in str(raised.value)
        assert not raised.value.retriable


SEAL = Seal("mine", "the checkpoint's secret")


def test_the_seal_covers_fields_of_other_versions() -> None:
    """A version that wrote another field sealed it too, and one that does not know it believes the record."""
    fields = {"query_id": "mine", "batch_id": 3, "start": [1], "end": [2], "another": {}}
    record = {"kind": "progress", "version": 1, "seal": SEAL.sign("tx", fields), **fields}
    assert parse_record(Progress, "tx", to_canonical_json(record).encode(), SEAL) == Progress("mine", 3, [1], [2])
    with pytest.raises(NotBelievedError, match="does not have its seal"):
        parse_record(Progress, "tx", to_canonical_json({**record, "another": 1}).encode(), SEAL)


@pytest.mark.parametrize("tables", [(), ("sink -> topic",)])
def test_a_record_is_read_as_it_was_written(tables: tuple[str, ...]) -> None:
    progress = Progress("mine", 3, {"t": {"0": 1}}, None, tables)
    assert parse_record(Progress, "tx", encode_value("tx", progress, SEAL), SEAL) == progress
    for other in (Seal("mine", "a guess"), Seal("mine", "")):
        with pytest.raises(NotBelievedError, match="does not have its seal"):
            parse_record(Progress, "tx", encode_value("tx", progress, other), SEAL)
    with pytest.raises(NotBelievedError, match="does not have its seal"):
        parse_record(Progress, "another", encode_value("tx", progress, SEAL), SEAL)
