"""Steps that work in each window by itself."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Self

from penstock.plan.nodes.node import Node
from penstock.plan.windowing import Attached


@dataclass(frozen=True)
class InWindows(Node):
    """What ``inner`` makes of the rows of each window, given when the window closes. Its inputs have the ``windows`` in
    their columns, and only add rows. The schema is that of ``inner``."""

    inner: Node
    windows: tuple[Attached, ...]

    @property
    def inputs(self) -> tuple[Node, ...]:
        return self.inner.inputs

    def with_inputs(self, inputs: Sequence[Node]) -> Self:
        inner = self.inner.with_inputs(inputs)
        return self if inner is self.inner else replace(self, schema=inner.schema, inner=inner)
