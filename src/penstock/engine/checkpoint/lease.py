"""The lease of a checkpoint: which process runs its job, so that a second start sees the first.

A lease stops accidents and says which copy of a job is the newer one. It does not make a job exactly once: a process
may be stopped between two of its looks, and the targets fence it (docs/decisions/0044-second-starts.md).

The document ``owner.N`` names the owner since the N-th start. ``alive.N`` is written again every few seconds, for
starts on other machines, which cannot look at the process. Where the checkpoint is on a file system with locks, the
owner holds one, which ends with its process.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from penstock.clock import now_ms
from penstock.engine.checkpoint.documents import JobCheckpoint
from penstock.engine.checkpoint.local import Lock
from penstock.engine.checkpoint.owners import Owner, Process, this_process
from penstock.errors import AlreadyRunningError, CheckpointError, CheckpointUnavailableError, FencedError

#: How often an owner says that it is alive, and looks whether it still is the owner.
RENEWAL_SECONDS = 5.0
#: An owner on another machine that is silent for this long has ended.
SILENCE_SECONDS = 20.0
#: An owner whose last sign of life is this old, by the clocks of two machines, has ended, without further waiting. It
#: exceeds the difference even of clocks that are not synchronized.
_OLD_MS = 600_000
_POLL_SECONDS = 0.2
_MOST_RIVALS = 8

_OWNER, _ALIVE, _LOCK = "owner", "alive", "owner.lock"

#: The ids of the owners that this process is. In a sandbox, or on a machine restored from a snapshot, a process may
#: have the number and the start of one that has ended.
_PRESENT: set[str] = set()


@dataclass(eq=False)
class Lease:
    """The lease of ``checkpoint``, from :meth:`acquire` until :meth:`release`. ``owner`` is this process. ``number`` is
    its document's, 0 until :meth:`claim`. ``former`` is the owner that it has taken over from, if that was alive.
    """

    checkpoint: JobCheckpoint
    job: str
    owner: Owner
    warn: Callable[[str], None]
    _lock: Lock
    number: int = field(default=0, init=False)
    former: Owner | None = field(default=None, init=False)
    #: Called, in a separate thread, when another copy of the job was seen to have taken over.
    on_lost: Callable[[FencedError], None] | None = field(default=None, init=False)
    _renewals: int = field(default=0, init=False)
    _looked: float = field(default_factory=time.monotonic, init=False)
    _over: threading.Event = field(default_factory=threading.Event, init=False)
    _thread: threading.Thread | None = field(default=None, init=False)

    @classmethod
    def acquire(
        cls, checkpoint: JobCheckpoint, job: str, *, take_over: bool = False, warn: Callable[[str], None]
    ) -> Lease:
        """Become the owner, unless the present owner still runs. Waits up to :data:`SILENCE_SECONDS` to see whether an
        owner on another machine is alive. With ``take_over`` it may run: then :meth:`claim` ends it.

        Raises AlreadyRunningError, which names the owner, and CheckpointUnavailableError.
        """
        lock = checkpoint.lock(_LOCK)
        lease = cls(checkpoint, job, replace(Owner.new(), locked=lock.taken), warn, lock)
        _PRESENT.add(lease.owner.id)
        try:
            if not take_over:
                lease._claim(_Watch(checkpoint, job, warn, lock.held))
            elif _live(_latest(checkpoint)[1]) is None:
                lease._claim(None)
        except BaseException:
            _PRESENT.discard(lease.owner.id)
            lock.release()
            raise
        return lease

    def claim(self, stopping: Callable[[], bool]) -> None:
        """Announce to others that this process is the owner from now on. Called when nothing else keeps the job from
        its start: the former owner ends when it sees that, and is waited for. The targets fence one that is stopped, or
        does not see it for :data:`SILENCE_SECONDS`.

        Raises FencedError if another copy of the job has become the owner since.
        """
        if self.number:
            self.look()
            return
        self._claim(None)
        former, until = self.former, time.monotonic() + SILENCE_SECONDS
        if former is None or _age_ms(self.checkpoint, self.number - 1, former) > _OLD_MS:
            return
        while time.monotonic() < until and not stopping():
            known = _document(self.checkpoint, f"{_OWNER}.{self.number - 1}")
            if known.get("ended") or _has_ended(former):
                return
            if this_process().is_neighbour(former.process) and former.process.stands_still():
                return
            time.sleep(_POLL_SECONDS)

    def _claim(self, watch: _Watch | None) -> None:
        """Write the document of this process behind that of an owner which ``watch`` does not see alive."""
        checkpoint, mine = self.checkpoint, self.owner
        while True:
            number, before = _latest(checkpoint)
            if watch is not None:
                watch.check(number, before)
                if _latest(checkpoint) != (number, before):
                    continue
            live = here = _live(before)
            if live is not None and live.locked and mine.locked and _locks_here(live.process):
                here = None  # it has the lock, so this folder is a copy of the one that the former owner uses
            rivals = [*(before.rivals if before else ()), *([str(here.process)] if here else ())]
            owner = replace(mine, rivals=tuple(dict.fromkeys(rivals))[-_MOST_RIVALS:])
            found = checkpoint.create(f"{_OWNER}.{number + 1}", owner.to_json())
            if found.get("id") == mine.id and _latest(checkpoint)[0] == number + 1:
                break
        self.owner, self.number = owner, number + 1
        for old in range(max(1, number - 2), number):
            checkpoint.delete(f"{_OWNER}.{old}")
            checkpoint.delete(f"{_ALIVE}.{old}")
        if watch is None and live is not None:
            self.former = here
            self.warn(f"job '{self.job}': takes over from {live}")
        self._renew()
        self._looked = time.monotonic()
        self._thread = threading.Thread(target=self._keep, name=f"lease of {self.job}", daemon=True)
        self._thread.start()

    # --- while it lasts --------------------------------------------------------------------------------------

    def look(self) -> None:
        """Raise FencedError if another copy of the job has become the owner."""
        number, owner = _latest(self.checkpoint)
        self._looked = time.monotonic()
        if number > self.number or (number == self.number and owner is not None and owner.id != self.owner.id):
            by = str(owner) if owner is not None else "another process"
            raise FencedError(
                f"the checkpoint '{self.checkpoint.location}' was taken over by {by}, which continues job "
                f"'{self.job}'; this copy ends",
                "" if owner is None else str(owner.process),
            )

    def _has_document(self) -> bool:
        """Whether the document of this number is that of this process. It is not if the checkpoint was restored or
        emptied meanwhile, or in a store where two simultaneous starts may both find the name free: writing there would
        end the other one."""
        return _document(self.checkpoint, f"{_OWNER}.{self.number}").get("id") == self.owner.id

    def check(self) -> None:
        """As :meth:`look`, unless that was done a moment ago: this process may have been stopped since."""
        if time.monotonic() - self._looked > RENEWAL_SECONDS:
            self.look()

    @property
    def contested(self) -> bool:
        """Whether there was an owner before that may not have ended."""
        return bool(self.owner.rivals)

    def is_rival(self, process: str) -> bool:
        """Whether a process of this name owned the checkpoint before, and may not have ended."""
        return process in self.owner.rivals

    def release(self) -> None:
        """Record that the job has ended, so that the next start need not check this process. Safe to call more than
        once. Raises CheckpointError."""
        if self._over.is_set():
            return
        self._over.set()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join(SILENCE_SECONDS)
        try:
            if self.number and self._has_document():
                self.checkpoint.write(f"{_OWNER}.{self.number}", self.owner.over().to_json(), durable=False)
                self.checkpoint.delete(f"{_ALIVE}.{self.number}")
        finally:
            _PRESENT.discard(self.owner.id)
            self._lock.release()

    def _keep(self) -> None:
        while not self._over.wait(RENEWAL_SECONDS):
            try:
                self._renew()
                self.look()
            except FencedError as error:
                if self.on_lost is not None:
                    self.on_lost(error)
                return
            except Exception:  # noqa: BLE001, S112 - the storage does not answer, or Spark has died: the job says so
                continue

    def _renew(self) -> None:
        self._renewals += 1
        said = {"id": self.owner.id, "renewals": self._renewals, "at_ms": now_ms()}
        self.checkpoint.write(f"{_ALIVE}.{self.number}", said, durable=False)
        if not self.owner.locked:  # the former owner may have held it
            self._lock = self.checkpoint.lock(_LOCK)
            if self._lock.taken and self._has_document():
                self.owner = replace(self.owner, locked=True)
                self.checkpoint.write(f"{_OWNER}.{self.number}", self.owner.to_json())


@dataclass
class _Watch:
    """Checks whether an owner of a checkpoint still runs. ``held``: another process holds the lock of its folder."""

    checkpoint: JobCheckpoint
    job: str
    warn: Callable[[str], None]
    held: bool

    def check(self, number: int, owner: Owner | None) -> None:
        """Raise AlreadyRunningError if the present owner, whose document has this number, still runs."""
        owner = _live(owner)
        if owner is None:
            return
        me, process = this_process(), owner.process
        if process == me and owner.locked:
            runs: bool | None = self.held  # a copied folder, if nobody holds its lock
        elif me.is_neighbour(process):
            runs = True
        elif _locks_here(process) and owner.locked:
            runs = self.held  # in another container
        else:
            runs = None
        if runs is None:
            self._listen(number, owner)
        elif runs:
            still = ", which stands still (SIGSTOP)" if me.is_neighbour(process) and process.stands_still() else ""
            raise self._refusal(owner, still)

    def _listen(self, number: int, owner: Owner) -> None:
        """Raise AlreadyRunningError if an owner on another machine gives a sign of life."""
        first, age = _document(self.checkpoint, f"{_ALIVE}.{number}"), _age_ms(self.checkpoint, number, owner)
        if age > _OLD_MS:
            return
        self.warn(
            f"job '{self.job}': its checkpoint was last used by {owner}, {max(age, 0) / 1000:.0f} s ago; waiting up to "
            f"{SILENCE_SECONDS:g} s to see whether that is alive"
        )
        until = time.monotonic() + SILENCE_SECONDS
        while time.monotonic() < until:
            time.sleep(_POLL_SECONDS)
            if _latest(self.checkpoint) != (number, owner):
                return  # it has ended, or there is another: the caller checks again
            if _document(self.checkpoint, f"{_ALIVE}.{number}") != first:
                raise self._refusal(owner, "")

    def _refusal(self, owner: Owner, still: str) -> AlreadyRunningError:
        return AlreadyRunningError(
            f"job '{self.job}' runs already, on the checkpoint '{self.checkpoint.location}' or a copy of it: "
            f"{owner}{still}. Stop it first, or take its place with --take-over ('penstock.take-over' = 'true'), which "
            "ends it"
        )


def _live(owner: Owner | None) -> Owner | None:
    """The owner, unless it is known to have ended."""
    return None if owner is None or owner.ended or _has_ended(owner) else owner


def _has_ended(owner: Owner) -> bool:
    """Whether the process of an owner is one of this machine that has ended."""
    process: Process = owner.process
    if process == this_process():
        return owner.id not in _PRESENT
    return this_process().is_neighbour(process) and not process.runs()


def _age_ms(checkpoint: JobCheckpoint, number: int, owner: Owner) -> int:
    """The age of the last sign of life of the owner whose document has this number, by the clocks of two machines."""
    return now_ms() - int(_document(checkpoint, f"{_ALIVE}.{number}").get("at_ms", owner.since_ms))


def _locks_here(process: Process) -> bool:
    """Whether this process sees a lock that another process holds, perhaps in another container."""
    return process.kernel == this_process().kernel


def _latest(checkpoint: JobCheckpoint) -> tuple[int, Owner | None]:
    """The number of the last owner's document, and the owner; None if it cannot be read."""
    while True:
        number = checkpoint.last_number(_OWNER)
        if number == 0:
            return 0, None
        with contextlib.suppress(KeyError, TypeError):
            return number, Owner.from_json(_document(checkpoint, f"{_OWNER}.{number}"))
        if checkpoint.last_number(_OWNER) == number:  # it is damaged: the next owner writes another one
            return number, None


def _document(checkpoint: JobCheckpoint, name: str) -> dict[str, Any]:
    """A document; empty if it is missing or damaged."""
    try:
        return checkpoint.read(name) or {}
    except CheckpointUnavailableError:
        raise
    except CheckpointError:
        return {}
