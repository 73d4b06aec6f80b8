"""Connections to brokers: one thread with kafka-python's event loop, one connection per broker, requests in order.

This module decides nothing. A request gets an answer, or fails with the error of its connection; the sender decides
whether to retry. Requests to one broker are sent in order, and if a connection fails, all requests that wait for it
fail too, so that no later request overtakes an earlier one.
"""

from __future__ import annotations

import contextlib
import logging
import ssl
import time
from collections import deque
from concurrent.futures import Future, InvalidStateError
from functools import partial
from struct import Struct
from typing import Any

import kafka.errors
import numpy as np
from kafka.net.inet import create_connection
from kafka.net.manager import KafkaConnectionManager
from kafka.net.selector import NetworkSelector
from kafka.net.transport import KafkaSSLTransport, KafkaTCPTransport

from penstock.kafka.authentication import Authentication
from penstock.kafka.properties import ClientConfig
from penstock.tls import build_tls_context

#: A broker id, or the name kafka-python gives to a bootstrap address.
Node = int | str

_log = logging.getLogger("penstock.kafka.wire")

_SIZE = Struct(">i")
_NO_LIMIT = 2**31 - 1


class Wire:
    """The connections of one configuration. Thread-safe; belongs to the process that made it."""

    def __init__(self, config: ClientConfig):
        self._request_seconds = config.request_timeout_ms / 1000
        _quiet_library()
        # First the steps that may fail, as they read certificates and logins.
        settings, authentication = _library_config(config), Authentication(config.login) if config.login else None
        self._net = NetworkSelector(client_id=config.client_id, slow_task_threshold_secs=0)
        self._manager = _Manager(self._net, **settings)
        self._manager.authentication = authentication
        self._waiting: dict[Node, deque[_Letter]] = {}
        self._delivering: set[Node] = set()
        self._net.start()
        _OUR_THREADS.add(self._net._io_thread.ident)

    @property
    def cluster(self) -> Any:
        """kafka-python's view of the brokers: the bootstrap addresses, and the metadata from :meth:`learn`."""
        return self._manager.cluster

    def learn(self, metadata: Any) -> None:
        """Update the brokers from a metadata answer."""
        self._manager.cluster.update_metadata(metadata)

    def address(self, node: Node) -> str:
        """``host:port`` of a broker, or its id if the address is not known."""
        broker = self._manager.cluster.broker_metadata(node)
        return f"{broker.host}:{broker.port}" if broker else str(node)

    def candidates(self) -> list[Node]:
        """Brokers for general requests: the least busy first, the bootstrap addresses last."""
        known = [broker.node_id for broker in self.cluster.brokers()]
        first = self._manager.least_loaded_node()
        if first in known:
            known.remove(first)
            known.insert(0, first)
        return known + [broker.node_id for broker in self.cluster.bootstrap_brokers()]

    def send(self, request: Any, node: Node) -> Future[Any]:
        """Send a request; the future gets its answer, or an exception of the client library.

        If there is no answer within ``request.timeout.ms``, the connection is closed.
        """
        letter = _Letter(request, time.monotonic() + self._request_seconds)
        self._net.call_soon_threadsafe(lambda: self._post(node, letter))
        return letter.answer

    def close(self) -> None:
        """Close every connection and end the thread. Pending requests fail."""
        thread = self._net._io_thread
        with contextlib.suppress(RuntimeError, kafka.errors.KafkaError):
            self._net.run(self._manager.close)
        self._net.close()
        _OUR_THREADS.discard(thread.ident)
        for letters in self._waiting.values():
            for letter in letters:
                letter.fail(kafka.errors.Cancelled("the session was closed"))

    # --- on the event loop ---

    def _post(self, node: Node, letter: _Letter) -> None:
        self._waiting.setdefault(node, deque()).append(letter)
        if node not in self._delivering:
            self._delivering.add(node)
            self._net.call_soon(lambda: self._deliver(node))

    async def _deliver(self, node: Node) -> None:
        letters = self._waiting[node]
        try:
            while letters:
                try:
                    connection = await self._connection(node, letters[0].expires)
                except Exception as error:  # noqa: BLE001 - passed on to the senders
                    while letters:
                        letters.popleft().fail(error)
                else:
                    letters.popleft().post(connection)
        finally:
            self._delivering.discard(node)

    async def _connection(self, node: Node, expires: float) -> Any:
        """An established connection that accepts requests."""
        while True:
            wait = expires - time.monotonic()
            delay = self._manager.connection_delay(node)
            if wait <= delay:
                raise kafka.errors.KafkaTimeoutError(f"no connection to {self.address(node)} in time")
            if delay > 0:
                await self._net.sleep(delay)
                continue
            connection = self._manager.get_connection(node, refresh_metadata_on_err=False)
            if not connection.connected:
                try:
                    await self._manager.wait_for(connection.init_future, wait * 1000)
                except kafka.errors.KafkaTimeoutError as error:
                    connection.close(error)
                    raise
            if not connection.paused:
                return connection
            await self._net.sleep(0.01)  # the broker asked for a pause


