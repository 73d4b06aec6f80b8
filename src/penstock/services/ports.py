"""Free TCP ports for servers on this machine."""

from __future__ import annotations

import random
import socket
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

from penstock.errors import ServiceError
from penstock.services.settings import HOST

#: The ports that Linux gives to whoever asks for any (ip(7)).
_RANGE = Path("/proc/sys/net/ipv4/ip_local_port_range")
#: From here on ports are for everybody.
_UNPRIVILEGED = 1024
_TRIES = 64


def free_ports(*wanted: int) -> list[int]:
    """Ports of 127.0.0.1, all different: those that are asked for, and one that is free for each 0.

    A free one is none of those that the system gives to whoever asks for any: nobody gets it by chance before the
    server has it, or while the server is down and about to be started again.

    Raises:
        ServiceError: a port that was asked for is taken.
    """
    with ExitStack() as stack:
        holders = [stack.enter_context(_asked_for(port) if port else _any()) for port in wanted]
        return [int(holder.getsockname()[1]) for holder in holders]


def _any() -> socket.socket:
    for candidate in _candidates():
        holder = socket.socket()
        try:
            holder.bind((HOST, candidate))
        except OSError:
            holder.close()
        else:
            return holder
    raise ServiceError("no free port could be had; check what takes them with `ss -ltn`")


def _asked_for(port: int) -> socket.socket:
    holder = socket.socket()
    holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # ports of connections just closed are free
    try:
        holder.bind((HOST, port))
    except OSError as error:
        holder.close()
        raise ServiceError(
            f"port {port} on {HOST} cannot be used: {error.strerror}; stop what listens there "
            f"(`ss -ltnp 'sport = :{port}'` shows it), or choose another port"
        ) from error
    return holder


def _candidates() -> Iterator[int]:
    try:
        first = int(_RANGE.read_text().split()[0])
    except OSError:  # not Linux
        first = 0
    for _ in range(_TRIES if first // 2 >= _UNPRIVILEGED else 0):
        yield random.randrange(first // 2, first)  # noqa: S311 - not for secrets
    yield 0
