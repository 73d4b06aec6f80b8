"""Which operator computes which node of a plan: the module of an operator has a :class:`NodeOperator` for its node."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, Generic, TypeVar

from penstock.flow.kernels.session import Session
from penstock.flow.operators.contract import Operator
from penstock.flow.rows.registered import registered_by_node
from penstock.plan.nodes import Node

N = TypeVar("N", bound=Node)

#: The packages whose modules have operators.
_PACKAGES = ("penstock.flow.operators", "penstock.flow.windows")


@dataclass(frozen=True)
class JobFacts:
    """What an operator depends on beside its node: the ``session`` of the job; whether rows of the node's input may be
    retracted (``retracts``); whether rows of an input have a time to live (``expires``); and whether there is one
    ``batch``, in which all results are final."""

    session: Session
    retracts: bool = False
    expires: bool = False
    batch: bool = False


@dataclass(frozen=True)
class NodeOperator(Generic[N]):
    """Makes the operators of one kind of ``node``."""

    node: type[N]
    make: Callable[[N, JobFacts], Operator]


@cache
def node_operators() -> Mapping[type[Node], NodeOperator[Any]]:
    """What makes operators, by the kind of node. Raises TypeError if there are two for one kind."""
    return registered_by_node(NodeOperator, _PACKAGES)


def make_operator(node: Node, facts: JobFacts) -> Operator:
    """The operator of a node. Raises TypeError for a kind of node that has none, and UnsupportedError for what the
    operator cannot compute."""
    found = node_operators().get(type(node))
    if found is None:
        name = type(node).__name__
        raise TypeError(f"the plan node {name} has no operator: add a NodeOperator to a module of flow/operators")
    return found.make(node, facts)