class _Letter:
    """A pending request, and the future that its sender waits for."""

    def __init__(self, request: Any, expires: float):
        self.request, self.expires = request, expires
        self.answer: Future[Any] = Future()

    def post(self, connection: Any) -> None:
        left = max(1.0, (self.expires - time.monotonic()) * 1000)
        try:
            sent = connection.send_request(self.request, request_timeout_ms=left)
        except Exception as error:  # noqa: BLE001 - a request that cannot be encoded
            self.fail(error)
        else:
            sent.add_callback(self.succeed)
            sent.add_errback(self.fail)

    def succeed(self, answer: Any) -> None:
        with contextlib.suppress(InvalidStateError):
            self.answer.set_result(answer)

    def fail(self, error: BaseException) -> None:
        with contextlib.suppress(InvalidStateError):
            self.answer.set_exception(error)


class _Manager(KafkaConnectionManager):  # type: ignore[misc]
    """kafka-python's manager with our own transports and logins: answers that are not copied, a time limit for the TLS
    handshake, TLS errors that are kept, and logins that do not delay other connections."""

    authentication: Authentication | None = None

    def get_connection(self, node_id: Any, **options: Any) -> Any:
        connection = super().get_connection(node_id, **options)
        if self.authentication is not None:  # a connection comes up later, from the event loop
            connection._sasl_authenticate = partial(self.authentication, connection)
        return connection

    async def _build_transport(self, node: Any, timeout_at: float | None = None) -> Any:
        sock = await create_connection(
            self._net, node.host, node.port, self.config["socket_options"], timeout_at=timeout_at
        )
        if self.ssl_enabled:
            transport: Any = _Tls(self._net, sock, host=node.host, ssl_context=self.config["ssl_context"])
        else:
            transport = _Tcp(self._net, sock, host=node.host)
        try:
            await transport.handshake(timeout_at)
        except BaseException:
            transport.abort()
            raise
        return transport


class _Answer:
    """The bytes of an answer, in the form in which kafka-python's parser reads them: it takes the header in small
    pieces, and then all the rest."""

    def __init__(self, size: int):
        self.rest = np.empty(size, np.uint8).data  # memory that nothing is written to before the answer
        self._at = 0

    def __len__(self) -> int:
        return len(self.rest)

    def read(self, size: int | None = None) -> bytes | memoryview:
        start = self._at
        self._at = len(self.rest) if size is None else min(start + size, len(self.rest))
        piece = self.rest[start : self._at]
        return piece if size is None else bytes(piece)

    def tell(self) -> int:
        return self._at

    def seek(self, at: int) -> None:
        self._at = at


