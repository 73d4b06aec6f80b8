"""Spark's Python worker daemon, which imports the connectors and kernels before it forks workers, so that they start
warm."""

from __future__ import annotations

import contextlib
import gc
import importlib
import socket

from pyspark import daemon

from penstock.spi import Warmable, connectors


def warm() -> None:
    """Import the connectors' runtimes and the kernels, and let them prepare for tasks. What fails here fails again in
    the job that uses it, where the user sees the error."""
    for name in connectors.names():
        with contextlib.suppress(Exception):
            module, _, attribute = connectors.get(name).runtime.partition(":")
            runtime = getattr(importlib.import_module(module), attribute)()
            if isinstance(runtime, Warmable):
                runtime.warm()
    with contextlib.suppress(Exception):
        importlib.import_module("penstock.flow.graph.warmup").warm()


def work(sock: socket.socket, authenticated: bool) -> int:
    """Run one task, as Spark's own daemon does. The code for its end is not 0 if no further task comes: Spark has
    closed the socket of a task that it does not need any more, which is not an error."""
    try:
        return _WORK(sock, authenticated)
    except (BrokenPipeError, ConnectionResetError):
        return 1


_WORK = daemon.worker


if __name__ == "__main__":
    daemon.worker = work
    warm()
    gc.collect()
    gc.freeze()  # workers collect garbage after each task; what was imported here is never garbage
    daemon.manager()
