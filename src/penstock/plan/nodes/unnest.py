"""Rows of the elements of a collection."""

from __future__ import annotations

from dataclasses import dataclass, replace

from penstock.plan.expressions import fields_of
from penstock.plan.node import Step
from penstock.plan.row_traits import Traits


@dataclass(frozen=True)
class Unnest(Step):
    """Gives each row once for each element of its column ``collection``, which is dropped: of an ARRAY, a MAP or a
    MULTISET; with ``outer`` once without an element if there is none. ``schema`` has the other columns of the input,
    then ``columns``: the element or, of a row, its fields, or the key and the value, and with ``numbered`` its number,
    counted from 1."""

    collection: str
    columns: tuple[str, ...]
    outer: bool = False
    numbered: bool = False

    def own_traits(self, inputs: tuple[Traits, ...]) -> Traits:
        (below,) = inputs
        kept = {each.name: each for each in fields_of(self.schema) if each.name not in self.columns}
        return replace(below.renamed({}).with_times_of(below, kept), stateful=True)
