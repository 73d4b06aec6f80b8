"""A TCP relay that counts connections and looks at nothing, for what is encrypted on its way."""

from __future__ import annotations

import socket
import threading
from contextlib import suppress
from types import TracebackType
from typing import Self


class Relay:
    """Listens on a free port of ``host`` and passes connections on to ``target``, a port of 127.0.0.1, which may be
    set later. ``connections`` counts those that were accepted."""

    def __init__(self, host: str = "127.0.0.1", target: int = 0):
        self.target, self.connections = target, 0
        self._listener = socket.create_server((host, 0))
        self.address = f"{host}:{self.port}"
        self._open: list[socket.socket] = []
        self._threads = [threading.Thread(target=self._accept)]
        self._threads[0].start()

    @property
    def port(self) -> int:
        return int(self._listener.getsockname()[1])

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end(self._listener)
        self._threads[0].join()  # after it nothing more is opened
        for each in self._open:
            self._end(each)
        for thread in self._threads:
            thread.join()

    def _end(self, each: socket.socket) -> None:
        with suppress(OSError):
            each.shutdown(socket.SHUT_RDWR)
        each.close()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            self.connections += 1
            try:
                server = socket.create_connection(("127.0.0.1", self.target))
            except OSError:  # the client must see the same
                client.close()
                continue
            self._open += [client, server]
            for source, sink in ((client, server), (server, client)):
                thread = threading.Thread(target=self._pass_on, args=(source, sink))
                self._threads.append(thread)
                thread.start()

    def _pass_on(self, source: socket.socket, sink: socket.socket) -> None:
        with suppress(OSError):
            while data := source.recv(1 << 16):
                sink.sendall(data)
        with suppress(OSError):
            sink.shutdown(socket.SHUT_WR)
