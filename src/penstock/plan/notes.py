"""What the user should know of a job's tables: options without effect and the like."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from penstock.plan.nodes import Job
from penstock.plan.walk import scans


def notes_of(job: Job) -> tuple[str, ...]:
    """The notes of all tables, each once, with the table's name. A spec may have them as ``notes``."""
    return tuple(dict.fromkeys(_notes(job)))


def _notes(job: Job) -> Iterator[str]:
    tables: list[tuple[str, Any]] = [(each.table, each.spec) for each in scans(*job.sinks)]
    tables += [(each.table, each.spec) for each in job.sinks]
    for table, spec in tables:
        for note in getattr(spec, "notes", ()):
            yield f"table '{table}': {note}"
