"""What a process of this machine listens on, and addresses where nobody does."""

from __future__ import annotations

import os
import random
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

__all__ = ["LOOPBACK", "free_port", "listening", "nobody"]

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


def free_port() -> int:
    """A port of 127.0.0.1 that is free, and that the system gives to nobody who asks for any port: it stays free until
    a server is up that was told to take it."""
    first = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    while True:
        port = random.randrange(first // 2, first)
        with socket.socket() as holder, suppress(OSError):
            holder.bind(("127.0.0.1", port))
            return port
