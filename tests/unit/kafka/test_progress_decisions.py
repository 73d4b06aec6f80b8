from __future__ import annotations

import pytest

from penstock.delivery import Progress, Run, Skip, TakeOver, decide
from penstock.errors import CheckpointError, KafkaError, PossibleDataLossError
from penstock.kafka.batches import scan
from penstock.kafka.ownership import _taken_over
from penstock.kafka.produce import ProducerIdentity, next_sequence
from penstock.kafka.progress import ProgressTopic, progress_batch
from penstock.kafka.progress.reading import _later, _Written
from penstock.kafka.transactions import TransactionDescription

START, END = {"orders": {"0": 10}}, {"orders": {"0": 20}}


def published(batch_id: int, query_id: str = "mine", end: object = END) -> Progress:
    return Progress(query_id, batch_id, START, end)


def written(batch_id: int, query_id: str = "mine", *, producer_id: int = 1, epoch: int = 0, at: int) -> _Written:
    return _Written(published(batch_id, query_id), ProducerIdentity(producer_id, epoch), at)


@pytest.mark.rule("progress decides")
class TestProgressDecides:
    def test_this_query_last_is_the_one_before_runs(self) -> None:
        assert decide(published(6, end=START), "mine", 7, START, END) == Run()

    def test_a_batch_that_does_not_begin_where_the_one_before_it_ended_stops(self) -> None:
        with pytest.raises(PossibleDataLossError, match=r"batch 7 of .* batch 6 of .* ends elsewhere") as raised:
            decide(published(6, end={"orders": {"0": 9}}), "mine", 7, START, END)
        assert '{"orders":{"0":9}}' in str(raised.value)
        assert '{"orders":{"0":10}}' in str(raised.value)

    def test_this_query_same_batch_and_offsets_skips(self) -> None:
        assert decide(published(7), "mine", 7, START, END) == Skip(published(7))

    def test_offsets_are_compared_as_json(self) -> None:
        assert isinstance(decide(published(7), "mine", 7, {"orders": {0: 10}}, END), Skip)

    @pytest.mark.parametrize(("start", "end"), [(START, {"orders": {"0": 21}}), ({"orders": {"0": 9}}, END)])
    def test_this_query_same_batch_other_offsets_stops(self, start: object, end: object) -> None:
        with pytest.raises(PossibleDataLossError) as raised:
            decide(published(7), "mine", 7, start, end)
        assert '{"orders":{"0":20}}' in str(raised.value)
        assert str(start).replace("'", '"').replace(" ", "") in str(raised.value)

    @pytest.mark.parametrize("last", [8, 100])
    def test_this_query_published_later_stops(self, last: int) -> None:
        with pytest.raises(CheckpointError, match=rf"batch 7 of .* batch {last} of .* older checkpoint"):
            decide(published(last), "mine", 7, START, END)

    @pytest.mark.parametrize("last", [5, 0])
    def test_this_query_published_earlier_stops(self, last: int) -> None:
        with pytest.raises(PossibleDataLossError, match=rf"batch 7 of .* batch {last} of .* progress was lost"):
            decide(published(last), "mine", 7, START, END)

    def test_nothing_published_and_the_first_batch_runs(self) -> None:
        assert decide(None, "mine", 0, START, END) == Run()

    def test_nothing_published_and_a_later_batch_stops_unless_adopted(self) -> None:
        with pytest.raises(CheckpointError, match="--adopt-progress"):
            decide(None, "mine", 3, START, END)
        decision = decide(None, "mine", 3, START, END, adopt=True)
        assert isinstance(decision, TakeOver)
        assert "batch 3 of query 'mine'" in decision.warning
        assert "records repeat if it was committed" in decision.warning

    def test_progress_that_is_behind_is_adopted(self) -> None:
        decision = decide(published(3), "mine", 7, START, END, adopt=True)
        assert isinstance(decision, TakeOver)
        assert "batch 3" in decision.warning

    def test_another_query_and_the_first_batch_takes_over_with_a_warning(self) -> None:
        decision = decide(published(4, "other"), "mine", 0, START, END)
        assert isinstance(decision, TakeOver)
        assert "'mine'" in decision.warning
        assert "batch 4 of query 'other'" in decision.warning

    def test_another_query_and_a_later_batch_stops(self) -> None:
        with pytest.raises(CheckpointError, match="'other'"):
            decide(published(4, "other"), "mine", 5, START, END)


