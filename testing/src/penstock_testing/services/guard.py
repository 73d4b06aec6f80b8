"""The process between penstock and one server: it ends the server when the process that started it is gone.

This is a program, run as ``python -I -S guard.py MODE GRACE DOOMED LOG COMMAND...``. It uses the standard library
only, and so starts in a few milliseconds.

It ends COMMAND when standard input closes or the parent process changes. It watches both, because a fork of the parent
may keep the pipe open. Any byte on standard input detaches COMMAND.

- MODE ``bound``: COMMAND dies with this process, too. ``loose``: it does not, so that it can be detached.
- GRACE: seconds between asking COMMAND to end and killing it; 0 kills at once.
- DOOMED: a folder to delete when COMMAND was ended because its parent is gone, or ``-``.
- LOG: the file for COMMAND's output.

It writes COMMAND's process id as one line to standard output, and exits as COMMAND does.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import select
import shutil
import signal
import subprocess
import sys

_PR_SET_PDEATHSIG = 1
_GLANCE = 0.25  # seconds between looks at the child and the parent


def main(arguments: list[str]) -> int:
    mode, grace, doomed, log = arguments[:4]
    parent = os.getppid()
    # COMMAND dies with the thread that forks it. This program has only one; the caller's threads come and go.
    prctl = ctypes.CDLL(None).prctl if mode == "bound" and sys.platform == "linux" else None
    with open(log, "ab") as output:
        child = subprocess.Popen(
            arguments[4:],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            preexec_fn=(lambda: prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)) if prctl else None,  # noqa: PLW1509
        )
    with contextlib.suppress(BrokenPipeError):
        sys.stdout.write(f"{child.pid}\n")
        sys.stdout.flush()
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    try:
        while child.poll() is None and os.getppid() == parent:
            readable, _, _ = select.select([0], [], [], _GLANCE)
            if readable:
                if os.read(0, 1):
                    return 0
                break
    except SystemExit:
        end(child, float(grace))
        raise
    if child.poll() is None:
        end(child, float(grace))
        if doomed != "-":
            shutil.rmtree(doomed, ignore_errors=True)
    return child.returncode if child.returncode >= 0 else 128 - child.returncode


def end(child: subprocess.Popen[bytes], grace: float) -> None:
    """Asks ``child`` to end, kills it after ``grace`` seconds, and reaps it."""
    if grace > 0:
        child.send_signal(signal.SIGCONT)  # a paused process gets no other signal
        child.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            child.wait(grace)
    child.kill()
    child.wait()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
