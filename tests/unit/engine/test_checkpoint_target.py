"""The state of jobs without exactly-once tables: its reference is in a document of the checkpoint."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from penstock.engine.checkpoint import JobCheckpoint, read_location
from penstock.engine.checkpoint.local import LocalFiles
from penstock.engine.checkpoint.target import CheckpointTarget
from penstock.errors import CheckpointError, FencedError
from penstock.spi import Batch, Results, Standing

pytestmark = pytest.mark.rule("state commits with the output")


def batch(number: int, state: str = "") -> Batch:
    return Batch(number, (None,), ({"at": number},), 1, results=Results(state, None, lambda: None))


@pytest.fixture
def target(tmp_path: Path) -> CheckpointTarget:
    return CheckpointTarget(read_location(str(tmp_path / "checkpoint")))


def test_a_batch_is_done_when_its_state_is_written(target: CheckpointTarget) -> None:
    assert target.standing(batch(0)) == Standing(False, "")
    target.publish(batch(0, "a"), None)
    assert target.standing(batch(0)) == Standing(True, "a")
    assert target.standing(batch(1)) == Standing(False, "a")
    assert target.state() == "a"


def test_state_of_another_batch_stops_the_job(target: CheckpointTarget) -> None:
    with pytest.raises(CheckpointError, match="continues with batch 1, but has no state"):
        target.standing(batch(1))
    target.publish(batch(3, "a"), None)
    for number in (2, 5):
        with pytest.raises(
            CheckpointError, match=rf"continues with batch {number}, but its state is that after batch 3"
        ):
            target.standing(batch(number))


def test_a_copy_that_wakes_up_does_not_put_an_older_state_in_place(target: CheckpointTarget) -> None:
    """It has begun batch 0, and another copy of the job goes on to batch 2 meanwhile."""
    assert not target.standing(batch(0)).done
    for number, state in enumerate("abc"):
        target.publish(batch(number, state), None)
    with pytest.raises(FencedError, match="its state is that after batch 2, and this copy was at work on batch 0"):
        target.publish(batch(0, "late"), None)
    assert target.standing(batch(3)) == Standing(False, "c")


@pytest.mark.parametrize("ahead", [1, 3], ids=["at the same batch", "at a later batch"])
def test_a_copy_that_wakes_up_in_the_middle_of_its_write_does_not_either(tmp_path: Path, ahead: int) -> None:
    place = tmp_path / "checkpoint"
    other = CheckpointTarget(read_location(str(place)))

    class Asleep(LocalFiles):
        def _put(self, name: str, text: str, publish: Callable[[Path, Path], object]) -> None:
            for number in range(ahead):
                other.publish(batch(number, f"after {number}"), None)
            super()._put(name, text, publish)

    late = CheckpointTarget(JobCheckpoint(str(place), Asleep(place)))
    with pytest.raises(FencedError, match=rf"after batch {ahead - 1}, and this copy was at work on batch 0"):
        late.publish(batch(0, "late"), None)
    assert other.standing(batch(ahead)) == Standing(False, f"after {ahead - 1}")
