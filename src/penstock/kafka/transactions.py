"""The driver's side of a Kafka transaction: owning a transactional id, beginning and ending transactions.

The state machine never guesses. If the broker does not report how a transaction ended, the client stays in
:data:`State.UNKNOWN` until progress has been read (rule "outcomes are never guessed",
:func:`penstock.kafka.ownership.settle`). Taking the id over again is not enough: no transaction begins before that.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from functools import partial
from typing import Any

from kafka.protocol.admin import DescribeTransactionsRequest, ListTransactionsRequest
from kafka.protocol.producer import (
    AddOffsetsToTxnRequest,
    EndTxnRequest,
    InitProducerIdRequest,
    TxnOffsetCommitRequest,
)

from penstock.deadline import Deadline
from penstock.errors import (
    AbortableError,
    KafkaError,
    OptionsError,
    Problem,
    RetriableError,
    StaleEpochError,
    UnknownOutcomeError,
)
from penstock.kafka.faults import Action, check_code, fault_from_code
from penstock.kafka.offsets import CommittedOffset, build_offset_topics, is_gone
from penstock.kafka.partitions import TopicPartition, format_partition
from penstock.kafka.produce import IMPLICIT_VERSION, ProducerIdentity
from penstock.kafka.session import GROUP, TRANSACTION, Session, iter_partitions
from penstock.kafka.topics import max_transaction_timeout_ms, transaction_version

_HOUR_MS, _QUARTER_MS = 3_600_000, 900_000
_NO_ID, _NO_EPOCH = -1, -1
# Answers to EndTxn that do not say whether the transaction was committed.
_INDEFINITE = {48, 49}  # INVALID_TXN_STATE, INVALID_PRODUCER_ID_MAPPING
_NOT_FOUND = 105


class State(Enum):
    """The state of a client."""

    NEW = "new"
    READY = "ready"
    OPEN = "open"
    ENDING = "ending"
    FAILED = "to be aborted"
    UNKNOWN = "ended with an unknown outcome"
    FENCED = "fenced"


_LEGAL: Mapping[State, frozenset[State]] = {
    State.NEW: frozenset({State.READY, State.FENCED}),
    State.READY: frozenset({State.READY, State.OPEN, State.UNKNOWN, State.FENCED}),
    State.OPEN: frozenset({State.ENDING, State.FAILED}),
    State.FAILED: frozenset({State.ENDING}),
    State.ENDING: frozenset({State.READY, State.UNKNOWN}),
    State.UNKNOWN: frozenset({State.READY, State.UNKNOWN, State.FENCED}),
    State.FENCED: frozenset(),
}


@dataclass(frozen=True)
class TransactionDescription:
    """The coordinator's view of a transactional id: the state by Kafka's name, times in ms (-1: none)."""

    transactional_id: str
    state: str
    producer_id: int
    epoch: int
    timeout_ms: int
    started_ms: int
    partitions: tuple[TopicPartition, ...]


class _Indefinite(Exception):
    """An answer from which the outcome is not known."""


class TransactionClient:
    """Owns one transactional id. For one thread.

    Start: :meth:`init`. Each batch: :meth:`begin`, produce with :attr:`identity`, perhaps :meth:`add_offsets`, then
    :meth:`commit` or :meth:`abort`. After UnknownOutcomeError only :func:`penstock.kafka.ownership.settle`, which takes
    the id over again and reads progress, makes the client ready for the next transaction.
    """

    def __init__(self, session: Session, transactional_id: str, timeout_ms: int | None = None):
        """``timeout_ms`` is the transaction's; the default comes from :func:`transaction_timeout_ms`."""
        self.transactional_id = transactional_id
        self.state = State.NEW
        self._session = session
        #: How long a transaction may stay open.
        self.timeout_ms = timeout_ms or transaction_timeout_ms(session, session.config.transaction_timeout_ms)
        self._identity: ProducerIdentity | None = None
        self._fresh = False
        self._begun = time.monotonic()
        #: Whether we have asked for a commit of the present transaction.
        self.commit_asked = False
        self._inits_unanswered = 0

    @property
    def open_seconds(self) -> float:
        """The time since the last transaction was begun."""
        return time.monotonic() - self._begun

    @property
    def init_lost(self) -> bool:
        """Whether an InitProducerId of ours got no answer: it may still arrive and raise the epoch."""
        return self._inits_unanswered > 0

    @property
    def identity(self) -> ProducerIdentity:
        """The producer id and epoch to produce with."""
        if self._identity is None:
            raise KafkaError(f"transactional id '{self.transactional_id}' is not owned yet; call init() first")
        return self._identity

    # --- owning the id ---

    def init(self, deadline: Deadline | None = None) -> ProducerIdentity:
        """Take the id over from any owner: fences it, and aborts its open transaction (rule "fence, claim, then read").

        Waits while the former owner's transaction is being ended. An unknown outcome stays unknown. Raises
        AuthorizationError, RetriableError.
        """
        self._expect(State.UNKNOWN if self.state is State.UNKNOWN else State.READY)
        return self._init(_NO_ID, _NO_EPOCH, deadline)

    def _init(self, producer_id: int, epoch: int, deadline: Deadline | None) -> ProducerIdentity:
        version = transaction_version(self._session, deadline=deadline)

        def build() -> Any:
            self._inits_unanswered += 1
            return InitProducerIdRequest(
                transactional_id=self.transactional_id,
                transaction_timeout_ms=self.timeout_ms,
                producer_id=producer_id,
                producer_epoch=epoch,
                max_version=5,  # the next one is about two-phase commit
            )

        def check(answer: Any) -> ProducerIdentity:
            self._inits_unanswered -= 1
            fault = fault_from_code(answer.error_code)
            if fault.action is Action.OUTCOME and producer_id != _NO_ID:
                raise _Indefinite(fault.name)
            check_code(answer.error_code)
            return ProducerIdentity(answer.producer_id, answer.producer_epoch, version)

        try:
            self._identity = self._ask("taking over transactional id", build, check, deadline)
        except _Indefinite as raised:
            raise self._become_unknown(str(raised)) from None
        except KafkaError:  # the coordinator may still complete it
            self._inits_unanswered += 1
            raise
        if producer_id not in {_NO_ID, self._identity.producer_id}:
            # The brokers have forgotten the id and its owners (rule "forgotten ids prove nothing"), or its epochs ran
            # out.
            raise self._become_unknown(f"after producer id {producer_id} came {self._identity.producer_id}")
        self._become(State.UNKNOWN if self.state is State.UNKNOWN else State.READY)
        self._fresh = True
        return self._identity

    def begin(self, deadline: Deadline | None = None) -> ProducerIdentity:
        """Begin a transaction. Gives the identity for producing the batch, with sequences from 0 (rule "one protocol
        version per transaction").

        Raises UnknownOutcomeError if the id is no longer ours.
        """
        self._expect(State.OPEN)
        self.commit_asked = False
        self._begun = time.monotonic()
        version = transaction_version(self._session, deadline=deadline)
        if not self._fresh:
            # With our own id and epoch this fails if another instance took over, instead of fencing that instance.
            self._init(self.identity.producer_id, self.identity.epoch, deadline)
        self._identity = ProducerIdentity(self.identity.producer_id, self.identity.epoch, version)
        self._become(State.OPEN)
        self._fresh = False
        return self._identity

    # --- offsets ---

    def add_offsets(self, group: str, offsets: Mapping[TopicPartition, CommittedOffset]) -> None:
        """Commit a group's offsets as part of the transaction, without those of partitions that no longer exist.

        Raises AbortableError, also if the outcome is not known, and AuthorizationError, after which the transaction
        may still be committed (rule "group offsets join the transaction").
        """
        self._expect(State.ENDING)
        deadline = self._session.deadline()
        owner = {
            "transactional_id": self.transactional_id,
            "group_id": group,
            "producer_id": self.identity.producer_id,
            "producer_epoch": self.identity.epoch,
        }
        implicit = self.identity.transaction_version >= IMPLICIT_VERSION
        versions = {"min_version": 5} if implicit else {"max_version": 4}
        label = f"adding the offsets of group '{group}' to the transaction"
        Topic = TxnOffsetCommitRequest.TxnOffsetCommitRequestTopic

        def build() -> Any:
            topics = build_offset_topics(Topic, Topic.TxnOffsetCommitRequestPartition, offsets)
            member = {"generation_id": -1, "member_id": "", "group_instance_id": None}
            return TxnOffsetCommitRequest(**owner, **member, topics=topics, **versions)

        def check_added(answer: Any) -> None:
            _check_offsets(answer.error_code, f"group '{group}'", label)

        def check(answer: Any) -> None:
            for tp, each in iter_partitions(answer.topics):
                if not is_gone(self._session, tp, each.error_code, deadline):
                    _check_offsets(each.error_code, format_partition(tp), label)

        try:
            if not implicit:
                add_group = partial(AddOffsetsToTxnRequest, **owner, max_version=3)
                self._ask(label + " of transactional id", add_group, check_added, deadline)
            self._session.ask_coordinator(label, GROUP, group, build, check, deadline)
        except RetriableError as error:
            self._become(State.FAILED)
            raise AbortableError(str(error)) from error
        except AbortableError:
            self._become(State.FAILED)
            raise

    # --- ending ---

    def commit(self, deadline: Deadline | None = None) -> None:
        """End the transaction with a commit, and ask until the answer is definite (rule "outcomes are never guessed").

        Raises UnknownOutcomeError if it is not: before an answer that refuses, another one may have been lost.
        """
        self._expect(State.ENDING)
        if self.state is State.FAILED:
            raise KafkaError(f"the transaction of '{self.transactional_id}' has failed and can only be aborted")
        self._become(State.ENDING)
        self.commit_asked = True
        self._end(True, deadline)

    def abort(self, deadline: Deadline | None = None) -> None:
        """End the transaction with an abort. Below transaction.version 2 this takes a new epoch (rule "aborts raise the
        epoch") and needs brokers of 3.0 or later.

        Raises UnknownOutcomeError if the id is no longer ours, the broker aborted the transaction itself, or no
        definite answer came.
        """
        self._expect(State.ENDING)
        self._become(State.ENDING)
        identity = self.identity
        if identity.transaction_version >= IMPLICIT_VERSION:
            self._end(False, deadline)
            return
        # InitProducerId without an epoch writes the abort's markers with the next epoch, so that late requests cannot
        # join the next transaction. It would fence another instance that took over: only while the transaction is ours.
        try:
            seen = describe_transaction(self._session, self.transactional_id, deadline=deadline)
            ours = seen and (seen.producer_id, seen.epoch) == (identity.producer_id, identity.epoch)
            if not (seen and ours and seen.state == "Ongoing"):
                self._init(identity.producer_id, identity.epoch, deadline)
                return
            taken = self._init(_NO_ID, _NO_EPOCH, deadline)
        except KafkaError as error:
            raise self._become_unknown(str(error)) from error
        # The abort, ours or the broker's, took the next epoch and we the one after it. Any other epoch means that
        # another instance took the id over after we asked, and perhaps published the same batch before we fenced it
        # (or that an answer was lost, or that epochs ran out): only progress and claims tell.
        if (taken.producer_id, taken.epoch) != (identity.producer_id, identity.epoch + 2):
            raise self._become_unknown(
                f"after epoch {identity.epoch} came {taken.epoch} of producer id {taken.producer_id}"
            )

    def _end(self, committed: bool, deadline: Deadline | None) -> None:
        identity = self.identity
        implicit = identity.transaction_version >= IMPLICIT_VERSION

        def build() -> Any:
            versions = {"min_version": 5} if implicit else {"max_version": 4}
            return EndTxnRequest(
                transactional_id=self.transactional_id,
                producer_id=identity.producer_id,
                producer_epoch=identity.epoch,
                committed=committed,
                **versions,
            )

        def check(answer: Any) -> tuple[int, int]:
            fault = fault_from_code(answer.error_code)
            if fault.action is Action.OUTCOME or fault.code in _INDEFINITE:
                raise _Indefinite(fault.name)
            check_code(answer.error_code)
            return answer.producer_id, answer.producer_epoch

        try:
            label = "committing the transaction of" if committed else "aborting the transaction of"
            producer_id, epoch = self._ask(label, build, check, deadline)
        except _Indefinite as raised:
            raise self._become_unknown(str(raised)) from None
        except KafkaError as error:  # of any type: it may answer a repeated request
            raise self._become_unknown(str(error)) from error
        except BaseException:  # interrupted
            self._become(State.UNKNOWN)
            raise
        if producer_id != _NO_ID:
            self._identity = ProducerIdentity(producer_id, epoch, identity.transaction_version)
            self._fresh = True
        self._become(State.READY)

    def leave_unknown(self, *, fenced: bool) -> None:
        """Leave :data:`State.UNKNOWN`: progress was read after :meth:`init`, or another run owns the id."""
        self._become(State.FENCED if fenced else State.READY)

    def _become_unknown(self, reason: str) -> UnknownOutcomeError:
        self._become(State.UNKNOWN)
        return UnknownOutcomeError(
            f"transactional id '{self.transactional_id}': the outcome of its transaction is not known: {reason}"
        )

    # --- requests and states ---

    def _ask(self, label: str, build: Any, check: Any, deadline: Deadline | None) -> Any:
        return self._session.ask_coordinator(
            f"{label} '{self.transactional_id}'", TRANSACTION, self.transactional_id, build, check, deadline
        )

    def _expect(self, wanted: State) -> None:
        if wanted not in _LEGAL[self.state]:
            raise KafkaError(
                f"transactional id '{self.transactional_id}' is {self.state.value} and cannot become {wanted.value}"
            )

    def _become(self, state: State) -> None:
        self._expect(state)
        self.state = state


