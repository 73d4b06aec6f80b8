"""Reading a table."""

from __future__ import annotations

from dataclasses import dataclass

from penstock.plan.nodes.node import Node
from penstock.spi import ScanSpec


@dataclass(frozen=True)
class Scan(Node):
    """Reads a table. ``spec`` is the connector's own frozen description. The default ``uid`` is the table's name.
    ``key`` has the columns of the table's PRIMARY KEY, which is not checked."""

    table: str
    connector: str
    spec: ScanSpec
    key: tuple[str, ...] = ()
