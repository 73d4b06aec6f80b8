"""Processes that are forked for Spark instead of started."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import textwrap
from pathlib import Path

import pytest

from penstock.engine.session import workers
from penstock.engine.session.workers import fork_server, launcher
from tests.processes import running
from tests.waiting import eventually


@pytest.fixture(scope="module")
def process(tmp_path_factory):
    """A server that is ready; its socket is its last argument."""
    path = tmp_path_factory.mktemp("forks") / "socket"
    process = fork_server(str(path))
    eventually(path.exists)
    yield process
    process.stdin.close()
    assert process.wait(60) == 0  # it ends with the process that started it


@pytest.fixture(scope="module")
def server(process):
    """The socket of a server that is ready."""
    return Path(process.args[-1])


@pytest.fixture
def start(server, tmp_path):
    """Starts a module as Spark starts its own; gives the process that Spark would know."""
    started = []

    def run(text, *arguments, socket=server, **environment):
        (tmp_path / "task.py").write_text(textwrap.dedent(text))
        given = os.environ | {"PENSTOCK_FORKSERVER": str(socket), "PYTHONPATH": str(tmp_path), **environment}
        command = [str(launcher()), "-m", "task", *arguments]
        process = subprocess.Popen(
            command, env=given, cwd=tmp_path, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        started.append(process)
        return process

    yield run
    for process in started:
        process.kill()
        process.communicate()


SHOW = """
    import os, sys
    print(os.getpid(), sys.argv[1:], os.environ["MARK"], os.getcwd(), "pyarrow" in sys.modules, hash("a"), flush=True)
    print(sys.stdin.readline().strip(), file=sys.stderr)
    sys.exit(7)
"""


def test_the_socket_fits_whatever_folder_temporary_files_go_to(tmp_path, monkeypatch):
    long = tmp_path / ("a" * 90)
    long.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(long))
    monkeypatch.setattr(workers, "_SERVERS", [])
    monkeypatch.setenv("PENSTOCK_FORKSERVER", "")
    monkeypatch.delenv("PYSPARK_PYTHON", raising=False)
    workers.use_forked_workers()
    (process,) = workers._SERVERS
    eventually(lambda: Path(os.environ["PENSTOCK_FORKSERVER"]).exists())
    process.stdin.close()
    assert process.wait(60) == 0


def test_a_server_that_is_no_longer_wanted_ends_without_a_word(tmp_path, capfd):
    """A command that ends at once, for a file with mistakes, removes the socket's folder."""
    server = fork_server(str(tmp_path / "removed" / "socket"))
    assert server.wait(60) == 0
    assert capfd.readouterr().err == ""


def test_a_fork_has_arguments_environment_folder_and_streams_of_its_own(start, tmp_path):
    process = start(SHOW, "one", "two", MARK="here", PYTHONHASHSEED="0")
    out, error = process.communicate(b"a line\n", timeout=60)
    pid, shown = out.decode().split(" ", 1)
    expected = subprocess.run(
        [sys.executable, "-c", "print(hash('a'))"],
        env={"PYTHONHASHSEED": "0"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert shown.strip() == f"['one', 'two'] here {tmp_path} True {expected.stdout.strip()}"
    assert error.decode() == "a line\n"
    assert process.returncode == 7
    assert int(pid) != process.pid


def test_without_a_server_the_process_starts_by_itself(start, tmp_path):
    process = start(SHOW, "one", socket=tmp_path / "none", MARK="here")
    out, error = process.communicate(b"a line\n", timeout=60)
    assert out.decode().startswith(f"{process.pid} ['one'] here {tmp_path} False ")
    assert (error.decode(), process.returncode) == ("a line\n", 7)


def test_an_error_is_shown_and_ends_the_fork(start):
    process = start("raise ValueError('broken')")
    _, error = process.communicate(timeout=60)
    assert "ValueError: broken" in error.decode()
    assert process.returncode == 1


def test_a_fork_that_spark_has_hung_up_on_ends_in_silence(start):
    """As Spark's planning process does when its query ends: the error cannot be sent, and nobody waits for it."""
    process = start("""
        import socket
        ours, its = socket.socketpair()
        its.close()
        file = ours.makefile("wb")
        try:
            raise EOFError
        except EOFError:
            file.write(b"what happened")
            file.flush()
    """)
    _, error = process.communicate(timeout=60)
    assert (error, process.returncode) == (b"", 1)


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGKILL])
def test_a_fork_ends_with_the_process_that_spark_knows(start, how):
    process = start("import os, time\nprint(os.getpid(), flush=True)\ntime.sleep(1000)")
    pid = int(process.stdout.readline())
    process.send_signal(how)
    eventually(lambda: not running(pid))


def test_the_process_that_spark_knows_ends_with_a_fork_that_is_killed(start):
    process = start("import os, time\nprint(os.getpid(), flush=True)\ntime.sleep(1000)")
    os.kill(int(process.stdout.readline()), signal.SIGKILL)
    assert process.wait(60) == 1


def test_neither_the_server_nor_its_forks_have_threads_when_they_fork(process, start):
    """A fork has none of its parent's threads, but may have a lock that one of them held."""
    show = "import os; print(os.getppid(), len(os.listdir('/proc/self/task')))"
    out, _ = start(show).communicate(timeout=60)
    assert out.decode().split() == [str(process.pid), "1"]
    assert len(os.listdir(f"/proc/{process.pid}/task")) == 1


def test_forks_of_a_fork_do_not_keep_it(start):
    process = start(
        """
        import os, signal, sys, time
        if os.fork() == 0:
            print(os.getpid(), flush=True)
            time.sleep(1000)
        time.sleep(0.2)
        sys.exit(3)
        """
    )
    child = int(process.stdout.readline())
    try:
        assert process.wait(60) == 3
        assert running(child)
    finally:
        os.kill(child, signal.SIGKILL)
