"""The plan: frozen nodes that SQL, YAML and Python lower to, and all that the engine accepts.

The same job written three ways gives equal plans.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Self

from penstock.plan.expressions import Expression, fields_of
from penstock.settings import Settings
from penstock.spi import ScanSpec, SinkSpec
from penstock.types import RowType


@dataclass(frozen=True)
class Node:
    """Something that gives rows of ``schema``, made of the rows of its ``inputs``.

    ``uid`` finds the node again in a checkpoint when the job around it has changed; users give it where they need it.
    """

    schema: RowType
    uid: str = field(default="", kw_only=True)

    @property
    def inputs(self) -> tuple[Node, ...]:
        """The nodes that feed this one."""
        return ()

    def with_inputs(self, inputs: Sequence[Node]) -> Self:
        """This node, fed by others."""
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
class Scan(Node):
    """Reads a table. ``spec`` is the connector's own frozen description. Without a ``uid`` the table's name is it."""

    table: str
    connector: str
    spec: ScanSpec


@dataclass(frozen=True)
class Filter(Step):
    """Keeps the rows for which ``condition`` is true. The schema is the input's."""

    condition: Expression


@dataclass(frozen=True)
class Item:
    """One column of a projection."""

    name: str
    expression: Expression


@dataclass(frozen=True)
class Project(Step):
    """Computes new columns. ``schema`` names and types them, in the order of ``items``."""

    items: tuple[Item, ...]


@dataclass(frozen=True)
class AssignWatermarks(Step):
    """Says which ``column`` is the event time of the rows, and the ``watermark`` (a TIMESTAMP) that follows from a row,
    for sources that do not find that out by themselves. The schema is the input's."""

    column: str
    watermark: Expression


@dataclass(frozen=True)
class MapRows(Step):
    """Applies a Python function of the user's to each row: ``rows`` takes an iterator of tuples and gives one."""

    rows: Callable[[Iterator[tuple[Any, ...]]], Iterator[tuple[Any, ...]]]


@dataclass(frozen=True)
class DeadLetters(Step):
    """The records that the scan below could not decode, in place of the rows."""


@dataclass(frozen=True)
class Sink(Step):
    """Writes the input's rows to a table; columns are matched by position and cast to ``schema``."""

    table: str
    connector: str
    spec: SinkSpec


@dataclass(frozen=True)
class Job:
    """Everything that one ``execute`` starts: one Spark query, however many sinks it has."""

    name: str
    sinks: tuple[Sink, ...]
    settings: Settings = field(default_factory=Settings)


def project(node: Node, items: tuple[Item, ...], schema: RowType) -> Node:
    """``node`` with these columns; ``node`` itself when they are its own columns, unchanged and in order."""
    return node if items == items_of(node.schema) else Project(schema, node, items)


def items_of(row: RowType) -> tuple[Item, ...]:
    """The columns of a row as they are."""
    return tuple(Item(each.name, each) for each in fields_of(row))
