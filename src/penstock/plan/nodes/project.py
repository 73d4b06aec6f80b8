"""Computed columns."""

from __future__ import annotations

from dataclasses import dataclass

from penstock.plan.expressions import Expression, fields_of
from penstock.plan.nodes.node import Node, Step
from penstock.types import Field, RowType


@dataclass(frozen=True)
class Item:
    """One column of a projection."""

    name: str
    expression: Expression


@dataclass(frozen=True)
class Project(Step):
    """Computes new columns. ``schema`` names and types them, in the order of ``items``."""

    items: tuple[Item, ...]


def project(node: Node, items: tuple[Item, ...]) -> Node:
    """``node`` with these columns; ``node`` itself if they are its own columns, unchanged and in order."""
    return node if items == items_of(node.schema) else Project(row_of(items), node, items)


def row_of(items: tuple[Item, ...]) -> RowType:
    """The row type of a projection."""
    return RowType(tuple(Field(each.name, each.expression.type) for each in items), nullable=False)


def items_of(row: RowType) -> tuple[Item, ...]:
    """The columns of a row, unchanged."""
    return tuple(Item(each.name, each) for each in fields_of(row))