@pytest.mark.parametrize(
    ("producer_id", "epoch", "state", "expected"),
    [
        (1, 7, "Ongoing", False),
        (1, 7, "CompleteCommit", False),
        (1, 8, "PrepareCommit", False),
        (1, 8, "CompleteAbort", False),
        (1, 8, "Empty", True),
        (1, 8, "Ongoing", True),
        (1, 9, "Empty", True),
        (2, 0, "Empty", True),
    ],
)
@pytest.mark.rule("outcomes are never guessed")
def test_the_coordinators_state_tells_a_time_out_from_another_producer(
    producer_id: int, epoch: int, state: str, expected: bool
) -> None:
    seen = TransactionDescription("t", state, producer_id, epoch, 1000, -1, ())
    assert _taken_over(seen, ProducerIdentity(1, 7, 2), committing=True) is expected


@pytest.mark.parametrize("state", ["PrepareCommit", "CompleteCommit"])
@pytest.mark.rule("outcomes are never guessed")
def test_a_commit_that_we_did_not_ask_for_is_somebody_elses(state: str) -> None:
    seen = TransactionDescription("t", state, 1, 8, 1000, -1, ())
    assert _taken_over(seen, ProducerIdentity(1, 7, 2), committing=False)


@pytest.mark.parametrize(
    ("state", "expected"), [("CompleteAbort", False), ("PrepareCommit", True), ("CompleteCommit", True)]
)
@pytest.mark.rule("outcomes are never guessed")
def test_below_version_2_a_commit_with_the_next_epoch_is_somebody_elses(state: str, expected: bool) -> None:
    seen = TransactionDescription("t", state, 1, 8, 1000, -1, ())
    assert _taken_over(seen, ProducerIdentity(1, 7, 0), committing=True) is expected


@pytest.mark.rule("outcomes are never guessed")
def test_a_new_producer_id_proves_nothing_when_epochs_run_out() -> None:
    seen = TransactionDescription("t", "CompleteCommit", 2, 0, 1000, -1, ())
    assert not _taken_over(seen, ProducerIdentity(1, 32_766, 2), committing=False)


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
    assert _later(later, earlier) == _later(earlier, later) == _later(_later(None, later), earlier) == later


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
        _, data, count = progress_batch(topic, "tx", self.progress(15_000))
        (value,) = scan(data, start_offset=0, end_offset=1).values.to_pylist()
        assert len(value) > topic.max_message_bytes
        assert count == 1

    def test_what_does_not_fit_is_refused_with_the_command_to_run(self) -> None:
        topic = ProgressTopic("progress", None, 8, max_message_bytes=2000, address="broker:9092")
        progress_batch(topic, "tx", self.progress(10))
        with pytest.raises(
            KafkaError, match=r"'tx' .* max\.message\.bytes of topic 'progress', which is 2000"
        ) as raised:
            progress_batch(topic, "tx", self.progress(1000))
        command = "--bootstrap-server broker:9092 --alter --topic progress --add-config max.message.bytes="
        assert command in str(raised.value)
        assert not raised.value.retriable


@pytest.mark.parametrize(
    ("sequence", "records", "expected"),
    [(0, 1, 1), (2**31 - 1, 1, 0), (2**31 - 3, 5, 2), (5, 0, 5)],
)
@pytest.mark.rule("one writer per partition")
def test_sequences_continue_at_zero_after_the_largest(sequence: int, records: int, expected: int) -> None:
    assert next_sequence(sequence, records) == expected
