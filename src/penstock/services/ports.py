"""Ports of this machine that are free."""

from __future__ import annotations

import socket
from contextlib import ExitStack

from penstock.errors import ServiceError
from penstock.services.settings import HOST

__all__ = ["free_ports"]


def free_ports(*wanted: int) -> list[int]:
    """Ports of 127.0.0.1, all different: those that are asked for, and any free one for each 0.

    Raises:
        ServiceError: a port that was asked for is taken.
    """
    with ExitStack() as stack:
        holders = [stack.enter_context(socket.socket()) for _ in wanted]
        for holder, port in zip(holders, wanted, strict=True):
            holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # ports of connections just closed are free
            try:
                holder.bind((HOST, port))
            except OSError as error:
                raise ServiceError(
                    f"port {port} on {HOST} cannot be used: {error.strerror}; stop what listens there "
                    f"(`ss -ltnp 'sport = :{port}'` shows it), or choose another port"
                ) from error
        return [int(holder.getsockname()[1]) for holder in holders]
