"""Which files of a job's state are deleted, and when."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from penstock.engine.checkpoint import JobCheckpoint, read_location
from penstock.engine.checkpoint.committed import write_state
from penstock.engine.checkpoint.local import LocalFiles
from penstock.engine.runs.states import StateHistory, check_no_state, known_steps
from penstock.errors import CheckpointError, CheckpointUnavailableError
from penstock.flow.state.changed_queries import Fitting, FlowStep
from penstock.flow.state.kept_output import KeptOutput
from penstock.flow.state.manifest import Manifest, Sinks
from penstock.flow.state.segments import END, SegmentRef, TableSpec
from penstock.flow.state.storage import Storage
from penstock.plan.step_identity import StepIdentity
from penstock.spi import Batch

pytestmark = pytest.mark.rule("state commits with the output")


ROWS = TableSpec("rows", pa.schema([("k", pa.string())]), pa.schema([]), "keyed")
STEP = FlowStep(StepIdentity(step="a ranking"), (ROWS,))
IDENTITIES = {"step": STEP.identity.to_json()}


class Folder:
    """The folder of a state, in which batches write files."""

    def __init__(self, path: Path):
        self.path = path
        self.storage = Storage.from_uri(str(path))

    def run(self) -> StateHistory:
        return StateHistory(self.storage, Fitting({"step": STEP}), "the checkpoint")

    def batch(self, states: StateHistory, number: int, before: str, *files: str) -> str:
        """A batch that leaves the state with these segments; some may be of batches before."""
        states.state_before(before)
        for name in files:
            if name not in self.names:
                self.storage.write(name, [b"rows"])
        refs = tuple(SegmentRef(each, 0, 4, 1, 0, END, at, "keyed") for at, each in enumerate(files))
        return states.write(Manifest(number, {"step": {"rows": refs}}, identities=IDENTITIES), f"{number}.manifest")

    def age(self) -> None:
        """Make all files old."""
        for each in self.path.iterdir():
            os.utime(each, (1000, 1000))

    @property
    def names(self) -> set[str]:
        return {each.name for each in self.storage.files()}


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    return Folder(tmp_path / "state")


def committed(folder: Folder, states: StateHistory, upto: int, before: str = "", since: int = 0) -> str:
    """Batches each of which adds a segment to that of the batch before it."""
    for number in range(since, upto):
        before = folder.batch(states, number, before, str(number), *([str(number - 1)] if number else []))
        states.committed(before)
    return before


def test_what_only_the_state_before_the_last_but_one_needs_goes(folder: Folder) -> None:
    committed(folder, folder.run(), 4)
    assert folder.names == {"1", "2", "3", "2.manifest", "3.manifest"}


def test_a_run_deletes_what_the_last_state_of_a_former_run_needed(folder: Folder) -> None:
    last = committed(folder, folder.run(), 2)
    states = folder.run()
    states.check([last])
    committed(folder, states, 4, last, since=2)
    assert folder.names == {"0.manifest", "1", "2", "3", "2.manifest", "3.manifest"}


def test_old_files_go_unless_one_of_the_last_two_states_needs_them(folder: Folder) -> None:
    last = committed(folder, folder.run(), 2)
    folder.storage.write("of an attempt", [b"rows"])
    folder.age()
    folder.storage.write("of a run that goes on", [b"rows"])
    states = folder.run()
    states.check([last])
    committed(folder, states, 3, last, since=2)
    assert folder.names == {"of a run that goes on", "0", "1", "2", "1.manifest", "2.manifest"}


def test_nothing_goes_before_a_commit(folder: Folder) -> None:
    last = committed(folder, folder.run(), 2)
    folder.age()
    before, states = folder.names, folder.run()
    states.check([last])
    folder.batch(states, 2, last, "2")
    states.committed(last)  # the batch before, which was not logged as done
    assert folder.names >= before


def test_output_that_was_kept_goes_when_all_targets_have_it(folder: Folder) -> None:
    states = folder.run()
    state = folder.batch(states, 0, "", "0")
    for name in ("0.output", "0.output-rows", "0.output-of-one-target"):
        folder.storage.write(name, [b"rows"])
    kept = KeptOutput("0.output", "", (), files={"0.output-rows": ""})
    state = states.write(replace(states.state_after(state), output=kept), "0-b.manifest")
    states.committed(state, ["0.output-of-one-target"])
    assert folder.names == {"0", "0.manifest", "0-b.manifest"}


def test_what_tasks_of_a_failed_attempt_have_written_goes(folder: Folder) -> None:
    states = folder.run()
    for name in ("7-a-0-00-x.arrow", "7-a.output-0-1-x.rows", "7-b-0-00-x.arrow", "6-a.manifest"):
        folder.storage.write(name, [b"rows"])
    states.discard("7-a")
    assert folder.names == {"7-b-0-00-x.arrow", "6-a.manifest"}


def test_state_of_a_step_that_the_job_does_not_have_is_named(folder: Folder) -> None:
    state = folder.batch(folder.run(), 0, "", "0")
    with pytest.raises(CheckpointError, match="has state of 'step', which the job does not have any more"):
        StateHistory(folder.storage, Fitting({"other": STEP}), "the checkpoint").state_before(state)


def test_a_job_without_state_does_not_start_where_steps_have_some(tmp_path: Path) -> None:
    checkpoint = read_location(str(tmp_path))
    check_no_state(checkpoint, "")
    folder = Folder(tmp_path / "state")
    state = folder.batch(folder.run(), 0, "", "0")
    refused = "has state of 'step', which the job does not have any more"
    with pytest.raises(CheckpointError, match=refused):
        check_no_state(checkpoint, state)  # it began with a savepoint
    nothing = Manifest(0).write(folder.storage, "0-b.manifest")
    for number, reference in enumerate(("", nothing)):
        write_state(checkpoint, Batch(number, (None,), ({},), 1), reference)
        check_no_state(checkpoint, "")
    write_state(checkpoint, Batch(2, (None,), ({},), 1), state)
    with pytest.raises(CheckpointError, match=refused):
        check_no_state(checkpoint, "")


@pytest.mark.rule("look before taking over")
def test_a_start_looks_for_the_state_that_the_checkpoint_names(tmp_path: Path) -> None:
    place = read_location(str(tmp_path))
    folder = Folder(tmp_path / "state")
    folder.run().verify(place, "")
    begun = folder.batch(folder.run(), 0, "", "0")
    write_state(place, Batch(0, (None,), ({},), 1), "")
    folder.run().verify(place, begun)
    with pytest.raises(CheckpointError, match="has state of 'step', which the job does not have any more"):
        StateHistory(folder.storage, Fitting({"other": STEP}), "the checkpoint").verify(place, begun)
    write_state(place, Batch(1, (None,), ({},), 1), folder.batch(folder.run(), 1, begun, "1"))
    folder.run().verify(place, "")
    folder.storage.delete("1")
    with pytest.raises(CheckpointError, match=r"'1' in '.*state' is missing"):
        folder.run().verify(place, "")


@pytest.mark.rule("look before taking over")
def test_a_start_does_not_take_files_for_missing_that_a_running_job_has_deleted(tmp_path: Path) -> None:
    class Slow(StateHistory):
        """The job goes on by three batches whenever a manifest was read."""

        def state_after(self, reference: str) -> Manifest:
            found, last = super().state_after(reference), found_last[-1]
            if len(found_last) < 3:
                number = len(found_last) * 3
                found_last.append(committed(folder, running, number + 3, last, since=number))
                write_state(place, Batch(number + 2, (None,), ({},), 1), found_last[-1])
            return found

    place, folder = read_location(str(tmp_path)), Folder(tmp_path / "state")
    running = folder.run()
    found_last = [committed(folder, running, 3)]
    write_state(place, Batch(2, (None,), ({},), 1), found_last[0])
    Slow(folder.storage, Fitting({"step": STEP}), "the checkpoint").verify(place, "")
    assert len(found_last) == 3
    folder.storage.delete("8")
    with pytest.raises(CheckpointError, match=r"'8' in .* is missing"):
        Slow(folder.storage, Fitting({"step": STEP}), "the checkpoint").verify(place, "")


@pytest.mark.rule("look before taking over")
def test_steps_are_known_by_the_state_that_a_running_job_has_now(tmp_path: Path) -> None:
    class Slow(JobCheckpoint):
        """The job goes on by three batches when the document was read."""

        def latest(self, name: str) -> dict[str, Any] | None:
            found = super().latest(name)
            if found is not None and found["batch"] == 2:
                write_state(self, Batch(5, (None,), ({},), 1), committed(folder, running, 6, first, since=3))
            return found

    folder = Folder(tmp_path / "state")
    running, place = folder.run(), Slow(str(tmp_path), LocalFiles(tmp_path))
    assert known_steps(folder.storage, place, "") == {}
    first = committed(folder, running, 3)
    write_state(place, Batch(2, (None,), ({},), 1), first)
    assert known_steps(folder.storage, place, "") == {"step": STEP.identity}
    folder.storage.delete("5.manifest")
    assert known_steps(folder.storage, place, "") == {}


def test_steps_are_not_taken_for_new_while_the_storage_does_not_answer(tmp_path: Path) -> None:
    place, folder = read_location(str(tmp_path)), Folder(tmp_path / "state")
    write_state(place, Batch(2, (None,), ({},), 1), committed(folder, folder.run(), 3))
    folder.storage.delete("2.manifest")
    (folder.path / "2.manifest").mkdir()  # which cannot be read as a file
    with pytest.raises(CheckpointUnavailableError, match=r"cannot read '2\.manifest'"):
        known_steps(folder.storage, place, "")


@pytest.mark.rule("the first commit binds the attempt")
def test_a_table_that_may_lack_a_committed_batch_is_named(folder: Folder) -> None:
    states, now = folder.run(), Sinks((), ("kafka 'a' topic", "print 'r'"))
    state = folder.batch(states, 0, "", "0")
    made = replace(states.state_after(state), sinks=Sinks(("kafka 'a' topic",), ("print 'r'",)))
    former = states.write(replace(made, sinks=None), "0-a.manifest")
    state = states.write(made, "0-b.manifest")
    states = folder.run()
    for reference in (state, ""):
        with pytest.raises(
            CheckpointError,
            match=r"batch 0 .*kafka 'a' topic.* may lack it.*Start the job once with its former definition",
        ):
            states.check_sinks(0, reference, now, everywhere=False)
    states.check_sinks(0, state, now, everywhere=True)  # all tables have it
    states.check_sinks(0, former, now, everywhere=False)  # that version has not written for which tables it was


def test_a_start_looks_for_the_files_of_the_newest_state(folder: Folder) -> None:
    states = folder.run()
    one = committed(folder, states, 1)
    two = committed(folder, states, 2, one, since=1)
    folder.storage.delete("1")
    with pytest.raises(CheckpointError, match=r"'1' in '.*state' is missing"):
        folder.run().check([one, two])
