"""Arguments of a program's calls that have to be objects of these packages."""

from __future__ import annotations

from typing import Any, TypeVar

from penstock.errors import ArgumentError, Problem

_T = TypeVar("_T")


def expect(value: Any, types: type[_T] | tuple[type[Any], ...], call: str, hint: str = "") -> _T:
    """``value``, which is of one of ``types``. Raises ArgumentError, which names the ``call``, for anything else."""
    if isinstance(value, types):
        return value
    names = " or ".join(each.__name__ for each in (types if isinstance(types, tuple) else (types,)))
    given = value.__name__ if isinstance(value, type) else type(value).__name__
    what = f"the class {given}" if isinstance(value, type) else f"an object of {given}"
    raise ArgumentError((Problem(f"takes a {names}, not {what}", call, hint=hint),))
