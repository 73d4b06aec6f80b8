"""Work of the driver that ends with the job."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future, wait
from typing import TypeVar

from penstock.errors import AbortableError

_T = TypeVar("_T")
#: How often the driver checks whether the job is to end.
_CHECK_EVERY_SECONDS = 0.1


def run_until_stopped(work: Callable[[Callable[[], bool]], _T], stopping: Callable[[], bool]) -> _T:
    """The result of ``work``, which runs in a separate thread.

    Raises AbortableError when the job is to end earlier: brokers that do not answer would delay that. The work gets a
    function that tells whether it was abandoned, so that it ends too. The abort of its transaction raises the epoch, so
    brokers refuse what it has sent and arrives late (rule "aborts raise the epoch"). What it has sent without a
    transaction may be in the topic.
    """
    left = threading.Event()
    done: Future[_T] = Future()

    def run() -> None:
        try:
            done.set_result(work(left.is_set))
        except BaseException as error:  # noqa: BLE001 - the caller raises it
            done.set_exception(error)

    threading.Thread(target=run, name="penstock-small-batch", daemon=True).start()
    while not wait([done], _CHECK_EVERY_SECONDS).done:
        if stopping():
            left.set()
            raise AbortableError("the job is being stopped")
    return done.result()
