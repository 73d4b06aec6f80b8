"""What a process of this machine listens on, and addresses where nobody does."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from penstock_testing.services.ports import free_ports

__all__ = ["LOOPBACK", "free_port", "listening", "nobody", "silent"]

#: 127.0.0.1 as /proc/net writes it, and the same as an IPv6 address.
LOOPBACK = frozenset({"0100007F", "0000000000000000FFFF00000100007F"})


def listening(pid: int) -> set[str]:
    """The local addresses of the listening TCP sockets of a process, as proc_net(5) writes them."""
    opened = set()
    for path in Path(f"/proc/{pid}/fd").iterdir():
        with suppress(FileNotFoundError):  # a connection that has ended meanwhile
            opened.add(os.readlink(path).removeprefix("socket:[").removesuffix("]"))
    rows = [line.split() for name in ("tcp", "tcp6") for line in Path(f"/proc/net/{name}").read_text().splitlines()]
    return {row[1].rpartition(":")[0] for row in rows if row[3] == "0A" and row[9] in opened}


@contextmanager
def nobody() -> Iterator[str]:
    """``host:port`` where nobody listens, and nobody else can begin to while the block runs."""
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        yield f"127.0.0.1:{holder.getsockname()[1]}"


@contextmanager
def silent() -> Iterator[str]:
    """``host:port`` where connections are never answered: their packets are dropped, as by a firewall."""
    with socket.socket() as server, socket.socket() as first:
        server.bind(("127.0.0.1", 0))
        server.listen(0)
        first.connect(server.getsockname())  # the backlog is full now
        yield f"127.0.0.1:{server.getsockname()[1]}"


def free_port() -> int:
    """A port of 127.0.0.1 that nobody gets before a server that is told to take it."""
    return free_ports(0)[0]
