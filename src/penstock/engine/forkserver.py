"""Starts Spark's Python processes on this machine by forking one that has everything imported.

Spark starts a process for each kind of work, one after the other, and a new one to plan each streaming source: half a
second of imports each time that a job starts. They are started by a script of ours (:mod:`penstock.engine.session`),
which hands arguments, environment and standard streams over to this server instead (:mod:`penstock.engine.forkclient`),
and stays for as long as the fork runs. Either side notices the other's end by their connection.

Usage: ``python -m penstock.engine.forkserver SOCKET``; the server ends when its standard input does.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import runpy
import select
import signal
import socket
import sys
import threading
import traceback
from typing import Any

__all__ = ["serve"]

#: What Spark's processes import, and what they unpickle: in the order in which they are started.
_WANTED = (
    "pyspark.daemon",
    "pyspark.sql.worker.lookup_data_sources",
    "pyspark.sql.worker.create_data_source",
    "pyspark.sql.streaming.python_streaming_source_runner",
    "pyspark.sql.worker.plan_data_source_read",
    "penstock.connectors.kafka.spark",
    "penstock.connectors.kafka.source.reader",
    "penstock.connectors.kafka.sink.writer",
    "pyspark.worker",
)
_REQUEST_BYTES = 1 << 20


def serve(path: str) -> None:
    """Fork a process for each request to the socket at ``path``, until standard input ends."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as server:
        server.bind(path)
        server.listen(64)
        _prepare()
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # forks that have ended leave nothing behind
        while True:
            ready, _, _ = select.select([server.fileno(), 0], [], [])
            if 0 in ready and not os.read(0, 1):
                return
            if server.fileno() in ready:
                connection, _ = server.accept()
                with connection, contextlib.suppress(ConnectionError):
                    _fork(server, connection)


def _prepare() -> None:
    """Import what the forks will need. What cannot be imported fails again in the fork, where Spark sees it."""
    with contextlib.suppress(Exception):
        for name in _WANTED:
            importlib.import_module(name)
        from penstock.engine.daemon import warm

        warm()


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
    """Be the process that Spark asked for, and give its exit code."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    for number, each in enumerate(streams):
        os.dup2(each, number)
        os.close(each)
    streams.clear()
    os.register_at_fork(after_in_child=connection.close)
    threading.Thread(target=_end_with, args=(connection,), daemon=True).start()
    os.environ.clear()
    os.environ.update(request["env"])
    os.chdir(request["cwd"])
    given = [each for each in os.environ.get("PYTHONPATH", "").split(os.pathsep) if each]
    sys.path[:0] = [each for each in given if each not in sys.path]
    sys.argv = list(request["argv"])
    sys.modules.pop(sys.argv[0], None)  # it runs as the main one now
    try:
        runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
    except SystemExit as ended:
        return ended.code & 0xFF if isinstance(ended.code, int) else int(ended.code is not None)
    except BaseException:  # noqa: BLE001 - told as an interpreter does
        traceback.print_exc()
        return 1
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
    return 0


def _end_with(connection: socket.socket) -> None:
    """End this process when the one that Spark knows was ended."""
    with contextlib.suppress(OSError):
        if connection.recv(1):
            return
    os.kill(os.getpid(), signal.SIGTERM)


if __name__ == "__main__":
    serve(sys.argv[1])
