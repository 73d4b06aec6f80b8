"""What modules register for the nodes of plans: a value at the top of a module, which says its ``node``."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Protocol, TypeVar

from penstock.plan.nodes import Node


class ForNode(Protocol):
    """Something for one kind of node."""

    @property
    def node(self) -> type[Node]:
        """The kind of node."""
        ...


T = TypeVar("T", bound=ForNode)


def registered_by_node(kind: type[T], packages: Sequence[str]) -> Mapping[type[Node], T]:
    """The values of a kind in the modules of these packages, by their nodes. Raises TypeError if there are two for one
    node."""
    found: dict[type[Node], T] = {}
    for each in (value for package in packages for value in _values_in(package) if isinstance(value, kind)):
        if found.setdefault(each.node, each) is not each:
            raise TypeError(f"there are two operators for the plan node {each.node.__name__}")
    return found


def _values_in(package: str) -> Iterator[Any]:
    for module in pkgutil.iter_modules(importlib.import_module(package).__path__):
        yield from vars(importlib.import_module(f"{package}.{module.name}")).values()
