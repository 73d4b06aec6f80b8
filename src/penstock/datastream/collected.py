"""The values of a stream in this process."""

from __future__ import annotations

from collections.abc import Iterator
from types import TracebackType
from typing import Any

from penstock.common import TypeInformation
from penstock.common.job_client import Running
from penstock.datastream.connectors.values import ValuesSink
from penstock.datastream.values import read_rows

#: How long a reader waits for a job before it looks for new values again.
_WAIT_SECONDS = 0.05


class CloseableIterator(Iterator[Any]):
    """The values of a stream, as batches give them. Ends with the job; closing it ends the job.

    Values of a retried batch are repeated.
    """

    def __init__(self, running: Running, sink: ValuesSink, info: TypeInformation):
        self._running = running
        self._sink = sink
        self._info = info
        self._found: Iterator[Any] = iter(())
        self._taken = 0
        self._closed = False

    def __iter__(self) -> CloseableIterator:
        return self

    def __next__(self) -> Any:
        """The next value; waits for it. Raises the PenstockError that ended the job."""
        while True:
            for value in self._found:
                return value
            if self._closed:
                raise StopIteration
            ended = self._running.wait(_WAIT_SECONDS)
            rows = self._sink.rows()[self._taken :]
            self._taken += len(rows)
            self._found = iter(read_rows(self._info, rows))
            if ended and not rows:
                self.close()

    def next(self) -> Any:
        """The next value; waits for it. Raises StopIteration after the last."""
        return self.__next__()

    def close(self) -> None:
        """End the job after its current batch."""
        if not self._closed:
            self._closed = True
            self._running.stop()
            self._sink.forget()

    def __enter__(self) -> CloseableIterator:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
