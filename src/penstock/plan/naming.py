"""Names of steps with state: a checkpoint finds the state of a step by its name."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from penstock.errors import Problem, SchemaError
from penstock.plan.node import Node, Stateful
from penstock.plan.nodes import Sink, scans
from penstock.plan.walk import fold


def assign_uids(sinks: tuple[Sink, ...]) -> tuple[Sink, ...]:
    """The sinks, with a ``uid`` for each step with state that the user gave none: its sink, kind and tables, and a
    number where there are several, from the sink downwards. It depends neither on what is computed nor on other sinks.
    Raises SchemaError if the user gave one uid twice."""
    names: dict[int, str] = {}
    for sink in sinks:
        for node in _find_stateful(sink):
            if id(node) not in names:
                names[id(node)] = node.uid or _find_free_name(_make_name(node, sink), names.values())
    given = [each.uid for each in _find_stateful(*sinks) if each.uid]
    again = next((uid for index, uid in enumerate(given) if uid in given[:index]), None)
    if again is not None:
        hint = "give each step its own uid: its state is found by the uid"
        raise SchemaError((Problem(f"two steps have the uid '{again}'", hint=hint),))

    def visit(node: Node, inputs: tuple[Node, ...]) -> Node:
        made = node.with_inputs(inputs)
        uid = names.get(id(node), made.uid)
        return made if made.uid == uid else replace(made, uid=uid)

    return tuple(each for each in fold(sinks, visit) if isinstance(each, Sink))


def _find_stateful(*sinks: Sink) -> list[Stateful]:
    """The steps with state that feed these sinks, each above those that feed it."""
    found: list[Stateful] = []

    def visit(node: Node, _: tuple[None, ...]) -> None:
        if isinstance(node, Stateful):
            found.append(node)

    fold(sinks, visit)
    return found[::-1]


def _make_name(node: Stateful, sink: Sink) -> str:
    name = f"{node.step_name}({', '.join(dict.fromkeys(each.table for each in scans(node)))})"
    return f"{sink.table}: {name}" if node.named_by_sink else name


def _find_free_name(name: str, taken: Collection[str]) -> str:
    found, number = name, 1
    while found in taken:
        number += 1
        found = f"{name} {number}"
    return found
