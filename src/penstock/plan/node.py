"""What every node of a plan is, and says about itself."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any, Protocol, Self, TypeAlias

from penstock.options import DURATION
from penstock.plan.expressions import Expression
from penstock.plan.kept_state import KeptState
from penstock.plan.lineage import Lineage
from penstock.plan.row_traits import Traits
from penstock.plan.scalar_functions import is_deterministic
from penstock.plan.state_identifier import StateIdentifier
from penstock.plan.step_identity import Fact, StepIdentity
from penstock.plan.windowing import Attached, Windowing
from penstock.types import STRING, DataType, RowType

#: Names of columns.
Names: TypeAlias = frozenset[str]
#: What a step says about itself, by the name of the attribute.
Attributes: TypeAlias = tuple[tuple[str, str], ...]


class KeyOrder(Protocol):
    """The order of keys."""

    def __call__(self, below: Node, keys: Sequence[str], side: str, /) -> tuple[int, ...]:
        """The places of the ``keys`` of the rows of ``below``, which feed a ``side`` (one of ``SIDES``; empty for the
        only one) of a step, in their order."""
        ...


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

    @abstractmethod
    def explain_step(self) -> list[str]:
        """The lines of this node in EXPLAIN, without those of its inputs."""

    @property
    def shows_changes(self) -> bool:
        """Whether EXPLAIN says which changes its rows may be."""
        return True

    @property
    def title(self) -> str:
        """What errors call the part of a query that is this node, where that changes rows."""
        return "filter"

    @property
    def needs_event_time(self) -> bool:
        """Whether it works by event time, which each row of its inputs needs then."""
        return False

    @property
    def passes_rows(self) -> bool:
        """Whether it passes all rows of its inputs unchanged, though perhaps with other row kinds."""
        return True

    @property
    def tables_work(self) -> Any:
        """The work of a step that makes rows of many tables; None for all others."""
        return None

    @property
    def assigned_windows(self) -> Windowing | Attached | None:
        """The windows that it assigns rows to; None if it assigns none."""
        return None

    @property
    def flink_name(self) -> str:
        """The name of the step in Flink's plans."""
        return type(self).__name__

    @property
    def logical_name(self) -> str:
        """The name of the step in Flink's logical plans."""
        return type(self).__name__

    def flink_attributes(self) -> Attributes:
        """What the step says about itself in Flink's plans, under Flink's names where it has them."""
        return (("step", "; ".join(line.strip() for line in self.explain_step())),)

    def logical_attributes(self) -> Attributes:
        """What the step says about itself in Flink's logical plans."""
        return self.flink_attributes()

    def steps_above(self, member: Node) -> tuple[Step, ...]:
        """The steps that rows of the input ``member`` go through here, if it only passes rows."""
        raise TypeError(f"rows do not only pass a {type(self).__name__}: it is a scan, or keeps state")

    @abstractmethod
    def find_origin(self, name: str, lineage: Lineage) -> Expression:
        """What the column ``name`` is made of, from the origins of the columns below."""

    def conditions(self, lineage: Lineage) -> tuple[Expression, ...]:
        """The conditions that filter rows between this node and the scans, and the steps that keep rows, below it."""
        return ()

    def _type_of(self, name: str) -> DataType:
        found = self.schema.field(name)
        return STRING if found is None else found.type

    def columns_read(self, wanted: Names) -> tuple[Names, ...]:
        """The columns that it reads of each input, if its ``wanted`` columns are read: by default all."""
        return tuple(frozenset(each.schema.names) for each in self.inputs)

    def prune(self, inputs: Sequence[Node], wanted: Names) -> Node:
        """This node, of which the ``wanted`` columns are read, above ``inputs``, which are pruned already: they have
        those of their columns that it reads, and perhaps more."""
        return self.with_inputs(inputs)

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
    def shows_changes(self) -> bool:
        return False

    def steps_above(self, member: Node) -> tuple[Step, ...]:
        return (self,)

    def passing_columns(self, names: Collection[str]) -> Mapping[str, str]:
        """Those of the columns ``names`` whose values pass unchanged, with the names that they have here."""
        return {each: each for each in names}

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

    @property
    def shows_changes(self) -> bool:
        return True

    @property
    def passes_rows(self) -> bool:
        return False

    @property
    @abstractmethod
    def step_name(self) -> str:
        """What the step is called in the name that a checkpoint finds its state by: a part of the format of
        checkpoints."""

    @property
    def named_by_sink(self) -> bool:
        """Whether that name begins with the table that the step feeds."""
        return True

    @property
    @abstractmethod
    def shuffle_keys(self) -> tuple[tuple[str, ...], ...]:
        """The columns whose hash divides the rows of each input among tasks; without columns all go to one task."""

    @abstractmethod
    def describe_state(self) -> str:
        """What the step keeps, for users."""

    @abstractmethod
    def identify_state(self, identifier: StateIdentifier, kept: KeptState) -> StepIdentity:
        """What the meaning of the state depends on, where its operator says what is ``kept``. It is a part of the
        format of checkpoints."""

    def state_notes(self, lineage: Lineage) -> Iterable[tuple[str, Fact]]:
        """What may change beside the state, and is noted."""
        return ()

    @abstractmethod
    def arrange_keys(self, order: KeyOrder) -> Node:
        """This step with its keys in the given order, on which hashes depend. The columns that it gives stay in their
        order."""

    @property
    def keeps_random_values(self) -> bool:
        """Whether it gives each row, and its retraction, with the random values that the row had first."""
        return False

    @property
    def forgets_by_watermark(self) -> bool:
        """Whether it keeps nothing that the watermark has passed."""
        return False

    @property
    def ttls(self) -> tuple[timedelta | None, ...]:
        """The times to live of the rows of each input, as hints give them; None for that of the job."""
        return tuple(None for _ in self.inputs)

    def lifetimes(self, default: timedelta | None) -> tuple[timedelta | None, ...]:
        """The times to live of the rows that the step keeps of each input: those of its hints, else the ``default`` of
        the job; None for rows that are kept forever, or until time has passed."""
        if self.forgets_by_watermark:
            return tuple(None for _ in self.inputs)
        found = (default if each is None else each for each in self.ttls)
        return tuple(each or None for each in found)

    def explain_lifetimes(self, default: timedelta | None) -> list[str]:
        """The lines of EXPLAIN that say when the step forgets."""
        times = [
            f"{DURATION.show(each)} after their last change" if each else "never" for each in self.lifetimes(default)
        ]
        if len(set(times)) > 1:
            return [f"forgets the left rows {times[0]}, the right ones {times[1]}"]
        return [] if times[0] == "never" else [f"forgets them {times[0]}"]

    def warn_of_growing_state(self, default: timedelta | None) -> str | None:
        """A warning for a step whose state grows forever; None if it does not, or as users expect."""
        return None


@dataclass(frozen=True)
class Calculation(Step):
    """A step that computes rows from single rows: each row of the input gives one, or none."""

    @property
    def is_base(self) -> bool:
        return False

    def find_origin(self, name: str, lineage: Lineage) -> Expression:
        return lineage.column(self.input, name)

    def conditions(self, lineage: Lineage) -> tuple[Expression, ...]:
        own = () if self.kept_if is None else (lineage.expression(self.input, self.kept_if),)
        return (*own, *self.input.conditions(lineage))

    def prune(self, inputs: Sequence[Node], wanted: Names) -> Node:
        (below,) = inputs
        return self if below is self.input else replace(self, schema=below.schema, input=below)

    @property
    def computed(self) -> Mapping[str, Expression] | None:
        """The expressions of the columns; None for those of the input."""
        return None

    @property
    def assigned_watermark(self) -> Expression | None:
        """The watermark after a row; None if it assigns none."""
        return None

    @property
    def kept_if(self) -> Expression | None:
        """The condition of the rows that are kept; None for all."""
        return None
