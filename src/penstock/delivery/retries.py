"""The attempts to publish a batch."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from penstock.errors import ExecutionError
from penstock.spi import JobContext

_ATTEMPTS_PER_BATCH = 3
T = TypeVar("T")


def run_with_retries(publish: Callable[[], T], batch_id: int, context: JobContext) -> T:
    """The result of ``publish``, which is called again, with a warning, after a retriable ExecutionError: three
    attempts in all, and none when the job is being stopped."""
    attempt = 1
    while True:
        try:
            return publish()
        except ExecutionError as error:
            if not error.retriable or attempt == _ATTEMPTS_PER_BATCH or context.stopping():
                raise
            context.warn(f"batch {batch_id} is retried: {error}")
        attempt += 1
