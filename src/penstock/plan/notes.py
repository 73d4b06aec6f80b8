"""What the user should know about a job's tables: options without effect and the like."""

from __future__ import annotations

from collections.abc import Iterator

from penstock.plan.nodes import Job, scans
from penstock.spi import WithNotes


def notes_of(job: Job) -> tuple[str, ...]:
    """The notes of all tables, each once, with the table's name. Specs may have none."""
    return tuple(dict.fromkeys(_walk_notes(job)))


def _walk_notes(job: Job) -> Iterator[str]:
    tables = [(each.table, each.spec) for each in scans(*job.sinks)]
    for table, spec in (*tables, *((each.table, each.spec) for each in job.sinks)):
        if isinstance(spec, WithNotes):
            yield from (f"table '{table}': {note}" for note in spec.notes)
