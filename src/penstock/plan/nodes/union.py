"""UNION ALL."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Self

from penstock.plan.nodes.node import Node


@dataclass(frozen=True)
class Union(Node):
    """The rows of all ``members`` (UNION ALL), whose columns correspond by position and have the types of
    ``schema``."""

    members: tuple[Node, ...]

    @property
    def inputs(self) -> tuple[Node, ...]:
        return self.members

    def with_inputs(self, inputs: Sequence[Node]) -> Self:
        same = all(new is old for new, old in zip(inputs, self.members, strict=True))
        return self if same else replace(self, members=tuple(inputs))
