"""What a process of this machine listens on."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

__all__ = ["LOOPBACK", "listening"]

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
