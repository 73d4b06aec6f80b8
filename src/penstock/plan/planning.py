"""From the plan of a front end to the one that runs: upserts become changes, equal state one, columns are pruned."""

from __future__ import annotations

from dataclasses import dataclass, replace

from penstock.errors import Problem, SchemaError
from penstock.plan.checks import (
    check_batch,
    check_changes,
    check_conflicts,
    check_determinism,
    check_modes,
    check_names,
    check_overwrites,
    check_reads,
)
from penstock.plan.decided_values import decide_values
from penstock.plan.enforcing import drop_nulls, enforce_lengths
from penstock.plan.event_times import with_times
from penstock.plan.expressions import coerce, columns_of, fields_of
from penstock.plan.naming import assign_uids
from penstock.plan.nodes import (
    Calculation,
    Item,
    Job,
    Materialize,
    Node,
    Normalize,
    Project,
    Scan,
    Sink,
    Stateful,
    project,
)
from penstock.plan.pruning import prune_sinks
from penstock.plan.traits import traits
from penstock.plan.walk import fold, rewrite
from penstock.settings import FORCE, IGNORE, NONE, Settings
from penstock.spi import CHANGES, INSERTIONS, AnySettings, SinkCapabilities
from penstock.types import RowType


def plan_job(job: Job) -> Job:
    """``job`` as it runs. Idempotent.

    Tables of upserts become tables of changes, except where a sink takes the same upserts. Equal steps with state
    become one. They get only the columns that are read, and a ``uid`` each. Raises SchemaError or UnsupportedError for
    a table whose changes do not say what its rows are, for a sink that cannot keep what it is given, and for steps that
    could not retract rows.
    """
    check_names(job)
    check_modes(job.sinks)
    check_overwrites(job)
    # Steps that differ only in unread columns, such as PROCTIME(), are equal once these are removed, so equal steps are
    # looked for twice.
    if job.settings.batch:
        check_batch(job)
        sinks = drop_nulls(enforce_lengths(_add_event_times(job), job.settings), job.settings)
        job = replace(job, sinks=assign_uids(_share_steps(prune_sinks(_share_steps(sinks)))))
        check_reads(job)
        return job
    sinks = _normalize_upserts(enforce_lengths(_deduplicate_changes(_add_event_times(job), job.settings), job.settings))
    sinks = drop_nulls(sinks, job.settings)
    check_conflicts(sinks, job.settings)
    sinks = prune_sinks(_share_steps(_materialize_sinks(sinks, job.settings)))
    if job.settings.nondeterministic_updates != IGNORE:
        sinks = decide_values(sinks)
    job = replace(job, sinks=assign_uids(_share_steps(sinks)))
    check_reads(job)
    check_changes(job)
    check_determinism(job)
    return job


def _add_event_times(job: Job) -> tuple[Sink, ...]:
    """The sinks of a job, above scans that look for event times where it needs them."""
    return job.sinks if job.settings.lenient else with_times(job.sinks)


def plan_query(node: Node, name: str, settings: Settings) -> Job:
    """The job of a query into a table that takes all changes; ``name`` is the table's, and precedes those of steps."""
    return plan_job(Job(name, (Sink(node.schema, node, name, "", _Everything(name, node.schema)),), settings))


@dataclass(frozen=True)
class _Everything(AnySettings):
    """A table that takes all changes."""

    table: str
    schema: RowType

    @property
    def capabilities(self) -> SinkCapabilities:
        return SinkCapabilities(kinds=CHANGES, guarantee=None)

    def describe(self) -> str:
        return ""


def _deduplicate_changes(sinks: tuple[Sink, ...], settings: Settings) -> tuple[Sink, ...]:
    """The sinks, with a step that removes repeated changes above each table that may have them; upserts become changes
    anyway. Raises SchemaError for such a table without a key."""
    if not settings.cdc_events_duplicate:
        return sinks
    done: set[int] = set()
    fold(sinks, lambda node, _: done.add(id(node.input)) if isinstance(node, Normalize) else None)

    def change(node: Node) -> Node:
        if not isinstance(node, Scan) or node.spec.capabilities.upsert_keys or id(node) in done:
            return node
        if node.spec.capabilities.kinds <= INSERTIONS:
            return node
        if not node.key:
            reason = "'table.exec.source.cdc-events-duplicate' needs a PRIMARY KEY, and the table has none"
            raise SchemaError((Problem(reason, where=f"table '{node.table}'", hint="declare one"),))
        return Normalize(node.schema, node, node.key)

    return rewrite(sinks, change)


