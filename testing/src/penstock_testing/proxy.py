"""A TCP proxy in front of a broker, which knows Kafka's frames and can inject a fault at one step of a protocol.

::

    with ProxiedCluster() as cluster:
        trap = cluster.add(Trap(Api.END_TXN, then=Then.HOLD))
        ...                                # a client of cluster.bootstrap that commits a transaction
        frame = trap.wait(30)              # its EndTxn has come and is held
        trap.release()
"""

from __future__ import annotations

import socket
import struct
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Self

from penstock.deadline import awaited
from penstock.errors import ServiceError
from penstock_testing.frames import Catch, Frame, Then, Trap
from penstock_testing.services import DEFAULT_VERSION, KafkaCluster
from penstock_testing.services.broker_config import HOST

_INT = struct.Struct(">i")
_HEADER = struct.Struct(">hhi")  # api key, api version, correlation id
_CONNECT_SECONDS = 10.0
_JOIN_SECONDS = 10.0
#: How long the broker may take to answer caught requests when the client has gone.
_LATE_SECONDS = 30.0


@dataclass(eq=False)
class _Link:
    """One connection: the client's socket, the broker's, and the requests without an answer by correlation id, each
    with its catches."""

    client: socket.socket
    broker: socket.socket
    address: tuple[str, int]
    requests: dict[int, tuple[Frame, list[Catch]]] = field(default_factory=dict)
    silent: threading.Event = field(default_factory=threading.Event)  # the broker sends nothing more

    @property
    def has_unanswered(self) -> bool:
        """Whether a request that was caught, and sent on, has no answer yet."""
        caught = [each for _, catches in [*self.requests.values()] for each in catches]
        return any(each.forwarded and not each.answered.is_set() for each in caught)

    def cut(self, *, reset: bool = False) -> None:
        """Closes both ends; with ``reset`` the client sees ECONNRESET instead of an orderly end."""
        if reset:
            with suppress(OSError):
                self.client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        for each in (self.client, self.broker):
            with suppress(OSError):
                # Wakes the reader. Shutting down for writing as well would send an orderly end before the reset.
                each.shutdown(socket.SHUT_RD if reset and each is self.client else socket.SHUT_RDWR)
            with suppress(OSError):
                each.close()


class KafkaProxy:
    """Forwards frames between one port and one broker, except for those that traps catch or faults of the link stop.

    Use it as a context manager, or :meth:`start` and :meth:`stop` it. Connections must be in plain text. Thread-safe.
    """

    def __init__(self, target: tuple[str, int] | None = None):
        """``target`` is the broker's host and port. It may also be set later, before the first connection."""
        self.target = target
        #: The proxy's port.
        self.port = 0
        #: How many connections were ever open, without the refused ones and those of a link that was down.
        self.accepted = 0
        self._listener: socket.socket | None = None
        self._threads: set[threading.Thread] = set()
        self._links: set[_Link] = set()
        self._lock = threading.Lock()
        self._traps: tuple[Trap, ...] = ()
        self._passing = threading.Event()
        self._passing.set()
        self._refusing = self._stopped = False
        self._delay = 0.0

    @property
    def address(self) -> str:
        """``host:port`` for clients."""
        return f"{HOST}:{self.port}"

    def start(self) -> Self:
        """Listens on a free port."""
        self._listener = socket.create_server((HOST, 0), backlog=128)
        self.port = self._listener.getsockname()[1]
        self._run(self._accept, self._listener)
        return self

    def stop(self) -> None:
        """Closes all connections and the port. A second call does nothing."""
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

    def __exit__(self, *_: object) -> None:
        self.stop()

    # --- faults at a frame -----------------------------------------------------------------------------------

    def add(self, trap: Trap) -> Trap:
        """Sets a trap. Several proxies may share one."""
        with self._lock:
            self._traps = (*self._traps, trap)
        return trap

    def disarm(self) -> None:
        """Releases and removes all traps."""
        with self._lock:
            traps, self._traps = self._traps, ()
        for trap in traps:
            trap.release()

    # --- faults of the whole link ----------------------------------------------------------------------------

    def half_open(self) -> None:
        """Lets nothing pass in either direction while all connections stay open, as when a peer is lost."""
        self._passing.clear()

    def delay(self, seconds: float) -> None:
        """Delays every frame by ``seconds``, one after the other; 0 ends it."""
        self._delay = seconds

    def cut(self, *, reset: bool = False) -> None:
        """Closes all connections, and accepts new ones."""
        with self._lock:
            links = list(self._links)
        for link in links:
            link.cut(reset=reset)

    def refuse(self) -> None:
        """Closes all connections, and each new one at once."""
        self._refusing = True
        self.cut()

    def heal(self) -> None:
        """Ends all faults of the link. Frames that :meth:`half_open` held back are sent on."""
        self._refusing = False
        self._delay = 0.0
        self._passing.set()

    @property
    def connections(self) -> int:
        """How many connections are open."""
        with self._lock:
            return len(self._links)

    # --- inside ----------------------------------------------------------------------------------------------

    def _run(self, work: Callable[..., None], *arguments: object) -> None:
        def run() -> None:
            try:
                work(*arguments)
            finally:
                with self._lock:
                    self._threads.discard(thread)

        thread = threading.Thread(target=run, name=f"proxy-{self.port}", daemon=True)
        with self._lock:  # stop() joins threads, which must have started
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
        except OSError:  # the broker is down, and the client must see that
            client.close()
            return
        for each in (client, broker):
            each.settimeout(None)
            each.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        link = _Link(client, broker, address)
        with self._lock:
            self._links.add(link)
            late = self._refusing or self._stopped  # since it was accepted: cut() has not seen it
            self.accepted += not late
        if late:
            link.cut()
        self._run(self._pump, link, True)
        self._pump(link, False)

    def _pump(self, link: _Link, response: bool) -> None:
        """Moves frames in one direction until an end is closed."""
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
                        severed = not (
                            response and link.has_unanswered
                        )  # the client has gone, later answers are still noted
        except OSError:
            pass
        finally:
            # While the link is half open, a peer does not learn that the other has closed.
            self._passing.wait()
            if response:
                link.silent.set()
            elif not severed:
                awaited(lambda: link.silent.is_set() or not link.has_unanswered, _LATE_SECONDS)
            link.cut()
            with self._lock:
                self._links.discard(link)

    def _judge(self, link: _Link, frame: bytes, response: bool) -> tuple[Then, list[Catch]]:
        """What happens to a frame, and its catches."""
        body = frame[_INT.size :]
        catches: list[Catch] = []
        if response:
            (correlation,) = _INT.unpack_from(body)
            unknown = Frame(-1, -1, correlation, True, link.address, self.port, body, b"")
            request, caught = link.requests.get(correlation, (unknown, []))
            found = replace(request, response=True, body=body)
            for each in caught:
                each.note(found)
            link.requests.pop(correlation, None)
        else:
            api, version, correlation = _HEADER.unpack_from(body)
            found = Frame(api, version, correlation, False, link.address, self.port, body, body)
            link.requests[correlation] = found, catches
        then = Then.FORWARD
        for trap in [each for each in self._traps if each.concerns(found.api, response)]:
            then, catch = trap.take(found)
            if catch is not None:
                catches.append(catch)
            if then is not Then.FORWARD:
                break
        return then, catches


