"""The functions that a file has defined, as expressions see them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Protocol

from penstock.plan.scalar_functions import Function


class UserFunctions(Protocol):
    """Functions by their names in upper case."""

    def find_system_function(self, name: str) -> Function | None:
        """The temporary system function, which hides a built-in one of its name."""

    def find_function(self, parts: tuple[str, ...]) -> Function | None:
        """The function of a database: the current one, unless a database precedes the function's name."""

    def names(self) -> Iterable[str]:
        """All of them."""


@dataclass(frozen=True)
class NamedFunctions:
    """Functions by their names in upper case, in no database."""

    functions: Mapping[str, Function]

    def find_system_function(self, name: str) -> Function | None:
        """There is none."""
        return None

    def find_function(self, parts: tuple[str, ...]) -> Function | None:
        """The function of this name, which has no database."""
        return self.functions.get(parts[0]) if len(parts) == 1 else None

    def names(self) -> Iterable[str]:
        """All of them."""
        return self.functions


#: No functions.
NO_FUNCTIONS: UserFunctions = NamedFunctions({})
