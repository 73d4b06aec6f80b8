"""The sinks of a committer, and their rows."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any, Protocol

from penstock.types import RowType


@dataclass(frozen=True)
class Output:
    """One sink of a committer. ``index`` is the number of the sink in the job, ``schema`` has the columns of its
    rows."""

    index: int
    table: str
    spec: Any
    schema: RowType


class FoundOutputs(Protocol):
    """The tables that a job has found while it runs."""

    def find_output(self, number: int) -> Output:
        """How the rows of a number are written, which :meth:`penstock.spi.Writer.add_output` took, in the batch under
        way. Raises KeyError."""

    def list_tables(self) -> Collection[str]:
        """The ids of all tables."""
