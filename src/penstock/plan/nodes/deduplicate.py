"""One row of each key."""

from __future__ import annotations

from dataclasses import dataclass, replace

from penstock.plan.node import Stateful, Step
from penstock.plan.row_traits import UPDATES, Traits


@dataclass(frozen=True)
class Deduplicate(Stateful, Step):
    """Keeps the first or, with ``last``, the last row of each key by the event time in ``order`` (empty: by arrival).
    The schema is the input's."""

    keys: tuple[str, ...]
    order: str = ""
    last: bool = False

    @property
    def by_watermark(self) -> bool:
        """Whether rows are given when the watermark reaches them: first ones by event time, which are final then."""
        return bool(self.order) and not self.last

    def own_traits(self, inputs: tuple[Traits, ...]) -> Traits:
        (below,) = inputs
        kinds = below.kinds | UPDATES if self.last else below.kinds
        return replace(below, kinds=kinds, upsert_keys=(self.keys,), stateful=True)