def _check_offsets(code: int, where: str, label: str) -> None:
    fault = fault_from_code(code)
    if fault.action is Action.OUTCOME:
        raise StaleEpochError(f"{label}: {where}: {fault.name}")
    check_code(code, where, "Read")


def describe_transaction(
    session: Session, transactional_id: str, *, deadline: Deadline | None = None
) -> TransactionDescription | None:
    """The coordinator's view of a transactional id; None if it does not know the id, which proves nothing.

    Needs Describe on the transactional id. Raises KafkaError for brokers below 3.0, which do not have this request.
    """

    def check(answer: Any) -> TransactionDescription | None:
        found = answer.transaction_states[0]
        if found.error_code == _NOT_FOUND:
            return None
        check_code(found.error_code)
        partitions = tuple((topic.topic, each) for topic in found.topics for each in topic.partitions)
        return TransactionDescription(
            found.transactional_id,
            found.transaction_state,
            found.producer_id,
            found.producer_epoch,
            found.transaction_timeout_ms,
            found.transaction_start_time_ms,
            partitions,
        )

    return session.ask_coordinator(
        f"describing the transaction of '{transactional_id}'",
        TRANSACTION,
        transactional_id,
        lambda: DescribeTransactionsRequest(transactional_ids=[transactional_id]),
        check,
        deadline,
    )