def _receive(source: socket.socket) -> bytes | None:
    """A whole frame with its length; None at the end of the connection. ``source`` is blocking."""
    head = source.recv(_INT.size, socket.MSG_WAITALL)
    if len(head) < _INT.size:
        return None
    (size,) = _INT.unpack(head)
    body = source.recv(size, socket.MSG_WAITALL)
    return head + body if len(body) == size else None


# --- a cluster behind proxies ------------------------------------------------------------------------------------


class ProxiedCluster:
    """A :class:`penstock_testing.services.KafkaCluster` with a proxy in front of each broker.

    Clients of ``bootstrap`` go through the proxies, those of ``direct`` past them. The arguments are KafkaCluster's.
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
        #: The proxies, in the order of the nodes.
        self.proxies: tuple[KafkaProxy, ...] = ()
        self._size = brokers
        self._brokers = partial(
            KafkaCluster, brokers, properties=properties, data=data, version=version, jvm_options=jvm_options
        )
        self._stack = ExitStack()
        self._cluster: KafkaCluster | None = None

    def start(self) -> Self:
        """Starts proxies and brokers. Raises ServiceError as :meth:`KafkaCluster.start` does."""
        with ExitStack() as stack:
            proxies = tuple(stack.enter_context(KafkaProxy()) for _ in range(self._size))
            cluster = stack.enter_context(self._brokers(advertised=[proxy.port for proxy in proxies]))
            for proxy, address in zip(proxies, cluster.bootstrap.split(","), strict=True):
                host, _, port = address.rpartition(":")
                proxy.target = (host, int(port))
            self.proxies, self._cluster, self._stack = proxies, cluster, stack.pop_all()
        return self

    def stop(self) -> None:
        """Stops both. A second call does nothing."""
        self._stack.close()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def cluster(self) -> KafkaCluster:
        """The brokers, to kill, pause and restart them."""
        if self._cluster is None:
            raise ServiceError("the cluster is not started; call start(), or use it in a `with` statement")
        return self._cluster

    @property
    def bootstrap(self) -> str:
        """``host:port,...`` of the proxies."""
        return ",".join(proxy.address for proxy in self.proxies)

    @property
    def direct(self) -> str:
        """``host:port,...`` of the brokers, past the proxies."""
        return self.cluster.plain_bootstrap

    def proxy(self, node: int) -> KafkaProxy:
        """The proxy in front of a node (ids count from 1)."""
        return self.proxies[node - 1]

    def add(self, trap: Trap) -> Trap:
        """Sets a trap at all proxies, which share its count."""
        for proxy in self.proxies:
            proxy.add(trap)
        return trap

    def heal(self) -> None:
        """Releases every trap and ends every fault of a link."""
        for proxy in self.proxies:
            proxy.heal()
            proxy.disarm()
