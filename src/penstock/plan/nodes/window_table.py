"""Rows in windows of time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from penstock.plan.expressions import Expression
from penstock.plan.kept_state import KeptState
from penstock.plan.lineage import Lineage
from penstock.plan.node import KeyOrder, Names, Node, Stateful, Step
from penstock.plan.nodes.project import narrow
from penstock.plan.row_traits import Traits, Windowed
from penstock.plan.state_identifier import StateIdentifier
from penstock.plan.step_identity import StepIdentity
from penstock.plan.traits import traits
from penstock.plan.windowing import WindowColumns, Windowing
from penstock.spi import INSERTIONS
from penstock.types import RowType


@dataclass(frozen=True)
class WindowTable(Step):
    """Gives each row once for each window of event time that it is in. ``schema`` has the columns of the input, then
    the ``columns`` of the window."""

    windowing: Windowing
    columns: WindowColumns

    def explain_step(self) -> list[str]:
        return [f"rows of each window of {self.windowing.describe()}", f"  {self.columns.describe()}"]

    def columns_read(self, wanted: Names) -> tuple[Names, ...]:
        return ((wanted - set(self.columns.names)) | {self.windowing.time, *self.windowing.keys},)

    def prune(self, inputs: Sequence[Node], wanted: Names) -> Node:
        below = narrow(inputs[0], *self.columns_read(wanted))
        fields = (*below.schema.fields, *self.schema.select(self.columns.names).fields)
        return replace(self, schema=RowType(fields, nullable=False), input=below)

    def find_origin(self, name: str, lineage: Lineage) -> Expression:
        part = self.columns.part(name)
        return lineage.window(self.input, self.windowing, part) if part else lineage.column(self.input, name)

    @property
    def needs_event_time(self) -> bool:
        return not self.windowing.processing

    @property
    def assigned_windows(self) -> Windowing:
        return self.windowing

    def own_traits(self, inputs: tuple[Traits, ...]) -> Traits:
        (below,) = inputs
        columns = self.columns
        keys = tuple((*key, columns.start, columns.end) for key in below.upsert_keys)
        found = replace(below, window=Windowed(columns, self.windowing), upsert_keys=keys, stateful=True)
        if self.windowing.processing:
            return replace(found, proctimes=(*below.proctimes, columns.time))
        return replace(found, rowtimes=(*below.rowtimes, columns.time))


@dataclass(frozen=True)
class SessionTable(Stateful, WindowTable):
    """The same for sessions: rows are given when their session closes."""

    @property
    def step_name(self) -> str:
        return "sessions"

    @property
    def shuffle_keys(self) -> tuple[tuple[str, ...], ...]:
        return (self.windowing.keys,)

    @property
    def forgets_by_watermark(self) -> bool:
        return True

    def describe_state(self) -> str:
        return "the rows of the sessions that are open"

    def identify_state(self, identifier: StateIdentifier, kept: KeptState) -> StepIdentity:
        facts = {"window": identifier.window(self.input, self.windowing)}
        growing = not traits(self.input).changing
        return identifier.identify_rows("a window", self.input, self.windowing.keys, facts, growing=growing)

    def arrange_keys(self, order: KeyOrder) -> Node:
        return self

    def own_traits(self, inputs: tuple[Traits, ...]) -> Traits:
        return replace(super().own_traits(inputs), kinds=INSERTIONS)
