"""Server processes: each has a guard unless it is detached, and no other process ever gets its signals."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from penstock.errors import ServiceError
from penstock.machine.processes import Identity

_GUARD = Path(__file__).with_name("guard.py")


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
