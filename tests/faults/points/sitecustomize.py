"""Keeps a process at a point of a job's state until it is killed: put on the path of a job's processes by
:class:`tests.faults.stateful.Point`, which waits for it.

``PENSTOCK_POINT`` is ``ACTION PATTERN FILE``. At a file whose name fits the pattern, the first process writes its
number and the name to FILE, each in a line, and waits for a third line. All others go on. It stands ``before`` or
``after`` the file is written to the state, or before it is copied there (``take``) or deleted (``delete``); or before a
file of a table is renamed (``appear``), after that (``appeared``), or when all of its batch are (``published``).

``PENSTOCK_MACHINE`` is the name of the machine that the process is on, by its checkpoint.

``PENSTOCK_DRIVER_BYTES`` is how many bytes of a batch's output the driver of a job publishes at most by itself.
"""

from __future__ import annotations

import fnmatch
import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

__all__: list[str] = []


def install(action: str, pattern: str, reached: str) -> None:
    from penstock.flow.state.storage import LocalStorage

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

    if action in {"appear", "appeared", "published"}:
        _install_in_files(action, pattern, keep)
        return
    if action == "take":
        take = LocalStorage.take

        def take_later(self: Any, name: str, source: Any) -> None:
            keep(name)
            take(self, name, source)

        LocalStorage.take = take_later
        return
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


def _install_in_files(action: str, pattern: str, keep: Callable[[str], None]) -> None:
    from penstock.connectors.filesystem import files

    appear, publish = files.Folder.reveal, files.publish

    def appear_there(self: Any, hidden: str) -> None:
        if action == "appear":
            keep(hidden)
        appear(self, hidden)
        if action == "appeared":
            keep(hidden)

    def publish_all(sink: Any, prefix: str, hidden: Sequence[str]) -> None:
        publish(sink, prefix, hidden)
        if action == "published":
            for name in hidden:
                keep(name)

    files.Folder.reveal, files.publish = appear_there, publish_all


def move(machine: str) -> None:
    """Make this a process of another machine, as far as its checkpoint is concerned."""
    from penstock.engine.checkpoint import owners

    here = owners.this_process
    owners._kernel = lambda: machine
    owners.this_process = lambda: replace(here(), host=machine)


def publish_on_driver(most: int) -> None:
    """Have the driver publish so many bytes of a batch's output at most."""
    from penstock.engine.runs import write_tasks

    write_tasks._MOST_BYTES_OF_DRIVER = most


if machine := os.environ.get("PENSTOCK_MACHINE"):
    move(machine)
if (most := os.environ.get("PENSTOCK_DRIVER_BYTES")) and "penstock.cli.main" in sys.orig_argv:
    publish_on_driver(int(most))
if given := os.environ.get("PENSTOCK_POINT"):
    install(*given.split(" ", 2))