class _Transfer:
    """Reads each answer straight into a buffer of its size; a partial write does not copy the rest."""

    _net: Any
    _sock: Any
    _protocol: Any
    _read: bool
    _closed: bool
    _write_buffer: deque[Any]
    _heard = False

    def __init__(self, *arguments: Any, **settings: Any):
        super().__init__(*arguments, **settings)
        self._expect(None)

    async def _read_from_sock(self) -> None:
        while self._read and not self._closed:
            await self._net.wait_read(self._sock)
            try:
                error = self._receive()
            except kafka.errors.KafkaError as raised:
                error = raised
            except Exception as raised:  # noqa: BLE001 - of decoders, for bytes that are not an answer
                error = kafka.errors.KafkaProtocolError(f"{type(raised).__name__}: {raised}")
                error.__cause__ = raised
            self.last_read = time.monotonic()
            if error is not None and not self._closed:
                self.abort(error=error)  # type: ignore[attr-defined]

    def _expect(self, answer: _Answer | None) -> None:
        """Read ``answer`` next, or the size of one."""
        self._answer = answer
        self._whole = memoryview(bytearray(_SIZE.size)) if answer is None else answer.rest
        self._left = self._whole

    def _receive(self) -> Exception | None:
        """Read what has arrived, and pass on answers that are complete. Raises what their decoders raise."""
        read = 0
        while self._read and not self._closed:
            try:
                count = self._sock.recv_into(self._left)
            except (BlockingIOError, InterruptedError, ssl.SSLWantReadError, ssl.SSLWantWriteError):
                return None
            except OSError as raised:
                # Data before the end counts: a refused login is answered, then closed. The next read meets the end.
                return None if read else self._failure(raised)
            if not count:
                return None if read else _connection_error("closed by the broker")
            read += count
            self._heard = True
            self._left = self._left[count:]
            if not self._left:
                self._complete()
        return None

    def _failure(self, raised: OSError) -> Exception:
        error = _connection_error(raised)
        if isinstance(raised, ssl.SSLError) and not self._heard:
            # With TLS 1.3 a broker refuses a client's certificate after the client's part of the handshake.
            error.__cause__ = raised
        return error

    def _complete(self) -> None:
        """The size of an answer has arrived, or the answer."""
        if self._answer is None:
            (size,) = _SIZE.unpack(self._whole)
            if size < _SIZE.size:  # of the number that says which request it answers
                raise kafka.errors.InvalidReceiveError(f"an answer of {size} bytes")
            self._expect(_Answer(size))
            return
        answer, parser = self._answer, self._protocol.parser
        self._expect(None)
        parser.receive_bytes = lambda answer: [parser._process_response(answer)]
        self._protocol.data_received(answer)

    def _sock_send(self) -> tuple[int, Exception | None]:
        sent = 0
        while self._write_buffer and self._sock is not None:
            piece = memoryview(self._write_buffer.popleft())
            while piece:
                try:
                    count = self._sock.send(piece)
                except (BlockingIOError, InterruptedError, ssl.SSLWantReadError, ssl.SSLWantWriteError):
                    self._write_buffer.appendleft(piece)
                    return sent, None
                except OSError as raised:
                    return sent, _connection_error(raised)
                sent += count
                piece = piece[count:]
        return sent, None if self._sock is not None else _connection_error("closed while sending")


def _connection_error(why: object) -> Exception:
    error: Exception = kafka.errors.KafkaConnectionError(why)
    return error


class _Tcp(_Transfer, KafkaTCPTransport):  # type: ignore[misc]
    async def handshake(self, timeout_at: float | None) -> None:
        """Nothing to agree on."""


class _Tls(_Transfer, KafkaSSLTransport):  # type: ignore[misc]
    async def handshake(self, timeout_at: float | None) -> None:
        while True:
            try:
                return self._sock.do_handshake()  # type: ignore[no-any-return]
            except ssl.SSLWantReadError:
                await self._net.wait_read(self._sock, timeout_at)
            except ssl.SSLWantWriteError:
                await self._net.wait_write(self._sock, timeout_at)


#: Settings that the library has by the same names.
_SETTINGS = (
    "client_id", "client_dns_lookup", "request_timeout_ms", "reconnect_backoff_ms", "reconnect_backoff_max_ms",
    "socket_connection_setup_timeout_ms", "socket_connection_setup_timeout_max_ms", "connections_max_idle_ms",
    "security_protocol",
)  # fmt: skip


def _library_config(config: ClientConfig) -> dict[str, Any]:
    secure = config.security_protocol in {"SSL", "SASL_SSL"}
    return {name: getattr(config, name) for name in _SETTINGS} | {
        "bootstrap_servers": list(config.bootstrap_servers),
        "client_software_name": "penstock",
        "receive_message_max_bytes": _NO_LIMIT,
        # Producers and fetchers limit their requests under way themselves.
        "max_in_flight_requests_per_connection": _NO_LIMIT,
        "ssl_context": build_tls_context(config.tls) if secure else None,
    }


_OUR_THREADS: set[int | None] = set()
_LOGGERS = (
    "kafka.cluster", "kafka.future", "kafka.net.connection", "kafka.net.inet", "kafka.net.manager",
    "kafka.net.sasl.oauth", "kafka.net.sasl.plain", "kafka.net.sasl.scram", "kafka.net.selector",
    "kafka.net.transport", "kafka.protocol", "kafka.protocol.parser",
)  # fmt: skip


def _quiet_library() -> None:
    """Log the library's messages about our connections for debugging only: errors are raised as exceptions."""
    for name in _LOGGERS:
        logging.getLogger(name).addFilter(_demote)


def _demote(record: logging.LogRecord) -> bool:
    if record.thread not in _OUR_THREADS:
        return True
    if record.levelno >= logging.INFO:  # lower levels log whole requests, including logins
        _log.debug("%s", record.getMessage())
    return False
