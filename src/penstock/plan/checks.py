"""The checks of a whole job: its sinks against its changes, its tables against its settings, and jobs against one
another."""

from __future__ import annotations

from collections.abc import Sequence

from penstock.errors import OptionsError, Problem, SchemaError, UnsupportedError
from penstock.plan.expressions import Call, Expression, Unrepeatable, walk
from penstock.plan.flink_sql import flink_sql
from penstock.plan.nodes import Calculation, Job, Node, Scan, Sink, Stateful, scans
from penstock.plan.row_traits import Traits
from penstock.plan.scalar_functions import is_deterministic
from penstock.plan.traits import traits
from penstock.plan.walk import fold
from penstock.settings import Settings
from penstock.spi import INSERTIONS, WATERMARK, ScanSpec, SinkSpec, is_own_name
from penstock.types import RowKind


def check_changes(job: Job) -> None:
    """Raises SchemaError for each sink that does not take the row kinds that it is given, as Flink's planner does."""
    problems = []
    for sink in job.sinks:
        taken = _find_accepted_kinds(sink)
        if not traits(sink).kinds <= taken:
            hint = "write it in a format for changes such as 'debezium-json'"
            if sink.input.tables_work is not None:
                changes = "the source has updates and deletions"
            else:
                changes = _describe_changes(sink, taken)
                hint += ", or to an 'upsert-kafka' table"
            hint = sink.spec.capabilities.remedy or hint
            problems.append(Problem(f"takes insertions only, and {changes}", where=sink.place, hint=hint))
    if problems:
        raise SchemaError(tuple(problems))


def check_names(job: Job) -> None:
    """Raises SchemaError for columns with names that only penstock's own have."""
    found: dict[str, None] = {}

    def visit(node: Node, _: tuple[None, ...]) -> None:
        found.update(dict.fromkeys(each for each in node.schema.names if is_own_name(each) and each != WATERMARK))

    fold(job.sinks, visit)
    if found:
        reason = "the name of a column cannot begin with the control character U+001F"
        raise SchemaError(tuple(Problem(reason, where=f"column {each!r}", hint="leave it out") for each in found))


def check_modes(sinks: Sequence[Sink]) -> None:
    """Raises SchemaError for each table whose changes do not determine its rows, as Flink's planner does: tables that
    give one of the two rows of an update, unless that row replaces the row of its key."""
    problems = []
    for scan in scans(*sinks):
        can = scan.spec.capabilities
        before, after = RowKind.UPDATE_BEFORE in can.kinds, RowKind.UPDATE_AFTER in can.kinds
        if after and not before and not can.upsert_keys:
            reason = "gives the row after an update without the row before it, which needs a PRIMARY KEY"
            problems.append(Problem(reason, where=f"table '{scan.table}'", hint="declare one, or give both rows"))
        elif before and not after:
            reason = "gives the row before an update without the row after it"
            hint = "give both rows; a removed row is a deletion"
            problems.append(Problem(reason, where=f"table '{scan.table}'", hint=hint))
    if problems:
        raise SchemaError(tuple(problems))


_STREAM = "set 'execution.runtime-mode' to 'STREAMING'"


def check_batch(job: Job) -> None:
    """Raises UnsupportedError for each table that a batch cannot read, as Flink's planner does: one without an end, and
    one whose rows are updated or deleted. All other rows are final when the only batch gives them, except those of
    windows of processing time, which the end of the tables does not close."""
    problems = []
    for scan in scans(*job.sinks):
        can, where = scan.spec.capabilities, f"table '{scan.table}'"
        if not can.bounded:
            reason = "is unbounded, and a query in batch mode reads tables that end"
            hint = f"give it an end, as 'scan.bounded.mode' = 'latest-offset' does, or {_STREAM}"
            problems.append(Problem(reason, where=where, hint=hint))
        if not can.kinds <= INSERTIONS:
            reason = "gives updates and deletions too, and a query in batch mode reads tables of insertions only"
            problems.append(Problem(reason, where=where, hint=_STREAM))

    def visit(node: Node, _: tuple[None, ...]) -> None:
        windowing = node.assigned_windows
        if windowing is not None and windowing.processing:
            reason = f"{windowing.describe()} is not supported in batch mode, in which time does not pass"
            where = f"table '{scans(node)[0].table}'"
            problems.append(Problem(reason, where=where, hint=f"use event time, or {_STREAM}"))

    fold(job.sinks, visit)
    if problems:
        raise UnsupportedError(tuple(problems))


def _find_accepted_kinds(sink: Sink) -> frozenset[RowKind]:
    """The kinds that a sink takes. One that keeps a row for each key has no use for the row before an update."""
    can = sink.spec.capabilities
    return can.kinds | ({RowKind.UPDATE_BEFORE} if can.upsert_keys else frozenset())


