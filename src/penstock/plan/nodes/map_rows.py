"""Functions of rows in Python."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from penstock.plan.nodes.node import Step


@dataclass(frozen=True)
class MapRows(Step):
    """Applies a user-defined Python function to each row: ``rows`` takes an iterator of tuples and returns one."""

    rows: Callable[[Iterator[tuple[Any, ...]]], Iterator[tuple[Any, ...]]]
