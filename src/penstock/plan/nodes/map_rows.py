"""Functions of rows in Python."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from penstock.plan.node import Step
from penstock.plan.row_traits import Traits


@dataclass(frozen=True)
class MapRows(Step):
    """Applies a user-defined Python function to each row: ``rows`` takes an iterator of tuples and returns one."""

    rows: Callable[[Iterator[tuple[Any, ...]]], Iterator[tuple[Any, ...]]]

    @property
    def deterministic(self) -> bool:
        return False

    def own_traits(self, inputs: tuple[Traits, ...]) -> Traits:
        (below,) = inputs
        return Traits(kinds=below.kinds, bounded=below.bounded, stateful=below.stateful)
