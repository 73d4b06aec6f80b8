"""Points of a batch at which tests let something happen. All ways of publishing a batch pass them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest


def before_commit(monkeypatch: pytest.MonkeyPatch, call: Callable[[Any], object]) -> None:
    """Call ``call(batch)`` in each Kafka transaction of a batch, when all of it is written, before it is committed."""
    from penstock.connectors.kafka.sink.committer import KafkaCommitter
    from penstock.kafka.transactions import TransactionClient

    publish, commit = KafkaCommitter.publish, TransactionClient.commit
    batches: list[Any] = []  # claims are committed too, while no batch is published

    def publishing(self: Any, batch: Any, frame: Any) -> Any:
        batches.append(batch)
        try:
            return publish(self, batch, frame)
        finally:
            batches.pop()

    def committing(self: Any, *arguments: Any) -> None:
        if batches:
            call(batches[-1])
        commit(self, *arguments)

    monkeypatch.setattr(KafkaCommitter, "publish", publishing)
    monkeypatch.setattr(TransactionClient, "commit", committing)


def before_insertion_is_committed(monkeypatch: pytest.MonkeyPatch, call: Callable[[], object]) -> None:
    """Call ``call()`` in each PostgreSQL transaction of a batch, when its rows and its progress are in it."""
    from penstock.connectors.postgres.progress import ProgressTable

    record = ProgressTable.record

    def recording(self: Any, *arguments: Any) -> None:
        record(self, *arguments)
        call()

    monkeypatch.setattr(ProgressTable, "record", recording)


def failures(times: int, error: Callable[[], BaseException]) -> Callable[..., None]:
    """Something to call at a point: it raises ``error()`` that many times."""
    left = [times]

    def fail(*_: Any) -> None:
        if left[0]:
            left[0] -= 1
            raise error()

    return fail
