"""Functions of rows in Python."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from penstock.plan.expressions import Expression
from penstock.plan.lineage import Lineage
from penstock.plan.node import Step
from penstock.plan.origins import Origin
from penstock.plan.row_traits import Traits


@dataclass(frozen=True)
class MapRows(Step):
    """Applies a user-defined Python function to each row: ``rows`` takes an iterator of tuples and returns one."""

    rows: Callable[[Iterator[tuple[Any, ...]]], Iterator[tuple[Any, ...]]]

    @property
    def deterministic(self) -> bool:
        return False

    def explain_step(self) -> list[str]:
        return [f"map rows with {self.function_name}"]

    @property
    def function_name(self) -> str:
        """The name of the function."""
        return getattr(self.rows, "__qualname__", type(self.rows).__name__)

    def find_origin(self, name: str, lineage: Lineage) -> Expression:
        return Origin(name, f"map {self.function_name}", type=self._type_of(name))

    def passing_columns(self, names: Collection[str]) -> Mapping[str, str]:
        return {}

    def own_traits(self, inputs: tuple[Traits, ...]) -> Traits:
        (below,) = inputs
        return Traits(kinds=below.kinds, bounded=below.bounded, stateful=below.stateful)
