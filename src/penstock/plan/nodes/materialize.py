"""The last row of each key."""

from __future__ import annotations

from dataclasses import dataclass

from penstock.plan.nodes.node import Step


@dataclass(frozen=True)
class Materialize(Step):
    """The last row of each key to arrive, of those that were not retracted. The schema is the input's. A retraction may
    have other values than its row in the columns ``decided``, which are random: those of the row are given again."""

    keys: tuple[str, ...]
    decided: tuple[str, ...] = ()
