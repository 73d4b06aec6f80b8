"""Computed columns."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from penstock.plan.expressions import Expression, fields_of
from penstock.plan.node import Calculation, Node
from penstock.plan.row_traits import Traits, source_column
from penstock.types import Field, RowType


@dataclass(frozen=True)
class Item:
    """One column of a projection."""

    name: str
    expression: Expression


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

    def own_traits(self, inputs: tuple[Traits, ...]) -> Traits:
        (below,) = inputs
        names: dict[str, str] = {}
        for each in self.items:  # of equal columns, the first counts
            names.setdefault(source_column(each.expression), each.name)
        return below.renamed(names).with_times_of(below, self.computed)


def project(node: Node, items: tuple[Item, ...]) -> Node:
    """``node`` with these columns; ``node`` itself if they are its own columns, unchanged and in order."""
    return node if items == items_of(node.schema) else Project(row_of(items), node, items)


def row_of(items: tuple[Item, ...]) -> RowType:
    """The row type of a projection."""
    return RowType(tuple(Field(each.name, each.expression.type) for each in items), nullable=False)


def items_of(row: RowType) -> tuple[Item, ...]:
    """The columns of a row, unchanged."""
    return tuple(Item(each.name, each) for each in fields_of(row))
