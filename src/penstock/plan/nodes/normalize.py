"""Upserts as changes."""

from __future__ import annotations

from dataclasses import dataclass, replace

from penstock.plan.node import Stateful, Step
from penstock.plan.row_traits import Traits
from penstock.spi import CHANGES


@dataclass(frozen=True)
class Normalize(Stateful, Step):
    """Makes a full changelog of upserts and deletions by the primary key ``keys``, or of a changelog with repeated
    changes. The schema is the input's."""

    keys: tuple[str, ...]

    def own_traits(self, inputs: tuple[Traits, ...]) -> Traits:
        (below,) = inputs
        return replace(below, kinds=CHANGES, upsert_keys=(self.keys,), stateful=True)
