from __future__ import annotations

import pytest

from penstock.errors import CheckpointError, PossibleDataLossError
from penstock.kafka.produce import ProducerIdentity, next_sequence
from penstock.kafka.progress import Progress, Run, Skip, TakeOver, _taken_over, decide
from penstock.kafka.transactions import TransactionDescription

START, END = {"orders": {"0": 10}}, {"orders": {"0": 20}}


def published(batch_id: int, query_id: str = "mine", end: object = END) -> Progress:
    return Progress(query_id, batch_id, START, end)


class TestRule5:
    def test_this_query_last_is_the_one_before_runs(self) -> None:
        assert decide(published(6), "mine", 7, START, END) == Run()

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
        assert decide(None, "mine", 3, START, END, adopt=True) == Run()

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
def test_rule_16_the_coordinators_state_tells_a_time_out_from_another_producer(
    producer_id: int, epoch: int, state: str, expected: bool
) -> None:
    seen = TransactionDescription("t", state, producer_id, epoch, 1000, -1, ())
    assert _taken_over(seen, ProducerIdentity(1, 7, 2)) is expected


def test_rule_16_a_new_producer_id_proves_nothing_when_epochs_run_out() -> None:
    seen = TransactionDescription("t", "CompleteCommit", 2, 0, 1000, -1, ())
    assert not _taken_over(seen, ProducerIdentity(1, 32_766, 2))


@pytest.mark.parametrize(
    ("sequence", "records", "expected"),
    [(0, 1, 1), (2**31 - 1, 1, 0), (2**31 - 3, 5, 2), (5, 0, 5)],
)
def test_rule_8_sequences_go_on_from_zero_after_the_largest(sequence: int, records: int, expected: int) -> None:
    assert next_sequence(sequence, records) == expected
