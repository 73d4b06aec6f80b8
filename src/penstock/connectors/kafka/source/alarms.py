"""Batches that are requested, whether or not there is something to read."""

from __future__ import annotations

import contextlib
from pathlib import Path


class Alarm:
    """The time of the next such batch, in ms since 1970, in a file on this machine: written by the driver, read by the
    planning process."""

    def __init__(self, path: str):
        self._path = Path(path)

    def set(self, at: int | None) -> None:
        """Request a batch at this time, replacing an earlier request; None cancels it."""
        if at is None:
            self.close()
            return
        draft = self._path.with_name(f"{self._path.name}.new")
        draft.write_text(str(at))
        draft.replace(self._path)

    def due(self, now: int) -> bool:
        """Whether it is time."""
        with contextlib.suppress(FileNotFoundError):
            return int(self._path.read_text()) <= now
        return False

    def close(self) -> None:
        """Delete the file."""
        self._path.unlink(missing_ok=True)