def _normalize_upserts(sinks: tuple[Sink, ...]) -> tuple[Sink, ...]:
    """The sinks, with a step that makes changes of the upserts of each table, where the upserts are not enough."""
    done: set[int] = set()

    def note(node: Node, _: tuple[None, ...]) -> None:
        if isinstance(node, Normalize):
            below = node.input
            while isinstance(below, Project):
                below = below.input
            done.add(id(below))

    fold(sinks, note)

    def change(node: Node) -> Node:
        if not isinstance(node, Scan) or not node.spec.capabilities.upsert_keys or id(node) in done:
            return node
        return Normalize(node.schema, node, node.spec.capabilities.upsert_keys)

    passing = [_passes_upserts(sink) for sink in sinks]
    made = iter(rewrite([sink for sink, passes in zip(sinks, passing, strict=True) if not passes], change))
    return tuple(sink if passes else next(made) for sink, passes in zip(sinks, passing, strict=True))


def _passes_upserts(sink: Sink) -> bool:
    """Whether the upserts of a table can go to the sink as they are: the sink keeps one row for each value of the same
    keys, and the steps in between pass both rows of an update, or neither."""
    node: Node = sink.input
    while isinstance(node, Calculation):
        if node.kept_if is not None and not any(
            columns_of(node.kept_if) <= set(key) for key in traits(node.input).upsert_keys
        ):
            return False
        node = node.input
    if sink.takes_dead_letters:
        return True
    keys = set(sink.spec.capabilities.upsert_keys)
    return isinstance(node, Scan) and bool(keys) and any(set(key) == keys for key in traits(sink).upsert_keys)


def _materialize_sinks(sinks: tuple[Sink, ...], settings: Settings) -> tuple[Sink, ...]:
    """The sinks that keep one row for each value of their key, with a step before those whose rows have another key:
    several of them may have one value, and which comes last would be random."""
    return tuple(_keep_last_rows(sink) if _needs_last_rows(sink, settings) else sink for sink in sinks)


def _needs_last_rows(sink: Sink, settings: Settings) -> bool:
    key, given = sink.spec.capabilities.upsert_keys, traits(sink)
    if not key or sink.takes_dead_letters or isinstance(sink.input, Materialize) or settings.upsert_materialize == NONE:
        return False
    if settings.upsert_materialize == FORCE:
        return True
    return given.changing and not any(set(each) <= set(key) for each in given.upsert_keys)


def _keep_last_rows(sink: Sink) -> Sink:
    """``sink`` above a step that gives the last row of each of its keys, in the types of its columns."""
    pairs = zip(fields_of(sink.input.schema), sink.schema.fields, strict=True)
    below = project(sink.input, tuple(Item(each.name, coerce(each, to.type)) for each, to in pairs))
    names = dict(zip(sink.schema.names, below.schema.names, strict=True))
    keys = tuple(names[each] for each in sink.spec.capabilities.upsert_keys)
    return replace(sink, input=Materialize(below.schema, below, keys))


def _share_steps(sinks: tuple[Sink, ...]) -> tuple[Sink, ...]:
    """The sinks, with one step in place of equal steps with state, which would keep the same state twice. Steps whose
    rows depend on chance or on a user's function stay separate."""
    known: dict[Node, Node] = {}
    repeatable: dict[int, bool] = {}

    def change(node: Node) -> Node:
        below = all(repeatable[id(each)] for each in node.inputs)
        own = node.deterministic
        made = known.setdefault(node, node) if below and own and isinstance(node, Stateful) else node
        repeatable[id(made)] = below and own
        return made

    return rewrite(sinks, change)
