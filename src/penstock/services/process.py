"""Server processes: started under a supervisor or detached, and only ever signalled as the process they were."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from penstock.errors import ServiceError

#: How long a server gets to do what it is asked.
GRACE_SECONDS = 20.0

_POLL_SECONDS = 0.02
_PROC = Path("/proc")
_SUPERVISOR = Path(__file__).with_name("supervisor.py")


@dataclass(frozen=True)
class Identity:
    """A process that cannot be mistaken for a later one with the same id.

    ``started`` is the start time as the operating system tells it, within the boot it belongs to.
    """

    pid: int
    started: str

    @classmethod
    def of(cls, pid: int) -> Identity | None:
        """The identity of the running process ``pid``, or None when there is none (a zombie is none)."""
        started = _started(pid)
        return cls(pid, started) if started else None

    def alive(self) -> bool:
        """Whether this very process still runs."""
        return _started(self.pid) == self.started

    def frozen(self) -> bool:
        """Whether every thread of the process has been stopped (SIGSTOP); each takes its own moment."""
        if not _PROC.is_dir():  # not Linux: there is no telling
            return True
        threads = _PROC / str(self.pid) / "task"
        try:
            states = [(each / "stat").read_text().rpartition(")")[2].split()[0] for each in threads.iterdir()]
        except (FileNotFoundError, ProcessLookupError):  # a thread that has just ended, even after it was opened
            return False
        return all(state in {"T", "t"} for state in states)

    def signal(self, number: signal.Signals) -> bool:
        """Sends a signal to this very process. False when it has ended."""
        try:
            if not hasattr(os, "pidfd_open"):
                if not self.alive():
                    return False
                os.kill(self.pid, number)
                return True
            # The handle is opened first and keeps to one process: a check after it cannot be overtaken.
            handle = os.pidfd_open(self.pid)
            try:
                if not self.alive():
                    return False
                signal.pidfd_send_signal(handle, number)
                return True
            finally:
                os.close(handle)
        except ProcessLookupError:
            return False

    def freeze(self, name: str) -> bool:
        """Stops the process, which keeps its connections, and returns when all of it stands still. False when it has
        ended.

        Raises:
            ServiceError: the process, which people call ``name``, does not.
        """
        if not self.signal(signal.SIGSTOP):
            return False
        deadline = time.monotonic() + GRACE_SECONDS
        while not self.frozen():
            if time.monotonic() > deadline:
                raise ServiceError(f"{name} has not stood still within {GRACE_SECONDS:g} s of SIGSTOP")
            time.sleep(_POLL_SECONDS)
        return True

    def wait(self, seconds: float) -> bool:
        """Waits until the process has ended. False when it still runs after ``seconds``."""
        deadline = time.monotonic() + seconds
        while self.alive():
            if time.monotonic() >= deadline:
                return False
            time.sleep(_POLL_SECONDS)
        return True


def _started(pid: int) -> str:
    """The start time of a running process as text; empty when there is no such process."""
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
    """Asks all processes to end before it waits for one, since nodes of a cluster wait for one another's leave.

    Those that outlive ``grace`` seconds are killed; with 0 all are at once.

    Raises:
        ServiceError: one outlives even that, which the operating system alone can explain.
    """
    processes = list(processes)
    deadline = time.monotonic() + grace
    if grace > 0:
        for process in processes:
            process.signal(signal.SIGCONT)  # a paused process does not hear what follows
            process.signal(signal.SIGTERM)
        for process in processes:
            process.wait(deadline - time.monotonic())
    for process in processes:
        process.signal(signal.SIGKILL)
    for process in processes:
        if not process.wait(30):
            raise ServiceError(f"process {process.pid} was killed and does not end; `ps -o stat,wchan` may tell why")


@dataclass(frozen=True)
class ServerProcess:
    """One server and the supervisor that ends it when this process is gone."""

    identity: Identity
    supervisor: subprocess.Popen[bytes] = field(repr=False)

    def leave(self) -> None:
        """Leaves a server that was launched ``loose`` to itself: it now outlives this process."""
        if self.supervisor.stdin is not None:
            self.supervisor.stdin.write(b"l")
            self.supervisor.stdin.flush()
        self.supervisor.wait()
        self.close()

    def ended(self) -> None:
        """Releases the supervisor of a server that has been ended."""
        # It sees the end by itself. Were the pipe closed while the last threads of a process that is a zombie already
        # still end, it would take that for our end, and delete the folder.
        self.supervisor.wait()
        self.close()

    def close(self) -> None:
        """Releases the supervisor, which ends the server if that still runs. A second call does nothing."""
        for pipe in (self.supervisor.stdin, self.supervisor.stdout):
            if pipe is not None:
                pipe.close()
        self.supervisor.wait()


def launch(
    command: Sequence[str], log: Path, *, loose: bool = False, grace: float = 0, doomed: Path | None = None
) -> ServerProcess:
    """Starts a server whose output goes to ``log``, and that ends with this process, however this process ends.

    It then gets ``grace`` seconds to close its files, and the folder ``doomed`` is deleted after it. Only a server
    that is ``loose`` can be left to itself later.

    Raises:
        ServiceError: it could not be started, or ended at once; the end of ``log`` is quoted.
    """
    with log.open("ab") as errors:
        supervisor = subprocess.Popen(
            [
                sys.executable, "-I", "-S", str(_SUPERVISOR),
                "loose" if loose else "bound", str(grace), str(doomed or "-"), str(log), *command,
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            start_new_session=True,  # Ctrl-C is for the program in the terminal, which then ends its servers in order
        )  # fmt: skip
    told = supervisor.stdout.readline().strip() if supervisor.stdout else b""
    identity = Identity.of(int(told)) if told else None
    if identity is None:
        ServerProcess(Identity(0, ""), supervisor).close()
        raise ServiceError(f"{command[0]} ended as soon as it was started:\n{tail(log)}")
    return ServerProcess(identity, supervisor)


def tail(log: Path, lines: int = 12) -> str:
    """The last lines of a log that are not stack frames."""
    with suppress(FileNotFoundError):
        told = [
            line for line in log.read_text(errors="replace").splitlines() if not line.startswith(("\tat ", "\t... "))
        ]
        return "\n".join(told[-lines:])
    return ""
