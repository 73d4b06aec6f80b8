"""The lines of a program that uses penstock: warnings and errors name them, and not lines of penstock itself."""

from __future__ import annotations

import runpy
import sys
import traceback
import warnings
from dataclasses import dataclass
from pathlib import Path

_PACKAGE = Path(__file__).parents[1]


@dataclass(frozen=True)
class ProgramLine:
    """A line of a program's file."""

    file: str
    number: int

    @classmethod
    def current(cls) -> ProgramLine:
        """The line that has called penstock in this thread."""
        frame = sys._getframe(1)
        while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith("penstock."):
            frame = frame.f_back
        return cls(frame.f_code.co_filename, frame.f_lineno)

    @classmethod
    def find(cls, error: BaseException) -> ProgramLine | None:
        """The program's line behind ``error``: the last one in the program's own files, or in a package that it uses.
        None if there is no such line."""
        for frame in reversed(traceback.extract_tb(error.__traceback__)):
            file = Path(frame.filename)
            if file.is_file() and not file.is_relative_to(_PACKAGE) and file != Path(runpy.__file__):
                return cls(frame.filename, frame.lineno or 0)
        return None

    def warn(self, message: str) -> None:
        """Give a warning about this line. Each is shown: the same may be true of another job."""
        warnings.warn_explicit(message, UserWarning, self.file, self.number)

    def __str__(self) -> str:
        return f"{Path(self.file).name}, line {self.number}"
