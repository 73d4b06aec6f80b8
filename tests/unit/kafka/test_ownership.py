"""Whether another producer has taken a transactional id, by what its coordinator says."""

from __future__ import annotations

import pytest

from penstock.kafka.ownership import _is_taken_over
from penstock.kafka.produce import ProducerIdentity
from penstock.kafka.transactions import TransactionDescription


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
    assert _is_taken_over(seen, ProducerIdentity(1, 7, 2), committing=True) is expected


@pytest.mark.parametrize("state", ["PrepareCommit", "CompleteCommit"])
@pytest.mark.rule("outcomes are never guessed")
def test_a_commit_that_we_did_not_ask_for_is_somebody_elses(state: str) -> None:
    seen = TransactionDescription("t", state, 1, 8, 1000, -1, ())
    assert _is_taken_over(seen, ProducerIdentity(1, 7, 2), committing=False)


@pytest.mark.parametrize(
    ("state", "expected"), [("CompleteAbort", False), ("PrepareCommit", True), ("CompleteCommit", True)]
)
@pytest.mark.rule("outcomes are never guessed")
def test_below_version_2_a_commit_with_the_next_epoch_is_somebody_elses(state: str, expected: bool) -> None:
    seen = TransactionDescription("t", state, 1, 8, 1000, -1, ())
    assert _is_taken_over(seen, ProducerIdentity(1, 7, 0), committing=True) is expected


@pytest.mark.rule("outcomes are never guessed")
def test_a_new_producer_id_proves_nothing_when_epochs_run_out() -> None:
    seen = TransactionDescription("t", "CompleteCommit", 2, 0, 1000, -1, ())
    assert not _is_taken_over(seen, ProducerIdentity(1, 32_766, 2), committing=False)
