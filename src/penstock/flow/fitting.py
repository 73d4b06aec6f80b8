"""Whether the steps of a job can go on from a state, which may be that of a former definition."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Literal, TypeAlias

from penstock.errors import CheckpointError
from penstock.flow.manifest import Manifest
from penstock.flow.manifest import Tables as StoredTables
from penstock.flow.parts import part_of
from penstock.flow.segments import SegmentReader, TableSpec
from penstock.flow.storage import Storage
from penstock.plan.step_identity import StepIdentity, compared

#: What becomes of the state of a step: it is kept; there is none yet; there was none left when the step changed; it is
#: dropped, because the user said so; it does not fit; it does not fit another step, from which the step takes its rows;
#: or no step has it.
Fate: TypeAlias = Literal["kept", "new", "empty", "reset", "refused", "unclaimed"]


@dataclass(frozen=True)
class FlowStep:
    """A step with state: its identity, its tables, and the uids of the steps from which it takes rows, at once or by
    others. ``timed``: what it does depends on the watermark."""

    identity: StepIdentity
    tables: tuple[TableSpec, ...]
    below: frozenset[str] = frozenset()
    timed: bool = False


@dataclass(frozen=True)
class Verdict:
    """What becomes of the state of the step ``uid``. ``changes`` are clauses that say what has changed."""

    uid: str
    fate: Fate
    changes: tuple[str, ...] = ()

    def describe(self) -> str:
        """A human-readable line."""
        changes = "; ".join(self.changes)
        match self.fate:
            case "kept":
                return f"'{self.uid}' keeps its state" + (f" ({changes})" if changes else "")
            case "new":
                return f"'{self.uid}' starts empty: it is new"
            case "empty":
                return f"'{self.uid}' starts empty: it keeps no rows now, and has changed ({changes})"
            case "reset":
                return f"'{self.uid}' starts empty: its state is dropped ({changes})"
            case "unclaimed":
                return f"'{self.uid}' has state, and is no step of the job any more"
        return f"'{self.uid}' is refused: {changes}"


@dataclass(frozen=True)
class Fitting:
    """How the ``steps`` of a job, by uid, go on from a state. The steps in ``reset`` begin empty if their state does
    not fit, and their state is left out if the job does not have them; with ``unclaimed`` the state of all steps that
    it does not have is."""

    steps: Mapping[str, FlowStep]
    #: What is measured as event time, by the names of timings.
    measures: Mapping[str, str] = field(default_factory=dict)
    reset: Collection[str] = ()
    unclaimed: bool = False

    def verdicts(self, manifest: Manifest, storage: Storage) -> tuple[Verdict, ...]:
        """What becomes of the state of each step. ``storage`` has the files of the state, for one of a former version,
        which knows only the columns."""
        found = {uid: self._verdict(uid, step, manifest, storage) for uid, step in self.steps.items()}
        for uid, step in self.steps.items():
            emptied = sorted(each for each in step.below if found[each].fate == "reset")
            if found[uid].fate == "kept" and emptied and uid in self.reset:
                found[uid] = Verdict(uid, "reset", (f"'{emptied[0]}', from which it takes rows, starts empty",))
            elif found[uid].fate == "kept" and emptied:
                found[uid] = Verdict(
                    uid, "refused", (f"it takes rows from '{emptied[0]}', which starts empty, and has state of them",)
                )
        gone = [uid for uid in manifest.operators if uid not in self.steps and _holds(manifest.operators[uid])]
        dropped = "the job does not have it any more"
        left = (Verdict(uid, "reset", (dropped,)) if self._leaves(uid) else Verdict(uid, "unclaimed") for uid in gone)
        return (*found.values(), *left)

    def _leaves(self, uid: str) -> bool:
        return self.unclaimed or uid in self.reset

    def _verdict(self, uid: str, step: FlowStep, manifest: Manifest, storage: Storage) -> Verdict:
        stored = manifest.operators.get(uid)
        if stored is None:
            return Verdict(uid, "new")
        before = manifest.identities.get(uid)
        refused, noted = (
            (tuple(_misfits(step, stored, storage, uid)), ()) if before is None else _compared(before, step.identity)
        )
        if not refused:
            return Verdict(uid, "kept", noted)
        if not _holds(stored):
            return Verdict(uid, "empty", refused)
        return Verdict(uid, "reset" if uid in self.reset else "refused", refused)

    def fitted(self, manifest: Manifest, storage: Storage, where: str) -> Manifest:
        """The state that the job goes on from; the same one if nothing of it changes. ``where`` is the place of the
        state, for the message.

        Raises CheckpointError if it does not fit the job.
        """
        if (manifest.identities, manifest.measures) == (self.identities, self.measures):
            return manifest
        verdicts = self.verdicts(manifest, storage)
        check(verdicts, where)
        kept = {each.uid for each in verdicts if each.fate == "kept"}
        operators = {
            uid: {name: refs for name, refs in tables.items() if _known(name, self.steps[uid])}
            for uid, tables in manifest.operators.items()
            if uid in kept
        }
        seen = {uid: each for uid, each in manifest.operator_times.items() if uid in kept}
        # A watermark goes on, unless it is that of other times, and no step has seen it.
        timed = any(self.steps[uid].timed for uid in kept)
        new = (
            {} if timed else {name for name, each in self.measures.items() if manifest.measures.get(name, each) != each}
        )
        times = {name: each for name, each in manifest.times.items() if name not in new}
        return replace(
            manifest,
            operators=operators,
            operator_times=seen,
            times=times,
            identities=self.identities,
            measures=self.measures,
        )

    @cached_property
    def identities(self) -> Mapping[str, Mapping[str, Any]]:
        """The identities of the steps, for the manifest."""
        return {uid: step.identity.to_json() for uid, step in self.steps.items()}


def check(verdicts: Sequence[Verdict], where: str) -> None:
    """Raises CheckpointError, which says what to do, if the state of one of these steps does not fit the job, or no
    step has it."""
    refused = [each for each in verdicts if each.fate == "refused"]
    unclaimed = [each.uid for each in verdicts if each.fate == "unclaimed"]
    if not (refused or unclaimed):
        return
    reasons = [f"the state of '{each.uid}' does not fit the job: {'; '.join(each.changes)}" for each in refused]
    if unclaimed:
        reasons.append(f"has state of {', '.join(map(repr, unclaimed))}, which the job does not have any more")
    flags = " ".join(f"--reset-state '{uid}'" for uid in (*(each.uid for each in refused), *unclaimed))
    what = "begin without this state" if unclaimed else "let the step begin empty"
    raise CheckpointError(
        f"{where}: {'; '.join(reasons)}. Undo the change; or {what} with {flags} (docs/state.md, My query has changed, "
        "says what that means for the tables that are written); or start with another checkpoint directory"
    )


def _compared(before: Mapping[str, Any], now: StepIdentity) -> tuple[tuple[str, ...], tuple[str, ...]]:
    known = StepIdentity.from_json(before)
    if known is None:
        return ("its state was written by a newer version of penstock, which this one does not understand",), ()
    found = compared(known, now)
    return found.refused, found.noted


def _misfits(step: FlowStep, stored: StoredTables, storage: Storage, uid: str) -> Iterator[str]:
    """How the columns of the stored tables differ from those of the step, where nothing else is known of them."""
    specs = {each.name: each for each in step.tables}
    reader = SegmentReader(storage, uid)
    for name, refs in stored.items():
        if not refs:
            continue
        spec = specs.get(_table(name))
        if spec is None:
            yield f"it keeps no '{_table(name)}' any more"
            continue
        yield from reader.misfits(max(refs, key=lambda ref: ref.newest), spec)
    plain = [each.name for each in step.tables if not each.parted]
    if _holds(stored):
        yield from (f"it keeps '{name}' now, which would begin empty" for name in plain if name not in stored)


def _known(name: str, step: FlowStep) -> bool:
    return _table(name) in {each.name for each in step.tables}


def _table(name: str) -> str:
    """The name of a table, by that of a part."""
    found = part_of(name)
    return name if found is None else found[0]


def _holds(stored: StoredTables) -> bool:
    """Whether there are rows."""
    return any(stored.values())
