"""A text with the positions that errors point at."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TypeVar

from penstock.errors import DefinitionError, Problem, SchemaError, SqlError, UnsupportedError, nearest
from penstock.plan.expressions import Place

_T = TypeVar("_T")
#: How many known names a hint lists.
_SHOWN = 12


@dataclass(frozen=True)
class SourceText:
    """SQL text and the name of its origin, such as a file; empty without one."""

    text: str
    name: str = ""

    def at(self, offset: int) -> Place:
        """The position of the character at ``offset``."""
        return Place(self.text, offset, self.name)

    def problem(self, at: int, reason: str, hint: str = "", key: str = "") -> Problem:
        """A problem with the character at offset ``at``."""
        return Problem(reason, key, str(self.at(at)), hint)

    def error(self, at: int, reason: str, hint: str = "") -> SqlError:
        """An error of the statement at offset ``at``."""
        return SqlError((self.problem(at, reason, hint),))

    def schema_error(self, at: int, reason: str, hint: str = "") -> SchemaError:
        """An error of a column or its type at offset ``at``."""
        return SchemaError((self.problem(at, reason, hint),))

    def not_found_error(self, at: int, role: str, name: str, known: Iterable[str]) -> SchemaError:
        """The error for a name of a column or field, as ``role`` says, that is not among the ``known`` names."""
        return self.schema_error(at, f"there is no {role} '{name}'", suggest_name(name, known))

    def unsupported_feature(self, at: int, reason: str, hint: str) -> UnsupportedError:
        """The error for a feature at offset ``at`` that only Flink has."""
        return UnsupportedError((self.problem(at, reason, hint),))

    @contextmanager
    def limit_nesting(self, at: int, part: str = "expression") -> Iterator[None]:
        """Raises SqlError if the work inside is nested deeper than Python's stack allows."""
        try:
            yield
        except RecursionError:
            raise self.error(at, f"the {part} is nested too deeply", "split it") from None


class Errors(list[DefinitionError]):
    """The errors of a text, collected so that all of them are reported together."""

    def attempt(self, work: Callable[[], _T]) -> _T | None:
        """The result of ``work``, or None if it raised a DefinitionError, which is kept."""
        try:
            return work()
        except DefinitionError as error:
            self.append(error)
            return None

    def check(self) -> None:
        """Raises the errors as one, if there are any: of their common class, or SqlError if they are of several."""
        if self:
            classes = {type(error) for error in self}
            problems = tuple(dict.fromkeys(problem for error in self for problem in error.problems))
            raise (classes.pop() if len(classes) == 1 else SqlError)(problems)


def suggest_similar(name: str, known: Iterable[str]) -> str:
    """A hint with the known name that differs from ``name`` in case only, or is closest to it; empty without one."""
    names = list(known)
    same = next((each for each in names if each.lower() == name.lower()), None)
    return f"did you mean '{same}'? names are case-sensitive" if same is not None else nearest(name, names)


def suggest_name(name: str, known: Iterable[str]) -> str:
    """The hint of :func:`suggest_similar`, or else one with the first known names."""
    names = list(known)
    return suggest_similar(name, names) or f"there are {', '.join(names[:_SHOWN]) or 'none'}"
