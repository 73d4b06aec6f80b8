"""Safeguards taken out of the code, one at a time: what the walks must notice."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any
from unittest import mock

from penstock.connectors.kafka import targets
from penstock.kafka.progress import Run

__all__ = ["MUTATIONS", "Mutation"]


@dataclass(frozen=True)
class Mutation:
    """``name`` says which safeguard is missing; ``patches`` gives what replaces it: object, attribute, value."""

    name: str
    patches: Callable[[], list[tuple[Any, str, Any]]]

    @contextlib.contextmanager
    def applied(self) -> Iterator[None]:
        """The code without the safeguard."""
        with contextlib.ExitStack() as stack:
            for owner, name, value in self.patches():
                stack.enter_context(mock.patch.object(owner, name, value))
            yield


def _ignored_progress() -> list[tuple[Any, str, Any]]:
    return [(targets, "decide", lambda *_, **__: Run())]


MUTATIONS = {each.name: each for each in [Mutation("progress-ignored", _ignored_progress)]}
