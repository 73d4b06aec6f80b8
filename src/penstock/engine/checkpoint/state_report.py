"""Whether a job can continue from the state of its checkpoint, or of the savepoint that it starts with: known without
Spark, before anything is started (rule "look before taking over")."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import TypeVar

from penstock.engine.checkpoint import JobCheckpoint, job_location, local_checkpoint, read_location
from penstock.engine.checkpoint.committed import STATE, read_state
from penstock.engine.checkpoint.savepoints import read_savepoint
from penstock.errors import CheckpointError, CheckpointUnavailableError
from penstock.flow.graph.planner import plan_sinks
from penstock.flow.kernels.session import Session
from penstock.flow.state.changed_queries import Fitting, Verdict, check, known_identities
from penstock.flow.state.manifest import Manifest
from penstock.flow.state.schema_log import read_schemas
from penstock.flow.state.storage import Storage
from penstock.plan.arranging import arrange_keys
from penstock.plan.nodes import Job, scans
from penstock.plan.walk import keeps_state
from penstock.schemas import FoundColumns, Schemas

_T = TypeVar("_T")


@dataclass(frozen=True)
class StateReport:
    """What becomes of the state after ``batch``. ``where`` is its checkpoint or savepoint, as messages name it;
    ``unknown`` are names that were given to begin empty, and are those of no step and no state."""

    where: str
    batch: int
    verdicts: tuple[Verdict, ...]
    unknown: tuple[str, ...] = ()

    @property
    def title(self) -> str:
        """The heading of the lines."""
        return f"state of {self.where}, after batch {self.batch}:"

    def lines(self) -> Iterator[tuple[str, bool]]:
        """Human-readable lines, and whether nothing is lost or left out by what each says."""
        for each in self.verdicts:
            yield each.describe(), each.fate in {"kept", "new"}
        for uid in self.unknown:
            yield f"'{uid}' is neither a step nor a state: --reset-state has no effect", False

    def check(self) -> None:
        """Raises CheckpointError if the state does not fit the job."""
        check(self.verdicts, self.where)


def readable_checkpoint(job: Job) -> JobCheckpoint | None:
    """The checkpoint of a job if it can be read without Spark: one on this machine, and any job with state, which is
    read without Spark. Elsewhere Spark may have rights that only its settings name."""
    root = job_location(job.settings.checkpoint_dir, job.name)
    if local_checkpoint(root) is None and not keeps_state(*job.sinks):
        return None
    try:
        return read_location(root)
    except CheckpointError:
        return None


@dataclass(frozen=True)
class _Beginning:
    """The state that a job would continue from: the checkpoint or the savepoint at ``place``, and the reference to the
    state in it. ``new``: it is a savepoint."""

    place: JobCheckpoint
    reference: str
    new: bool

    @property
    def where(self) -> str:
        """The place, for messages."""
        return f"the {'savepoint' if self.new else 'checkpoint'} '{self.place.location}'"

    def read(self, read: Callable[[Storage, str], _T]) -> _T:
        """What ``read`` makes of the folder of the state and the reference, again if the job runs and has deleted what
        it no longer needs. Raises CheckpointError."""
        storage, reference = Storage.from_uri(self.place.folder(STATE)), self.reference
        while True:
            try:
                return read(storage, reference)
            except CheckpointError:
                again = _committed(self.place)
                if not again or again == reference:
                    raise
                reference = again


def _find_beginning(job: Job) -> _Beginning | None:
    """The state that a start of ``job`` would continue from; None as in :func:`state_report`."""
    settings = job.settings
    place = None if settings.batch or not settings.checkpointing else readable_checkpoint(job)
    if place is None:
        return None
    if place.read("job") is not None:
        found = _Beginning(place, _committed(place), new=False)
    elif settings.savepoint is not None:
        place = read_location(settings.savepoint)
        found = _Beginning(place, read_savepoint(place).content.state, new=True)
    else:
        return None
    return found if found.reference else None


def state_report(job: Job) -> StateReport | None:
    """What becomes of the state that a start of ``job``, which is planned, would continue from. None if there is none,
    if only Spark can read its place, or in batch mode, which keeps none.

    Raises CheckpointError for files that are missing or damaged, and UnsupportedError for a job that cannot be
    computed.
    """
    settings, found = job.settings, _find_beginning(job)
    if found is None:
        return None

    def report(storage: Storage, reference: str) -> StateReport | None:
        manifest = Manifest.read(storage, reference)
        fitting = fitting_of(job, manifest, unclaimed=found.new and settings.ignore_unclaimed_state)
        if found.new:
            fitting = replace(fitting, reset=settings.reset_state)
        names = (*fitting.steps, *manifest.operators)
        unknown = tuple(each for each in settings.reset_state if each not in names)
        verdicts = fitting.verdicts(manifest, storage)
        return StateReport(found.where, manifest.batch, verdicts, unknown) if verdicts else None

    return found.read(report)


@dataclass(frozen=True)
class KnownSchemas:
    """The schemas of the tables that a job has found, after ``batch``. ``where`` is its checkpoint or savepoint, as
    messages name it."""

    where: str
    batch: int
    schemas: Schemas


def find_schemas(job: Job) -> KnownSchemas | None:
    """The schemas that a start of ``job`` would continue from; None as in :func:`state_report`. Raises CheckpointError
    for files that are missing or damaged."""
    found = _find_beginning(job)
    if found is None:
        return None

    def read(storage: Storage, reference: str) -> KnownSchemas:
        manifest = Manifest.read(storage, reference)
        schemas = read_schemas(found.place.folder(STATE), manifest.schemas)
        return KnownSchemas(found.where, manifest.batch, schemas)

    return found.read(read)


def find_columns(job: Job) -> dict[str, FoundColumns]:
    """The columns of tables that declare none, by their places, with which a start of ``job``, of which the name and
    the settings are known, would continue; none where only Spark can read its checkpoint. Raises CheckpointError."""
    settings = job.settings
    if settings.batch or not settings.checkpointing:
        return {}
    try:
        place = read_location(job_location(settings.checkpoint_dir, job.name))
        known = place.read("job")
        if known is not None:
            documents = [place.read(f"source-{number}") for number, _ in enumerate(known.get("sources", ()))]
        elif settings.savepoint is not None:
            documents = [*read_savepoint(read_location(settings.savepoint)).content.sources.values()]
        else:
            return {}
    except CheckpointUnavailableError:
        return {}  # the start says so, and that the columns are others, if they are
    found = (FoundColumns.from_json(each["columns"]) for each in documents if each and "columns" in each)
    return {each.place: each for each in found}


def claimed_steps(job: Job, savepoint: str) -> frozenset[str]:
    """The uids under which a savepoint has the state of the steps of ``job``: when several have one name, their numbers
    change as steps are added and removed. Raises CheckpointError, and UnsupportedError as :func:`state_report`."""
    place = read_location(savepoint)
    manifest = Manifest.read(Storage.from_uri(place.folder(STATE)), read_savepoint(place).content.state)
    return fitting_of(job, manifest).claimed_uids(manifest)


def fitting_of(job: Job, manifest: Manifest, *, unclaimed: bool = False) -> Fitting:
    """What decides whether a job can continue from a state, as far as that is known without Spark: not its time zone,
    unless it is set."""
    settings = job.settings
    zone, sinks = settings.session_time_zone or "", arrange_keys(job.sinks, known_identities(manifest))
    planner = plan_sinks(sinks, scans(*sinks), Session(zone or "UTC"), settings)
    return planner.fitting(settings.reset_state, unclaimed=unclaimed, zone=zone)


def _committed(place: JobCheckpoint) -> str:
    """The reference to the state that a checkpoint names; empty for none, and in a savepoint."""
    origin = (place.read("job") or {}).get("origin", {})
    return str((read_state(place) or {}).get("state") or origin.get("state", ""))
