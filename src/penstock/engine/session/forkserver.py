"""Starts Spark's Python processes on this machine as forks of a process that has imported their modules.

Spark starts a process for each kind of work, one after the other, and a new one to plan each streaming source: half a
second of imports each time that a job starts. Spark starts them by a script of ours (``workers.py``), which becomes a
client of this server (``forkclient.py``): it hands over arguments, environment and standard streams, and stays for as
long as the fork runs. Either side notices the other's end by their connection.

Usage: ``python -m penstock.engine.session.forkserver SOCKET``; the server ends when its standard input does.
"""

from __future__ import annotations

import contextlib
import fcntl
import gc
import importlib
import json
import logging
import os
import runpy
import select
import signal
import socket
import sys
import traceback
from typing import Any

from penstock import notices

#: The modules of Spark's processes, in the order in which Spark starts them.
_WANTED = (
    "pyspark.daemon",
    "pyspark.sql.worker.lookup_data_sources",
    "pyspark.sql.worker.create_data_source",
    "pyspark.sql.streaming.python_streaming_source_runner",
    "pyspark.sql.worker.plan_data_source_read",
    "pyspark.worker",
)
#: Spark starts its own daemon for the processes that plan, whatever its settings say. Ours ends without a traceback.
_INSTEAD = {"pyspark.daemon": "penstock.engine.session.daemon"}
_REQUEST_BYTES = 1 << 20


def serve(path: str) -> None:
    """Fork a process for each request to the socket at ``path``, until standard input ends."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as server:
        try:
            server.bind(path)
        except FileNotFoundError:  # the process that asked for it has ended, and removed the folder
            return
        server.listen(64)
        _prepare()
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # the kernel reaps forks that have ended
        while True:
            ready, _, _ = select.select([server.fileno(), 0], [], [])
            if 0 in ready and not os.read(0, 1):
                return
            if server.fileno() in ready:
                connection, _ = server.accept()
                with connection, contextlib.suppress(ConnectionError):
                    _fork(server, connection)


def _prepare() -> None:
    """Import the modules that forks will need. An import that fails fails again in the fork, where Spark sees it.

    Spark's workers collect garbage after each task. What was imported here is never garbage: collections in forks leave
    it out, and its pages stay shared.
    """
    logging.getLogger(notices.LOG).setLevel(logging.ERROR)  # the driver tells of servers that are not reached
    with contextlib.suppress(Exception):
        for name in _WANTED:
            importlib.import_module(name)
        from penstock.engine.session.daemon import warm

        warm()
    gc.collect()
    gc.freeze()


def _fork(server: socket.socket, connection: socket.socket) -> None:
    data, streams, _, _ = socket.recv_fds(connection, _REQUEST_BYTES, 3)
    while data and not data.endswith(b"\n"):
        data += connection.recv(_REQUEST_BYTES)
    try:
        if len(streams) == 3 and data and os.fork() == 0:
            code = 1
            try:
                server.close()
                code = _become(json.loads(data), streams, connection)
            finally:
                with contextlib.suppress(OSError):
                    connection.sendall(bytes([code]))
                os._exit(code)
    finally:
        for each in streams:
            os.close(each)


def _become(request: dict[str, Any], streams: list[int], connection: socket.socket) -> int:
    """Be the process that Spark asked for, and return its exit code."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    for number, each in enumerate(streams):
        os.dup2(each, number)
        os.close(each)
    streams.clear()
    os.register_at_fork(after_in_child=connection.close)
    _end_with(connection)
    os.environ.clear()
    os.environ.update(request["env"])
    os.chdir(request["cwd"])
    given = [each for each in os.environ.get("PYTHONPATH", "").split(os.pathsep) if each]
    sys.path[:0] = [each for each in given if each not in sys.path]
    sys.argv = list(request["argv"])
    sys.argv[0] = _INSTEAD.get(sys.argv[0], sys.argv[0])
    sys.modules.pop(sys.argv[0], None)  # it runs as the main one now
    try:
        runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
    except SystemExit as ended:
        return ended.code & 0xFF if isinstance(ended.code, int) else int(ended.code is not None)
    except (BrokenPipeError, ConnectionResetError):
        return 1  # Spark has closed the connection, as it does when a query ends: nobody waits for an error
    except BaseException:  # noqa: BLE001 - printed as an interpreter does
        traceback.print_exc()
        return 1
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
    return 0


def _end_with(connection: socket.socket) -> None:
    """Have the kernel end this process when the one that Spark knows has ended. No thread waits for that: this process
    may fork again, and a fork of a process with threads can inherit a lock that nobody releases."""
    fcntl.fcntl(connection, fcntl.F_SETOWN, os.getpid())
    fcntl.fcntl(connection, fcntl.F_SETSIG, signal.SIGTERM)
    fcntl.fcntl(connection, fcntl.F_SETFL, fcntl.fcntl(connection, fcntl.F_GETFL) | os.O_ASYNC)
    with contextlib.suppress(BlockingIOError):  # the connection is open
        connection.recv(1, socket.MSG_DONTWAIT)  # it was closed before the kernel watched it
        os.kill(os.getpid(), signal.SIGTERM)


if __name__ == "__main__":
    serve(sys.argv[1])
