"""Virtual time, and threads of which one runs at a time: what is simulated happens in an order that a seed determines.

The code under test blocks where it always does: in ``time.sleep``, in a future, in a queue. Here each of these hands
the baton back, and the scheduler goes on with whatever is due next on the virtual clock. No real time passes.
"""

from __future__ import annotations

import heapq
import itertools
import queue
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from functools import partial
from typing import Any

__all__ = ["Actor", "Answer", "Killed", "Queue", "Scheduler", "StuckError", "VirtualTime"]

_EPOCH_SECONDS = 1_760_000_000
#: Real time that an actor may take until it blocks: far more than any computation here needs.
_LONGEST_STEP_SECONDS = 60.0
#: A sleep shorter than this would be lost when it is added to the clock.
_SHORTEST = 1e-6


class Killed(BaseException):
    """Raised in an actor that is dead, wherever it blocks next: a process that is killed runs nothing any more."""


class StuckError(AssertionError):
    """The simulation does not end: everybody waits, or somebody tries the same thing forever."""


def _closed() -> threading.Lock:
    """A gate that one thread waits at until another opens it, each time anew. A plain lock: actors take turns tens of
    thousands of times, and a semaphore takes several times as long."""
    made = threading.Lock()
    made.acquire()
    return made


class Actor:
    """A thread of the simulation: a driver, or a task."""

    def __init__(self, scheduler: Scheduler, name: str, run: Callable[[], Any]):
        self.name = name
        self.result: Any = None
        self.error: BaseException | None = None
        self.done = False
        self.killed = False
        self.ticket = 0
        self._scheduler = scheduler
        self._run = run
        self._go = _closed()
        self._watchers: list[Callable[[], None]] = []
        self._thread = threading.Thread(target=self._main, name=name, daemon=True)
        self._thread.start()

    def _main(self) -> None:
        self._go.acquire()
        try:
            if not self.killed:
                self.result = self._run()
        except Killed:
            self.killed = True
        except BaseException as error:  # noqa: BLE001 - it is whoever started the actor that decides about it
            self.error = error
        self.done = True
        for watcher in self._watchers:
            watcher()
        self._scheduler.paused.release()

    def when_done(self, watcher: Callable[[], None]) -> None:
        """Call ``watcher`` at the actor's end, or now if that is over."""
        if self.done:
            watcher()
        else:
            self._watchers.append(watcher)

    def kill(self) -> None:
        """End the actor where it is."""
        if not self.done:
            self.killed = True
            self.ticket += 1
            self._scheduler.after(0.0, self.resume)

    def resume(self) -> None:
        """Let the actor run until it blocks again. Called by the scheduler alone."""
        if self.done:
            return
        before, self._scheduler.current = self._scheduler.current, self
        self._go.release()
        if not self._scheduler.paused.acquire(timeout=_LONGEST_STEP_SECONDS):
            raise StuckError(f"{self.name} waits for something that is not simulated")
        self._scheduler.current = before

    def pause(self) -> None:
        """Hand the baton back, and wait for it."""
        self._scheduler.paused.release()
        self._go.acquire()
        self.live()

    def live(self) -> None:
        """Raises Killed in an actor that is dead."""
        if self.killed:
            raise Killed


