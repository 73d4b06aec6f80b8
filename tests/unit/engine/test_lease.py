"""The lease of a checkpoint: a second start sees the first, and of two copies the newer one continues."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from penstock.engine.checkpoint import JobCheckpoint, lease, read_location
from penstock.engine.checkpoint.arrow import ArrowFiles
from penstock.engine.checkpoint.lease import Lease
from penstock.engine.checkpoint.local import LocalFiles
from penstock.engine.checkpoint.owners import Owner, Process, this_process
from penstock.errors import AlreadyRunningError, CheckpointUnavailableError, FencedError

pytestmark = pytest.mark.rule("look before taking over")


def replace_sleep(monkeypatch: pytest.MonkeyPatch, sleep: Callable[..., Any]) -> None:
    """The lease waits by ``sleep``; other threads by what they have."""
    monkeypatch.setattr(lease, "time", SimpleNamespace(**{**vars(time), "sleep": sleep}))


_HOLDER = """
import sys
from penstock.engine.checkpoint import read_location
from penstock.engine.checkpoint.lease import Lease
held = Lease.acquire(read_location(sys.argv[1]), "totals", take_over="--take-over" in sys.argv, warn=print)
held.claim(lambda: True)
print("there", flush=True)
sys.stdin.read()
held.release()
"""


@dataclass
class Leases:
    """Leases of one checkpoint, as each of several starts gets them."""

    folder: Path
    stack: ExitStack
    warnings: list[str] = field(default_factory=list)

    @property
    def place(self) -> JobCheckpoint:
        return read_location(str(self.folder))

    def acquire(self, place: JobCheckpoint | None = None, *, take_over: bool = False) -> Lease:
        found = Lease.acquire(place or self.place, "totals", take_over=take_over, warn=self.warnings.append)
        self.stack.callback(found.release)
        return found

    def take_over(self, place: JobCheckpoint | None = None, stopping: Callable[[], bool] = lambda: True) -> Lease:
        """As a start that takes over does it; by default it does not wait for the other one."""
        found = self.acquire(place, take_over=True)
        found.claim(stopping)
        return found

    def holder(self, *arguments: str) -> subprocess.Popen[str]:
        """Another process that has the lease."""
        command = [sys.executable, "-c", _HOLDER, str(self.folder), *arguments]
        found = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.stack.callback(found.communicate)
        self.stack.callback(found.kill)
        assert found.stdout is not None
        for line in found.stdout:
            if line == "there\n":
                return found
            self.warnings.append(line.strip())
        raise AssertionError("it did not get the lease")


@pytest.fixture
def leases(tmp_path: Path) -> Iterator[Leases]:
    with ExitStack() as stack:
        yield Leases(tmp_path / "totals", stack)


@pytest.fixture
def elsewhere(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Makes this process one of another machine."""

    def move(host: str) -> None:
        other = replace(this_process(), host=host, kernel=host)
        monkeypatch.setattr(lease, "this_process", lambda: other)
        monkeypatch.setattr("penstock.engine.checkpoint.owners.this_process", lambda: other)

    return move


def test_a_second_start_in_the_process_is_refused(leases: Leases) -> None:
    first = leases.acquire()
    with pytest.raises(
        AlreadyRunningError, match=rf"job 'totals' runs already, .*: process {os.getpid()} on \S+, since"
    ):
        leases.acquire()
    first.look()


def test_a_second_start_is_refused_until_the_first_has_ended(leases: Leases) -> None:
    leases.acquire().release()
    second = leases.acquire()
    second.look()
    assert second.number == 2
    assert not second.owner.rivals
    assert leases.warnings == []


def test_a_second_start_names_the_process_of_the_first_and_when_it_began(leases: Leases) -> None:
    first = leases.holder()
    with pytest.raises(AlreadyRunningError) as raised:
        leases.acquire()
    assert re.search(rf"process {first.pid} on \S+, since \d{{4}}-\d\d-\d\d \d\d:\d\d:\d\d UTC\. ", str(raised.value))
    assert "--take-over" in str(raised.value)


def test_a_first_that_stands_still_is_seen(leases: Leases) -> None:
    first = leases.holder()
    first.send_signal(signal.SIGSTOP)
    os.waitid(os.P_PID, first.pid, os.WSTOPPED | os.WNOWAIT)
    with pytest.raises(AlreadyRunningError, match=rf"process {first.pid} .*, which stands still"):
        leases.acquire()