def _describe_changes(sink: Sink, taken: frozenset[RowKind]) -> str:
    """The origin of the changes that a sink does not take: the lowest such table, or step with state."""
    found: list[str] = []

    def visit(node: Node, below: tuple[Traits, ...]) -> Traits:
        own = node.own_traits(below)
        if own.kinds <= taken or found:
            return own
        if isinstance(node, Scan):
            found.append(f"table '{node.table}' gives updates and deletions too")
        else:
            found.append(f"the query's {node.title} changes rows that were given before")
        return own

    fold((sink,), visit)
    return found[0]


def check_overwrites(job: Job) -> None:
    """Raises UnsupportedError for each table that is overwritten, and read by the same job: if its only batch is run
    again after a failure, the files that it read are gone."""
    problems = []
    for sink in job.sinks:
        folder = sink.spec.capabilities.overwrites
        read = (
            [scan for scan in scans(*job.sinks) if _is_within(scan.spec.capabilities.folder, folder)] if folder else []
        )
        for scan in read:
            reason = f"INSERT OVERWRITE of files that the same job reads as table '{scan.table}' is not supported"
            problems.append(Problem(reason, where=f"table '{sink.table}'", hint="write to another folder"))
    if problems:
        raise UnsupportedError(tuple(problems))


def _is_within(one: str, other: str) -> bool:
    """Whether one of two folders is in the other, or the same."""
    first, second = (f"{each.rstrip('/')}/" for each in (one, other))
    return bool(one) and (first.startswith(second) or second.startswith(first))


def check_conflicts(sinks: Sequence[Sink], settings: Settings) -> None:
    """Raises SchemaError for each sink where several rows of the query may have one primary key, and the statement
    lacks the ON CONFLICT that the settings require."""
    problems = []
    for sink in sinks if settings.require_on_conflict else ():
        key = set(sink.spec.capabilities.upsert_keys)
        if key and not sink.on_conflict_deduplicate and not any(set(each) <= key for each in traits(sink).upsert_keys):
            reason = "the query has an upsert key that differs from the primary key of the sink table"
            hint = "write ON CONFLICT DO DEDUPLICATE, and the last row of each key stays"
            problems.append(Problem(reason, where=sink.place, hint=hint))
    if problems:
        raise SchemaError(tuple(problems))


def check_determinism(job: Job) -> None:
    """Raises UnsupportedError for expressions that are nondeterministic, of rows that are updated or deleted later,
    below a step with state: it could not find the row that is retracted."""
    problems: dict[Problem, None] = {}

    def visit(
        node: Node, inputs: tuple[tuple[Traits, tuple[Expression, ...]], ...]
    ) -> tuple[Traits, tuple[Expression, ...]]:
        own = node.own_traits(tuple(each for each, _ in inputs))
        volatile = [each for _, found in inputs for each in found]
        if isinstance(node, Stateful):
            for each in () if node.keeps_random_values else volatile:
                where = str(each.place) if each.place else ""
                reason = f"{flink_sql(each)} has another value when its row is retracted"
                problems[Problem(reason, where=where, hint="compute it in the last SELECT, above groups and joins")] = (
                    None
                )
            return own, ()
        if inputs and inputs[0][0].changing:
            volatile += [each for each in node.expressions if not is_deterministic(each)]
            condition = node.kept_if if isinstance(node, Calculation) else None
            if condition is not None and (call := _find_watermark_call(condition)) is not None:
                reason = "CURRENT_WATERMARK in a condition on rows that are updated or deleted is not supported"
                where = str(call.place) if call.place else ""
                hint = "a row may pass it while its retraction does not: select it, or filter rows that are only added"
                problems[Problem(reason, where=where, hint=hint)] = None
        return own, tuple(volatile)

    fold(job.sinks, visit)
    if problems:
        raise UnsupportedError(tuple(problems))


def _find_watermark_call(condition: Expression) -> Expression | None:
    """The first call of CURRENT_WATERMARK."""
    calls = (each for each in walk(condition) if isinstance(each, Call) and each.function == "CURRENT_WATERMARK")
    return next(calls, None)


def check_reads(job: Job) -> None:
    """Raises UnsupportedError for nondeterministic columns that are read above steps which read their rows twice."""
    problems: dict[Problem, None] = {}

    def visit(node: Node, _: tuple[None, ...]) -> None:
        for part in (part for each in node.expressions for part in walk(each)):
            if isinstance(part, Unrepeatable):
                where = str(part.place) if part.place else ""
                hint = f"do not select '{part.name}', which is UUID(), RAND() or the present time there"
                problems[Problem(part.reason, where=where, hint=hint)] = None

    fold(job.sinks, visit)
    if problems:
        raise UnsupportedError(tuple(problems))


def check_settings(job: Job) -> None:
    """Raises OptionsError with everything in the job's tables that its settings rule out."""
    specs: list[ScanSpec | SinkSpec] = [*(scan.spec for scan in scans(*job.sinks)), *(sink.spec for sink in job.sinks)]
    problems = tuple(problem for spec in specs for problem in spec.problems(job.settings))
    if problems:
        raise OptionsError(problems)
