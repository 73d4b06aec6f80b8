"""How a program shows an uncaught error: the message only, as ``penstock run`` does."""

from __future__ import annotations

import sys
from types import TracebackType

from penstock.common.program_lines import ProgramLine
from penstock.errors import DefinitionError, PenstockError, verbose


def show_messages() -> None:
    """Have Python show the message alone of a PenstockError that ends the program. A program with its own
    ``sys.excepthook`` keeps it, and with PENSTOCK_VERBOSE Python's traceback stays."""
    if sys.excepthook is sys.__excepthook__ and not verbose():
        sys.excepthook = _show


def _show(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    if not isinstance(error, PenstockError):
        sys.__excepthook__(kind, error, trace)
        return
    line = ProgramLine.find(error)
    place = f"{line}: " if line is not None else ""
    if isinstance(error, DefinitionError):
        lines = [f"error: {problem}" if problem.where else f"error: {place}{problem}" for problem in error.problems]
    else:
        lines = [f"error: {place}{error}"]
    lines += [f"note: {each}" for each in getattr(error, "__notes__", ())]
    sys.stderr.write("".join(f"{each}\n" for each in lines))
