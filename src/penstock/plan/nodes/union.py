"""UNION ALL."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Self

from penstock.plan.expressions import Call, Expression, coerce, fields_of
from penstock.plan.lineage import Lineage
from penstock.plan.node import Attributes, Names, Node, Step
from penstock.plan.nodes.project import Item, Project, narrow
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

    def explain_step(self) -> list[str]:
        return ["all rows of"]

    def flink_attributes(self) -> Attributes:
        return ("all", "true"), ("union", ", ".join(self.schema.names))

    def columns_read(self, wanted: Names) -> tuple[Names, ...]:
        places = [index for index, name in enumerate(self.schema.names) if name in wanted] or [0]
        return tuple(frozenset(each.schema.names[index] for index in places) for each in self.members)

    def prune(self, inputs: Sequence[Node], wanted: Names) -> Node:
        names = [each for each in self.schema.names if each in wanted] or self.schema.names[:1]
        members = tuple(narrow(each, read) for each, read in zip(inputs, self.columns_read(wanted), strict=True))
        return replace(self, schema=self.schema.select(tuple(names)), members=members)

    def find_origin(self, name: str, lineage: Lineage) -> Expression:
        at = self.schema.names.index(name)
        found = tuple(dict.fromkeys(lineage.column(each, each.schema.names[at]) for each in self.members))
        return found[0] if len(found) == 1 else Call("UNION ALL", found, type=self._type_of(name))

    def steps_above(self, member: Node) -> tuple[Step, ...]:
        """The projection that gives the rows of a member the columns of the union."""
        given, wanted = member.schema.fields, self.schema.fields
        if given == wanted:
            return ()
        values = [coerce(ref, to.type) for ref, to in zip(fields_of(member.schema), wanted, strict=True)]
        items = tuple(Item(to.name, value) for to, value in zip(wanted, values, strict=True))
        return (Project(self.schema, member, items),)

    def own_traits(self, inputs: tuple[Traits, ...]) -> Traits:
        return Traits(
            kinds=frozenset[RowKind]().union(*(each.kinds for each in inputs)),
            bounded=all(each.bounded for each in inputs),
            rowtimes=self._find_common_times([each.rowtimes for each in inputs]),
            proctimes=self._find_common_times([each.proctimes for each in inputs]),
            window=self._find_common_window(inputs),
            stateful=any(each.stateful for each in inputs),
        )

    def _find_common_times(self, times: Sequence[tuple[str, ...]]) -> tuple[str, ...]:
        """The columns that are time attributes of all members."""
        members = zip(self.members, times, strict=True)
        places = [{member.schema.names.index(each) for each in own} for member, own in members]
        return tuple(self.schema.names[each] for each in sorted(set.intersection(*places)))

    def _find_common_window(self, members: tuple[Traits, ...]) -> Windowed | None:
        """The window of the rows, if all members have it in the same columns."""
        first = members[0].window
        same = all(each.window == first for each in members)
        return first if same and all(each.schema.names == self.schema.names for each in self.inputs) else None
