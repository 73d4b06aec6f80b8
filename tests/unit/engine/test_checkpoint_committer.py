"""The state of jobs without exactly-once tables: its reference is in a document of the checkpoint."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from penstock.delivery import deliver
from penstock.engine.checkpoint import JobCheckpoint, read_location
from penstock.engine.checkpoint.checkpoint_committer import CheckpointTarget
from penstock.engine.checkpoint.local import LocalFiles
from penstock.errors import AnotherCopyError, CheckpointError, PossibleDataLossError
from penstock.flow.state.manifest import Manifest
from penstock.flow.state.storage import Storage
from penstock.spi import Batch, CommitStatus, Committer, Published
from tests.committers import Computed

pytestmark = pytest.mark.rule("state commits with the output")


def position(offset: int) -> dict[str, Any]:
    return {"orders": {"id": "t", "partitions": {"0": {"offset": offset, "epoch": 0}}}}


def batch(number: int, *, start: int | None = None, end: int | None = None) -> Batch:
    """A batch of ten rows, if nothing else is said."""
    start, end = 10 * number if start is None else start, 10 * (number + 1) if end is None else end
    before = position(start) if number else None
    return Batch(number, (before,), (position(end),), 1)


@pytest.fixture
def target(tmp_path: Path) -> CheckpointTarget:
    return CheckpointTarget(read_location(str(tmp_path / "checkpoint")))


def test_a_batch_is_done_when_its_state_is_written(target: CheckpointTarget) -> None:
    assert target.commit_status(batch(0)) == CommitStatus(False, "")
    target.publish(batch(0), Computed("a"))
    assert target.commit_status(batch(0)) == CommitStatus(True, "a")
    assert target.commit_status(batch(1)) == CommitStatus(False, "a")
    assert [target.state(upcoming) for upcoming in range(3)] == ["a", "a", ""]


def test_a_job_that_gets_a_step_without_state_goes_on_where_it_had_none(tmp_path: Path) -> None:
    """UNNEST, for the first time after batch 4."""
    target = CheckpointTarget(read_location(str(tmp_path / "checkpoint")), keeps_rows=False)
    assert target.commit_status(batch(5)) == CommitStatus(False, "")
    target.publish(batch(5), Computed("a"))
    assert target.commit_status(batch(6)) == CommitStatus(False, "a")


def test_state_of_another_batch_stops_the_job(target: CheckpointTarget) -> None:
    with pytest.raises(CheckpointError, match="continues with batch 1, but has no state"):
        target.commit_status(batch(1))
    target.publish(batch(3), Computed("a"))
    for number in (2, 5):
        with pytest.raises(
            CheckpointError, match=rf"continues with batch {number}, but its state is that after batch 3"
        ):
            target.commit_status(batch(number))


@pytest.mark.parametrize("manifest", [True, False])
def test_a_job_whose_steps_come_back_goes_on_where_they_kept_nothing(target: CheckpointTarget, manifest: bool) -> None:
    storage = Storage.from_uri(target.checkpoint.folder("state"))
    nothing = Manifest(3).write(storage, "000000003-x.manifest") if manifest else ""
    target.publish(batch(3), Computed(nothing))
    assert target.commit_status(batch(10, start=900)) == CommitStatus(False, nothing)
    something = Manifest(10, {"groups": {}}).write(storage, "000000010-x.manifest")
    target.publish(batch(10), Computed(something))
    assert target.commit_status(batch(10)) == CommitStatus(True, something)
    with pytest.raises(CheckpointError, match="continues with batch 12, but its state is that after batch 10"):
        target.commit_status(batch(12))
    target.publish(batch(11), Computed(nothing))
    with pytest.raises(CheckpointError, match="continues with batch 9, but its state is that after batch 11"):
        target.commit_status(batch(9))


def test_a_batch_that_is_planned_anew_is_not_taken_for_the_one_of_the_state(target: CheckpointTarget) -> None:
    """Spark's log and the state are of different moments: in a torn copy, after a power failure, with two drivers."""
    target.publish(batch(3, end=47), Computed("a"))
    assert target.commit_status(batch(3, end=47)) == CommitStatus(True, "a")
    assert target.commit_status(batch(4, start=47)) == CommitStatus(False, "a")
    for given, does, offset in (
        (batch(3, end=900), r"replays batch 3 \(to", 900),
        (batch(4, start=40), r"continues with batch 4 \(from", 40),
    ):
        stops = rf'{does} .*"offset":{offset}.* after a batch 3 which ends elsewhere, at .*"offset":47'
        with pytest.raises(PossibleDataLossError, match=stops):
            target.commit_status(given)


def test_state_that_a_former_version_has_written_without_positions_counts(target: CheckpointTarget) -> None:
    target.checkpoint.write("state", {"batch": 3, "state": "a"})
    assert target.commit_status(batch(3, end=900)) == CommitStatus(True, "a")
    assert target.commit_status(batch(4, start=40)) == CommitStatus(False, "a")


def test_a_copy_that_wakes_up_does_not_put_an_older_state_in_place(target: CheckpointTarget) -> None:
    """It has begun batch 0, and another copy of the job goes on to batch 2 meanwhile."""
    assert not target.commit_status(batch(0)).done
    for number, state in enumerate("abc"):
        target.publish(batch(number), Computed(state))
    with pytest.raises(AnotherCopyError, match="its state is that after batch 2, and this copy was at work on batch 0"):
        target.publish(batch(0), Computed("late"))
    assert target.commit_status(batch(3)) == CommitStatus(False, "c")


@pytest.mark.parametrize("ahead", [1, 3], ids=["at the same batch", "at a later batch"])
def test_a_copy_that_wakes_up_after_its_operators_ran_writes_no_rows(target: CheckpointTarget, ahead: int) -> None:
    """The table repeats batches: the rows of the other copy would be followed by older ones."""
    other = CheckpointTarget(target.checkpoint)

    class Table(Committer):
        def publish(self, batch: Batch, frame: object) -> Published:
            raise AssertionError("rows are written")

    @dataclass(frozen=True)
    class Operators:
        state: str = "late"
        keeps_rows = True

        def run(self, batch: Batch, state: str) -> Operators:
            for number in range(ahead):
                other.publish(given(number), Computed(f"after {number}"))
            return self

        def kept(self, batch: Batch, state: str) -> Operators:
            return self

        def check_repeating(self, batch: Batch, state: str) -> None:
            return

        def tasks(self, target: int) -> Computed:
            return Computed(self.state)

    given = batch
    with pytest.raises(AnotherCopyError, match=rf"after batch {ahead - 1}, and this copy was at work on batch 0"):
        deliver(batch(0), [Table(), target], Operators())


@pytest.mark.parametrize("ahead", [1, 3], ids=["at the same batch", "at a later batch"])
def test_a_copy_that_wakes_up_in_the_middle_of_its_write_does_not_either(tmp_path: Path, ahead: int) -> None:
    place = tmp_path / "checkpoint"
    other = CheckpointTarget(read_location(str(place)))

    class Asleep(LocalFiles):
        def _put(self, name: str, text: str, publish: Callable[[Path, Path], object]) -> None:
            for number in range(ahead):
                other.publish(batch(number), Computed(f"after {number}"))
            super()._put(name, text, publish)

    late = CheckpointTarget(JobCheckpoint(str(place), Asleep(place)))
    with pytest.raises(AnotherCopyError, match=rf"after batch {ahead - 1}, and this copy was at work on batch 0"):
        late.publish(batch(0), Computed("late"))
    assert other.commit_status(batch(ahead)) == CommitStatus(False, f"after {ahead - 1}")
