"""Programs that compiled loops run: a table of steps, with the numbers and the bytes that the steps use."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Generic, TypeVar

import numpy as np
import numpy.typing as npt


@dataclass
class ProgramStep:
    """A row of the table: an operation, the node that it is about, and another step. Subclasses add columns."""

    step: int
    node: int = 0
    next: int = 0


StepT = TypeVar("StepT", bound=ProgramStep)


@dataclass(frozen=True)
class Program:
    """Steps, the numbers and the bytes that they use, and the field of each step for errors."""

    steps: npt.NDArray[np.int64]
    table: npt.NDArray[np.int64]
    constants: npt.NDArray[np.uint8]
    paths: tuple[str, ...]

    @property
    def vectors(self) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], npt.NDArray[np.uint8]]:
        """The steps, the numbers and the bytes as a loop takes them."""
        return self.steps, self.table, self.constants


@dataclass
class Constants:
    """The numbers and the bytes of a program that is being built."""

    table: list[int] = field(default_factory=list)
    constants: bytearray = field(default_factory=bytearray)

    def keep(self, data: bytes) -> int:
        """Append bytes to the constants; returns their position."""
        self.constants += data
        return len(self.constants) - len(data)

    def look_up(self, values: Iterable[int]) -> int:
        """Append numbers to the table; returns their position."""
        at = len(self.table)
        self.table += values
        return at


@dataclass
class ProgramBuilder(Constants, Generic[StepT]):
    """Builds a program step by step."""

    steps: list[StepT] = field(default_factory=list)
    paths: list[str] = field(default_factory=list)

    def add(self, path: str, step: StepT) -> int:
        """Add a step, and the field that errors name; returns its number."""
        self.steps.append(step)
        self.paths.append(path)
        return len(self.steps) - 1

    def point(self, step: int, to: int | None = None) -> None:
        """Set the next step of ``step``: ``to``, or the step that is added next."""
        self.steps[step].next = len(self.steps) if to is None else to

    def forget(self, count: int) -> None:
        """Remove all steps but the first ``count``."""
        del self.steps[count:], self.paths[count:]

    def program(self) -> Program:
        """The finished program."""
        return Program(
            np.array([tuple(vars(step).values()) for step in self.steps], np.int64),
            np.array(self.table or [0], np.int64),
            np.frombuffer(bytes(self.constants), np.uint8),
            tuple(self.paths),
        )
