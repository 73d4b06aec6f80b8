"""The functions that a file has defined, as expressions see them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from penstock.plan.scalar_functions import Function


class UserFunctions(Protocol):
    """Functions by their names in upper case."""

    def system(self, name: str) -> Function | None:
        """The temporary system function, which hides a built-in one of its name."""

    def named(self, parts: tuple[str, ...]) -> Function | None:
        """The function of a database: the current one, unless the name of one comes before that of the function."""

    def names(self) -> Iterable[str]:
        """All of them."""


class _NoFunctions:
    def system(self, name: str) -> Function | None:
        return None

    def named(self, parts: tuple[str, ...]) -> Function | None:
        return None

    def names(self) -> Iterable[str]:
        return ()


#: None at all.
NO_FUNCTIONS: UserFunctions = _NoFunctions()
