"""UNION ALL."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Self

from penstock.plan.node import Node
from penstock.plan.row_traits import Traits, Windowed
from penstock.types import RowKind


@dataclass(frozen=True)
class Union(Node):
    """The rows of all ``members`` (UNION ALL), whose columns correspond by position and have the types of
    ``schema``."""

    members: tuple[Node, ...]

    @property
    def inputs(self) -> tuple[Node, ...]:
        return self.members

    def with_inputs(self, inputs: Sequence[Node]) -> Self:
        same = all(new is old for new, old in zip(inputs, self.members, strict=True))
        return self if same else replace(self, members=tuple(inputs))

    def own_traits(self, inputs: tuple[Traits, ...]) -> Traits:
        return Traits(
            kinds=frozenset[RowKind]().union(*(each.kinds for each in inputs)),
            bounded=all(each.bounded for each in inputs),
            rowtimes=self._common([each.rowtimes for each in inputs]),
            proctimes=self._common([each.proctimes for each in inputs]),
            window=self._same_window(inputs),
            stateful=any(each.stateful for each in inputs),
        )

    def _common(self, times: Sequence[tuple[str, ...]]) -> tuple[str, ...]:
        """The columns that are time attributes of all members."""
        members = zip(self.members, times, strict=True)
        places = [{member.schema.names.index(each) for each in own} for member, own in members]
        return tuple(self.schema.names[each] for each in sorted(set.intersection(*places)))

    def _same_window(self, members: tuple[Traits, ...]) -> Windowed | None:
        """The window of the rows, if all members have it in the same columns."""
        first = members[0].window
        same = all(each.window == first for each in members)
        return first if same and all(each.schema.names == self.schema.names for each in self.inputs) else None
