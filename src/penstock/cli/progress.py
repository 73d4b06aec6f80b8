"""What takes long, on standard error: standard output belongs to the command's answer."""

from __future__ import annotations

import sys
from types import TracebackType
from typing import Self


class ProgressLine:
    """A line that is rewritten in place on a terminal, and gone at the end.

    Elsewhere (a log) a step is told once: what follows the colon of a line counts as its detail.
    """

    def __init__(self) -> None:
        self._terminal = sys.stderr.isatty()
        self._step = ""

    def __call__(self, line: str) -> None:
        step = line.partition(":")[0]
        if self._terminal:
            print(f"\r\033[K{line}", end="", file=sys.stderr, flush=True)
        elif step != self._step:
            print(line, file=sys.stderr, flush=True)
        self._step = step

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._terminal and self._step:
            print("\r\033[K", end="", file=sys.stderr, flush=True)
