"""What every node of a plan is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Self

from penstock.types import RowType


@dataclass(frozen=True)
class Node:
    """A step that gives rows of ``schema``, from the rows of its ``inputs``.

    A checkpoint finds the node by its ``uid`` after other steps of the job changed; users may set it.
    """

    schema: RowType
    uid: str = field(default="", kw_only=True)

    @property
    def inputs(self) -> tuple[Node, ...]:
        """The nodes that feed this one."""
        return ()

    def with_inputs(self, inputs: Sequence[Node]) -> Self:
        """This node with other inputs."""
        assert not inputs, f"{type(self).__name__} has no inputs"  # noqa: S101
        return self


@dataclass(frozen=True)
class Step(Node):
    """A node with one input."""

    input: Node

    @property
    def inputs(self) -> tuple[Node, ...]:
        return (self.input,)

    def with_inputs(self, inputs: Sequence[Node]) -> Self:
        (only,) = inputs
        return self if only is self.input else replace(self, input=only)


@dataclass(frozen=True)
class TwoInputs(Node):
    """A node with two inputs."""

    left: Node
    right: Node

    @property
    def inputs(self) -> tuple[Node, ...]:
        return (self.left, self.right)

    def with_inputs(self, inputs: Sequence[Node]) -> Self:
        left, right = inputs
        return self if left is self.left and right is self.right else replace(self, left=left, right=right)
