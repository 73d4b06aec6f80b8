"""What services have in common: they start, end with this process or before it, and leave nothing behind."""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from pathlib import Path
from types import TracebackType
from typing import ClassVar, Self

from penstock.errors import ServiceError
from penstock.services.process import GRACE_SECONDS, Identity, ServerProcess, end_all, launch, tail

#: How long a server may take until it is ready.
READY_SECONDS = 120.0

_ATTEMPTS = 3
_POLL_SECONDS = 0.02


def check_starting(name: str, server: ServerProcess, log: Path, deadline: float) -> None:
    """Raises ServiceError, which quotes the log, when a server that is waited for has ended or is late."""
    if not server.identity.alive():
        raise ServiceError(f"{name} ended while it started; its log says:\n{tail(log)}")
    if time.monotonic() > deadline:
        raise ServiceError(
            f"{name} is not ready after {READY_SECONDS:.0f} s; its log says:\n{tail(log)}\n"
            "check that the machine has memory and processor time to spare"
        )


class Service(ABC):
    """One server, or several that belong together, of this process.

    Args:
        folder: for settings and logs of the run, deleted by :meth:`stop`. By default a temporary folder.
        detachable: :meth:`detach` may be called, at the price of a looser tie to this process until then.
    """

    #: How errors call it, and the beginning of its temporary folder's name.
    name: ClassVar[str]
    prefix: ClassVar[str]
    #: What its log says when somebody else has its port.
    port_lost: ClassVar[str]

    def __init__(self, folder: Path | None = None, *, detachable: bool = False):
        self._given_folder = folder
        self._detachable = detachable
        self._folder: Path | None = None
        self._owner = 0

    @property
    def folder(self) -> Path:
        """Where settings and logs of this run are."""
        if self._folder is None:
            raise self._not_started()
        return self._folder

    @abstractmethod
    def start(self) -> Self:
        """Start it and return when it is ready. Raises ServiceError, which quotes the log of a server that ended."""

    def stop(self) -> None:
        """Stop it and delete what was temporary. A second call does nothing."""
        if self._owner != os.getpid() or self._folder is None:
            return
        try:
            self._end()
        finally:
            shutil.rmtree(self._folder, ignore_errors=True)
            self._forget()

    def detach(self) -> None:
        """Leave it to itself: it outlives this process, and is no longer this object's."""
        if not self._detachable:
            raise ServiceError(f"{self.name} was not made to be left behind; make it with detachable=True")
        for each in self._servers():
            each.leave()
        self._forget()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    # --- for those that implement one ------------------------------------------------------------------------

    @abstractmethod
    def _launch(self) -> None:
        """Launch what :meth:`_begin` has prepared, and wait until it is ready."""

    @abstractmethod
    def _servers(self) -> Iterable[ServerProcess]:
        """What was launched and is not closed."""

    @abstractmethod
    def _end(self) -> None:
        """End what runs, in the way that its data deserve, and close it."""

    def _forget(self) -> None:
        """It is not started any more."""
        self._folder = None

    def _begin(self, prepare: Callable[[], object]) -> Self:
        """Start for the first time: ``prepare`` makes the folder, chooses ports and writes what is needed, then it is
        launched. Both are done again where a port that was free is taken before the server binds it."""
        self._owner = os.getpid()
        attempt = 1
        while True:
            try:
                prepare()
                self._launch()
                return self
            except BaseException as error:
                self.stop()
                lost = isinstance(error, ServiceError) and self.port_lost in str(error)
                if attempt == _ATTEMPTS or not lost:
                    raise
            attempt += 1

    def _make_folder(self) -> Path:
        if self._given_folder is None:
            self._folder = Path(tempfile.mkdtemp(prefix=self.prefix))
        else:
            self._given_folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._folder = self._given_folder
        return self._folder

    def _launched(self, command: list[str], log: Path, grace: float) -> ServerProcess:
        """A server that gets ``grace`` seconds to close its files when this process is gone."""
        doomed = self._folder if self._given_folder is None else None
        return launch(command, log, loose=self._detachable, grace=grace, doomed=doomed)

    def _not_started(self) -> ServiceError:
        return ServiceError(f"{self.name} is not started; call start(), or use it in a `with` statement")


class Server(Service):
    """A service of one process on one port of 127.0.0.1."""

    def __init__(self, folder: Path | None = None, *, detachable: bool = False):
        super().__init__(folder, detachable=detachable)
        self._port = 0
        self._command: list[str] = []
        self._running: ServerProcess | None = None

    @property
    def port(self) -> int:
        """The TCP port on 127.0.0.1."""
        _ = self.folder
        return self._port

    @property
    def process(self) -> Identity:
        """The server's process."""
        if self._running is None:
            raise self._not_started()
        return self._running.identity

    def start(self) -> Self:
        """Start it, after :meth:`kill` on its own port and data, and return when it answers.

        Raises:
            ServiceError: what it needs is not there, its port is taken, or it ended; its log is quoted.
        """
        if self._running is not None and self._running.identity.alive():
            raise ServiceError(f"{self.name} is started already; stop() it first")
        if self._folder is None:
            return self._first()
        self._launch()
        return self

    def kill(self) -> None:
        """Kill it, as a crash would, and return when it is gone. :meth:`start` starts it again on its data."""
        self._close(orderly=False)

    # --- for those that implement one ------------------------------------------------------------------------

    @abstractmethod
    def _first(self) -> Self:
        """Get what is needed and :meth:`_begin`; ``_port`` and ``_command`` are to be set then."""

    @abstractmethod
    def _answers(self) -> bool:
        """Whether it is ready."""

    def _grace(self) -> float:
        """How many seconds it gets to close its files."""
        return GRACE_SECONDS

    def _halt(self, process: Identity, *, orderly: bool) -> None:
        end_all([process], self._grace() if orderly else 0)

    def _launch(self) -> None:
        log = self.folder / "server.log"
        if self._running is not None:
            self._running.close()
        self._running = self._launched(self._command, log, self._grace())
        deadline = time.monotonic() + READY_SECONDS
        while not self._answers():
            check_starting(self.name, self._running, log, deadline)
            time.sleep(_POLL_SECONDS)

    def _servers(self) -> Iterable[ServerProcess]:
        return () if self._running is None else (self._running,)

    def _end(self) -> None:
        self._close(orderly=True)

    def _close(self, *, orderly: bool) -> None:
        if self._running is not None:
            self._halt(self._running.identity, orderly=orderly)
            self._running.ended()
            self._running = None

    def _forget(self) -> None:
        super()._forget()
        self._running = None
