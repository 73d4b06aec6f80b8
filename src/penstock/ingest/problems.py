"""The problems of a pipeline, which are reported together."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeVar

from penstock.errors import DefinitionError, PipelineError, Problem, UnsupportedError
from penstock.ingest.definition import ConnectorDef
from penstock.sql import locate_problem

_T = TypeVar("_T")


@dataclass
class Problems:
    """Collects problems: errors, and features that penstock lacks."""

    errors: list[Problem] = field(default_factory=list)
    unsupported: list[Problem] = field(default_factory=list)

    def __bool__(self) -> bool:
        return bool(self.errors or self.unsupported)

    def attempt(self, side: ConnectorDef, make: Callable[[], _T]) -> _T | None:
        """The result of ``make``, or None if it raised a DefinitionError, whose problems are collected, with places in
        ``side``."""
        try:
            return make()
        except DefinitionError as error:
            known = self.unsupported if isinstance(error, UnsupportedError) else self.errors
            located = (_locate(each, side) for each in error.problems)
            known += [each for each in dict.fromkeys(located) if each not in known]
        return None

    def check(self) -> None:
        """Raises PipelineError with all problems, or UnsupportedError if there is nothing else."""
        if self:
            raise (PipelineError if self.errors else UnsupportedError)((*self.errors, *self.unsupported))


def _locate(problem: Problem, side: ConnectorDef) -> Problem:
    """The problem with its place, and without the values of variables."""
    values = dict(side.options)
    return locate_problem(problem, side.origin, {key: (values[key], f"'{text}'") for key, text in side.written})
