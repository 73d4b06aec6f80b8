"""A TCP proxy in front of a broker that knows Kafka's frames, so that a fault can be put at one step of a protocol.

::

    with ProxiedCluster() as cluster:
        trap = cluster.add(Trap(Api.END_TXN, then=Then.HOLD))
        ...                                # a client that commits a transaction by way of cluster.bootstrap
        frame = trap.wait(30)              # its EndTxn has come, and goes no further
        trap.release()
"""

from __future__ import annotations

import socket
import struct
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Self

from penstock.errors import ServiceError
from penstock.services import DEFAULT_VERSION, KafkaCluster
from penstock.services.settings import HOST
from penstock.testing.frames import Catch, Frame, Then, Trap

_LENGTH = struct.Struct(">i")
_HEADER = struct.Struct(">hhi")  # api key, api version, correlation id
_CORRELATION = struct.Struct(">i")
_CONNECT_SECONDS = 10.0
_JOIN_SECONDS = 10.0
#: How long the broker may take to answer what was caught, when the client has gone.
_LATE_SECONDS = 30.0
_POLL_SECONDS = 0.05


@dataclass(frozen=True)
class _Asked:
    """A request that is not answered yet, and the traps that have caught it."""

    api: int
    version: int
    request: bytes
    catches: tuple[Catch, ...] = ()


@dataclass(eq=False)
class _Link:
    """One connection: the client's socket, the broker's, and what has been asked and not answered yet."""

    client: socket.socket
    broker: socket.socket
    address: tuple[str, int]
    asked: dict[int, _Asked] = field(default_factory=dict)
    silent: threading.Event = field(default_factory=threading.Event)  # the broker says nothing more

    @property
    def awaited(self) -> bool:
        """Whether a request that was caught, and sent on, has no answer yet."""
        return any(
            each.forwarded and not each.answered.is_set() for asked in [*self.asked.values()] for each in asked.catches
        )

    def wait_for_answers(self, seconds: float) -> None:
        """Wait until nothing is :attr:`awaited`, or the broker says nothing more."""
        until = time.monotonic() + seconds
        while self.awaited and time.monotonic() < until:
            if self.silent.wait(_POLL_SECONDS):
                return

    def cut(self, *, reset: bool = False) -> None:
        """Close both ends; with ``reset`` the client sees ECONNRESET instead of an orderly end."""
        if reset:
            with suppress(OSError):
                self.client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        for each in (self.client, self.broker):
            with suppress(OSError):
                # Wakes whoever reads from it. Shut down for writing as well, it would say an orderly end first.
                each.shutdown(socket.SHUT_RD if reset and each is self.client else socket.SHUT_RDWR)
            with suppress(OSError):
                each.close()