class Scheduler:
    """What happens when: a heap of actions on the virtual clock."""

    def __init__(self, longest: float = 1e6, most: int = 400_000) -> None:
        self.now = 0.0
        self.current: Actor | None = None
        self.paused = _closed()
        self.actors: list[Actor] = []
        self._due: list[tuple[float, int, Callable[[], None]]] = []
        self._order = itertools.count()
        self._longest, self._most = longest, most

    def after(self, seconds: float, action: Callable[[], None]) -> None:
        """Do ``action`` in so many seconds; of two at one moment, first the one that was asked for first."""
        heapq.heappush(self._due, (self.now + seconds, next(self._order), action))

    def spawn(self, name: str, run: Callable[[], Any]) -> Actor:
        """Start an actor; it runs when the scheduler comes to it."""
        actor = Actor(self, name, run)
        self.actors.append(actor)
        self.after(0.0, actor.resume)
        return actor

    def run(self, until: Callable[[], bool]) -> None:
        """Let time pass until the condition holds. Raises StuckError when it never will."""
        while not until():
            if not self._due:
                raise StuckError("everybody waits and nothing is due")
            self._step()

    def pass_time(self, seconds: float) -> None:
        """Let so much time pass."""
        end = self.now + seconds
        while self._due and self._due[0][0] <= end:
            self._step()
        self.now = end

    def drain(self) -> None:
        """Let happen all that is due still."""
        while self._due:
            self._step()

    def _step(self) -> None:
        when, number, action = heapq.heappop(self._due)
        if when > self._longest or number > self._most:
            raise StuckError(f"no end after {when:.0f} s and {number} actions")
        self.now = when
        action()

    def kill_all(self) -> None:
        """End every actor, so that no thread is left over."""
        for actor in self.actors:
            if not actor.done:
                actor.killed = True
                actor.resume()
        self._due.clear()

    # --- what actors block in ---

    def actor(self) -> Actor:
        """The actor that runs. Raises Killed when it is dead."""
        assert self.current is not None, "only actors may block"
        self.current.live()
        return self.current

    def park(self, seconds: float | None, subscribe: Callable[[Callable[[], None]], None] | None = None) -> None:
        """Block the running actor until it is woken by what ``subscribe`` is given, or so many seconds have passed."""
        actor = self.actor()
        actor.ticket += 1
        wake = partial(self._wake, actor, actor.ticket)
        if subscribe is not None:
            subscribe(lambda: self.after(0.0, wake))
        if seconds is not None:
            self.after(max(_SHORTEST, seconds), wake)
        actor.pause()

    def _wake(self, actor: Actor, ticket: int) -> None:
        if actor.ticket == ticket:
            actor.ticket += 1
            actor.resume()

    def join(self, actors: Iterable[Actor]) -> None:
        """Block the running actor until all the others have ended."""
        for actor in actors:
            while not actor.done:
                self.park(None, actor.when_done)


class Answer(Future[Any]):
    """A future on which actors wait in virtual time."""

    def __init__(self, scheduler: Scheduler):
        super().__init__()
        #: Whether whoever waited does not wait any more.
        self.given_up = False
        self._scheduler = scheduler

    def result(self, timeout: float | None = None) -> Any:
        """As a future's, in virtual time."""
        if not self.done():
            self._scheduler.park(timeout, lambda wake: self.add_done_callback(lambda _: wake()))
        if not self.done():
            self.given_up = True
            raise TimeoutError
        return super().result(0)


def wait_for(scheduler: Scheduler, answers: Iterable[Future[Any]], timeout: float | None, _until: str) -> None:
    """As ``concurrent.futures.wait`` for the first answer, in virtual time."""
    waiting = list(answers)
    if any(each.done() for each in waiting):
        return

    def subscribe(wake: Callable[[], None]) -> None:
        for each in waiting:
            each.add_done_callback(lambda _: wake())

    scheduler.park(timeout, subscribe)


class Queue:
    """As ``queue.SimpleQueue``, in virtual time."""

    def __init__(self, scheduler: Scheduler):
        self._scheduler = scheduler
        self._items: deque[Any] = deque()
        self._wake: Callable[[], None] | None = None

    def put(self, item: Any) -> None:
        """Add an item, and wake whoever waits for it."""
        self._items.append(item)
        if self._wake is not None:
            self._wake()
            self._wake = None

    def get(self, block: bool = True, timeout: float | None = None) -> Any:
        """Take an item. Raises queue.Empty when none came in time."""
        if not self._items and block:
            self._scheduler.park(timeout, lambda wake: setattr(self, "_wake", wake))
        if not self._items:
            raise queue.Empty
        return self._items.popleft()


class VirtualTime:
    """Stands where a module has imported ``time``."""

    strftime, gmtime = staticmethod(time.strftime), staticmethod(time.gmtime)

    def __init__(self, scheduler: Scheduler):
        self._scheduler = scheduler

    def monotonic(self) -> float:
        """Seconds since the walk began."""
        return self._scheduler.now

    def time(self) -> float:
        """Seconds since 1970."""
        return _EPOCH_SECONDS + self._scheduler.now

    def time_ns(self) -> int:
        """Nanoseconds since 1970."""
        return int(self.time() * 1e9)

    def sleep(self, seconds: float) -> None:
        """Block the running actor."""
        self._scheduler.park(seconds)
