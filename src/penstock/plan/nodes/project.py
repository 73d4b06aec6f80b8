"""Computed columns."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from penstock.plan.expressions import ColumnRef, Expression, Literal, fields_of, substitute, walk
from penstock.plan.flink_sql import flink_sql
from penstock.plan.lineage import Lineage
from penstock.plan.node import Attributes, Calculation, Names, Node
from penstock.plan.reading import names_read
from penstock.plan.row_traits import Traits, source_column
from penstock.plan.sink_values import find_checked_value
from penstock.spi import WATERMARK
from penstock.types import BOOLEAN, Field, RowType, quote_name

_ANY = Literal(True, type=BOOLEAN.with_nullability(False))


@dataclass(frozen=True)
class Item:
    """One column of a projection."""

    name: str
    expression: Expression

    def describe(self) -> str:
        """The column as EXPLAIN shows it."""
        text, name = flink_sql(self.expression), quote_name(self.name)
        return name if isinstance(self.expression, ColumnRef) and text == name else f"{name} = {text}"


@dataclass(frozen=True)
class Project(Calculation):
    """Computes new columns. ``schema`` names and types them, in the order of ``items``."""

    items: tuple[Item, ...]

    @property
    def computed(self) -> Mapping[str, Expression]:
        return {each.name: each.expression for each in self.items}

    @property
    def expressions(self) -> tuple[Expression, ...]:
        return tuple(each.expression for each in self.items)

    @property
    def flink_name(self) -> str:
        return "Calc"

    def explain_step(self) -> list[str]:
        return ["select", *(f"  {each.describe()}" for each in self.items)]

    def logical_attributes(self) -> Attributes:
        return tuple((each.name, flink_sql(each.expression)) for each in self.items)

    def columns_read(self, wanted: Names) -> tuple[Names, ...]:
        return (frozenset[str]().union(*(names_read(each.expression) for each in self._wanted_items(wanted))),)

    def prune(self, inputs: Sequence[Node], wanted: Names) -> Node:
        return merge_projections(inputs[0], self._wanted_items(wanted))

    def _wanted_items(self, wanted: Names) -> tuple[Item, ...]:
        """The columns that are wanted; a constant if none is, since a row needs a column."""
        return tuple(each for each in self.items if each.name in wanted) or (Item(self.items[0].name, _ANY),)

    def find_origin(self, name: str, lineage: Lineage) -> Expression:
        (item,) = (each for each in self.items if each.name == name)
        return lineage.expression(self.input, item.expression)

    def passing_columns(self, names: Collection[str]) -> Mapping[str, str]:
        values = {each.name: find_checked_value(each.expression) for each in reversed(self.items)}
        found = {value.name: name for name, value in values.items() if isinstance(value, ColumnRef)}
        return {each: found[each] for each in names if each in found}

    def own_traits(self, inputs: tuple[Traits, ...]) -> Traits:
        (below,) = inputs
        names: dict[str, str] = {}
        for each in self.items:  # of equal columns, the first counts
            names.setdefault(source_column(each.expression), each.name)
        return below.rename_columns(names).with_times_of(below, self.computed)


def compute_columns(node: Node, items: tuple[Item, ...]) -> Project:
    """The step that computes these columns of ``node``."""
    return Project(row_of(items), node, items)


def project(node: Node, items: tuple[Item, ...]) -> Node:
    """``node`` with these columns; ``node`` itself if they are its own columns, unchanged and in order."""
    return node if items == items_of(node.schema) else compute_columns(node, items)


def row_of(items: tuple[Item, ...]) -> RowType:
    """The row type of a projection."""
    return RowType(tuple(Field(each.name, each.expression.type) for each in items), nullable=False)


def items_of(row: RowType) -> tuple[Item, ...]:
    """The columns of a row, unchanged."""
    return tuple(Item(each.name, each) for each in fields_of(row))


def narrow(node: Node, names: Iterable[str]) -> Node:
    """``node`` with the columns of these ``names`` only; with a constant if there are none."""
    items = tuple(each for each in items_of(node.schema) if each.name in names)
    return merge_projections(node, items or (Item(node.schema.names[0], _ANY),))


def merge_projections(node: Node, items: tuple[Item, ...]) -> Node:
    """``node`` with these columns, in one projection with those below it unless something would be computed twice."""
    while isinstance(node, Project) and not any(WATERMARK in names_read(each.expression) for each in items):
        parts = [part for each in items for part in walk(each.expression)]
        uses = Counter(part.name for part in parts if isinstance(part, ColumnRef))
        values = {each.name: each.expression for each in node.items}
        if any(count > 1 and not isinstance(values[name], ColumnRef | Literal) for name, count in uses.items()):
            break
        items = tuple(Item(each.name, substitute(each.expression, values)) for each in items)
        node = node.input
    return project(node, items)