class KafkaProxy:
    """Forwards the frames of one port to one broker, unless a trap or a fault of the whole link says otherwise.

    Use it as a context manager, or :meth:`start` and :meth:`stop` it. It only sees frames of connections in plain
    text. Thread-safe.
    """

    def __init__(self, target: tuple[str, int] | None = None):
        """``target`` is the broker's host and port, which may also be set before the first connection."""
        self.target = target
        self._listener: socket.socket | None = None
        self._port = 0
        self._threads: set[threading.Thread] = set()
        self._links: set[_Link] = set()
        self._lock = threading.Lock()
        self._traps: tuple[Trap, ...] = ()
        self._passing = threading.Event()
        self._passing.set()
        self._refusing = self._stopped = False
        self._delay = 0.0
        self._accepted = 0

    # --- life ------------------------------------------------------------------------------------------------

    @property
    def port(self) -> int:
        """The port that it listens on."""
        return self._port

    @property
    def address(self) -> str:
        """``host:port`` for clients."""
        return f"{HOST}:{self.port}"

    def start(self) -> Self:
        """Listen on a free port."""
        self._listener = socket.create_server((HOST, 0), backlog=128)
        self._port = self._listener.getsockname()[1]
        self._run(self._accept, self._listener)
        return self

    def stop(self) -> None:
        """Close everything. A second call does nothing."""
        self._stopped = True
        if self._listener is not None:
            with suppress(OSError):
                self._listener.shutdown(socket.SHUT_RDWR)
            self._listener.close()
        self.disarm()
        self._passing.set()
        self.cut()
        with self._lock:
            threads = list(self._threads)
        for thread in threads:
            thread.join(_JOIN_SECONDS)

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    # --- faults at a frame -----------------------------------------------------------------------------------

    def add(self, trap: Trap) -> Trap:
        """Set a trap, which may be another proxy's too."""
        with self._lock:
            self._traps = (*self._traps, trap)
        return trap

    def disarm(self) -> None:
        """Release and remove all traps."""
        with self._lock:
            traps, self._traps = self._traps, ()
        for trap in traps:
            trap.release()

    # --- faults of the whole link ----------------------------------------------------------------------------

    def half_open(self) -> None:
        """Let nothing pass, either way, while all connections stay as they are: what a lost peer looks like."""
        self._passing.clear()

    def delay(self, seconds: float) -> None:
        """Keep every frame for so long, one after the other; 0 ends it."""
        self._delay = seconds

    def cut(self, *, reset: bool = False) -> None:
        """Close all connections; new ones are taken."""
        with self._lock:
            links = list(self._links)
        for link in links:
            link.cut(reset=reset)

    def refuse(self) -> None:
        """Close all connections, and new ones as soon as they come."""
        self._refusing = True
        self.cut()

    def heal(self) -> None:
        """End all faults of the link. What was kept back by :meth:`half_open` goes on its way."""
        self._refusing = False
        self._delay = 0.0
        self._passing.set()

    @property
    def connections(self) -> int:
        """How many connections clients have at present."""
        with self._lock:
            return len(self._links)

    @property
    def accepted(self) -> int:
        """How many connections there ever were, those of broken links and refused ones left out."""
        return self._accepted

    # --- inside ----------------------------------------------------------------------------------------------

    def _run(self, work: Callable[..., None], *arguments: object) -> None:
        def run() -> None:
            try:
                work(*arguments)
            finally:
                with self._lock:
                    self._threads.discard(thread)

        thread = threading.Thread(target=run, name=f"proxy-{self._port}", daemon=True)
        with self._lock:  # stop() joins threads, which have to have started
            self._threads.add(thread)
            thread.start()

    def _accept(self, listener: socket.socket) -> None:
        while True:
            try:
                client, address = listener.accept()
            except OSError:
                return
            if self._refusing or self._stopped or self.target is None:
                client.close()
                continue
            self._run(self._open, client, address)

    def _open(self, client: socket.socket, address: tuple[str, int]) -> None:
        try:
            broker = socket.create_connection(self.target or ("", 0), _CONNECT_SECONDS)
        except OSError:  # the broker is down: the client must see the same
            client.close()
            return
        broker.settimeout(None)
        for each in (client, broker):
            each.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        link = _Link(client, broker, address)
        with self._lock:
            self._links.add(link)
            late = self._refusing or self._stopped  # since it came in, so that it was not among those that were cut
            self._accepted += not late
        if late:
            link.cut()
        self._run(self._pump, link, True)
        self._pump(link, False)

    def _pump(self, link: _Link, response: bool) -> None:
        """Move frames one way until an end is closed."""
        source, sink = (link.broker, link.client) if response else (link.client, link.broker)
        severed = False
        try:
            while not severed and (frame := _receive(source)) is not None:
                if self._delay:
                    time.sleep(self._delay)
                self._passing.wait()
                then, catches = self._judge(link, frame, response)
                severed = then in {Then.CLOSE, Then.RESET}
                if then is Then.RESET:
                    link.cut(reset=True)
                if then is Then.FORWARD:
                    self._passing.wait()
                    for each in catches:
                        each.forwarded = True
                    try:
                        sink.sendall(frame)
                    except OSError:
                        for each in catches:
                            each.forwarded = False
                        severed = not (response and link.awaited)  # the client is gone: later answers are noted still
        except OSError:
            pass
        finally:
            # What a lost peer looks like includes that its end is not told.
            self._passing.wait()
            if response:
                link.silent.set()
            elif not severed:
                link.wait_for_answers(_LATE_SECONDS)
            link.cut()
            with self._lock:
                self._links.discard(link)

    def _judge(self, link: _Link, frame: bytearray, response: bool) -> tuple[Then, list[Catch]]:
        """What becomes of a frame, and as whose catch."""
        body = bytes(frame[_LENGTH.size :])
        if response:
            (correlation,) = _CORRELATION.unpack_from(body)
            asked = link.asked.get(correlation, _Asked(-1, -1, b""))
        else:
            api, version, correlation = _HEADER.unpack_from(body)
            asked = link.asked[correlation] = _Asked(api, version, body)
        traps = [trap for trap in self._traps if trap.concerns(asked.api, response)]
        found = Frame(asked.api, asked.version, correlation, response, link.address, self._port, body, asked.request)
        if response:
            for each in asked.catches:
                each.note(found)
            link.asked.pop(correlation, None)
        then, catches = Then.FORWARD, []
        for trap in traps:
            then, catch = trap.take(found)
            if catch is not None:
                catches.append(catch)
            if then is not Then.FORWARD:
                break
        if catches and not response:
            link.asked[correlation] = _Asked(asked.api, asked.version, body, tuple(catches))
        return then, catches


