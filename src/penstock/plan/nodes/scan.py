"""Reading a table."""

from __future__ import annotations

from dataclasses import dataclass

from penstock.plan.expressions import Expression
from penstock.plan.lineage import Lineage
from penstock.plan.node import Attributes, Node
from penstock.plan.origins import Origin
from penstock.plan.row_traits import Traits
from penstock.plan.walk import fold
from penstock.schemas import FoundColumns
from penstock.spi import ScanSpec, SinkSpec
from penstock.types import RowType


@dataclass(frozen=True)
class Scan(Node):
    """Reads a table. ``spec`` is the connector's own frozen description. The default ``uid`` is the table's name.
    ``key`` has the columns of the table's PRIMARY KEY, which is not checked. ``found`` are the columns that the table's
    records showed, if it declares none: a restart has the same."""

    table: str
    connector: str
    spec: ScanSpec
    key: tuple[str, ...] = ()
    found: FoundColumns | None = None

    @property
    def flink_name(self) -> str:
        return "TableSourceScan"

    @property
    def logical_name(self) -> str:
        return "TableScan"

    def explain_step(self) -> list[str]:
        return explain_table(self.spec, self.schema)

    def flink_attributes(self) -> Attributes:
        return ("table", f"[{self.table}]"), ("fields", ", ".join(self.schema.names))

    def find_origin(self, name: str, lineage: Lineage) -> Expression:
        key = dict(self.spec.capabilities.metadata).get(name, "")
        return Origin(name, self.uid or self.table, key, type=self._type_of(name))

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


def explain_table(spec: ScanSpec | SinkSpec, schema: RowType) -> list[str]:
    """The lines of a table in EXPLAIN."""
    columns = [f"  columns: {', '.join(map(str, schema.fields))}"] if schema.fields else []
    return [*spec.describe().splitlines(), *columns]
