"""Whether the steps of a job can continue from a state, which a former definition may have written."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Literal, TypeAlias

from penstock.errors import CheckpointError
from penstock.flow.state.manifest import Manifest
from penstock.flow.state.manifest import Tables as StoredTables
from penstock.flow.state.parts import part_of
from penstock.flow.state.segments import SegmentReader, TableSpec
from penstock.flow.state.storage import Storage
from penstock.flow.time.watermarks import WatermarkProgress
from penstock.plan.step_identity import StepIdentity, compare_identities, rename_identity, stored_names, table_names

#: The names of columns in the state, by uid, by the side of the step and by their present names.
ColumnNames: TypeAlias = Mapping[str, Mapping[str, Mapping[str, str]]]

#: What happens to the state of a step: it is kept; there is none yet; there was none left when the step changed; the
#: user drops it; it does not fit; or no step has it.
Fate: TypeAlias = Literal["kept", "new", "empty", "reset", "refused", "unclaimed"]


@dataclass(frozen=True)
class FlowStep:
    """A step with state: its identity, its tables, and the uids of the steps from which it takes rows, at once or by
    others. ``timed``: what it does depends on the watermark. ``changing``: rows that it takes may be retracted.
    ``may_have`` says whether its tables may have a part of a time."""

    identity: StepIdentity
    tables: tuple[TableSpec, ...]
    below: frozenset[str] = frozenset()
    timed: bool = False
    changing: bool = False
    may_have: Callable[[int], bool] = lambda _: True


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
                return f"'{self.uid}' starts empty: it is new, or has kept nothing so far"
            case "empty":
                return f"'{self.uid}' starts empty: it keeps no rows now, and has changed ({changes})"
            case "reset":
                return f"'{self.uid}' starts empty: its state is dropped ({changes})"
            case "unclaimed":
                return f"'{self.uid}' has state, but the job no longer has this step"
        return f"'{self.uid}' is refused: {changes}"


@dataclass(frozen=True)
class Fitting:
    """How the ``steps`` of a job, by uid, continue from a state. The steps in ``reset`` begin empty if their state does
    not fit, and their state is left out if the job does not have them; with ``unclaimed`` the state of all steps that
    the job does not have is left out."""

    steps: Mapping[str, FlowStep]
    #: What is measured as event time, by the names of watermark generators.
    measures: Mapping[str, str] = field(default_factory=dict)
    reset: Collection[str] = ()
    unclaimed: bool = False

    def verdicts(self, manifest: Manifest, storage: Storage) -> tuple[Verdict, ...]:
        """What becomes of the state of each step. ``storage`` has the files of the state, for one of a former version,
        which knows only the columns."""
        former = self._former(manifest)
        found = {uid: self._verdict(uid, former.get(uid), step, manifest, storage) for uid, step in self.steps.items()}
        for uid, step in self.steps.items():
            emptied = sorted(each for each in step.below if self._forgets(found[each], manifest))
            if found[uid].fate == "kept" and emptied:
                reason = f"it has state of rows from '{emptied[0]}', which starts empty"
                found[uid] = Verdict(uid, "reset" if uid in self.reset else "refused", (reason,))
        gone = sorted(uid for uid in manifest.operators.keys() - former.values() if _holds(manifest.operators[uid]))
        return (*found.values(), *map(self._unclaimed, gone))

    def _forgets(self, verdict: Verdict, manifest: Manifest) -> bool:
        """Whether a step begins empty and does not know earlier rows that may be retracted, or that it gave."""
        step = self.steps[verdict.uid]
        if verdict.fate != "new" or not step.changing or not manifest.identities:
            return verdict.fate == "reset"
        family = _family(verdict.uid)  # of which a step may be known that has kept nothing so far
        return not any(
            _family(uid) == family and not _compared(known, step.identity)[0]
            for uid, known in manifest.identities.items()
        )

    def claimed_uids(self, manifest: Manifest) -> frozenset[str]:
        """The uids under which a state has that of the steps, whether it fits them or not."""
        return frozenset(self._former(manifest).values())

    def _unclaimed(self, uid: str) -> Verdict:
        if self.unclaimed or uid in self.reset:
            return Verdict(uid, "reset", ("the job does not have it any more",))
        return Verdict(uid, "unclaimed")

    def _former(self, manifest: Manifest) -> dict[str, str]:
        """The uids under which the steps have their state. The numbers of steps of one kind change when others are
        added or removed: each gets the state that fits best, and its own uid's among equals."""
        found: dict[str, str] = {}
        for exactly in (True, False):
            for own in (True, False):
                for uid, step in self.steps.items():
                    if uid in found:
                        continue
                    among = (
                        [uid] if own else [each for each in sorted(manifest.operators) if _family(each) == _family(uid)]
                    )
                    free = (each for each in among if each not in found.values())
                    fits = next((each for each in free if _fits(each, step, manifest, exactly=exactly)), None)
                    if fits is not None:
                        found[uid] = fits
        rest = (uid for uid in self.steps if uid not in found and uid in manifest.operators)
        return {**found, **{uid: uid for uid in rest if uid not in found.values()}}

    def _verdict(self, uid: str, former: str | None, step: FlowStep, manifest: Manifest, storage: Storage) -> Verdict:
        if former is None:
            return Verdict(uid, "new")
        stored, before = manifest.operators[former], manifest.identities.get(former)
        refused, noted = (
            (tuple(_misfits(step, stored, storage, uid)), ()) if before is None else _compared(before, step.identity)
        )
        if not refused:
            moved = () if former == uid else (f"it was called '{former}'",)
            return Verdict(uid, "kept", (*moved, *noted))
        if not _holds(stored):
            return Verdict(uid, "empty", refused)
        return Verdict(uid, "reset" if uid in self.reset else "refused", refused)

    def fit(self, manifest: Manifest, storage: Storage, where: str) -> Manifest:
        """The state that the job continues from; the same one if nothing of it changes. ``where`` is the place of the
        state, for the message.

        Raises CheckpointError if it does not fit the job.
        """
        if (manifest.identities, manifest.measures) == (self.identities, self.measures):
            return manifest
        verdicts = self.verdicts(manifest, storage)
        check(verdicts, where)
        former = self._former(manifest)
        kept = {each.uid: former[each.uid] for each in verdicts if each.fate == "kept"}
        identities = {**self.identities}
        for uid, each in kept.items():
            before = StepIdentity.from_json(manifest.identities.get(each, identities[uid]))
            if before is not None:
                now = self.steps[uid].identity
                identities[uid] = rename_identity(now, stored_names(before, now)).to_json()
        found = replace(
            manifest,
            operators={uid: self._tables(uid, each, manifest) for uid, each in kept.items()},
            operator_times={
                uid: manifest.operator_times[each] for uid, each in kept.items() if each in manifest.operator_times
            },
            times=self._times(manifest, kept),
            identities=identities,
            measures=self.measures,
        )
        return manifest if found == manifest else found

    def _tables(self, uid: str, former: str, manifest: Manifest) -> StoredTables:
        """The tables of a step that it still has, by their present names."""
        step, known = self.steps[uid], manifest.identities.get(former)
        before = None if known is None else StepIdentity.from_json(known)
        names = {} if before is None else table_names(before, step.identity)
        tables = {_renamed(name, names): refs for name, refs in manifest.operators[former].items()}
        present = {each.name for each in step.tables}
        return {name: refs for name, refs in tables.items() if _table(name) in present}

    def _times(self, manifest: Manifest, kept: Collection[str]) -> Mapping[str, WatermarkProgress]:
        """The watermarks, without those whose meaning has changed, unless a step has seen them."""
        if any(self.steps[uid].timed for uid in kept):
            return manifest.times
        new = {name for name, each in self.measures.items() if manifest.measures.get(name, each) != each}
        return {name: each for name, each in manifest.times.items() if name not in new}

    def names(self, manifest: Manifest) -> ColumnNames:
        """The names of columns in the tables of a state that :meth:`fit` gave, where they have other ones now."""
        found: dict[str, Mapping[str, Mapping[str, str]]] = {}
        if manifest.identities == self.identities:
            return found
        for uid, step in self.steps.items():
            known = manifest.identities.get(uid)
            before = None if known is None or uid not in manifest.operators else StepIdentity.from_json(known)
            names = {} if before is None else stored_names(before, step.identity)
            if names:
                found[uid] = names
        return found

    @cached_property
    def identities(self) -> Mapping[str, Mapping[str, Any]]:
        """The identities of the steps, for the manifest."""
        return {uid: step.identity.to_json() for uid, step in self.steps.items()}