def _receive(source: socket.socket) -> bytearray | None:
    """A whole frame with its length; None where the connection ended."""
    head = _exactly(source, _LENGTH.size)
    if head is None:
        return None
    body = _exactly(source, _LENGTH.unpack(head)[0])
    return None if body is None else head + body


def _exactly(source: socket.socket, size: int) -> bytearray | None:
    received = bytearray(size)
    view, at = memoryview(received), 0
    while at < size:
        count = source.recv_into(view[at:])
        if not count:
            return None
        at += count
    return received


# --- a cluster behind proxies ------------------------------------------------------------------------------------


class ProxiedCluster:
    """A :class:`penstock.services.KafkaCluster` with a proxy in front of each broker, on the way that clients are sent.

    ``bootstrap`` leads through the proxies, ``direct`` past them. Further arguments are those of KafkaCluster.
    """

    def __init__(
        self,
        brokers: int = 1,
        *,
        properties: Mapping[str, str] | None = None,
        data: Path | None = None,
        version: str = DEFAULT_VERSION,
        jvm_options: Sequence[str] = (),
    ):
        self._size, self._properties, self._data, self._version = brokers, properties, data, version
        self._jvm_options = jvm_options
        self._stack = ExitStack()
        self._proxies: tuple[KafkaProxy, ...] = ()
        self._cluster: KafkaCluster | None = None

    def start(self) -> Self:
        """Start proxies and brokers. Raises ServiceError as :meth:`KafkaCluster.start` does."""
        with ExitStack() as stack:
            proxies = tuple(stack.enter_context(KafkaProxy()) for _ in range(self._size))
            cluster = stack.enter_context(
                KafkaCluster(
                    self._size,
                    properties=self._properties,
                    data=self._data,
                    version=self._version,
                    jvm_options=self._jvm_options,
                    advertised=[proxy.port for proxy in proxies],
                )
            )
            for proxy, address in zip(proxies, cluster.bootstrap.split(","), strict=True):
                host, _, port = address.rpartition(":")
                proxy.target = (host, int(port))
            self._proxies, self._cluster = proxies, cluster
            self._stack = stack.pop_all()
        return self

    def stop(self) -> None:
        """Stop both. A second call does nothing."""
        self._stack.close()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    @property
    def cluster(self) -> KafkaCluster:
        """The brokers, to kill, pause and restart them."""
        if self._cluster is None:
            raise ServiceError("the cluster is not started; call start(), or use it in a `with` statement")
        return self._cluster

    @property
    def bootstrap(self) -> str:
        """``host:port,...`` by way of the proxies."""
        return ",".join(proxy.address for proxy in self._proxies)

    @property
    def direct(self) -> str:
        """``host:port,...`` past them, for whoever observes."""
        return self.cluster.plain_bootstrap

    @property
    def proxies(self) -> Sequence[KafkaProxy]:
        """All proxies, in the order of the nodes."""
        return self._proxies

    def proxy(self, node: int) -> KafkaProxy:
        """The proxy in front of a node (ids count from 1)."""
        return self._proxies[node - 1]

    def add(self, trap: Trap) -> Trap:
        """Set a trap on the way to all brokers together: they share the count."""
        for proxy in self._proxies:
            proxy.add(trap)
        return trap

    def heal(self) -> None:
        """Release every trap and end every fault of a link."""
        for proxy in self._proxies:
            proxy.heal()
            proxy.disarm()