def test_after_kill_minus_nine_the_next_start_begins_at_once(leases: Leases) -> None:
    first = leases.holder()
    first.kill()
    first.wait()
    second = leases.acquire()
    assert (second.former, second.owner.rivals, leases.warnings) == (None, (), [])


def test_another_process_with_the_number_of_the_first_is_not_taken_for_it(leases: Leases) -> None:
    mine = leases.acquire()
    assert mine.owner.process.ticks > 0
    mine._lock.release()
    other = replace(mine.owner, id="x", process=replace(mine.owner.process, pid=os.getppid(), ticks=1))
    leases.place.write("owner.2", other.to_json())
    assert leases.acquire().number == 3


def test_a_former_process_that_looks_like_this_one_is_not_taken_for_it(leases: Leases) -> None:
    """In a store without locks nothing else tells them apart."""
    place = JobCheckpoint("there", ArrowFiles(leases.folder.as_uri()))
    place.write("owner.1", Owner("x", this_process(), 0).to_json())
    second = leases.acquire(place)
    assert (second.number, second.owner.rivals, leases.warnings) == (2, (), [])
    with pytest.raises(AlreadyRunningError):
        leases.acquire(place)


def test_a_job_whose_end_could_not_be_written_starts_again_in_its_process(
    leases: Leases, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Spark has died, through which a checkpoint in a store is written."""

    def fail(*_: object, **__: object) -> None:
        raise CheckpointUnavailableError("Spark has died")

    place = JobCheckpoint("there", ArrowFiles(leases.folder.as_uri()))
    first = leases.acquire(place)
    monkeypatch.setattr(place, "write", fail)
    with pytest.raises(CheckpointUnavailableError):
        first.release()
    monkeypatch.undo()
    assert leases.acquire(place).number == 2


def test_a_copy_of_the_checkpoint_of_a_job_that_runs_is_refused(leases: Leases, tmp_path: Path) -> None:
    first = leases.holder()
    copy = read_location(str(tmp_path / "copy"))
    copy.write("owner.1", leases.place.read("owner.1") or {})
    with pytest.raises(AlreadyRunningError, match=rf"or a copy of it: process {first.pid} "):
        leases.acquire(copy)
    taken = leases.take_over(copy, pytest.fail)
    assert taken.former is None  # it works elsewhere, and does not see this one
    assert not taken.owner.rivals
    assert re.match(rf"job 'totals': takes over from process {first.pid} on", leases.warnings[0])


def test_a_container_of_the_machine_is_known_by_its_lock(leases: Leases, monkeypatch: pytest.MonkeyPatch) -> None:
    first = leases.holder()
    other = replace(this_process(), namespace="pid:[1]")
    monkeypatch.setattr(lease, "this_process", lambda: other)
    with pytest.raises(AlreadyRunningError, match=rf"process {first.pid} "):
        leases.acquire()
    first.kill()
    first.wait()
    leases.acquire()
    assert leases.warnings == []


def test_the_lock_of_another_user_is_taken_in_a_folder_that_both_may_write(
    leases: Leases, monkeypatch: pytest.MonkeyPatch
) -> None:
    leases.acquire().release()
    folder = leases.folder / "penstock"
    (folder / "owner.lock").chmod(0o444)
    folder.chmod(0o777)
    monkeypatch.chdir(leases.folder)  # the folders above are closed to the other
    place = JobCheckpoint("there", LocalFiles(Path()))
    if os.geteuid() == 0:
        leases.stack.callback(os.seteuid, 0)
        os.seteuid(65534)
    second = leases.acquire(place)
    assert second.owner.locked
    with pytest.raises(AlreadyRunningError):
        leases.acquire(place)


# --- other machines ----------------------------------------------------------------------------------------------


def test_a_first_on_another_machine_is_seen_by_what_it_says(
    leases: Leases, elsewhere: Callable[[str], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    first = leases.acquire()
    elsewhere("second")
    said = iter([lambda: None, lambda: None, first._renew])
    replace_sleep(monkeypatch, lambda _: next(said)())
    with pytest.raises(AlreadyRunningError, match=rf"process {os.getpid()} on "):
        leases.acquire()
    assert len(leases.warnings) == 1
    assert "waiting up to 20 s to see whether that is alive" in leases.warnings[0]


def test_a_first_on_another_machine_that_says_nothing_is_waited_for_no_longer_than_that(
    leases: Leases, elsewhere: Callable[[str], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    first = leases.acquire()
    first._over.set()
    elsewhere("second")
    slept: list[float] = []
    replace_sleep(monkeypatch, slept.append)
    monkeypatch.setattr(lease.time, "monotonic", lambda: sum(slept))
    second = leases.acquire()
    assert lease.SILENCE_SECONDS <= sum(slept) < 2 * lease.SILENCE_SECONDS
    assert second.is_rival(str(first.owner.process))  # it may stand still, and wake up


def test_what_was_said_long_ago_is_not_waited_for(leases: Leases, elsewhere: Callable[[str], None]) -> None:
    first = leases.acquire()
    first._over.set()
    said = leases.place.read("alive.1") or {}
    leases.place.write("alive.1", {**said, "at_ms": said["at_ms"] - 601_000})
    elsewhere("second")
    leases.acquire()
    assert leases.warnings == []


def test_a_first_is_listened_to_although_its_clock_is_minutes_behind(
    leases: Leases, elsewhere: Callable[[str], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    first = leases.acquire()
    first._over.set()
    elsewhere("second")
    said = leases.place.read("alive.1") or {}
    leases.place.write("alive.1", {**said, "at_ms": said["at_ms"] - 300_000})
    replace_sleep(monkeypatch, lambda _: first._renew())
    with pytest.raises(AlreadyRunningError):
        leases.acquire()


def test_a_first_without_locks_is_seen_by_what_it_says(leases: Leases, elsewhere: Callable[[str], None]) -> None:
    place = JobCheckpoint("there", ArrowFiles(leases.folder.as_uri()))
    first = leases.acquire(place)
    with pytest.raises(AlreadyRunningError):
        leases.acquire(place)
    first.release()
    elsewhere("second")
    leases.acquire(place).release()


# --- one takes over ----------------------------------------------------------------------------------------------


def test_the_newer_one_has_the_lease_and_the_older_one_sees_that(leases: Leases) -> None:
    first = leases.acquire()
    second = leases.holder("--take-over")
    assert re.match(rf"job 'totals': takes over from process {os.getpid()} on", leases.warnings[0])
    with pytest.raises(FencedError, match=rf"was taken over by process {second.pid} on .*; this copy ends") as raised:
        first.look()
    assert raised.value.winner.startswith(f"process {second.pid} on ")
    with pytest.raises(AlreadyRunningError, match=rf"process {second.pid} on"):
        leases.acquire()


def test_one_that_has_stood_still_looks_before_its_next_batch(leases: Leases) -> None:
    first = leases.acquire()
    leases.holder("--take-over")
    first.check()  # it has looked a moment ago
    first._looked -= lease.RENEWAL_SECONDS
    with pytest.raises(FencedError):
        first.check()


def test_the_one_that_takes_over_waits_for_the_end_of_the_other(
    leases: Leases, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = JobCheckpoint("there", ArrowFiles(leases.folder.as_uri()))  # without locks
    first = leases.acquire(place)
    second = leases.acquire(place, take_over=True)
    first.look()  # until the second has nothing else to look for
    slept = iter([lambda: None, first.release])
    replace_sleep(monkeypatch, lambda _: next(slept)())
    second.claim(lambda: False)
    assert not list(slept)
    second.look()


def test_a_start_that_fails_before_it_takes_over_leaves_the_other_alone(leases: Leases) -> None:
    first = leases.acquire()
    leases.acquire(take_over=True).release()
    first.look()
    assert leases.warnings == []


def test_one_that_stands_still_is_not_waited_for(leases: Leases, monkeypatch: pytest.MonkeyPatch) -> None:
    first = leases.holder()
    first.send_signal(signal.SIGSTOP)
    os.waitid(os.P_PID, first.pid, os.WSTOPPED | os.WNOWAIT)
    replace_sleep(monkeypatch, pytest.fail)
    second = leases.take_over(stopping=lambda: False)
    assert second.former is not None
    assert second.is_rival(str(second.former.process))


def test_one_that_said_nothing_for_long_is_not_waited_for(
    leases: Leases, elsewhere: Callable[[str], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    first = leases.acquire()
    first._over.set()
    said = leases.place.read("alive.1") or {}
    leases.place.write("alive.1", {**said, "at_ms": said["at_ms"] - 601_000})
    elsewhere("second")
    replace_sleep(monkeypatch, pytest.fail)
    second = leases.take_over(stopping=lambda: False)
    assert second.is_rival(str(first.owner.process))  # it may stand still


def test_rivals_are_known_to_later_owners(leases: Leases) -> None:
    first = leases.holder()
    second = leases.take_over()
    second.release()
    third = leases.acquire()
    assert third.is_rival(f"process {first.pid} on {third.owner.process.host}")
    assert not third.is_rival(str(third.owner.process))


def test_the_lock_of_the_other_is_taken_when_that_has_ended(leases: Leases) -> None:
    first = leases.holder()
    second = leases.take_over()
    assert not second.owner.locked
    first.kill()
    first.wait()
    second._renew()
    assert second.owner.locked
    assert Owner.from_json(leases.place.read("owner.2") or {}).locked


def test_of_two_that_start_at_once_one_is_refused(leases: Leases, monkeypatch: pytest.MonkeyPatch) -> None:
    """The other one was quicker between this one's look and its document."""
    place = JobCheckpoint("there", ArrowFiles(leases.folder.as_uri()))
    quicker = Owner("x", replace(this_process(), pid=os.getppid(), ticks=0), 0)
    create = place.create

    def create_later(name: str, document: dict[str, object]) -> dict[str, object]:
        monkeypatch.undo()
        place.write("owner.1", quicker.to_json())
        return create(name, document)

    monkeypatch.setattr(place, "create", create_later)
    with pytest.raises(AlreadyRunningError):
        leases.acquire(place)


def test_a_number_that_was_deleted_is_not_taken_again(leases: Leases, monkeypatch: pytest.MonkeyPatch) -> None:
    """Three others have had the lease since this one has looked, and the document after the one that it saw is gone."""
    place = leases.place
    create = place.create

    def create_later(name: str, document: dict[str, object]) -> dict[str, object]:
        monkeypatch.undo()
        place.write("owner.3", Owner("x", this_process(), 0, ended=True).to_json())
        return create(name, document)

    monkeypatch.setattr(place, "create", create_later)
    assert leases.acquire(place).number == 4


def test_one_whose_checkpoint_was_restored_ends_nobody(leases: Leases) -> None:
    """It stands still, its checkpoint is restored from an older one, and the job is started there; then it wakes up."""
    for _ in range(3):
        leases.acquire().release()
    first = leases.acquire()
    shutil.rmtree(leases.folder)
    leases.place.write("owner.2", replace(first.owner, id="x", ended=True).to_json())
    second = leases.acquire()
    assert second.number < first.number
    first.release()
    second.look()
    with pytest.raises(AlreadyRunningError):
        leases.acquire()


def test_of_two_with_one_number_the_one_without_the_document_ends(leases: Leases) -> None:
    """Object stores let both create it, and the later one replaces the document of the other."""
    place = JobCheckpoint("there", ArrowFiles(leases.folder.as_uri()))
    first = leases.acquire(place)
    second = replace(first.owner, id="x")
    place.write("owner.1", second.to_json())
    with pytest.raises(FencedError, match="which continues job 'totals'; this copy ends"):
        first.look()
    first.release()
    assert Owner.from_json(place.read("owner.1") or {}) == second


@pytest.mark.parametrize("content", ["", "{", "{}", '{"process": 1}', '{"process": {"pid": 1}}'])
def test_a_damaged_document_stops_no_start(leases: Leases, content: str) -> None:
    leases.acquire().release()
    (leases.folder / "penstock" / "owner.1.json").write_text(content)
    assert leases.acquire().number == 2


def test_it_leaves_two_owners_behind(leases: Leases) -> None:
    for _ in range(5):
        leases.acquire().release()
    names = sorted(path.name for path in (leases.folder / "penstock").iterdir())
    assert names == ["owner.4.json", "owner.5.json", "owner.lock"]


def test_processes_that_are_gone_or_of_others() -> None:
    mine = this_process()
    assert mine.runs()
    assert not mine.stands_still()
    assert not replace(mine, ticks=mine.ticks + 1).runs()
    assert replace(mine, ticks=0).runs()
    assert not Process(mine.host, 2**22 + 1, mine.kernel, mine.namespace, 0).runs()
    assert str(mine).startswith(f"process {os.getpid()} on ")
