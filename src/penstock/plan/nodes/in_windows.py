"""Steps that work in each window separately."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Self

from penstock.plan.expressions import Expression
from penstock.plan.kept_state import KeptState
from penstock.plan.lineage import Lineage
from penstock.plan.node import KeyOrder, Names, Node, Stateful
from penstock.plan.row_traits import Traits
from penstock.plan.state_identifier import StateIdentifier
from penstock.plan.step_identity import Column, Fact, StepIdentity
from penstock.plan.windowing import Attached
from penstock.spi import INSERTIONS

#: The names of a window's columns in messages.
_BOUNDS = ("window_start", "window_end")


@dataclass(frozen=True)
class InWindows(Stateful):
    """What ``inner`` makes of the rows of each window, given when the window closes. Its inputs have the ``windows`` in
    their columns, and only add rows. The schema is that of ``inner``."""

    inner: Stateful
    windows: tuple[Attached, ...]

    @property
    def inputs(self) -> tuple[Node, ...]:
        return self.inner.inputs

    def with_inputs(self, inputs: Sequence[Node]) -> Self:
        inner = self.inner.with_inputs(inputs)
        return self if inner is self.inner else replace(self, schema=inner.schema, inner=inner)

    @property
    def expressions(self) -> tuple[Expression, ...]:
        return self.inner.expressions

    @property
    def step_name(self) -> str:
        return f"window {self.inner.step_name}"

    @property
    def shuffle_keys(self) -> tuple[tuple[str, ...], ...]:
        return self.inner.shuffle_keys

    @property
    def forgets_by_watermark(self) -> bool:
        return True

    def describe_state(self) -> str:
        return "the rows of the windows that are open"

    def explain_step(self) -> list[str]:
        first, *more = self.inner.explain_step()
        return [f"{first}, in {self.windows[0].describe()}", *more]

    def columns_read(self, wanted: Names) -> tuple[Names, ...]:
        """The columns of windows are among the keys of the inner step."""
        return self.inner.columns_read(wanted)

    def prune(self, inputs: Sequence[Node], wanted: Names) -> Node:
        inner = self.inner.prune(inputs, wanted)
        assert isinstance(inner, Stateful), "a step with state stays one"  # noqa: S101
        return replace(self, schema=inner.schema, inner=inner)

    def find_origin(self, name: str, lineage: Lineage) -> Expression:
        return lineage.column(self.inner, name)

    def identify_state(self, identifier: StateIdentifier, kept: KeptState) -> StepIdentity:
        found = self.inner.identify_state(identifier, kept)
        facts = [identifier.window(below, each) for below, each in zip(self.inputs, self.windows, strict=True)]
        window = Fact(", ".join(each.meaning for each in facts), ", ".join(dict.fromkeys(x.shown for x in facts)))
        keys = {side: _generalize_window_columns(columns) for side, columns in found.keys.items()}
        return replace(found, step=f"{found.step} in windows", facts={**found.facts, "window": window}, keys=keys)

    def state_notes(self, lineage: Lineage) -> Iterable[tuple[str, Fact]]:
        return self.inner.state_notes(lineage)

    def arrange_keys(self, order: KeyOrder) -> Node:
        return self

    def own_traits(self, inputs: tuple[Traits, ...]) -> Traits:
        """The windows of the rows are those of the first input."""
        first = inputs[0]
        names = dict(zip(self.inputs[0].schema.names, self.schema.names, strict=False))
        return replace(
            self.inner.own_traits(inputs),
            kinds=INSERTIONS,
            rowtimes=tuple(names[each] for each in first.rowtimes if each in names),
            proctimes=(),
            window=None if first.window is None else first.window.rename_columns(names),
        )


def _generalize_window_columns(columns: Sequence[Column]) -> tuple[Column, ...]:
    """The columns of a key. The meaning of its window columns does not say which window they belong to."""
    return tuple(replace(each, meaning=each.shown) if each.shown in _BOUNDS else each for each in columns)
