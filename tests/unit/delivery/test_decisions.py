"""The decision table."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from penstock.delivery import Decision, Progress, Publish, Skip, TakeOver, check_stateless, decide
from penstock.errors import CheckpointError, PossibleDataLossError
from tests.committers import context_of

START, END = {"orders": {"0": 10}}, {"orders": {"0": 20}}


PLACE = "the row 'job: t' of table penstock_progress"


def decided(record: Progress | None, batch: int, start: object, end: object, *, adopt: bool = False) -> Decision:
    return decide(record, Progress("mine", batch, start, end), place=PLACE, adopt=adopt)


def published(batch_id: int, query_id: str = "mine", end: object = END) -> Progress:
    return Progress(query_id, batch_id, START, end)


@pytest.mark.rule("progress decides")
class TestProgressDecides:
    def test_this_query_last_is_the_one_before_runs(self) -> None:
        assert decided(published(6, end=START), 7, START, END) == Publish()

    def test_a_batch_that_does_not_begin_where_the_one_before_it_ended_stops(self) -> None:
        with pytest.raises(PossibleDataLossError, match=r"batch 7 of .* batch 6 of .* ends elsewhere") as raised:
            decided(published(6, end={"orders": {"0": 9}}), 7, START, END)
        assert '{"orders":{"0":9}}' in str(raised.value)
        assert '{"orders":{"0":10}}' in str(raised.value)

    def test_this_query_same_batch_and_offsets_skips(self) -> None:
        assert decided(published(7), 7, START, END) == Skip(published(7))

    def test_offsets_are_compared_as_json(self) -> None:
        assert isinstance(decided(published(7), 7, {"orders": {0: 10}}, END), Skip)

    @pytest.mark.parametrize(("start", "end"), [(START, {"orders": {"0": 21}}), ({"orders": {"0": 9}}, END)])
    def test_this_query_same_batch_other_offsets_stops(self, start: object, end: object) -> None:
        with pytest.raises(PossibleDataLossError) as raised:
            decided(published(7), 7, start, end)
        assert '{"orders":{"0":20}}' in str(raised.value)
        assert str(start).replace("'", '"').replace(" ", "") in str(raised.value)

    @pytest.mark.parametrize("last", [8, 100])
    def test_this_query_published_later_stops(self, last: int) -> None:
        with pytest.raises(CheckpointError, match=rf"batch 7 of .* batch {last} of .* older checkpoint"):
            decided(published(last), 7, START, END)

    @pytest.mark.parametrize("last", [5, 0])
    def test_this_query_published_earlier_stops(self, last: int) -> None:
        with pytest.raises(PossibleDataLossError, match=rf"batch 7 of .* batch {last} of .* progress was lost"):
            decided(published(last), 7, START, END)

    def test_nothing_published_and_the_first_batch_runs(self) -> None:
        assert decided(None, 0, START, END) == Publish()

    def test_nothing_published_and_a_later_batch_stops_unless_adopted(self) -> None:
        with pytest.raises(CheckpointError, match="--adopt-progress"):
            decided(None, 3, START, END)
        decision = decided(None, 3, START, END, adopt=True)
        assert isinstance(decision, TakeOver)
        assert "batch 3 of query 'mine'" in decision.warning
        assert "records repeat if it was committed" in decision.warning

    def test_progress_that_is_behind_is_adopted(self) -> None:
        decision = decided(published(3), 7, START, END, adopt=True)
        assert isinstance(decision, TakeOver)
        assert "batch 3" in decision.warning

    def test_another_query_and_the_first_batch_takes_over_with_a_warning(self) -> None:
        decision = decided(published(4, "other"), 0, START, END)
        assert isinstance(decision, TakeOver)
        assert "begins with batch 0" in decision.warning
        assert "batch 4 of query 'other'" in decision.warning
        assert decision.query_id == "other"

    def test_another_query_and_a_later_batch_stops(self) -> None:
        with pytest.raises(CheckpointError, match="'other'"):
            decided(published(4, "other"), 5, START, END)

    @pytest.mark.parametrize(
        ("record", "batch"),
        [
            (None, 3),
            (published(4, "other"), 5),
            (published(8), 7),
            (published(6, end="elsewhere"), 7),
            (published(7, end="elsewhere"), 7),
            (published(3), 7),
        ],
    )
    def test_messages_name_the_place_and_no_other_system(self, record: Progress | None, batch: int) -> None:
        with pytest.raises((CheckpointError, PossibleDataLossError), match=re.escape(PLACE)) as raised:
            decided(record, batch, START, END)
        assert "topic" not in str(raised.value)
        assert "transactional id" not in str(raised.value)


class TestStateless:
    """A job that has no state now."""

    @pytest.mark.parametrize(
        "record", [None, Progress("query", 7, START, END), Progress("another", 7, START, END, state="s")]
    )
    def test_it_goes_on_if_it_had_none(self, record: Progress | None) -> None:
        check_stateless(context_of(), record)

    def test_it_may_not_lose_the_state_of_its_steps(self) -> None:
        record = Progress("query", 7, START, END, state="s")
        with pytest.raises(CheckpointError, match="'job' had state in batch 7 and has none now"):
            check_stateless(context_of(), record)
        check_stateless(replace(context_of(), keeps_nothing=lambda state: state == "s"), record)
