"""Server processes: each has a guard unless it is detached, and no other process ever gets its signals."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from penstock.deadline import awaited
from penstock.errors import ServiceError

#: How long a server may take to end or to stop.
GRACE_SECONDS = 20.0

_PROC = Path("/proc")
_GUARD = Path(__file__).with_name("guard.py")


@dataclass(frozen=True)
class Identity:
    """A process that cannot be mistaken for a later one with the same id.

    ``started`` is the start time as the operating system gives it, and the boot that it belongs to.
    """

    pid: int
    started: str

    @classmethod
    def of(cls, pid: int) -> Identity | None:
        """The identity of the running process ``pid``; None if there is none. Zombies do not run."""
        started = _started(pid)
        return cls(pid, started) if started else None

    def alive(self) -> bool:
        """Whether the process still runs."""
        return _started(self.pid) == self.started

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


def _started(pid: int) -> str:
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


def end_all(processes: Iterable[Identity], grace: float) -> None:
    """Asks all processes to end, then waits: nodes of a cluster wait for one another.

    Processes that outlive ``grace`` seconds are killed; 0 kills all at once.

    Raises:
        ServiceError: a process outlives even that.
    """
    processes = list(processes)
    deadline = time.monotonic() + grace
    if grace > 0:
        for process in processes:
            process.signal(signal.SIGCONT)  # a paused process gets no other signal
            process.signal(signal.SIGTERM)
        for process in processes:
            process.wait(deadline - time.monotonic())
    for process in processes:
        process.signal(signal.SIGKILL)
    for process in processes:
        if not process.wait(30):
            raise ServiceError(f"process {process.pid} was killed and does not end; `ps -o stat,wchan` may show why")


@dataclass(frozen=True)
class ServerProcess:
    """One server and its guard, which ends it when this process is gone."""

    identity: Identity
    guard: subprocess.Popen[bytes] = field(repr=False)

    def leave(self) -> None:
        """Detaches a server that was launched ``loose``: it now outlives this process."""
        if self.guard.stdin is not None:
            self.guard.stdin.write(b"l")
            self.guard.stdin.flush()
        self.guard.wait()
        self.close()

    def ended(self) -> None:
        """Releases the guard of a server that has ended."""
        # The guard notices the end by itself. If the pipe closed first, while the last threads of a zombie end,
        # the guard would think that this process is gone, and delete the folder.
        self.guard.wait()
        self.close()

    def close(self) -> None:
        """Releases the guard, which ends the server if it still runs. A second call does nothing."""
        for pipe in (self.guard.stdin, self.guard.stdout):
            if pipe is not None:
                pipe.close()
        self.guard.wait()


def launch(
    command: Sequence[str], log: Path, *, loose: bool = False, grace: float = 0, doomed: Path | None = None
) -> ServerProcess:
    """Starts a server that writes to ``log`` and ends with this process, however this process ends.

    It then gets ``grace`` seconds to close its files, and the folder ``doomed`` is deleted. Only a ``loose`` server can
    be detached later.

    Raises:
        ServiceError: it could not be started, or ended at once; the end of ``log`` is quoted.
    """
    with log.open("ab") as errors:
        guard = subprocess.Popen(
            [
                sys.executable, "-I", "-S", str(_GUARD),
                "loose" if loose else "bound", str(grace), str(doomed or "-"), str(log), *command,
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            start_new_session=True,  # Ctrl-C ends the program in the terminal, which then ends its servers in order
        )  # fmt: skip
    pid = guard.stdout.readline().strip() if guard.stdout else b""
    identity = Identity.of(int(pid)) if pid else None
    if identity is None:
        ServerProcess(Identity(0, ""), guard).close()
        raise ServiceError(f"{command[0]} ended as soon as it was started:\n{tail(log.read_text(errors='replace'))}")
    return ServerProcess(identity, guard)


def tail(log: str, lines: int = 12) -> str:
    """The last lines of a log, without stack frames."""
    return "\n".join([line for line in log.splitlines() if not line.startswith(("\tat ", "\t... "))][-lines:])
