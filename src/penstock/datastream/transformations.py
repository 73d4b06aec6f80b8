"""The steps of a program as the user wrote them. Streams refer to them; execution lowers them to a plan."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import TypeVar

from penstock.common import TypeInformation, WatermarkStrategy
from penstock.datastream.connectors.base import Sink, Source
from penstock.datastream.function_steps import Step
from penstock.datastream.output_tag import OutputTag
from penstock.errors import OptionsError, Problem
from penstock.plan.expressions import Expression
from penstock.plan.nodes import Item
from penstock.spi import TableDefinition

T = TypeVar("T")


@dataclass(eq=False, kw_only=True)
class Transformation:
    """A step: what it is called, and the type of the values that it gives. ``parallelism`` is that which was set,
    ``starts_chain`` and ``ends_chain`` say that its functions do not run together with those before, or after."""

    name: str
    info: TypeInformation
    inputs: tuple[Transformation, ...] = ()
    uid: str = ""
    description: str = ""
    parallelism: int | None = None
    starts_chain: bool = False
    ends_chain: bool = False


@dataclass(eq=False, kw_only=True)
class SourceStep(Transformation):
    """Reads the ``table`` of a source. ``steps`` make the stream's values of its rows."""

    source: Source
    table: TableDefinition
    steps: tuple[Step, ...] = ()


@dataclass(eq=False, kw_only=True)
class FunctionStep(Transformation):
    """Calls a user-defined function. With two inputs there is one for each."""

    steps: tuple[Step, ...]


@dataclass(eq=False, kw_only=True)
class WatermarkStep(Transformation):
    """Gives values the timestamps and the watermarks of a strategy."""

    strategy: WatermarkStrategy


@dataclass(eq=False, kw_only=True)
class SqlFilter(Transformation):
    """Keeps the values that meet a condition in SQL."""

    condition: Expression


@dataclass(eq=False, kw_only=True)
class SqlMap(Transformation):
    """Computes values by a select list in SQL."""

    items: tuple[Item, ...]


@dataclass(eq=False, kw_only=True)
class UnionStep(Transformation):
    """The values of several streams."""


@dataclass(eq=False, kw_only=True)
class PartitionStep(Transformation):
    """Sends values to the parallel instances of the next step in the way that ``strategy`` names. Values are spread
    over tasks by volume; the functions of ``steps`` implement the visible effects of the strategy."""

    strategy: str
    steps: tuple[Step, ...] = ()


@dataclass(eq=False, kw_only=True)
class SideOutput(Transformation):
    """The values of a side output of its input, which is a process function."""

    tag: OutputTag


@dataclass(eq=False, kw_only=True)
class SinkStep(Transformation):
    """Writes values to a sink."""

    sink: Sink
    named: bool = False


@dataclass
class Steps:
    """The steps that feed some sinks, each once, inputs first."""

    sinks: list[SinkStep]
    order: list[Transformation] = field(default_factory=list)

    def __post_init__(self) -> None:
        fold(self.sinks, lambda step, _: self.order.append(step))

    def consumers(self, step: Transformation) -> int:
        """How many steps take the values of a step, its side outputs not counted."""
        return sum(each is step for other in self.order if not isinstance(other, SideOutput) for each in other.inputs)

    def tags(self, step: Transformation) -> tuple[OutputTag, ...]:
        """The side outputs of a step that are taken."""
        found = (other.tag for other in self.order if isinstance(other, SideOutput) and other.inputs[0] is step)
        return tuple(dict.fromkeys(found))


def fold(roots: Iterable[Transformation], visit: Callable[[Transformation, tuple[T, ...]], T]) -> tuple[T, ...]:
    """The results of ``visit`` for the roots. It is called once for each step, with the results for its inputs."""
    made: dict[int, T] = {}

    def of(step: Transformation) -> T:
        if id(step) not in made:
            made[id(step)] = visit(step, tuple(of(each) for each in step.inputs))
        return made[id(step)]

    return tuple(of(root) for root in tuple(roots))


def positive(value: int) -> int:
    """A number of instances. Raises OptionsError for less than 1."""
    if value < 1:
        raise OptionsError((Problem(f"expected 1 or more, not {value}"),))
    return value
