"""A checkpoint as Spark and penstock keep it, and what else tells one query from another."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass, field, replace
from typing import Any

__all__ = ["OTHER_QUERY", "QUERIES", "QUERY", "Checkpoint", "ConcurrentUpdateError", "group_of", "text_of"]

QUERY, OTHER_QUERY = "simulated-query", "other-query"
QUERIES = (QUERY, OTHER_QUERY)


def text_of(record: int, query: str = QUERY) -> bytes:
    """The value that an input record has in the output of a query."""
    return f"{'r' if query == QUERY else 's'}{record}".encode()


def group_of(group: str, query: str) -> str:
    """The consumer group of a query, where that of the first is ``group``."""
    return group if query == QUERY else f"{group}-of-{query}"


class ConcurrentUpdateError(Exception):
    """Another driver has written the same entry of Spark's log first; Spark ends the query then."""


@dataclass
class Checkpoint:
    """A folder on a file system where a file is made once and whole."""

    query: str = QUERY
    location: str = "simulated:/checkpoint"
    documents: dict[str, dict[str, Any]] = field(default_factory=dict)
    offsets: dict[int, tuple[int, int]] = field(default_factory=dict)
    commits: set[int] = field(default_factory=set)
    #: Whether a run was started with ``--adopt-progress``, for the invariants alone.
    adopted: bool = False

    @property
    def knows_its_id(self) -> bool:
        """Whether a run has written down which transactional id it has. Before that nothing is published."""
        return any("transactional_id" in each for each in self.documents.values())

    def copy(self, location: str) -> Checkpoint:
        """The same folder in another place."""
        return replace(deepcopy(self), location=location)

    def put_back(self, former: Checkpoint) -> None:
        """Replace everything by what a copy holds."""
        vars(self).update(vars(former.copy(self.location)))

    def read(self, name: str) -> dict[str, Any] | None:
        """A document."""
        return self.documents.get(name)

    def write(self, name: str, document: Any) -> None:
        """Replace a document."""
        self.documents[name] = dict(document)

    def revise(self, name: str, change: Callable[[dict[str, Any]], dict[str, Any]]) -> dict[str, Any]:
        """Change a document."""
        self.documents[name] = change(self.documents.get(name, {}))
        return dict(self.documents[name])

    def add_offsets(self, number: int, span: tuple[int, int]) -> None:
        """Plan a batch, once."""
        if number in self.offsets:
            raise ConcurrentUpdateError(f"batch {number} was planned by another driver")
        self.offsets[number] = span

    def add_commit(self, number: int) -> None:
        """A batch is done, once."""
        if number in self.commits:
            raise ConcurrentUpdateError(f"batch {number} was committed by another driver")
        self.commits.add(number)
