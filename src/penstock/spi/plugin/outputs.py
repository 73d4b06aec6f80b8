"""The sinks of a committer, and their rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from penstock.types import RowType


@dataclass(frozen=True)
class Output:
    """One sink of a committer. ``index`` is the number of the sink in the job, ``schema`` has the columns of its
    rows."""

    index: int
    table: str
    spec: Any
    schema: RowType
