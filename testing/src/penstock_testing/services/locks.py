"""Locks on files, between processes."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from penstock.errors import ServiceError


@contextmanager
def lock_file(path: Path, waiting: Callable[[], None]) -> Iterator[None]:
    """Locks the file ``path`` against other processes. Calls ``waiting`` once if another process has it.

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
