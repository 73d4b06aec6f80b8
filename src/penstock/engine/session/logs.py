"""Where the reports of Spark and Python go when something fails: to a file, since penstock's error says what happened.
With ``PENSTOCK_VERBOSE`` (``--verbose`` of the command line) they go to the terminal."""

from __future__ import annotations

import contextlib
import os
import time
import traceback
from pathlib import Path

from penstock.errors import verbose
from penstock.machine.folders import state_folder

#: Java's options for log4j2.properties: the file, and whether reports go to ``file`` or to ``stderr``.
_FILE, _TO = "penstock.log", "penstock.log.to"
#: How many files of former processes are kept.
_KEPT = 20
_STARTED = time.strftime("%Y%m%d-%H%M%S")


def log_file() -> Path:
    """The file of this process, which is there once something was reported."""
    return state_folder() / "logs" / f"{_STARTED}-{os.getpid()}.log"


def java_options() -> list[str]:
    """The options by which the JVM of this process finds the file. Deletes old files."""
    path = log_file()
    if verbose() or not _made(path.parent):
        return [f"-D{_TO}=stderr"]
    former = sorted(path.parent.glob("*.log"))
    for each in former[: max(0, len(former) - _KEPT)]:
        each.unlink(missing_ok=True)
    return [f"-D{_TO}=file", f"-D{_FILE}={path}"]


def report(error: BaseException) -> str:
    """Add the traceback of ``error``, with the errors behind it, to the file. Returns the file's path; empty when there
    is nothing behind the error, and nothing was reported before."""
    path = log_file()
    if verbose():
        return ""
    if error.__cause__ is not None and _made(path.parent):
        with contextlib.suppress(OSError), path.open("a", encoding="utf-8") as file:
            file.write("".join(traceback.format_exception(error)))
    return str(path) if path.exists() else ""


def _made(folder: Path) -> bool:
    """Whether the folder is there, and can be written."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError:
        return False
    return os.access(folder, os.W_OK)
