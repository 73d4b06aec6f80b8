"""The transaction coordinator as a state machine. The rules are those of Kafka 4's ``TransactionCoordinator`` and
``TransactionMetadata``; tests/broker/test_simulated_protocol.py holds them against a real broker."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass, field

from tests.simulation.log import Refusal

__all__ = ["Coordinator", "TopicPartition", "Transaction"]

#: (topic, partition)
TopicPartition = tuple[str, int]

IMPLICIT = 2
NONE, NOT_READ = 0, -1
INVALID_STATE, INVALID_MAPPING, CONCURRENT, FENCED, ABORTABLE = 48, 49, 51, 90, 120
_LAST_EPOCH = 32_766

EMPTY, ONGOING = "Empty", "Ongoing"
PREPARE_COMMIT, PREPARE_ABORT, FENCE = "PrepareCommit", "PrepareAbort", "PrepareEpochFence"
COMPLETE_COMMIT, COMPLETE_ABORT = "CompleteCommit", "CompleteAbort"
_PREPARED = {PREPARE_COMMIT, PREPARE_ABORT}


@dataclass
class Transaction:
    """What is known of a transactional id."""

    id: str
    producer_id: int
    timeout_ms: int
    epoch: int = -1
    last_epoch: int = -1
    previous_producer_id: int = -1
    next_producer_id: int = -1
    state: str = EMPTY
    #: Whether its last end raised the epoch, as transaction.version 2 has it.
    bumped: bool = False
    places: set[TopicPartition] = field(default_factory=set)
    started: float = -1.0
    number: int = 0


class Coordinator:
    """All transactional ids of a cluster.

    ``ending`` is called when the end of a transaction is decided; whoever is called writes the markers and then calls
    :meth:`complete`. ``clock`` gives seconds; ``version`` the cluster's transaction.version.
    """

    def __init__(
        self, clock: Callable[[], float], version: Callable[[], int], ending: Callable[[Transaction, bool], None]
    ):
        self.known: dict[str, Transaction] = {}
        self.visited: set[tuple[str, str]] = set()
        self._clock, self._version, self._ending = clock, version, ending
        self._ids = itertools.count(1000)

    def _go(self, transaction: Transaction, state: str) -> None:
        self.visited.add((transaction.state, state))
        transaction.state = state

    def new_producer_id(self) -> int:
        """A producer id that nobody has."""
        return next(self._ids)

    # --- InitProducerId ---

    def init(self, id_: str, timeout_ms: int, producer_id: int, epoch: int) -> tuple[int, int]:
        """Producer id and epoch for a transactional id. ``producer_id`` and ``epoch`` are the asker's, or -1."""
        known = self.known.get(id_)
        if known is None:
            known = self.known[id_] = Transaction(id_, self.new_producer_id(), timeout_ms)
        expects = producer_id != NOT_READ
        if expects and not self._fits(known, producer_id, epoch):
            raise Refusal(FENCED)
        if known.state in _PREPARED:
            raise Refusal(CONCURRENT)
        if known.state == ONGOING:
            self.fence(known)
            raise Refusal(CONCURRENT)
        if known.epoch >= _LAST_EPOCH and (not expects or epoch == known.epoch):
            known.previous_producer_id, known.producer_id = known.producer_id, self.new_producer_id()
            known.last_epoch, known.epoch = (known.epoch if expects else -1), 0
        elif not expects:
            known.last_epoch, known.epoch = -1, known.epoch + 1
        elif epoch == known.epoch or known.epoch < 0:
            known.last_epoch, known.epoch = known.epoch, known.epoch + 1
        elif epoch != known.last_epoch:
            raise Refusal(FENCED)
        known.timeout_ms, known.places, known.started, known.bumped = timeout_ms, set(), -1.0, False
        self._go(known, EMPTY)
        return known.producer_id, known.epoch

    @staticmethod
    def _fits(known: Transaction, producer_id: int, epoch: int) -> bool:
        exhausted = producer_id == known.previous_producer_id and epoch >= _LAST_EPOCH
        return known.epoch < 0 or producer_id == known.producer_id or exhausted

    def fence(self, known: Transaction) -> None:
        """Abort an ongoing transaction with the next epoch: its owner was fenced, or its time is up."""
        self._go(known, FENCE)
        implicit = self._version() >= IMPLICIT
        known.last_epoch = known.epoch if implicit else -1
        known.epoch += 1
        known.bumped = implicit
        self._prepare(known, False)

    # --- AddPartitionsToTxn ---

    def add(self, id_: str, producer_id: int, epoch: int, places: set[TopicPartition]) -> None:
        """Make partitions part of the transaction."""
        known = self._owned(id_, producer_id, epoch)
        if known.state == ONGOING and places <= known.places:
            return
        if known.state != ONGOING:
            known.started, known.places = self._clock(), set()
            known.number += 1
        known.places |= places
        self._go(known, ONGOING)

    def verify(self, id_: str, producer_id: int, epoch: int, place: TopicPartition) -> None:
        """Make sure that a partition is part of the transaction."""
        if place not in self._owned(id_, producer_id, epoch).places:
            raise Refusal(ABORTABLE)

    def _owned(self, id_: str, producer_id: int, epoch: int) -> Transaction:
        known = self.known.get(id_)
        if known is None or known.producer_id != producer_id:
            raise Refusal(INVALID_MAPPING)
        if known.epoch != epoch:
            raise Refusal(FENCED)
        if known.state in _PREPARED:
            raise Refusal(CONCURRENT)
        return known

    # --- EndTxn ---

    def end(self, id_: str, producer_id: int, epoch: int, commit: bool, *, implicit: bool) -> tuple[int, int]:
        """End a transaction; producer id and epoch for the next one, -1 where the client keeps its own."""
        known = self.known.get(id_)
        if known is None:
            raise Refusal(INVALID_MAPPING)
        if not implicit:
            self._end_as_before(known, producer_id, epoch, commit)
            return -1, -1
        overflown = known.previous_producer_id == producer_id and epoch == _LAST_EPOCH and known.epoch == 0
        repeated = known.epoch == epoch + 1 or overflown
        if known.producer_id != producer_id and not overflown:
            raise Refusal(INVALID_MAPPING)
        valid = {ONGOING: epoch == known.epoch, EMPTY: epoch == known.epoch}.get(known.state, repeated)
        if known.state in {COMPLETE_COMMIT, COMPLETE_ABORT}:
            valid = repeated or epoch == known.epoch
        if not valid:
            raise Refusal(FENCED)
        if known.state in _PREPARED:
            raise Refusal(CONCURRENT if commit == (known.state == PREPARE_COMMIT) else INVALID_STATE)
        if known.state in {COMPLETE_COMMIT, COMPLETE_ABORT} and repeated:
            if commit == (known.state == COMPLETE_COMMIT):
                return known.producer_id, known.epoch
            raise Refusal(INVALID_STATE)
        if known.state != ONGOING:
            if commit:
                raise Refusal(INVALID_STATE)
            known.started, known.places = self._clock(), set()
        known.next_producer_id = self.new_producer_id() if known.epoch >= _LAST_EPOCH else -1
        known.last_epoch, known.epoch, known.bumped = known.epoch, known.epoch + 1, True
        given = (known.next_producer_id, 0) if known.next_producer_id >= 0 else (known.producer_id, known.epoch)
        self._prepare(known, commit)
        return given

    def _end_as_before(self, known: Transaction, producer_id: int, epoch: int, commit: bool) -> None:
        """Below transaction.version 2 the epoch stays, and only the same end may be asked for again."""
        if known.producer_id != producer_id:
            raise Refusal(INVALID_MAPPING)
        if known.epoch != epoch:
            raise Refusal(FENCED)
        if known.state == ONGOING:
            known.bumped = False
            self._prepare(known, commit)
        elif known.state in _PREPARED and commit == (known.state == PREPARE_COMMIT):
            raise Refusal(CONCURRENT)
        elif known.state != (COMPLETE_COMMIT if commit else COMPLETE_ABORT):
            raise Refusal(INVALID_STATE)

    def _prepare(self, known: Transaction, commit: bool) -> None:
        self._go(known, PREPARE_COMMIT if commit else PREPARE_ABORT)
        self._ending(known, commit)

    def complete(self, known: Transaction) -> None:
        """All markers are written."""
        self._go(known, COMPLETE_COMMIT if known.state == PREPARE_COMMIT else COMPLETE_ABORT)
        known.places = set()
        if known.next_producer_id >= 0:
            known.previous_producer_id, known.producer_id = known.producer_id, known.next_producer_id
            known.last_epoch, known.epoch, known.next_producer_id = _LAST_EPOCH, 0, -1

    def expire(self, known: Transaction, number: int) -> None:
        """Abort a transaction whose time is up, unless it has ended."""
        if known.state == ONGOING and known.number == number:
            self.fence(known)
