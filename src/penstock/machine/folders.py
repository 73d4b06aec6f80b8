"""Folders for files that outlive a process, by the XDG base directory specification."""

from __future__ import annotations

import os
from pathlib import Path


def cache_folder() -> Path:
    """``$XDG_CACHE_HOME/penstock``, by default ``~/.cache/penstock``. It may be deleted at any time."""
    return _find_folder("XDG_CACHE_HOME", ".cache")


def state_folder() -> Path:
    """``$XDG_STATE_HOME/penstock``, by default ``~/.local/state/penstock``: logs of jobs, and running servers."""
    return _find_folder("XDG_STATE_HOME", ".local/state")


def _find_folder(variable: str, default: str) -> Path:
    given = os.environ.get(variable, "")
    # The specification ignores relative paths.
    base = Path(given) if given.startswith("/") else Path.home() / default
    return base / "penstock"
