"""A text with the places that errors point at."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from penstock.errors import DefinitionError, Problem, SqlError
from penstock.plan.expressions import Place


@dataclass(frozen=True)
class Source:
    """SQL text and the name of where it came from: a file, or nothing."""

    text: str
    name: str = ""

    def at(self, offset: int) -> Place:
        """Where the character at ``offset`` is."""
        return Place(self.text, offset, self.name)

    def spot(self, at: int) -> str:
        """Line and column of the character at offset ``at``."""
        return self.at(at).spot

    def place(self, at: int) -> str:
        """The same with the text's name before it: ``flights.sql, line 3, column 5``."""
        return str(self.at(at))

    def problem(self, at: int, reason: str, hint: str = "", key: str = "") -> Problem:
        """A problem with the character at offset ``at``."""
        return Problem(reason, key, self.place(at), hint)

    def error(self, at: int, reason: str, hint: str = "") -> SqlError:
        """The same as an error, to be raised."""
        return SqlError((self.problem(at, reason, hint),))


def combined(errors: Iterable[DefinitionError]) -> DefinitionError:
    """All problems as one error: of their common class, or SqlError when they are of several."""
    found = list(errors)
    kinds = {type(error) for error in found}
    problems = tuple(dict.fromkeys(problem for error in found for problem in error.problems))
    return (kinds.pop() if len(kinds) == 1 else SqlError)(problems)
