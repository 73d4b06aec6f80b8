"""How services start, stop, end with this process and are left behind, with a server of a few lines."""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from penstock.errors import ServiceError
from penstock.machine.processes import GRACE_SECONDS, Identity
from penstock_testing.services.ports import free_ports
from penstock_testing.services.service import Server
from tests.waiting import eventually

#: Listens, says how it ended where it is asked to, and refuses a port that is taken in its own words.
PROGRAM = """
import signal, socket, sys
from pathlib import Path
signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
holder = socket.socket()
holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
try:
    holder.bind(("127.0.0.1", int(sys.argv[1])))
except OSError:
    sys.exit("somebody else is there")
holder.listen()
signal.sigwait({signal.SIGTERM})
Path(sys.argv[2]).write_text("in order")
"""


class Listener(Server):
    name = "the listener"
    prefix = "penstock-listener-"
    port_lost = "somebody else is there"

    def __init__(self, note: Path, *, folder: Path | None = None, detachable: bool = False, thieves: int = 0):
        super().__init__(folder, detachable=detachable)
        self.note, self.thieves = note, thieves
        self.stolen: list[socket.socket] = []

    def _install(self) -> None:
        pass

    def _grace(self) -> float:
        return GRACE_SECONDS

    def _prepare(self) -> None:
        (self._port,) = free_ports(0)
        self._command = [sys.executable, "-I", "-S", "-c", PROGRAM, str(self._port), str(self.note)]
        if len(self.stolen) < self.thieves:
            self.stolen.append(socket.create_server(("127.0.0.1", self._port)))

    def _answers(self, node: int) -> bool:
        try:
            with socket.create_connection(("127.0.0.1", self._port), timeout=5):
                return self.process.alive() and not self._stolen()
        except OSError:
            return False

    def _stolen(self) -> bool:
        return any(each.getsockname()[1] == self._port for each in self.stolen)


@pytest.fixture
def note(tmp_path: Path) -> Path:
    return tmp_path / "note"


def test_it_starts_again_after_a_crash_and_leaves_nothing_when_it_stops(note: Path) -> None:
    with Listener(note) as server:
        folder, port, first = server.folder, server.port, server.process
        with pytest.raises(ServiceError, match=r"the listener is started already; stop\(\) it first"):
            server.start()
        server.kill()
        assert not first.alive()
        assert not note.exists()
        assert server.start().port == port
        second = server.process
        assert second != first
    assert not second.alive()
    assert note.read_text() == "in order"
    assert not folder.exists()
    with pytest.raises(ServiceError, match="the listener is not started; call start"):
        _ = server.port
    server.stop()  # once more does nothing


def test_a_port_that_is_lost_before_it_is_bound_is_replaced(note: Path) -> None:
    with Listener(note, thieves=2) as server:
        assert server.port not in {each.getsockname()[1] for each in server.stolen}
        assert len(server.stolen) == 2
    unlucky = Listener(note, thieves=3)
    with pytest.raises(
        ServiceError, match="the listener ended while it started; its log says:\nsomebody else is there"
    ):
        unlucky.start()
    for each in (*server.stolen, *unlucky.stolen):
        each.close()


def test_a_folder_that_is_given_is_used_and_deleted(note: Path, tmp_path: Path) -> None:
    with Listener(note, folder=tmp_path / "run") as server:
        assert server.folder == tmp_path / "run"
        assert (server.folder / "server.log").exists()
    assert not (tmp_path / "run").exists()


def test_what_is_left_behind_outlives_its_object(note: Path) -> None:
    with Listener(note) as server, pytest.raises(ServiceError, match="create it with detachable=True"):
        server.detach()
    with Listener(note, detachable=True) as server:
        process = server.process
        server.detach()
    assert process.alive()
    process.signal(signal.SIGKILL)
    eventually(lambda: not process.alive())


#: Runs with the path of the note as its argument, in a process that has no other threads.
FORK = """
import os, sys
from pathlib import Path
from tests.unit.penstock_testing.services.test_service import Listener
with Listener(Path(sys.argv[1])) as server:
    child = os.fork()
    if child == 0:
        server.stop()
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    assert server.process.alive()
"""
ORPHAN = """
import sys
from pathlib import Path
from tests.unit.penstock_testing.services.test_service import Listener
server = Listener(Path(sys.argv[1])).start()
print(server.process.pid, server.folder, flush=True)
sys.stdin.read()
"""
ROOT = Path(__file__).parents[4]


def test_a_fork_does_not_stop_what_it_did_not_start(note: Path) -> None:
    subprocess.run([sys.executable, "-c", FORK, str(note)], cwd=ROOT, check=True)


def test_it_ends_with_the_process_that_started_it(note: Path) -> None:
    command = [sys.executable, "-c", ORPHAN, str(note)]
    with subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        pid, folder = parent.stdout.readline().split()
        server = Identity.of(int(pid))
        assert server is not None
        parent.kill()
        eventually(lambda: not server.alive())
        eventually(lambda: not Path(folder).exists())
