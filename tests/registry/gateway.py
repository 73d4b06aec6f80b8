"""What stands in front of a schema registry where it is not open to everybody: TLS, logins, and bad days."""

from __future__ import annotations

import http.client
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import urlsplit


@dataclass
class Gateway:
    """Hands requests on to a registry, and notes their paths.

    It answers 401 without the header ``wants``, answers the next requests by ``next_answers`` (a status, and a place to
    go to) instead of handing them on, and waits with answers until ``open`` is set. With ``tls`` it speaks TLS.
    """

    registry: str
    wants: str = ""
    tls: ssl.SSLContext | None = None
    next_answers: list[tuple[int, str]] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)
    open: threading.Event = field(default_factory=threading.Event)
    url: str = ""

    @contextmanager
    def running(self) -> Iterator[Gateway]:
        """Runs while the block does."""
        self.open.set()
        parts = urlsplit(self.registry)
        with ThreadingHTTPServer(("127.0.0.1", 0), type("Handler", (_Handler,), {"gateway": self})) as server:
            server.daemon_threads = True
            if self.tls is not None:
                server.socket = self.tls.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
            scheme, host = ("https", "localhost") if self.tls else ("http", "127.0.0.1")
            self.url = f"{scheme}://{host}:{server.server_port}{parts.path}"
            thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
            thread.start()
            try:
                yield self
            finally:
                self.open.set()
                server.shutdown()
                thread.join()


class _Handler(BaseHTTPRequestHandler):
    gateway: Gateway
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        self._handle()

    def do_POST(self) -> None:
        self._handle()

    def _handle(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self.gateway.requests.append(f"{self.command} {self.path}")
        self.gateway.open.wait()
        if self.gateway.wants and self.headers.get("Authorization") != self.gateway.wants:
            self._answer(401, b'{"error_code": 401, "message": "who are you?"}')
        elif self.gateway.next_answers:
            status, location = self.gateway.next_answers.pop(0)
            self._answer(status, b"", **({"Location": location} if location else {}))
        else:
            host = urlsplit(self.gateway.registry).netloc
            onward = http.client.HTTPConnection(host, timeout=30)
            headers = {"Content-Type": self.headers.get("Content-Type", "application/json")}
            onward.request(self.command, self.path, body or None, headers)
            answer = onward.getresponse()
            self._answer(answer.status, answer.read())
            onward.close()

    def _answer(self, status: int, body: bytes, **headers: str) -> None:
        self.send_response(status)
        for name, value in {"Content-Length": str(len(body)), "Content-Type": "application/json", **headers}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        pass
