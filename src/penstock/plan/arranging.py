"""Keys in the order of the state: their hash depends on the order, the result of a step does not."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from penstock.plan.lineage import Lineage
from penstock.plan.node import Node, Stateful
from penstock.plan.nodes import Sink
from penstock.plan.origins import meaning
from penstock.plan.step_identity import StepIdentity
from penstock.plan.walk import rewrite


def arrange_keys(sinks: tuple[Sink, ...], stored: Mapping[str, StepIdentity]) -> tuple[Sink, ...]:
    """The sinks of a planned job, with the keys of each step in the order of its identity among ``stored``, by uid, if
    they are the same. The columns that a step gives stay in their order."""
    if not stored:
        return sinks
    lineage = Lineage()

    def change(node: Node) -> Node:
        known = stored.get(node.uid) if isinstance(node, Stateful) else None
        if known is None or not isinstance(node, Stateful):
            return node
        return node.arrange_keys(lambda below, keys, side: _find_order(below, keys, known, side, lineage))

    return rewrite(sinks, change)


def _find_order(below: Node, keys: Sequence[str], known: StepIdentity, side: str, lineage: Lineage) -> tuple[int, ...]:
    """The places of the keys in the order of the state; unchanged, if the keys differ."""
    own = [meaning(lineage.column(below, each)) for each in keys]
    stored = [each.meaning for each in known.keys.get(side, ())]
    if own == stored or sorted(own) != sorted(stored) or len(set(own)) < len(own):
        return tuple(range(len(keys)))
    return tuple(own.index(each) for each in stored)
