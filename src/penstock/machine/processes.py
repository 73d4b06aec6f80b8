"""Processes on this machine, told apart from later ones that have the same id."""

from __future__ import annotations

import os
import signal
import subprocess
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from penstock.deadline import awaited
from penstock.errors import ServiceError

#: How long a server may take to end or to stop.
GRACE_SECONDS = 20.0

_PROC = Path("/proc")


@dataclass(frozen=True)
class Identity:
    """A process that cannot be mistaken for a later one with the same id.

    ``started`` is the start time as the operating system gives it, and the boot that it belongs to.
    """

    pid: int
    started: str

    @classmethod
    def from_pid(cls, pid: int) -> Identity | None:
        """The identity of the running process ``pid``; None if there is none. Zombies do not run."""
        started = _read_start(pid)
        return cls(pid, started) if started else None

    def alive(self) -> bool:
        """Whether the process still runs."""
        return _read_start(self.pid) == self.started

    def frozen(self) -> bool:
        """Whether all threads of the process have stopped after SIGSTOP. They stop one by one."""
        if not _PROC.is_dir():  # not Linux, where this cannot be seen
            return True
        threads = _PROC / str(self.pid) / "task"
        try:
            states = [(each / "stat").read_text().rpartition(")")[2].split()[0] for each in threads.iterdir()]
        except (FileNotFoundError, ProcessLookupError):  # a thread that has just ended, even after it was opened
            return False
        return all(state in {"T", "t"} for state in states)

    def signal(self, number: signal.Signals) -> bool:
        """Sends a signal to the process. False if it has ended."""
        with suppress(ProcessLookupError), ExitStack() as stack:
            send = partial(os.kill, self.pid)
            if hasattr(os, "pidfd_open"):  # the handle is opened first: then the check holds for the signal
                handle = os.pidfd_open(self.pid)
                stack.callback(os.close, handle)
                send = partial(signal.pidfd_send_signal, handle)
            if self.alive():
                send(number)
                return True
        return False

    def freeze(self, name: str) -> bool:
        """Stops the process, which keeps its connections, and returns when all its threads are stopped. False if it has
        ended.

        Raises:
            ServiceError: the process, which people call ``name``, does not stop.
        """
        if not self.signal(signal.SIGSTOP):
            return False
        if not awaited(self.frozen, GRACE_SECONDS):
            raise ServiceError(f"{name} has not stopped within {GRACE_SECONDS:g} s of SIGSTOP")
        return True

    def wait(self, seconds: float) -> bool:
        """Waits until the process has ended. False if it still runs after ``seconds``."""
        return awaited(lambda: not self.alive(), seconds)


def _read_start(pid: int) -> str:
    """The start time of a running process as text; empty if there is none."""
    if _PROC.exists():
        try:
            stat = (_PROC / str(pid) / "stat").read_text()
            boot = (_PROC / "sys/kernel/random/boot_id").read_text().strip()
        except (FileNotFoundError, ProcessLookupError):
            return ""
        # proc(5): the name, field 2, is in brackets and may hold spaces; the state is field 3, the start field 22.
        fields = stat[stat.rindex(")") + 2 :].split()
        return "" if fields[0] in "ZX" else f"{boot}:{fields[19]}"
    shown = subprocess.run(
        ["ps", "-o", "stat=,lstart=", "-p", str(pid)], capture_output=True, text=True, check=False
    ).stdout.split(maxsplit=1)
    return "" if len(shown) < 2 or shown[0].startswith("Z") else shown[1].strip()
