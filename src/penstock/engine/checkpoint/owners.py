"""The processes that own a checkpoint: which they are, and whether they still run."""

from __future__ import annotations

import os
import socket
import uuid
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

from penstock.clock import now_ms
from penstock.delivery import format_utc

#: The states of processes (proc(5)) that have ended, and of those that are stopped.
_ENDED, _STOPPED = "ZX", "Tt"


@dataclass(frozen=True)
class Process:
    """A process of a host. ``kernel`` identifies the system that runs there, which is another one after each boot, and
    ``namespace`` the set of process ids that ``pid`` belongs to: containers have their own. ``ticks`` is the start of
    the process in the kernel's ticks since the boot, which distinguishes it from a later process with the same number;
    0 where the system does not report it."""

    host: str
    pid: int
    kernel: str
    namespace: str
    ticks: int

    def __str__(self) -> str:
        return f"process {self.pid} on {self.host}"

    def is_neighbour(self, other: Process) -> bool:
        """Whether the number of the ``other`` process means the same here."""
        return (self.kernel, self.namespace) == (other.kernel, other.namespace)

    def state(self) -> str:
        """The state of a process of this machine: a letter of proc(5), empty if it has ended."""
        found = _stat(self.pid)
        if found is None:  # without /proc
            try:
                os.kill(self.pid, 0)
            except PermissionError:
                return "S"  # it is there, and another user's
            except OSError:
                return ""
            return "S"
        state, ticks = found
        return "" if state in _ENDED or (self.ticks and ticks != self.ticks) else state

    def runs(self) -> bool:
        """Whether a process of this machine has not ended; it may be stopped."""
        return self.state() != ""

    def stands_still(self) -> bool:
        """Whether a process of this machine was stopped (SIGSTOP)."""
        return self.state() in set(_STOPPED)


def this_process() -> Process:
    """The process that calls."""
    pid = os.getpid()
    ticks = (_stat(pid) or ("", 0))[1]
    return Process(socket.gethostname(), pid, _kernel(), _namespace(), ticks)


@dataclass(frozen=True)
class Owner:
    """The owner of a checkpoint: a process that runs its job since ``since_ms``, in ms since the epoch. ``locked``: it
    holds the lock of the checkpoint's folder. ``rivals`` are processes that owned it before and may not have ended, by
    their names. ``ended``: the job does not run there any more."""

    id: str
    process: Process
    since_ms: int
    locked: bool = False
    rivals: tuple[str, ...] = ()
    ended: bool = False

    @classmethod
    def new(cls) -> Owner:
        """This process, from now on."""
        return cls(uuid.uuid4().hex, this_process(), now_ms())

    def __str__(self) -> str:
        return f"{self.process}, since {format_utc(self.since_ms)}"

    def over(self) -> Owner:
        """The same, when it has ended."""
        return replace(self, ended=True)

    def to_json(self) -> dict[str, Any]:
        """As :meth:`from_json` reads it."""
        return {**asdict(self), "rivals": list(self.rivals)}

    @classmethod
    def from_json(cls, found: Mapping[str, Any]) -> Owner:
        """Raises KeyError or TypeError for what is not an owner."""
        process = Process(**found["process"])
        return cls(**{**found, "process": process, "rivals": tuple(found["rivals"])})


def _stat(pid: int) -> tuple[str, int] | None:
    """The state of a process and the ticks of its start; an ended state if no process has the number. None without
    /proc."""
    if not Path("/proc/self/stat").exists():
        return None
    try:
        fields = Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()
    except OSError:
        return "X", 0
    return fields[0], int(fields[19])  # fields 3 and 22 of proc(5)


@cache
def _kernel() -> str:
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return socket.gethostname()


def _namespace() -> str:
    try:
        return os.readlink("/proc/self/ns/pid")
    except OSError:
        return ""
