"""Where services keep files that outlive one process, by the XDG base directory rules."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from penstock.errors import ServiceError


def cache_folder() -> Path:
    """``$XDG_CACHE_HOME/penstock``, by default ``~/.cache/penstock``: may be deleted at any time."""
    return _folder("XDG_CACHE_HOME", ".cache")


def state_folder() -> Path:
    """``$XDG_STATE_HOME/penstock``, by default ``~/.local/state/penstock``: what is running."""
    return _folder("XDG_STATE_HOME", ".local/state")


def _folder(variable: str, default: str) -> Path:
    given = os.environ.get(variable, "")
    # The rules say that a relative path is to be ignored.
    base = Path(given) if given.startswith("/") else Path.home() / default
    return base / "penstock"


@contextmanager
def locked(path: Path, waiting: Callable[[], None]) -> Iterator[None]:
    """Holds the lock file ``path`` against other processes; calls ``waiting`` once when another one has it.

    Raises:
        ServiceError: the lock file cannot be written.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
    except OSError as error:
        raise ServiceError(
            f"{path} cannot be written: {error.strerror}; check the folder's owner and free space"
        ) from error
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            waiting()
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)
