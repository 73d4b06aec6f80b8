"""The records of published batches and of their owners, the same for every system to which batches are committed."""

from __future__ import annotations

import json
import os
import socket
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from penstock.clock import now_ms
from penstock.spi import Batch


def to_canonical_json(value: Any) -> str:
    """The JSON text of a value: equal values have equal texts."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def format_utc(ms: int) -> str:
    """A time in ms since the epoch, as text."""
    return time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(ms / 1000))


@dataclass(frozen=True)
class Progress:
    """A published batch: the ids of its query and the batch, and the source's offsets before and after it.

    Offsets are JSON values, compared by their canonical text. ``tables`` are the sinks with rows in the transaction,
    and their topics; empty if that was not recorded. ``state`` refers to the state after the batch; empty without one.
    """

    query_id: str
    batch_id: int
    start: Any
    end: Any
    tables: tuple[str, ...] = ()
    state: str = ""

    @classmethod
    def from_positions(
        cls,
        query_id: str,
        batch_id: int,
        start: Sequence[Any],
        end: Sequence[Any] | None,
        tables: tuple[str, ...] = (),
        state: str = "",
    ) -> Progress:
        """A batch with the positions of each source before and after it; ``end`` is None if it is not planned."""
        after = None if end is None else {"sources": list(end)}
        return cls(query_id, batch_id, {"sources": list(start)}, after, tables, state)

    @classmethod
    def from_batch(cls, query_id: str, batch: Batch, tables: tuple[str, ...], state: str = "") -> Progress:
        """A planned batch that is published into ``tables``, with the reference to the state after it."""
        return cls.from_positions(query_id, batch.id, batch.start, batch.end, tables, state)

    def __str__(self) -> str:
        end = "" if self.end is None else f" to {to_canonical_json(self.end)}"
        return f"batch {self.batch_id} of query '{self.query_id}' (from {to_canonical_json(self.start)}{end})"


@dataclass(frozen=True)
class Claim:
    """The owner of a transactional id: a run of a query, and its process (start in ms since the epoch)."""

    run_id: str
    host: str
    pid: int
    started_ms: int

    @classmethod
    def from_this_process(cls, run_id: str) -> Claim:
        """A claim for a run in this process."""
        return cls(run_id, socket.gethostname(), os.getpid(), now_ms())

    @property
    def process(self) -> str:
        """The process, for messages."""
        return f"process {self.pid} on {self.host}"

    def __str__(self) -> str:
        return f"run {self.run_id} ({self.process}, started {format_utc(self.started_ms)})"
