"""What every node of a plan is, and says of itself."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Self

from penstock.plan.expressions import Expression
from penstock.plan.row_traits import Traits
from penstock.plan.scalar_functions import is_deterministic
from penstock.types import RowType


@dataclass(frozen=True)
class Node(ABC):
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

    @abstractmethod
    def own_traits(self, inputs: tuple[Traits, ...]) -> Traits:
        """The traits of the rows of this node, from those of its inputs."""

    @property
    def expressions(self) -> tuple[Expression, ...]:
        """The expressions that this node itself computes."""
        return ()

    @property
    def deterministic(self) -> bool:
        """Whether what this node itself computes is deterministic."""
        return all(map(is_deterministic, self.expressions))


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

    @property
    def is_base(self) -> bool:
        """Whether it does more than compute expressions of rows, which branches of one group share below it."""
        return True


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


@dataclass(frozen=True)
class Stateful(Node):
    """A node that keeps state. Its operator is in a module of ``penstock.flow.operators`` or ``flow.windows``."""


@dataclass(frozen=True)
class Calculation(Step):
    """A step that computes rows from single rows: each row of the input gives one, or none."""

    @property
    def is_base(self) -> bool:
        return False

    @property
    def computed(self) -> Mapping[str, Expression] | None:
        """The expressions of the columns; None for those of the input."""
        return None

    @property
    def kept_if(self) -> Expression | None:
        """The condition of the rows that are kept; None for all."""
        return None
