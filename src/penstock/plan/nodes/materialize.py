"""The last row of each key."""

from __future__ import annotations

from dataclasses import dataclass

from penstock.plan.nodes.node import Step


@dataclass(frozen=True)
class Materialize(Step):
    """The last row of each key to arrive, of those that were not retracted. The schema is the input's."""

    keys: tuple[str, ...]
