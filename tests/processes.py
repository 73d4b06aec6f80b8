"""Processes that tests start."""

from __future__ import annotations

__all__ = ["running"]


def running(pid: int) -> bool:
    """Whether a process runs: it is there, and is no zombie."""
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rsplit(")", 1)[1].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):  # the latter when it ends between opening and reading
        return False
