"""What was published, by whom and under which transactional id; and what of it may not be published again.

A batch may be repeated in two cases alone, which the documentation names (docs/exactly-once.md):

- A query whose checkpoint is at batch 0 takes over, with a warning, the id that another query published under last.
- The job was started with ``--adopt-progress``, the batch is one that Spark has not logged as done, and the record of
  it was lost with the topic.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from penstock.delivery import Decision, TakeOver
from tests.simulation.checkpoint import Checkpoint

__all__ = ["Ledger", "Published", "Run", "position_in"]


@dataclass(frozen=True)
class Published:
    """A batch that was committed: the ``number``-th of all, with the input records from ``start`` to ``end``."""

    number: int
    query: str
    batch: int
    start: int
    end: int
    transactional_id: str

    def same(self, other: Published) -> bool:
        """Whether ``other`` holds a record of this batch too."""
        return self.query == other.query and self.start < other.end and other.start < self.end


@dataclass(frozen=True)
class Run:
    """A driver, as far as it matters here."""

    checkpoint: Checkpoint
    decisions: list[Decision]

    @property
    def query(self) -> str:
        """The query that it runs."""
        return self.checkpoint.query


@dataclass
class Ledger:
    """All that was published in a walk."""

    published: list[Published] = field(default_factory=list)
    #: What was published again, and why it may be.
    repeated: Counter[str] = field(default_factory=Counter)
    _last: dict[str, str] = field(default_factory=dict)
    _runs: dict[str, Run] = field(default_factory=dict)
    _lost: int = 0

    def starts(self, driver: str, run: Run) -> None:
        """A driver starts."""
        self._runs[driver] = run

    def run(self, driver: str) -> Run:
        """The run of a driver."""
        return self._runs[driver]

    def progress_is_lost(self) -> None:
        """The progress topic loses all records."""
        self._last.clear()
        self._lost = len(self.published)

    def reached(self, query: str) -> int:
        """How far a query's output goes."""
        return max((each.end for each in self.published if each.query == query), default=0)

    def publishes(self, driver: str, new: Published) -> Iterator[str]:
        """A batch is committed: what speaks against it."""
        run = self._runs[driver]
        if new.query != run.query:
            yield f"of query '{new.query}', which is not its own"
        if new.start > self.reached(new.query):
            yield "before the one before it"
        for old in self.published:
            if old.same(new):
                if not (reason := self._excuse(run, new, old)):
                    yield "a second time"
                    break
                self.repeated[reason] += 1
        self.published.append(new)
        self._last[new.transactional_id] = new.query

    def _excuse(self, run: Run, new: Published, old: Published) -> str:
        last = self._last.get(new.transactional_id, new.query)
        if (
            new.batch == 0
            and last != new.query
            and any(isinstance(each, TakeOver) and each.query_id for each in run.decisions)
        ):
            return "the id was taken over from another query"
        adopts = run.checkpoint.adopted and old.number < self._lost and new.batch not in run.checkpoint.commits
        return "progress was lost, and the checkpoint is trusted" if adopts else ""


def position_in(document: Any) -> int:
    """The offset in one of a progress record's positions."""
    (source,) = document["sources"]
    return int(source["topics"]["input"]["0"]) if source else 0
