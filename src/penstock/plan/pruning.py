"""Only columns that are read go to steps with state, where they are sent between tasks and kept."""

from __future__ import annotations

from collections.abc import Collection

from penstock.plan.expressions import fields_of
from penstock.plan.node import Names, Node
from penstock.plan.nodes import Item, Sink, project
from penstock.plan.traits import traits
from penstock.plan.walk import fold, repeatable


def prune_sinks(sinks: tuple[Sink, ...]) -> tuple[Sink, ...]:
    """The sinks, fed by the same rows without unread columns. Sinks without state stay as they are."""
    kept: set[int] = set()
    fold([sink for sink in sinks if not traits(sink).stateful], lambda node, _: kept.add(id(node)))
    return tuple(each for each in _drop_unread(sinks, kept) if isinstance(each, Sink))


def prune_rows(node: Node) -> Node:
    """The same rows from nodes without the columns that ``node`` does not read."""
    (found,) = _drop_unread((node,), frozenset())
    return found


def repeatable_columns(node: Node) -> Names:
    """The columns whose values are the same for several readers of ``node`` if they read no others; none if even the
    number of rows may differ."""
    if repeatable(node):
        return frozenset(node.schema.names)
    alone = {each.name: prune_rows(project(node, (Item(each.name, each),))) for each in fields_of(node.schema)}
    return frozenset(name for name, rows in alone.items() if repeatable(rows))


def _drop_unread(roots: tuple[Node, ...], kept: Collection[int]) -> list[Node]:
    """The roots above nodes without unread columns. Nodes whose ids are ``kept`` stay as they are."""
    order: list[Node] = []
    fold(roots, lambda node, _: order.append(node))
    wanted = {id(root): frozenset(root.schema.names) for root in roots}
    for node in reversed(order):  # each before its inputs
        own = wanted.get(id(node), frozenset())
        reads = _list_all_columns(node) if id(node) in kept else node.columns_read(own)
        for each, names in zip(node.inputs, reads, strict=True):
            wanted[id(each)] = wanted.get(id(each), frozenset()) | names

    def visit(node: Node, inputs: tuple[Node, ...]) -> Node:
        return node if id(node) in kept else node.prune(inputs, wanted.get(id(node), frozenset()))

    return list(fold(roots, visit))


def _list_all_columns(node: Node) -> tuple[Names, ...]:
    return tuple(frozenset(each.schema.names) for each in node.inputs)