def list_transactions(
    session: Session, *, producer_ids: Iterable[int] = (), deadline: Deadline | None = None
) -> dict[str, str]:
    """The states of transactional ids, from all coordinators: ids that may be described, and that have one of
    ``producer_ids``, if any are given."""
    wanted = list(producer_ids)
    found: dict[str, str] = {}

    def check(answer: Any) -> dict[str, str]:
        check_code(answer.error_code)
        return {each.transactional_id: each.transaction_state for each in answer.transaction_states}

    def build() -> Any:
        return ListTransactionsRequest(
            state_filters=[], producer_id_filters=wanted, duration_filter=-1, transactional_id_pattern=None
        )

    for node in session.brokers(deadline):
        found |= session.ask_node("listing transactions", node, build, check, deadline)
    return found


def transaction_timeout_ms(session: Session, explicit: int | None = None) -> int:
    """The time-out of transactions: the explicit one, else one hour or the brokers' maximum, else 15 minutes (rule
    "timeouts fit the brokers").

    Raises OptionsError only if an explicit value is above a known maximum.
    """
    allowed = max_transaction_timeout_ms(session)
    if explicit is None:
        return _QUARTER_MS if allowed is None else min(_HOUR_MS, allowed)
    if allowed is not None and explicit > allowed:
        reason = f"{explicit} ms is above the brokers' transaction.max.timeout.ms of {allowed} ms"
        raise OptionsError((Problem(reason, "transaction.timeout.ms", hint=f"lower it to {allowed} or less"),))
    return explicit
