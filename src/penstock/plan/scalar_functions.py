"""What a function of one row is: its name, types, kernel and how it varies, in one object. The built-in ones are in
``penstock.flow.functions``; a function that the user defines is the same kind of object."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from functools import cache
from itertools import groupby
from typing import Any, TypeAlias

from penstock.plan.expressions import Call, Expression, Unrepeatable, walk
from penstock.plan.overloads import Overload

#: Makes what computes a call in a session of ``penstock.flow.kernels``; None if there is nothing for its types or its
#: constants. The dataflow is above the plan, so its types are not named here.
KernelMaker: TypeAlias = Callable[[Call, Any], Callable[[Sequence[Any], int], Any] | None]


class Varies(Enum):
    """How often the value of a call changes, if the arguments stay the same."""

    NEVER = auto()
    #: With the time, if the call has no arguments: it is the same for all rows of a batch.
    BY_BATCH = auto()
    #: With the progress of event time.
    BY_WATERMARK = auto()
    #: With each row and each occurrence in a query.
    BY_ROW = auto()


@dataclass(frozen=True)
class Entry:
    """A line of the reference: ``syntax`` is what Flink calls it, ``note`` how it differs from Flink. By itself, it is
    syntax that SQL's binder knows how to write with functions of other names, or that is not about one row."""

    name: str
    syntax: str = ""
    note: str = ""


@dataclass(frozen=True)
class Missing(Entry):
    """A function of Flink that is not here: why, and what to do instead."""

    reason: str = ""


@dataclass(frozen=True, kw_only=True)
class Function(Entry):
    """A function or operator, by its ``name`` in plans. Without a ``syntax`` only plans have it, or the line of another
    shows it. Without ``overloads`` it has its own typing rules (``sql/bind/expressions/scope.py``).

    A call is computed by ``kernel``, after ``rewrite`` made it another expression of the same value; one without a
    kernel is always rewritten. ``aliases`` are other names that SQL has."""

    kernel: KernelMaker | None
    overloads: tuple[Overload, ...] = ()
    rewrite: Callable[[Call], Expression] | None = None
    varies: Varies = Varies.NEVER
    aliases: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.kernel is None and self.rewrite is None:
            raise TypeError(f"function {self.name} has neither a kernel nor a rewrite")

    def is_deterministic(self, call: Call) -> bool:
        """Whether the value of a call follows from its arguments."""
        return self.varies is Varies.NEVER or (self.varies is Varies.BY_BATCH and bool(call.args))


@dataclass(frozen=True)
class UserCall(Call):
    """A call of a function that the user defined, by the name that SQL has for it."""

    definition: Function


#: The package whose modules are groups of the reference, each with a ``GROUP`` and ``FUNCTIONS``. It is above the plan.
_PACKAGE = "penstock.flow.functions"


@cache
def catalogue() -> Mapping[str, tuple[Entry, ...]]:
    """All that is built in, by the groups of Flink's documentation, in the order of their names."""
    package = importlib.import_module(_PACKAGE)
    found = [importlib.import_module(f"{_PACKAGE}.{each.name}") for each in pkgutil.iter_modules(package.__path__)]
    groups = groupby(sorted(found, key=lambda each: each.GROUP), key=lambda each: each.GROUP)
    return {name: tuple(entry for each in modules for entry in each.FUNCTIONS) for name, modules in groups}


@cache
def functions() -> Mapping[str, Function]:
    """The built-in functions by their names. Raises TypeError if two have one name."""
    found: dict[str, Function] = {}
    for each in (entry for group in catalogue().values() for entry in group):
        if isinstance(each, Function):
            if each.name in found:
                raise TypeError(f"there are two functions {each.name}")
            found[each.name] = each
    return found


#: The module with the ``FUNCTIONS`` that only transforms of pipelines have.
_OF_TRANSFORMS = "penstock.flow.transform_functions"


@cache
def transform_functions() -> Mapping[str, Function]:
    """The functions that only transforms of pipelines have, by their names in plans."""
    return {each.name: each for each in importlib.import_module(_OF_TRANSFORMS).FUNCTIONS}


@cache
def aliases() -> Mapping[str, str]:
    """The names of functions by their other names."""
    return {alias: name for name, each in functions().items() for alias in each.aliases}


@cache
def missing() -> Mapping[str, str]:
    """Why functions of Flink are not here, by their names."""
    entries = (entry for group in catalogue().values() for entry in group)
    return {each.name: each.reason for each in entries if isinstance(each, Missing)}


def function_of(call: Call) -> Function | None:
    """The function that is called, None if there is none of that name."""
    if isinstance(call, UserCall):
        return call.definition
    return functions().get(call.function) or transform_functions().get(call.function)


def varies_by_row(call: Call) -> bool:
    """Whether a call has another value for each row and at each place in a query, as a random number has."""
    function = function_of(call)
    return function is not None and function.varies is Varies.BY_ROW


def is_deterministic(expression: Expression) -> bool:
    """Whether the value is deterministic: it follows from the row alone, not from chance or the time."""
    for each in walk(expression):
        if isinstance(each, Unrepeatable):
            return False
        if isinstance(each, Call):
            function = function_of(each)
            if function is not None and not function.is_deterministic(each):
                return False
    return True
