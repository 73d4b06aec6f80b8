"""The facts about the rows of plans."""

from __future__ import annotations

from penstock.plan.node import Node
from penstock.plan.row_traits import Traits
from penstock.plan.walk import fold


def traits(node: Node) -> Traits:
    """The traits of the rows of ``node``."""
    return fold((node,), lambda each, below: each.own_traits(below))[0]
