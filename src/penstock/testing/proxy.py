"""A TCP proxy in front of a broker that knows Kafka's frames, so that a fault can be put at one step of a protocol.

::

    with ProxiedCluster() as cluster:
        trap = cluster.add(Trap(Api.END_TXN, then=Then.HOLD))
        ...                                # a client that commits a transaction by way of cluster.bootstrap
        frame = trap.wait(30)              # its EndTxn has come, and goes no further
        trap.release()
"""

from __future__ import annotations

import os
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from enum import Enum, IntEnum
from pathlib import Path
from types import TracebackType
from typing import Self

from penstock.errors import ServiceError
from penstock.services import DEFAULT_VERSION, KafkaCluster
from penstock.services.settings import HOST

__all__ = ["Api", "Frame", "KafkaProxy", "ProxiedCluster", "Then", "Trap", "pid_of"]

_LENGTH = struct.Struct(">i")
_HEADER = struct.Struct(">hhi")  # api key, api version, correlation id
_CORRELATION = struct.Struct(">i")
_CONNECT_SECONDS = 10.0
_JOIN_SECONDS = 10.0


class Api(IntEnum):
    """Keys of the requests that faults are put at (Kafka's protocol guide has them all; any number may be given)."""

    PRODUCE = 0
    FETCH = 1
    LIST_OFFSETS = 2
    METADATA = 3
    OFFSET_COMMIT = 8
    OFFSET_FETCH = 9
    FIND_COORDINATOR = 10
    API_VERSIONS = 18
    INIT_PRODUCER_ID = 22
    ADD_PARTITIONS_TO_TXN = 24
    ADD_OFFSETS_TO_TXN = 25
    END_TXN = 26
    TXN_OFFSET_COMMIT = 28
    DESCRIBE_TRANSACTIONS = 65


class Then(Enum):
    """What becomes of a frame that a trap has caught."""

    FORWARD = "forward"
    #: Swallowed: the connection stays, whoever waits for it waits in vain.
    DROP = "drop"
    #: The connection is cut on both sides, and the frame is lost.
    CLOSE = "close"
    #: Kept, with everything behind it on the same connection, until :meth:`Trap.release`.
    HOLD = "hold"


@dataclass(frozen=True)
class Frame:
    """One request or response, its length left out and its header included.

    A response has the key and version of the ``request`` that it answers, whose bytes it carries along. ``client`` is
    the address of the program that talks to the broker.
    """

    api: int
    version: int
    correlation: int
    response: bool
    client: tuple[str, int]
    port: int
    body: bytes = field(repr=False)
    request: bytes = field(repr=False)

    @property
    def pid(self) -> int | None:
        """The process at the client's end (see :func:`pid_of`)."""
        return pid_of(self.client, (HOST, self.port))


class Trap:
    """Waits for requests (or responses) of an API and does something when they come.

    Args:
        api: the request's key, see :class:`Api`.
        response: catch the answers instead.
        contains: texts or bytes that must all be in the request, a transactional id for one. (Newer versions name
            topics by the 16 bytes of their id: where the version is not known, use ``where``.)
        where: any other condition.
        nth: which of the frames that fulfil all this is the first to be caught, counting from 1.
        times: how many from there on; None for all.
        after: frames count only once that trap has caught something.
        call: called with each frame caught, before anything else happens to it.
        then: what becomes of it after that.

    Attributes:
        frames: what it has caught, in order.

    Set by :meth:`KafkaProxy.add`. Thread-safe.
    """

    def __init__(
        self,
        api: int,
        *,
        response: bool = False,
        contains: Iterable[bytes | str] = (),
        where: Callable[[Frame], bool] | None = None,
        nth: int = 1,
        times: int | None = 1,
        after: Trap | None = None,
        call: Callable[[Frame], None] | None = None,
        then: Then = Then.FORWARD,
    ):
        self.frames: list[Frame] = []
        self._api, self._response = api, response
        self._contains = tuple(each.encode() if isinstance(each, str) else each for each in contains)
        self._where = where
        self._first = nth
        self._last = None if times is None else nth + times - 1
        self._after, self._call, self._then = after, call, then
        self._seen = 0
        self._lock = threading.Lock()
        self._caught, self._released = threading.Event(), threading.Event()

    @property
    def sprung(self) -> bool:
        """Whether it has caught a frame."""
        return self._caught.is_set()

    def wait(self, seconds: float) -> Frame:
        """The first frame that it caught. Raises ServiceError when none comes in so many seconds."""
        if not self._caught.wait(seconds):
            kind = "response" if self._response else "request"
            raise ServiceError(
                f"no {kind} {self._first} of API {self._api} has come in {seconds:g} s, {self._seen} before it have"
            )
        return self.frames[0]

    def release(self) -> None:
        """Let go of what it holds, and catch nothing more."""
        with self._lock:
            self._last = 0
        self._released.set()

    def concerns(self, api: int, response: bool) -> bool:
        """Whether a frame of this kind could be caught now."""
        return api == self._api and response == self._response and (self._after is None or self._after.sprung)

    def take(self, frame: Frame) -> Then:
        """What becomes of ``frame``, which it :meth:`concerns`. Blocks while ``call`` runs, and while it is held."""
        if not all(each in frame.request for each in self._contains):
            return Then.FORWARD
        if self._where is not None and not self._where(frame):
            return Then.FORWARD
        with self._lock:
            self._seen += 1
            if self._seen < self._first or (self._last is not None and self._seen > self._last):
                return Then.FORWARD
            self.frames.append(frame)
        if self._call is not None:
            self._call(frame)
        self._caught.set()
        if self._then is Then.HOLD:
            self._released.wait()
            return Then.FORWARD
        return self._then


