"""Frames of Kafka's protocol that pass a proxy, and traps that catch them."""

from __future__ import annotations

import glob
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
import kafka.protocol.producer  # noqa: F401 - imports register the classes that decode answers
from kafka.protocol.api_header import ResponseClassRegistry

from penstock.errors import ServiceError
from penstock_testing.services.broker_config import HOST


class Api(IntEnum):
    """Keys of requests that traps often catch. Any other number of Kafka's protocol guide may be given."""

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
    """What happens to a frame that a trap has caught."""

    FORWARD = "forward"
    #: Swallowed: the connection stays open, and the frame never arrives.
    DROP = "drop"
    #: Lost: the connection is closed on both sides.
    CLOSE = "close"
    #: Lost as with CLOSE, and the client sees ECONNRESET instead of an orderly end.
    RESET = "reset"
    #: Held back until :meth:`Trap.release`, with everything behind it on the same connection.
    HOLD = "hold"


@dataclass(frozen=True)
class Frame:
    """One request or response, with its header and without its length.

    A response has the key and version of the request that it answers, and its bytes as ``request``. ``client`` is the
    address of the program that talks to the broker.
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
        """The different error codes in a response, 0 (no error) among them. Empty for requests, and for APIs without
        error codes or that kafka-python does not know."""
        decoder = ResponseClassRegistry._response_class_registry.get(self.api)
        if not self.response or decoder is None or self.version > decoder.max_version:
            return ()
        answer = decoder[self.version].decode(self.body, header=True)
        return tuple(sorted(set(_error_codes(answer.to_dict()))))


#: Fields of answers that hold an error code; the second is AddPartitionsToTxn's.
_ERROR_CODES = frozenset({"error_code", "partition_error_code"})


def _error_codes(answer: Any) -> Iterator[int]:
    if isinstance(answer, dict):
        yield from (value for key, value in answer.items() if key in _ERROR_CODES)
        answer = [value for key, value in answer.items() if key not in _ERROR_CODES]
    for each in answer if isinstance(answer, list) else ():
        yield from _error_codes(each)


@dataclass(eq=False)
class Catch:
    """A frame that a trap has caught, and what happened to it.

    Attributes:
        frame: the request or the response.
        forwarded: whether it was sent on; if it was held, only after its release.
        answer: the broker's answer to a request; None before it. It is noted even if the client has given up.
    """

    frame: Frame
    forwarded: bool = False
    answer: Frame | None = None
    answered: threading.Event = field(default_factory=threading.Event, repr=False)

    def note(self, answer: Frame) -> None:
        """Notes the answer."""
        self.answer = answer
        self.answered.set()

    @property
    def errors(self) -> tuple[int, ...]:
        """The error codes of the response, or of the answer to the request."""
        response = self.frame if self.frame.response else self.answer
        return response.errors if response else ()


class Trap:
    """Catches requests (or responses) of an API.

    Args:
        api: the request's key, see :class:`Api`.
        response: catch the responses instead.
        contains: texts or bytes that must all be in the request, for example a transactional id. (Newer versions name
            topics by the 16 bytes of their id: if the version is not known, use ``where``.)
        where: any other condition.
        nth: which of the matching frames is the first to be caught, counting from 1.
        times: how many are caught from there on; None for all.
        after: frames count only when that trap has caught something.
        call: called with each frame caught, before anything else happens to it.
        then: what happens to the frame after that.

    Attributes:
        api, response, then: as given.
        catches: the frames that it has caught, in order.

    :meth:`KafkaProxy.add` sets it. Thread-safe.
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
        """The frames that it has caught, in order."""
        return [each.frame for each in self.catches]

    @property
    def errors(self) -> tuple[int, ...]:
        """The different error codes of all responses that it has caught, or of the answers to the requests."""
        return tuple(sorted({code for each in self.catches for code in each.errors}))

    def wait_for_answers(self, seconds: float) -> None:
        """Waits until the broker has answered all requests that were caught so far and were not lost.

        Raises ServiceError if one is not answered within ``seconds``.
        """
        until = time.monotonic() + seconds
        for each in [] if self.then in {Then.DROP, Then.CLOSE, Then.RESET} else self.catches[:]:
            if not each.answered.wait(until - time.monotonic()):
                raise ServiceError(f"a caught request of API {self.api} is not answered after {seconds:g} s")

    @property
    def sprung(self) -> bool:
        """Whether it has caught a frame."""
        return self._caught.is_set()

    def wait(self, seconds: float) -> Frame:
        """Waits for the first frame. Raises ServiceError if none comes within ``seconds``, or if ``call`` has failed,
        which also closes the connection."""
        if not self._caught.wait(seconds):
            frame = "response" if self.response else "request"
            raise ServiceError(
                f"{frame} {self._first} of API {self.api} has not come in {seconds:g} s; {self._seen} came before it"
            )
        if self._failure is not None:
            raise ServiceError(f"the call of a trap of API {self.api} has failed: {self._failure!r}") from self._failure
        return self.frames[0]

    def release(self) -> None:
        """Lets the frames that it holds go, and catches no more."""
        with self._lock:
            self._last = 0
        self._released.set()

    def concerns(self, api: int, response: bool) -> bool:
        """Whether frames of this API and direction can be caught now."""
        return api == self.api and response == self.response and (self._after is None or self._after.sprung)

    def take(self, frame: Frame) -> tuple[Then, Catch | None]:
        """What happens to ``frame``, which it :meth:`concerns`, and the catch if it is one. Blocks while ``call`` runs,
        and while the frame is held."""
        fits = all(each in frame.request for each in self._contains)
        if not fits or (self._where is not None and not self._where(frame)):
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
        except Exception as error:  # noqa: BLE001 - wait() raises it
            self._failure = error
            return Then.CLOSE, catch
        finally:
            self._caught.set()
        if self.then is Then.HOLD:
            self._released.wait()
            return Then.FORWARD, catch
        return self.then, catch


# --- the client's process -------------------------------------------------------------------------------------


def pid_of(client: tuple[str, int], server: tuple[str, int]) -> int | None:
    """The process of this machine that holds the client's end of a TCP connection (IPv4), or None.

    Linux only, and only processes that this one may inspect.
    """
    inode = _inode_of(client, server)
    if inode is None:
        return None
    for handle in glob.iglob("/proc/[0-9]*/fd/*"):
        with suppress(OSError):
            if os.readlink(handle) == f"socket:[{inode}]":
                return int(handle.split("/")[2])
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
