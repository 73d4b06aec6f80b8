"""Waiting for what is to come about, without sleeping for longer than it takes."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

import pytest

if TYPE_CHECKING:
    from penstock.engine import RunningJob
    from penstock.errors import PenstockError

__all__ = ["eventually", "eventually_told", "while_running"]

_T = TypeVar("_T")


def eventually(condition: Callable[[], _T], seconds: float = 60, tell: Callable[[], object] = lambda: "") -> _T:
    """What ``condition`` gives as soon as that is true; fails when it is not in time, with what ``tell`` says then."""
    deadline = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < deadline, f"not so after {seconds:g} s {tell()}".strip()
        time.sleep(0.02)
    return found


def eventually_told(kind: type[PenstockError], pattern: str, step: Callable[[], object]) -> None:
    """Takes ``step``, which has so little time that it fails with this kind of error, until what it says matches: on a
    busy machine the time may be up before it gets to what is to be told."""

    def told() -> bool:
        with pytest.raises(kind) as raised:
            step()
        return re.search(pattern, str(raised.value)) is not None

    eventually(told)


def while_running(running: RunningJob, condition: Callable[[], _T], seconds: float = 60) -> _T:
    """What ``condition`` gives as soon as that is true; fails with the job's own error when the job ends first."""
    deadline = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < deadline, f"not so after {seconds:g} s"
        if running.wait(timeout=0.05):
            found = condition()
            assert found
            break
    return found
