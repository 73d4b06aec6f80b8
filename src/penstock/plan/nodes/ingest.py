"""Rows of many tables, which are found while the job runs."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from penstock.plan.expressions import Expression
from penstock.plan.lineage import Lineage
from penstock.plan.node import Step
from penstock.plan.row_traits import Traits
from penstock.spi import CHANGES
from penstock.types import RowKind


@dataclass(frozen=True)
class Ingest(Step):
    """Makes rows of any number of tables from the messages that a scan reads. It has no columns of its own: each table
    has its columns, and goes to a table of the sink above. ``work`` does it
    (:class:`penstock.flow.rows.table_rows.TablesWork`), and ``lines`` say it. Its rows are of ``kinds``."""

    work: Any = field(compare=False)
    lines: tuple[str, ...] = ()
    kinds: frozenset[RowKind] = CHANGES

    @property
    def tables_work(self) -> Any:
        return self.work

    def explain_step(self) -> list[str]:
        return [*self.lines]

    def find_origin(self, name: str, lineage: Lineage) -> Expression:
        raise KeyError(name)

    def own_traits(self, inputs: tuple[Traits, ...]) -> Traits:
        (below,) = inputs
        return Traits(kinds=self.kinds, bounded=below.bounded, stateful=True)
