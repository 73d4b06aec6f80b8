"""A result that comes later, by PyFlink's names."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, Generic, TypeVar

from penstock.java_gateway import without_java

__all__ = ["CompletableFuture"]

_T = TypeVar("_T")


class CompletableFuture(Generic[_T]):
    """A result that comes later. Raises UnsupportedError when it is made of a Java object."""

    _future: Future[_T]

    def __init__(self, j_completable_future: Any, py_class: Any = None):
        raise without_java("CompletableFuture")

    @classmethod
    def _from_future(cls, future: Future[_T]) -> CompletableFuture[_T]:
        made = cls.__new__(cls)
        made._future = future
        return made

    @classmethod
    def _from_result(cls, result: _T) -> CompletableFuture[_T]:
        future: Future[_T] = Future()
        future.set_result(result)
        return cls._from_future(future)

    def cancel(self) -> bool:
        """Cancel the work unless it has started; whether it was cancelled."""
        return self._future.cancel()

    def cancelled(self) -> bool:
        """Whether the work was cancelled before it started."""
        return self._future.cancelled()

    def done(self) -> bool:
        """Whether it has a result or an error."""
        return self._future.done()

    def result(self) -> _T:
        """The result; waits for it. Raises the error of the work."""
        return self._future.result()

    def exception(self) -> BaseException | None:
        """The error of the work, None if there is none; waits for it."""
        return self._future.exception()

    def set_exception(self, exception: BaseException) -> None:
        """End it with an error."""
        self._future.set_exception(exception)

    def set_result(self, result: _T) -> None:
        """End it with a result."""
        self._future.set_result(result)

    def add_done_callback(self, fn: Callable[[CompletableFuture[_T]], object]) -> None:
        """Call ``fn`` with this when it is done."""
        self._future.add_done_callback(lambda _: fn(self))
