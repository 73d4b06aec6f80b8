"""Safeguards taken out of the code, one at a time: what the walks must notice."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any
from unittest import mock

from penstock.connectors.kafka import targets
from penstock.deadline import Deadline
from penstock.kafka import progress
from penstock.kafka.offsets import CommittedOffset, commit_offsets
from penstock.kafka.produce import Ack, Producer
from penstock.kafka.progress import Run
from penstock.kafka.session import Partition, Session
from penstock.kafka.transactions import State, TransactionClient
from tests.simulation.faults import Fault, Rule, TaskFault

__all__ = ["MUTATIONS", "Mutation"]

Patch = tuple[Any, str, Any]


@dataclass(frozen=True)
class Mutation:
    """``patches`` gives what stands in the place of a safeguard: object, attribute, value. ``trouble``: faults that
    the safeguard is for, in addition to what a seed draws; without them many more walks would be needed."""

    name: str
    patches: Callable[[], list[Patch]]
    trouble: tuple[Rule, ...] = ()
    tasks: tuple[tuple[int, TaskFault], ...] = field(default=())

    @contextlib.contextmanager
    def applied(self) -> Iterator[None]:
        """The code without the safeguard."""
        with contextlib.ExitStack() as stack:
            for owner, name, value in self.patches():
                stack.enter_context(mock.patch.object(owner, name, value))
            yield


def _progress_ignored() -> list[Patch]:
    return [(targets, "decide", lambda *_, **__: Run())]


def _abort_without_epoch() -> list[Patch]:
    def abort(self: Any, deadline: Deadline | None = None) -> None:
        self._expect(State.ENDING)
        self._become(State.ENDING)
        self._end(False, deadline)

    return [(TransactionClient, "abort", abort)]


def _offsets_outside() -> list[Patch]:
    def add(
        self: Any, group: str, offsets: Mapping[Partition, CommittedOffset], deadline: Deadline | None = None
    ) -> None:
        commit_offsets(self._session, group, offsets, deadline=deadline)

    return [(TransactionClient, "add_offsets", add)]


def _progress_outside() -> list[Patch]:
    def record(session: Session, client: Any, topic: Any, what: Any, *, deadline: Deadline | None = None) -> Ack:
        with Producer(session) as producer:
            producer.submit(topic.name, *progress.progress_batch(topic, client.transactional_id, what))
            producer.flush(deadline)
            (ack,) = producer.acks()
        return ack

    return [(targets, "record", record)]


def _counts_unchecked() -> list[Patch]:
    return [(targets, "_check_counts", lambda *_: None)]


MUTATIONS = {
    each.name: each
    for each in [
        Mutation("progress-ignored", _progress_ignored, (Rule(Fault.CRASH, "ApiVersions", 3),)),
        Mutation("abort-without-epoch", _abort_without_epoch),
        Mutation("offsets-outside", _offsets_outside),
        Mutation("progress-outside", _progress_outside),
        Mutation("counts-unchecked", _counts_unchecked, tasks=((0, TaskFault.LOST_OUTPUT),)),
    ]
}
