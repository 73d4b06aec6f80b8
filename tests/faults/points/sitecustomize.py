"""Keeps a process at a point of a job's state until it is killed: put on the path of a job's processes by
:class:`tests.faults.stateful.Point`, which waits for it.

``PENSTOCK_POINT`` is ``ACTION PATTERN FILE``: before or after a file whose name fits the pattern is written to the
state, or before it is deleted, the first process writes its number and the name to FILE, each in a line, and waits for
a third line. All others go on.

``PENSTOCK_MACHINE`` is the name of the machine that the process is on, by its checkpoint.
"""

from __future__ import annotations

import fnmatch
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

__all__: list[str] = []


def install(action: str, pattern: str, reached: str) -> None:
    from penstock.flow.storage import LocalStorage

    def keep(name: str) -> None:
        if fnmatch.fnmatch(name, pattern):
            try:
                file = os.open(reached, os.O_CREAT | os.O_EXCL | os.O_WRONLY)
            except FileExistsError:
                return
            said = f"{os.getpid()}\n{name}\n".encode()
            os.write(file, said)
            os.close(file)
            while os.path.getsize(reached) == len(said):
                time.sleep(0.05)

    if action == "delete":
        delete = LocalStorage.delete

        def delete_later(self: Any, name: str) -> None:
            keep(name)
            delete(self, name)

        LocalStorage.delete = delete_later
        return
    create = LocalStorage.create

    @contextmanager
    def create_there(self: Any, name: str) -> Iterator[Any]:
        if action == "before":
            keep(name)
        with create(self, name) as write:
            yield write
        if action == "after":
            keep(name)

    LocalStorage.create = create_there


def move(machine: str) -> None:
    """Make this a process of another machine, as far as its checkpoint is concerned."""
    from penstock.engine.checkpoint import owners

    here = owners.this_process
    owners._kernel = lambda: machine
    owners.this_process = lambda: replace(here(), host=machine)


if machine := os.environ.get("PENSTOCK_MACHINE"):
    move(machine)
if given := os.environ.get("PENSTOCK_POINT"):
    install(*given.split(" ", 2))
