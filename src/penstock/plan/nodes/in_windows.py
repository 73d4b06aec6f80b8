"""Steps that work in each window by itself."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Self

from penstock.plan.expressions import Expression
from penstock.plan.node import Node, Stateful
from penstock.plan.row_traits import Traits
from penstock.plan.windowing import Attached
from penstock.spi import INSERTIONS


@dataclass(frozen=True)
class InWindows(Stateful):
    """What ``inner`` makes of the rows of each window, given when the window closes. Its inputs have the ``windows`` in
    their columns, and only add rows. The schema is that of ``inner``."""

    inner: Stateful
    windows: tuple[Attached, ...]

    @property
    def inputs(self) -> tuple[Node, ...]:
        return self.inner.inputs

    def with_inputs(self, inputs: Sequence[Node]) -> Self:
        inner = self.inner.with_inputs(inputs)
        return self if inner is self.inner else replace(self, schema=inner.schema, inner=inner)

    @property
    def expressions(self) -> tuple[Expression, ...]:
        return self.inner.expressions

    def own_traits(self, inputs: tuple[Traits, ...]) -> Traits:
        """Those of the windows are those of the first input."""
        first = inputs[0]
        names = dict(zip(self.inputs[0].schema.names, self.schema.names, strict=False))
        return replace(
            self.inner.own_traits(inputs),
            kinds=INSERTIONS,
            rowtimes=tuple(names[each] for each in first.rowtimes if each in names),
            proctimes=(),
            window=None if first.window is None else first.window.renamed(names),
        )
