"""Free TCP ports for servers on this machine."""

from __future__ import annotations

import random
import socket
from contextlib import ExitStack, suppress
from pathlib import Path

from penstock.errors import ServiceError
from penstock_testing.services.broker_config import HOST

#: Linux gives these ports to programs that ask for any (ip(7)).
_RANGE = Path("/proc/sys/net/ipv4/ip_local_port_range")
_UNPRIVILEGED = 1024
_TRIES = 64


def free_ports(*wanted: int) -> list[int]:
    """Ports of 127.0.0.1, all different: those that are asked for, and a free one for each 0.

    A free one is outside the range of ports that the system gives away: no program gets it by chance before the server
    binds it, or while the server restarts.

    Raises:
        ServiceError: a port that was asked for is taken.
    """
    with ExitStack() as stack:
        holders = [stack.enter_context(_asked_for(port) if port else _any()) for port in wanted]
        return [int(holder.getsockname()[1]) for holder in holders]


def _any() -> socket.socket:
    for candidate in _candidates():
        with suppress(OSError):
            return _bind(candidate)
    raise ServiceError("there is no free port; `ss -ltn` shows what takes them")


def _asked_for(port: int) -> socket.socket:
    try:
        return _bind(port, reuse=True)  # ports of connections just closed are free
    except OSError as error:
        raise ServiceError(
            f"port {port} on {HOST} cannot be used: {error.strerror}; stop the process that listens there "
            f"(`ss -ltnp 'sport = :{port}'` shows it), or choose another port"
        ) from error


def _bind(port: int, *, reuse: bool = False) -> socket.socket:
    with ExitStack() as stack:
        holder = stack.enter_context(socket.socket())
        holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, reuse)
        holder.bind((HOST, port))
        stack.pop_all()
    return holder


def _candidates() -> list[int]:
    try:
        first = int(_RANGE.read_text().split()[0])
    except OSError:  # not Linux
        first = 0
    below = range(first // 2, first)
    return [*(random.sample(below, _TRIES) if below.start >= _UNPRIVILEGED else ()), 0]
