"""Frames of Kafka's protocol on their way through a proxy, and traps that catch them."""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from enum import Enum, IntEnum
from pathlib import Path
from typing import Any

import kafka.protocol.admin
import kafka.protocol.consumer
import kafka.protocol.metadata
import kafka.protocol.producer  # noqa: F401 - importing them makes the classes known by which answers are decoded
from kafka.protocol.api_header import ResponseClassRegistry

from penstock.errors import ServiceError
from penstock.services.settings import HOST


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
    #: The same, and the client sees ECONNRESET instead of an orderly end.
    RESET = "reset"
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

    @property
    def errors(self) -> tuple[int, ...]:
        """The error codes in a response, each once, 0 (no error) among them; none in a request, nor in an answer of an
        API that has none or that kafka-python does not know."""
        kind = ResponseClassRegistry._response_class_registry.get(self.api)
        if not self.response or kind is None or self.version > kind.max_version:
            return ()
        answer = kind[self.version].decode(self.body, header=True)
        return tuple(sorted(set(_error_codes(answer.to_dict()))))


#: Fields of answers that hold an error code. AddPartitionsToTxn has one with a name of its own.
_ERROR_CODES = frozenset({"error_code", "partition_error_code"})


def _error_codes(answer: Any) -> Iterator[int]:
    if isinstance(answer, dict):
        for key, value in answer.items():
            if key in _ERROR_CODES:
                yield value
            else:
                yield from _error_codes(value)
    elif isinstance(answer, list):
        for each in answer:
            yield from _error_codes(each)


@dataclass(eq=False)
class Catch:
    """What became of a frame that a trap has caught.

    Attributes:
        frame: the request or the response.
        forwarded: whether it was sent on to whom it was meant for; for one that was held, only after its release.
        answer: what the broker answered to a request, whether the client got that or not; None until it has. A client
            that has given up meanwhile does not keep the answer from being noted.
    """

    frame: Frame
    forwarded: bool = False
    answer: Frame | None = None
    answered: threading.Event = field(default_factory=threading.Event, repr=False)

    def note(self, answer: Frame) -> None:
        """Take down the answer."""
        self.answer = answer
        self.answered.set()

    @property
    def errors(self) -> tuple[int, ...]:
        """The error codes of the response that it is, or of the answer to the request that it is."""
        of = self.frame if self.frame.response else self.answer
        return () if of is None else of.errors


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
        api, response, then: as given.
        catches: what it has caught, in order, and what became of it.

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
        self.catches: list[Catch] = []
        self.api, self.response, self.then = api, response, then
        self._contains = tuple(each.encode() if isinstance(each, str) else each for each in contains)
        self._where = where
        self._first = nth
        self._last = None if times is None else nth + times - 1
        self._after, self._call = after, call
        self._seen = 0
        self._failure: BaseException | None = None
        self._lock = threading.Lock()
        self._caught, self._released = threading.Event(), threading.Event()

    @property
    def frames(self) -> list[Frame]:
        """What it has caught, in order."""
        return [each.frame for each in self.catches]

    @property
    def errors(self) -> tuple[int, ...]:
        """The error codes of all that it has caught, each once: of the responses, or of what requests were answered."""
        return tuple(sorted({code for each in self.catches for code in each.errors}))

    def wait_for_answers(self, seconds: float) -> None:
        """Wait until the broker has answered all the requests that were caught so far, but for those that are lost.

        Raises ServiceError when one is not answered in so many seconds.
        """
        until = time.monotonic() + seconds
        for each in [] if self.then in {Then.DROP, Then.CLOSE, Then.RESET} else self.catches[:]:
            if not each.answered.wait(until - time.monotonic()):
                raise ServiceError(f"a request of API {self.api} that was caught is not answered after {seconds:g} s")

    @property
    def sprung(self) -> bool:
        """Whether it has caught a frame."""
        return self._caught.is_set()

    def wait(self, seconds: float) -> Frame:
        """The first frame that it caught. Raises ServiceError when none comes in so many seconds, or when what was
        called has failed; the connection is cut then."""
        if not self._caught.wait(seconds):
            kind = "response" if self.response else "request"
            raise ServiceError(
                f"no {kind} {self._first} of API {self.api} has come in {seconds:g} s, {self._seen} before it have"
            )
        if self._failure is not None:
            raise ServiceError(f"what a trap of API {self.api} calls has failed: {self._failure!r}") from self._failure
        return self.frames[0]

    def release(self) -> None:
        """Let go of what it holds, and catch nothing more."""
        with self._lock:
            self._last = 0
        self._released.set()

    def concerns(self, api: int, response: bool) -> bool:
        """Whether a frame of this kind could be caught now."""
        return api == self.api and response == self.response and (self._after is None or self._after.sprung)

    def take(self, frame: Frame) -> tuple[Then, Catch | None]:
        """What becomes of ``frame``, which it :meth:`concerns`, and whether it is a catch. Blocks while ``call`` runs,
        and while it is held."""
        if not all(each in frame.request for each in self._contains):
            return Then.FORWARD, None
        if self._where is not None and not self._where(frame):
            return Then.FORWARD, None
        with self._lock:
            self._seen += 1
            if self._seen < self._first or (self._last is not None and self._seen > self._last):
                return Then.FORWARD, None
            catch = Catch(frame)
            self.catches.append(catch)
        try:
            if self._call is not None:
                self._call(frame)
        except Exception as error:  # noqa: BLE001 - told by wait()
            self._failure = error
            return Then.CLOSE, catch
        finally:
            self._caught.set()
        if self.then is Then.HOLD:
            self._released.wait()
            return Then.FORWARD, catch
        return self.then, catch


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
