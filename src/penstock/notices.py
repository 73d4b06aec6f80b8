"""News about operations that have not succeeded yet, for example that a server was not reached."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from penstock.deadline import Deadline

#: The name of the log that gets the news. Tasks give no news: the driver does.
LOG = "penstock.notices"

_log = logging.getLogger(LOG)

#: How long an operation is tried before there is news that it has not succeeded yet.
PATIENCE_SECONDS = 3.0


def tell(text: str) -> None:
    """Give news of something that has not succeeded yet: a warning in Python's log."""
    _log.warning("%s", text)


class Notice:
    """Logs the result of ``text`` once, a few seconds after the block began, unless it has ended by then. Says nothing
    where the time for the block is about as short."""

    def __init__(self, text: Callable[[], str], deadline: Deadline):
        self._needed = deadline.left > 2 * PATIENCE_SECONDS
        self._timer = threading.Timer(PATIENCE_SECONDS, lambda: tell(text()))
        self._timer.daemon = True

    def __enter__(self) -> None:
        if self._needed:
            self._timer.start()

    def __exit__(self, *_: object) -> None:
        self._timer.cancel()
