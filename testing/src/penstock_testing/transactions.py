"""Transactions seen from outside: who has one open, and which partitions they hold back."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable

from penstock.errors import RetriableError, ServiceError
from penstock.kafka.inspection import HeldBack, find_held_back, find_transactions
from penstock.kafka.properties import ClientConfig
from penstock.kafka.session import Session, session_for
from penstock.kafka.transactions import TransactionDescription, describe_transaction

_POLL_SECONDS = 0.1


class TransactionInspector:
    """What a cluster says about its transactions.

    ::

        inspector = TransactionInspector("localhost:9092")
        assert inspector.wait_until_none_open(["orders"], seconds=10) == []
    """

    def __init__(self, bootstrap: str):
        """``bootstrap`` is ``host:port,...`` in plain text."""
        self.session: Session = session_for(ClientConfig.from_properties({"bootstrap.servers": bootstrap}))

    def held(self, topics: Iterable[str], by: Collection[str] | None = None) -> list[HeldBack]:
        """The partitions of ``topics`` in which an open transaction holds readers back, and who holds them.

        With ``by``, only those that a transaction of one of these transactional ids holds back.
        """
        found = find_held_back(self.session, topics)
        return [each for each in found if by is None or any(holder.transactional_id in by for holder in each.holders)]

    def open_transactions(self, prefix: str = "") -> list[TransactionDescription]:
        """The open transactions of transactional ids that start with ``prefix``."""
        return find_transactions(self.session, prefix)

    def describe(self, transactional_id: str) -> TransactionDescription | None:
        """What the coordinator knows about a transactional id; None when it knows nothing."""
        return describe_transaction(self.session, transactional_id)

    def wait_until_none_open(
        self, topics: Iterable[str], seconds: float = 10.0, by: Collection[str] | None = None
    ) -> list[HeldBack]:
        """Waits until :meth:`held` finds nothing. Returns what it still finds after ``seconds``."""
        topics = list(topics)
        until = time.monotonic() + seconds
        while True:
            late = time.monotonic() > until
            try:
                if not (held := self.held(topics, by)) or late:
                    return held
            except RetriableError:  # a broker may be down
                if late:
                    raise
            time.sleep(_POLL_SECONDS)

    def wait_for(
        self, transactional_id: str, condition: Callable[[TransactionDescription], bool], seconds: float
    ) -> TransactionDescription:
        """Waits until the coordinator's description of a transactional id fulfils ``condition``, and returns it.

        Raises ServiceError if it does not within ``seconds``.
        """
        until = time.monotonic() + seconds
        while (found := self.describe(transactional_id)) is None or not condition(found):
            if time.monotonic() > until:
                raise ServiceError(f"transactional id '{transactional_id}' is still at {found} after {seconds:g} s")
            time.sleep(_POLL_SECONDS)
        return found
