"""Spark's Python processes on this machine: the launcher that Spark starts, and the fork server behind it."""

from __future__ import annotations

import atexit
import hashlib
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from penstock.machine.folders import cache_folder

_LAUNCHER = """#!/bin/sh
# Spark puts a zipped copy of its Python library before the installed one, which loads several times faster.
kept=
old=$IFS
IFS=:
for each in $PYTHONPATH; do
  case $each in
    */python/lib/pyspark.zip | */python/lib/py4j-*-src.zip) ;;
    *) kept=$kept${kept:+:}$each ;;
  esac
done
IFS=$old
export PYTHONPATH=$kept
if [ "$1" = -m ] && [ -S "$PENSTOCK_FORKSERVER" ]; then
  exec %(python)s -I -S %(client)s "$PENSTOCK_FORKSERVER" %(python)s "$@"
fi
exec %(python)s "$@"
"""

#: Settings of the C library: keep the memory of freed buffers, up to this size, for the next ones. A task that reads
#: spends a fifth of its time on giving tens of megabytes back after each batch and asking for them again.
_KEPT_MEMORY = {
    "MALLOC_MMAP_THRESHOLD_": str(64 << 20),
    "MALLOC_TRIM_THRESHOLD_": str(256 << 20),
    "MALLOC_TOP_PAD_": str(16 << 20),
}

#: Settings of the server: libraries that it imports start no threads, which its forks would not have. OpenBLAS starts
#: one for each core, Arrow's jemalloc one that frees memory.
_NO_THREADS = {"OPENBLAS_NUM_THREADS": "1", "JE_ARROW_MALLOC_CONF": "background_thread:false"}

#: The path of a socket may have 107 bytes, those of the names in the folder included.
_LONGEST_FOLDER = 80
#: The fork server ends when its standard input does: that is when this process ends.
_SERVERS: list[subprocess.Popen[bytes]] = []


def use_forked_workers() -> None:
    """Have Spark start its Python processes by the launcher, unless the user names another Python."""
    script = str(launcher())
    if os.environ.setdefault("PYSPARK_PYTHON", script) == script:
        _start_server()  # a process that was started by one with a server needs its own


def launcher() -> Path:
    """A script that starts this Python for Spark's workers on this machine."""
    client = Path(__file__).with_name("forkclient.py")
    text = _LAUNCHER % {"python": shlex.quote(sys.executable), "client": shlex.quote(str(client))}
    path = cache_folder() / "python" / hashlib.sha256(text.encode()).hexdigest()[:16]
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        draft = path.with_name(f".{path.name}.{os.getpid()}")
        draft.write_text(text, "utf-8")
        draft.chmod(0o755)
        draft.replace(path)
    return path


def fork_server(path: str) -> subprocess.Popen[bytes]:
    """Start the process that Spark's Python processes are forked from (:mod:`penstock.engine.session.forkserver`). It
    listens to the socket at ``path``, imports what they need while the JVM starts, and ends when its standard input
    does."""
    # Spark asks for one seed of hashes in all its processes.
    environment = _KEPT_MEMORY | os.environ | _NO_THREADS | {"PYTHONHASHSEED": "0", "PYTHONUNBUFFERED": "1"}
    command = [sys.executable, "-m", "penstock.engine.session.forkserver", path]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, env=environment, process_group=0)


def _start_server() -> None:
    if _SERVERS:
        return
    beside = tempfile.gettempdir()
    if len(os.fsencode(beside)) > _LONGEST_FOLDER:
        beside = "/tmp"  # noqa: S108 - mkdtemp makes a folder in it that nobody else can use
    folder = tempfile.mkdtemp(prefix="penstock-", dir=beside)
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    os.environ["PENSTOCK_FORKSERVER"] = path = os.path.join(folder, "forks")
    _SERVERS.append(fork_server(path))