def known_identities(manifest: Manifest) -> dict[str, StepIdentity]:
    """The identities of the steps with state, as far as this version understands them, by uid."""
    found = {
        uid: StepIdentity.from_json(each) for uid, each in manifest.identities.items() if uid in manifest.operators
    }
    return {uid: each for uid, each in found.items() if each is not None}


def check(verdicts: Sequence[Verdict], where: str) -> None:
    """Raises CheckpointError, which says what to do, if the state of one of these steps does not fit the job, or no
    step has it."""
    refused = [each for each in verdicts if each.fate == "refused"]
    unclaimed = [each.uid for each in verdicts if each.fate == "unclaimed"]
    if not (refused or unclaimed):
        return
    reasons = [f"the state of '{each.uid}' does not fit the job: {'; '.join(each.changes)}" for each in refused]
    what = "; ".join(reasons)
    if unclaimed:
        has = f"has state of {', '.join(map(repr, unclaimed))}, which the job does not have any more"
        what = f"{what}; and it {has}" if refused else has
    flags = " ".join(f"--reset-state '{uid}'" for uid in (*(each.uid for each in refused), *unclaimed))
    begin = f"{'begin without this state' if unclaimed else 'let the step begin empty'} with {flags}"
    raise CheckpointError(
        f"{where}{':' if refused else ''} {what}. Undo the change; or {begin} (docs/changed-queries.md says what that "
        "means for the tables that are written); or start with another checkpoint directory"
    )


