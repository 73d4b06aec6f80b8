"""A checkpoint's files on a disk of this machine, or one that is mounted here."""

from __future__ import annotations

import errno
import fcntl
import os
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

#: The errors of file systems without hard links.
_NO_LINKS = {errno.EPERM, errno.ENOSYS, errno.EOPNOTSUPP, errno.EMLINK, errno.EACCES}
#: The errors of file systems without locks.
NO_LOCKS = {errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP, errno.ENOTSUP}
#: The errors of a lock that another process has.
_HELD = {errno.EWOULDBLOCK, errno.EACCES}


@dataclass(frozen=True)
class Lock:
    """An attempt at a lock, which ends with the process. ``held``: another process holds it. Neither ``taken`` nor
    ``held`` where the file system has no locks."""

    file: TextIO | None = None
    held: bool = False

    @property
    def taken(self) -> bool:
        """Whether this process has it."""
        return self.file is not None

    def release(self) -> None:
        """Release it. Safe to call more than once."""
        if self.file is not None:
            self.file.close()


class LocalFiles:
    """Files below ``root``. All methods raise OSError."""

    def __init__(self, root: Path):
        self._root = root

    def read(self, name: str) -> str | None:
        try:
            return (self._root / name).read_text("utf-8")
        except FileNotFoundError:
            return None

    def write(self, name: str, text: str, *, durable: bool = True) -> None:
        self._put(name, text, lambda draft, path: draft.replace(path), durable=durable)

    def create(self, name: str, text: str) -> None:

        def link(draft: Path, path: Path) -> None:
            try:
                path.hardlink_to(draft)  # unlike a rename, a link never replaces a file
            except FileExistsError:
                return
            except OSError as error:
                if error.errno not in _NO_LINKS:
                    raise
                with path.with_name(".lock").open("w") as lock:  # the system releases it when its process ends
                    self._lock(lock)
                    if not path.exists():
                        draft.replace(path)

        self._put(name, text, link)

    def delete(self, name: str) -> None:
        (self._root / name).unlink(missing_ok=True)

    def names(self, folder: str) -> list[str]:
        try:
            return os.listdir(self._root / folder)
        except FileNotFoundError:
            return []

    def lock(self, name: str) -> Lock:
        path = self._root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            file = path.open("a")
        except PermissionError:
            file = path.open()  # of another user: the folder is shared, and its other files are replaced, not written
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            file.close()
            # EBADF: NFS locks only files that are open for writing.
            if error.errno not in NO_LOCKS | _HELD | {errno.EBADF}:
                raise
            return Lock(held=error.errno in _HELD)
        return Lock(file)

    @staticmethod
    def _lock(file: TextIO) -> None:
        try:
            fcntl.flock(file, fcntl.LOCK_EX)
        except OSError as error:
            if error.errno not in NO_LOCKS:
                raise
            raise OSError(
                error.errno,
                "its file system has neither hard links nor locks, without which two copies of the job may both write; "
                "choose another one",
            ) from error

    def _put(self, name: str, text: str, publish: Callable[[Path, Path], object], *, durable: bool = True) -> None:
        path = self._root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        draft = path.with_name(f".{path.name}.{uuid.uuid4().hex}")
        try:
            with draft.open("w", encoding="utf-8") as file:
                file.write(text)
                file.flush()
                if durable:
                    os.fsync(file.fileno())
            publish(draft, path)
        finally:
            draft.unlink(missing_ok=True)
        if not durable:
            return
        folder = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
