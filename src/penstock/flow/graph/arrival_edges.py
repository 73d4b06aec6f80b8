"""Which rows of a dataflow carry their order of arrival: those on a path to an operator whose result depends on it,
where the order would be lost."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from penstock.flow.graph.dataflow import Branch, Edge, Vertex


@dataclass(frozen=True)
class _Needs:
    """The inputs, by vertex and number, whose rows carry their places, and the vertices whose rows do."""

    inputs: frozenset[tuple[int, int]]
    vertices: frozenset[int]


def carrying_arrivals(
    branches: Sequence[Branch], vertices: Sequence[Vertex]
) -> tuple[tuple[Branch, ...], tuple[Vertex, ...]]:
    """The same dataflow, whose vertices come after those that feed them, with the edges that carry the order of
    arrival. Idempotent.

    The rows of one scan come in their order, and need nothing. Where operators keep the last row of a key, every change
    of it comes through, as row by row; others give the net change of a batch, each row at the place of its cause.
    """
    needs = _needs(branches, vertices)

    def edge(given: Edge) -> Edge:
        if (given.vertex, given.input) not in needs.inputs:
            return given
        return replace(given, numbered=True, combiner=None, combined=None)

    def vertex(given: Vertex) -> Vertex:
        operator, carries = given.operator, given.number in needs.vertices
        if carries:
            operator = operator.with_every_change()
        if any(given.number in _into(each) for each in every):
            operator = operator.behind_every_change()
        places = frozenset(number for at, number in needs.inputs if at == given.number)
        outs = tuple((calc, edge(each)) for calc, each in given.outs)
        return replace(given, operator=operator, outs=outs, numbered=places)

    every = [vertices[number] for number in needs.vertices]
    made = tuple(replace(each, edge=edge(each.edge)) if each.edge is not None else each for each in branches)
    return made, tuple(map(vertex, vertices))


def _needs(branches: Sequence[Branch], vertices: Sequence[Vertex]) -> _Needs:
    inputs: set[tuple[int, int]] = set()
    carrying: set[int] = set()
    for vertex in reversed(vertices):
        passes = vertex.number in carrying and not vertex.operator.timed
        for number, given in enumerate(vertex.operator.inputs):
            into = (vertex.number, number)
            scanned = sum(each.edge is not None and (each.edge.vertex, each.edge.input) == into for each in branches)
            feeding = [each.number for each in vertices for _, edge in each.outs if (edge.vertex, edge.input) == into]
            lost = bool(feeding) or scanned > 1
            if given.combiner is None and (passes or (vertex.operator.ordered and lost)):
                inputs.add(into)
                carrying.update(feeding)
    return _Needs(frozenset(inputs), frozenset(carrying))


def _into(vertex: Vertex) -> set[int]:
    return {edge.vertex for _, edge in vertex.outs}
