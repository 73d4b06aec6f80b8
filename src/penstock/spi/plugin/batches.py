"""One batch, and what its committers know and report about it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Batch:
    """One micro-batch. ``start`` and ``end`` hold one position per source (None at the start of the first batch).

    ``tasks`` is the number of tasks that read it. ``consumed`` holds the result of each source's ``find_consumed``; it
    is empty for every committer but the last that publishes the batch.
    """

    id: int
    start: tuple[dict[str, Any] | None, ...]
    end: tuple[dict[str, Any], ...]
    tasks: int
    consumed: tuple[Any, ...] = ()


@dataclass(frozen=True)
class CommitStatus:
    """What a committer that keeps the state knows of a batch: whether it is ``done``, and the reference to the state
    after it; before it is done, the reference to the state before it, or None where progress does not say."""

    done: bool
    state: str | None


@dataclass(frozen=True)
class Written:
    """What one batch wrote to one output. ``send_millis`` is the duration of the last request with records."""

    records: int = 0
    bytes: int = 0
    send_millis: float | None = None


@dataclass(frozen=True)
class Published:
    """What one batch wrote through one committer: ``written`` to each of its outputs, in their order.

    ``consumed`` has the numbers of the sources whose consumption the committer records: True where it has, False where
    it lacks permission.
    """

    written: tuple[Written, ...] = ()
    skipped: bool = False
    consumed: Mapping[int, bool] = field(default_factory=dict)

    @property
    def record_count(self) -> int:
        """Records written to all outputs."""
        return sum(each.records for each in self.written)

    @property
    def byte_count(self) -> int:
        """Bytes written to all outputs."""
        return sum(each.bytes for each in self.written)
