"""The states after a job's batches: their manifests, and the files that no batch needs any more."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from penstock.clock import now_ms
from penstock.delivery import FINISH_BATCH
from penstock.engine.checkpoint import JobCheckpoint
from penstock.engine.checkpoint.committed import STATE, read_state
from penstock.errors import CheckpointError, CheckpointUnavailableError
from penstock.flow.state.changed_queries import Fitting, known_identities
from penstock.flow.state.manifest import Manifest, Sinks, check_state
from penstock.flow.state.storage import Storage
from penstock.plan.step_identity import StepIdentity
from penstock.spi import Checkpoint

#: The age of files that no manifest names before they are deleted: a day. A batch writes its files before anything
#: names them, so the age must exceed the time that a batch takes with all its attempts, and the difference between the
#: clocks of this machine and of the storage.
_GRACE_MS = 24 * 3600 * 1000


@dataclass(eq=False)
class StateHistory:
    """The states of a job in one run, in the folder ``storage``. ``fitting`` knows the job's steps, ``location`` is
    that of its checkpoint, for messages."""

    storage: Storage
    fitting: Fitting
    location: str
    #: The state that was read or written last, and its reference.
    _last: tuple[str, Manifest] = field(default=("", Manifest()), init=False)
    #: The states after the last two committed batches, the older one first: what it alone needs is deleted after the
    #: next one.
    _former: list[tuple[str, Manifest]] = field(default_factory=list, init=False)
    #: Old files; those that no state needs are deleted after the next commit.
    _old: frozenset[str] = field(default=frozenset(), init=False)

    @property
    def last(self) -> Manifest:
        """The state that was read or written last."""
        return self._last[1]

    def check(self, references: Iterable[str]) -> None:
        """Check the newest of these states at the start, rather than with the next batch: whether it fits the job, and
        whether all of its files exist. Also look for old files. Once a target has a batch, the state before it may be
        deleted.

        Raises CheckpointError as :meth:`state_after`, and if a file is missing, with its name.
        """
        found = {each: Manifest.read(self.storage, each) for each in references if each}
        if found:
            newest = max(found, key=lambda each: found[each].batch)
            check_state(self.storage, newest)
            self.fitting.fit(found[newest], self.storage, self._where)
        # List them now: later a copy of the job may have taken over, whose new files must not be among these.
        latest = now_ms() - _GRACE_MS
        self._old = frozenset(each.name for each in self.storage.files() if 0 < each.written_ms <= latest)

    def verify(self, checkpoint: Checkpoint, origin: str) -> None:
        """Check the state that the checkpoint names (or ``origin``) before taking the targets over, so that a healthy
        run is not fenced for nothing (rule "look before taking over").

        Raises CheckpointError as :meth:`state_after`, and if a file of it is missing.
        """
        while True:
            known = read_state(checkpoint)
            reference = (known or {}).get("state") or origin
            try:
                if self.state_after(reference).files():
                    check_state(self.storage, reference)
                return
            except CheckpointError:
                if read_state(checkpoint) == known:
                    raise  # else the healthy run continues, and has deleted what it does not need any more

    def state_before(self, reference: str) -> Manifest:
        """The committed state that a batch begins with, without that of steps which begin empty. Raises CheckpointError
        as :meth:`state_after`."""
        found = self._read(reference)
        if reference and not self._former:  # that of a former run
            self._former.append((reference, found))
        return self.fitting.fit(found, self.storage, self._where)

    def state_after(self, reference: str) -> Manifest:
        """The state of a reference. Raises CheckpointError if it is not there, or does not fit the job."""
        found = self._read(reference)
        self.fitting.fit(found, self.storage, self._where)
        return found

    @property
    def _where(self) -> str:
        return f"the checkpoint '{self.location}'"

    def check_sinks(self, batch: int, reference: str, sinks: Sinks, *, everywhere: bool) -> None:
        """Raise CheckpointError if ``batch``, whose state is ``reference``, was committed by one table and may be
        missing from an at-least-once table that the job did not write, or wrote exactly-once, at the time.
        ``everywhere``: every table has the batch."""
        had = self.state_after(reference).sinks
        lacking = [] if had is None else sinks.find_lacking(had, everywhere=everywhere)
        if lacking:
            raise CheckpointError(
                f"batch {batch} was committed, and {', '.join(lacking)} may lack it, which the job of the checkpoint "
                f"'{self.location}' did not write then, or wrote exactly-once: the job's definition has changed since. "
                f"{FINISH_BATCH}"
            )

    def write(self, manifest: Manifest, name: str) -> str:
        """Write a manifest as the file ``name``; the reference to it."""
        reference = manifest.write(self.storage, name)
        self._last = reference, manifest
        return reference

    def discard(self, attempt: str) -> None:
        """Delete the files of an attempt whose tasks have failed: their names begin with its own, and nothing else
        names them. What a task that still runs writes later is deleted as an old file. Raises CheckpointError."""
        for each in list(self.storage.files()):
            if each.name.startswith(attempt):
                self.storage.delete(each.name)

    def drop(self, kept: Iterable[str]) -> None:
        """Delete the files in which the output of a batch was ``kept``. Raises CheckpointError."""
        for name in sorted(kept):
            self.storage.delete(name)

    def committed(self, reference: str, kept: Iterable[str] = ()) -> None:
        """All targets have the batch with this state after it. Delete the files that neither this state needs nor the
        one before it, and those in which the output of the batch was ``kept``. Raises CheckpointError if that fails."""
        self.drop(kept)
        if not reference or reference in [each for each, _ in self._former]:
            return
        self._former.append((reference, self._read(reference)))
        output, gone, self._old = self.last.output, self._old, frozenset()
        if len(self._former) > 2:
            (name, oldest), *self._former = self._former
            gone |= {*oldest.files(), _file(name)}
        for name, manifest in self._former:
            gone -= {*manifest.files(), _file(name)}
        for name in sorted({*gone, *(output.names if output is not None else ())}):
            self.storage.delete(name)

    def _read(self, reference: str) -> Manifest:
        if self._last[0] != reference:
            self._last = reference, Manifest.read(self.storage, reference)
        return self.last


def known_steps(storage: Storage, checkpoint: Checkpoint, origin: str) -> Mapping[str, StepIdentity]:
    """The identities of the steps in the state that the checkpoint names (or ``origin``), by uid; none if it is not
    there, which :meth:`StateHistory.verify` says. A job that runs may delete it at any time, and then names another.

    Raises CheckpointUnavailableError: without them the steps could not be told from others.
    """
    while True:
        known = read_state(checkpoint)
        try:
            return known_identities(Manifest.read(storage, (known or {}).get("state") or origin))
        except CheckpointUnavailableError:
            raise
        except CheckpointError:
            if read_state(checkpoint) == known:
                return {}


def check_no_state(checkpoint: JobCheckpoint, origin: str) -> None:
    """Raises CheckpointError for a checkpoint with the state of steps, which a job without state would lose. ``origin``
    is the reference to the state that its job began with; empty for none."""
    reference = (read_state(checkpoint) or {}).get("state") or origin
    if reference:
        StateHistory(Storage.from_uri(checkpoint.folder(STATE)), Fitting({}), checkpoint.location).state_after(
            reference
        )


def _file(reference: str) -> str:
    """The file of a manifest."""
    return reference.partition("#")[0]
