"""Keys in the order of the state: their hash depends on the order, the result of a step does not."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from penstock.plan.lineage import Lineage, meaning
from penstock.plan.nodes import (
    Deduplicate,
    GroupAggregate,
    Join,
    Materialize,
    Node,
    Normalize,
    OverAggregate,
    Rank,
    SetOperation,
    Sink,
    WindowAggregate,
    items_of,
    project,
)
from penstock.plan.step_identity import SIDES, StepIdentity
from penstock.plan.walk import rewrite
from penstock.types import RowType


def arrange_keys(sinks: tuple[Sink, ...], stored: Mapping[str, StepIdentity]) -> tuple[Sink, ...]:
    """The sinks of a planned job, with the keys of each step in the order of its identity among ``stored``, by uid, if
    they are the same. The columns that a step gives stay in their order."""
    if not stored:
        return sinks
    lineage = Lineage()

    def change(node: Node) -> Node:
        known = stored.get(node.uid)
        return node if known is None else _arranged(node, known, lineage)

    return rewrite(sinks, change)


def _arranged(node: Node, known: StepIdentity, lineage: Lineage) -> Node:
    match node:
        case GroupAggregate(input=below, keys=keys) | WindowAggregate(input=below, keys=keys):
            order = _order(below, keys, known, "", lineage)
            names = (*(keys[at] for at in order), *node.schema.names[len(keys) :])
            made = replace(node, keys=names[: len(keys)], schema=_row(node, names))
            return project(made, items_of(node.schema))
        case (
            Deduplicate(input=below, keys=keys)
            | Materialize(input=below, keys=keys)
            | Normalize(input=below, keys=keys)
            | Rank(input=below, keys=keys)
            | OverAggregate(input=below, keys=keys)
        ):
            return replace(node, keys=tuple(keys[at] for at in _order(below, keys, known, "", lineage)))
        case Join(left=left, left_keys=lefts, right_keys=rights):
            order = _order(left, lefts, known, SIDES[0], lineage)
            return replace(
                node, left_keys=tuple(lefts[at] for at in order), right_keys=tuple(rights[at] for at in order)
            )
        case SetOperation(left=left, right=right):
            order = _order(left, left.schema.names, known, SIDES[0], lineage)
            left, right = (_columns(each, order) for each in (left, right))
            compared = replace(node, left=left, right=right, schema=left.schema)
            return project(compared, items_of(node.schema))
    return node


def _order(below: Node, keys: Sequence[str], known: StepIdentity, side: str, lineage: Lineage) -> tuple[int, ...]:
    """The places of the keys in the order of the state; unchanged, if the keys differ."""
    own = [meaning(lineage.column(below, each)) for each in keys]
    stored = [each.meaning for each in known.keys.get(side, ())]
    if own == stored or sorted(own) != sorted(stored) or len(set(own)) < len(own):
        return tuple(range(len(keys)))
    return tuple(own.index(each) for each in stored)


def _columns(node: Node, order: Sequence[int]) -> Node:
    items = items_of(node.schema)
    return project(node, tuple(items[at] for at in order))


def _row(node: Node, names: Sequence[str]) -> RowType:
    return replace(
        node.schema, fields=tuple(each for name in names for each in node.schema.fields if each.name == name)
    )