@dataclass(eq=False)
class _Link:
    """One connection: the client's socket, the broker's, and what has been asked and not answered yet."""

    client: socket.socket
    broker: socket.socket
    address: tuple[str, int]
    asked: dict[int, tuple[int, int, bytes]] = field(default_factory=dict)

    def cut(self, *, reset: bool = False) -> None:
        """Close both ends; with ``reset`` the client sees ECONNRESET instead of an orderly end."""
        if reset:
            with suppress(OSError):
                self.client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        for each in (self.client, self.broker):
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
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
        try:
            while (frame := _receive(source)) is not None:
                if self._delay:
                    time.sleep(self._delay)
                self._passing.wait()
                then = self._judge(link, frame, response)
                if then is Then.CLOSE:
                    break
                if then is Then.FORWARD:
                    self._passing.wait()
                    sink.sendall(frame)
        except OSError:
            pass
        finally:
            # What a lost peer looks like includes that its end is not told.
            self._passing.wait()
            link.cut()
            with self._lock:
                self._links.discard(link)

    def _judge(self, link: _Link, frame: bytearray, response: bool) -> Then:
        body = bytes(frame[_LENGTH.size :])
        if response:
            (correlation,) = _CORRELATION.unpack_from(body)
            api, version, request = link.asked.pop(correlation, (-1, -1, b""))
        else:
            api, version, correlation = _HEADER.unpack_from(body)
            request = body
            link.asked[correlation] = (api, version, request)
        traps = [trap for trap in self._traps if trap.concerns(api, response)]
        if not traps:
            return Then.FORWARD
        caught = Frame(api, version, correlation, response, link.address, self._port, body, request)
        for trap in traps:
            then = trap.take(caught)
            if then is not Then.FORWARD:
                return then
        return Then.FORWARD


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
    ):
        self._size, self._properties, self._data, self._version = brokers, properties, data, version
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


# --- who is at the other end -------------------------------------------------------------------------------------


def pid_of(client: tuple[str, int], server: tuple[str, int]) -> int | None:
    """The process of this machine that holds the client's end of a TCP connection (IPv4), or None.

    Linux only, and only processes that may be looked into.
    """
    inode = _inode_of(client, server)
    if inode is None:
        return None
    wanted = f"socket:[{inode}]"
    for process in Path("/proc").iterdir():
        if not process.name.isdigit():
            continue
        with suppress(OSError):
            for handle in (process / "fd").iterdir():
                with suppress(OSError):
                    if os.readlink(handle) == wanted:
                        return int(process.name)
    return None


def _inode_of(client: tuple[str, int], server: tuple[str, int]) -> str | None:
    wanted = [f"{int.from_bytes(socket.inet_aton(host), 'little'):08X}:{port:04X}" for host, port in (client, server)]
    with suppress(OSError):
        # proc_net(5): local address, remote address, ..., inode in the tenth column.
        for line in Path("/proc/net/tcp").read_text().splitlines()[1:]:
            columns = line.split()
            if columns[1:3] == wanted:
                return columns[9]
    return None
