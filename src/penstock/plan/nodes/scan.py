"""Reading a table."""

from __future__ import annotations

from dataclasses import dataclass

from penstock.plan.node import Node
from penstock.plan.row_traits import Traits
from penstock.plan.walk import fold
from penstock.spi import ScanSpec


@dataclass(frozen=True)
class Scan(Node):
    """Reads a table. ``spec`` is the connector's own frozen description. The default ``uid`` is the table's name.
    ``key`` has the columns of the table's PRIMARY KEY, which is not checked."""

    table: str
    connector: str
    spec: ScanSpec
    key: tuple[str, ...] = ()

    def own_traits(self, inputs: tuple[Traits, ...]) -> Traits:
        can = self.spec.capabilities
        key = can.upsert_keys or self.key
        return Traits(kinds=can.kinds, bounded=can.bounded, upsert_keys=(key,) if key else ())


def scans(*roots: Node) -> tuple[Scan, ...]:
    """The scans that feed these nodes, each once."""
    found: dict[Scan, None] = {}

    def visit(node: Node, _: tuple[None, ...]) -> None:
        if isinstance(node, Scan):
            found.setdefault(node)

    fold(roots, visit)
    return tuple(found)
