"""Servers of this process: they start, end with the process or before it, and leave nothing behind."""

from __future__ import annotations

import os
import shutil
import signal
import tempfile
import time
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import ClassVar, Self

from penstock.errors import ServiceError
from penstock.machine.processes import GRACE_SECONDS, Identity
from penstock_testing.services.process import ServerProcess, end_all, launch, tail

_READY_SECONDS = 120.0
_ATTEMPTS = 3
_POLL_SECONDS = 0.02


class Service(ABC):
    """One server, or several nodes of a cluster.

    Args:
        folder: for settings and logs of the run; :meth:`stop` deletes it. By default a temporary folder.
        data: where the servers keep their data, across restarts. By default in ``folder``.
        detachable: :meth:`detach` may be called. Until then the servers are tied less closely to this process.
    """

    #: What errors call it, and the beginning of its temporary folder's name.
    name: ClassVar[str]
    prefix: ClassVar[str]
    #: Text in the log of a server that has lost its port to another program.
    port_lost: ClassVar[str]

    def __init__(self, folder: Path | None = None, *, data: Path | str | None = None, detachable: bool = False):
        self._given_folder = folder
        self._given_data = None if data is None else Path(data).absolute()
        self._detachable = detachable
        self._folder: Path | None = None
        self._owner = 0
        self._command: list[str] = []
        self._running: dict[int, ServerProcess] = {}
        self._down: set[int] = set()  # killed or paused on purpose

    @property
    def folder(self) -> Path:
        """The folder with settings and logs of this run."""
        if self._folder is None:
            raise self._not_started()
        return self._folder

    @property
    def data(self) -> Path:
        """Where the servers keep their data."""
        return self._given_data or self.folder / "data"

    @property
    def nodes(self) -> tuple[int, ...]:
        """The node ids, whether they run or not."""
        return (1,)

    @property
    def processes(self) -> dict[int, Identity]:
        """The running nodes' processes by node id, the paused among them."""
        return {node: each.identity for node, each in self._running.items() if each.identity.alive()}

    def start(self) -> Self:
        """Starts it and returns when it is ready. After a crash it starts again with its ports and data.

        Raises:
            ServiceError: a program that it needs is missing, a port is taken, or a server ended; its log is quoted.
        """
        if self.processes:
            raise ServiceError(f"{self.name} is started already; stop() it first")
        if self._folder is None:
            self._install()
            self._begin()
        else:
            self._launch()
        return self

    def stop(self) -> None:
        """Stops it and deletes its temporary files. A second call does nothing."""
        if self._owner != os.getpid() or self._folder is None:
            return
        try:
            self._end([each.identity for each in self._running.values()], self._grace())
            for each in self._running.values():
                each.close()
        finally:
            shutil.rmtree(self._folder, ignore_errors=True)
            self._forget()

    def kill(self, node: int = 1) -> None:
        """Kills a node's process, as a crash would, and returns when it is gone."""
        self._end([self._process(node)], 0)
        self._down.add(node)

    def pause(self, node: int = 1) -> None:
        """Freezes a node, which keeps its connections and answers nothing. Returns when all its threads are stopped."""
        if not self._process(node).freeze(self._title(node)):
            raise ServiceError(f"{self._title(node)} does not run and cannot be paused; start it again first")
        self._down.add(node)

    def resume(self, node: int = 1) -> None:
        """Lets a paused node continue."""
        self._process(node).signal(signal.SIGCONT)
        self._down.discard(node)

    def detach(self) -> None:
        """Leaves it running: it outlives this process, and this object no longer controls it."""
        if not self._detachable:
            raise ServiceError(f"{self.name} cannot be detached; create it with detachable=True")
        for each in self._running.values():
            each.leave()
        self._forget()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()

    # --- for subclasses --------------------------------------------------------------------------------------

    @abstractmethod
    def _install(self) -> None:
        """Finds or fetches the programs."""

    @abstractmethod
    def _prepare(self) -> None:
        """Chooses ports, writes the files that the servers need to the new folder, and sets ``_command``."""

    def _arguments(self, node: int) -> list[str]:
        """What follows ``_command`` to start a node."""
        return []

    @abstractmethod
    def _answers(self, node: int) -> bool:
        """Whether a node is ready."""

    def _title(self, node: int) -> str:
        """What errors call a node."""
        return self.name

    def log(self, node: int = 1) -> Path:
        """The file with a node's warnings and errors."""
        return self.folder / "server.log"

    def _grace(self) -> float:
        """How many seconds servers get to close their files. Files that are deleted anyway need none."""
        return GRACE_SECONDS if self._given_data else 0.0

    def _end(self, processes: Sequence[Identity], grace: float) -> None:
        """Ends processes within ``grace`` seconds; 0 ends them as a crash would."""
        end_all(processes, grace)

    def _process(self, node: int) -> Identity:
        if node not in self._running:
            raise self._not_started()
        return self._running[node].identity

    def _launch(self, nodes: Iterable[int] | None = None) -> None:
        """Starts nodes, by default all, and returns when every node that should run is ready."""
        for node in self.nodes if nodes is None else nodes:
            if node in self._running:
                self._running[node].ended()
            doomed = self._folder if self._given_folder is None else None
            command, grace = [*self._command, *self._arguments(node)], self._grace()
            self._running[node] = launch(command, self.log(node), loose=self._detachable, grace=grace, doomed=doomed)
            self._down.discard(node)
        deadline = time.monotonic() + _READY_SECONDS
        waiting = set(self._running) - self._down
        while waiting := {node for node in waiting if not self._answers(node)}:
            for node in waiting:
                self._check_starting(node, deadline)
            time.sleep(_POLL_SECONDS)

    def _check_starting(self, node: int, deadline: float) -> None:
        if not self._running[node].identity.alive():
            raise ServiceError(f"{self._title(node)} ended while it started; its log says:\n{self._tail(node)}")
        if time.monotonic() > deadline:
            raise ServiceError(
                f"{self._title(node)} is not ready after {_READY_SECONDS:.0f} s; its log says:\n"
                f"{self._tail(node)}\ncheck that the machine has memory and processor time to spare"
            )

    def _tail(self, node: int) -> str:
        return tail(self.log(node).read_text(errors="replace"))

    def _begin(self) -> None:
        """Prepares and launches, again when another program takes a free port before the server binds it."""
        self._owner = os.getpid()
        for attempt in range(1, _ATTEMPTS + 1):
            try:
                if self._given_folder is not None:
                    self._given_folder.mkdir(mode=0o700, parents=True, exist_ok=True)
                self._folder = self._given_folder or Path(tempfile.mkdtemp(prefix=self.prefix))
                self._prepare()
                self._launch()
                return
            except BaseException as error:
                self.stop()
                lost = isinstance(error, ServiceError) and self.port_lost in str(error)
                if attempt == _ATTEMPTS or not lost:
                    raise

    def _forget(self) -> None:
        self._folder = None
        self._running.clear()
        self._down.clear()

    def _not_started(self) -> ServiceError:
        return ServiceError(f"{self.name} is not started; call start(), or use it in a `with` statement")


class Server(Service):
    """A service of one process on one port of 127.0.0.1."""

    _port = 0

    @property
    def port(self) -> int:
        """The TCP port on 127.0.0.1."""
        _ = self.folder
        return self._port

    @property
    def process(self) -> Identity:
        """The server's process."""
        return self._process(1)