def _fits(uid: str, step: FlowStep, manifest: Manifest, *, exactly: bool) -> bool:
    """Whether the state of that uid is known to be that of a step, whose definition has ``exactly`` not changed."""
    known = manifest.identities.get(uid)
    if known is None or uid not in manifest.operators:
        return False
    return known == step.identity.to_json() if exactly else not _compared(known, step.identity)[0]


def _compared(before: Mapping[str, Any], now: StepIdentity) -> tuple[tuple[str, ...], tuple[str, ...]]:
    known = StepIdentity.from_json(before)
    if known is None:
        return ("its state was written by a newer version of penstock, which this one does not understand",), ()
    found = compare_identities(known, now)
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
        yield from reader.find_misfits(max(refs, key=lambda ref: ref.newest), spec)
        part = part_of(name)
        if part is not None and not step.may_have(part[1]):
            yield f"it has rows of a window that ends at {part[1]} ms, at which no window ends now"
    plain = [each.name for each in step.tables if not each.parted]
    if _holds(stored):
        yield from (f"it keeps '{name}' now, which would begin empty" for name in plain if name not in stored)


def _family(uid: str) -> str:
    """A uid without the number behind it."""
    return re.sub(r" \d+$", "", uid)


def _renamed(name: str, names: Mapping[str, str]) -> str:
    """The name of a table, or of a part of one, with the table's present name."""
    table = _table(name)
    return names.get(table, table) + name[len(table) :]


def _table(name: str) -> str:
    """The name of a table, by that of a part."""
    found = part_of(name)
    return name if found is None else found[0]


def _holds(stored: StoredTables) -> bool:
    """Whether there are rows."""
    return any(stored.values())
