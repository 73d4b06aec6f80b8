"""The driver's side of a Kafka transaction: owning a transactional id, beginning and ending transactions.

A state machine without guessing: an end whose outcome the broker did not say leaves the client in
:data:`State.UNKNOWN`, and only what the progress topic holds leads out of it (rule 16 of exactly-once delivery,
:func:`penstock.kafka.progress.settle`). Taking the id again does not: until progress was read, no transaction begins.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from itertools import groupby
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
from penstock.kafka.faults import Action, Fault, KafkaFault, fault_of
from penstock.kafka.offsets import CommittedOffset, is_gone
from penstock.kafka.produce import IMPLICIT_VERSION, ProducerIdentity
from penstock.kafka.session import GROUP, TRANSACTION, Session, TopicPartition
from penstock.kafka.topics import max_transaction_timeout_ms, transaction_version

_HOUR_MS, _QUARTER_MS = 3_600_000, 900_000
_NO_ID, _NO_EPOCH = -1, -1
# Answers to EndTxn that do not say whether the transaction was committed.
_INDEFINITE = {48, 49}  # INVALID_TXN_STATE, INVALID_PRODUCER_ID_MAPPING
_NOT_FOUND = 105


class State(Enum):
    """Where a client stands."""

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
    """What the coordinator says about a transactional id: state as Kafka names it, times in ms (-1: none)."""

    transactional_id: str
    state: str
    producer_id: int
    epoch: int
    timeout_ms: int
    started_ms: int
    partitions: tuple[TopicPartition, ...]


class _Indefinite(Exception):
    """An answer that leaves the outcome open."""


class TransactionClient:
    """Owns one transactional id. For one thread.

    Start: :meth:`init`. Each batch: :meth:`begin`, produce with :attr:`identity`, perhaps :meth:`add_offsets`, then
    :meth:`commit` or :meth:`abort`. After UnknownOutcomeError nothing but :func:`penstock.kafka.progress.settle`, which
    takes the id again and reads progress, makes the client ready for the next transaction.
    """

    def __init__(self, session: Session, transactional_id: str, timeout_ms: int | None = None):
        """``timeout_ms`` is the transaction's; by default what :func:`transaction_timeout_ms` finds."""
        self.transactional_id = transactional_id
        self.state = State.NEW
        self._session = session
        self._timeout_ms = timeout_ms or transaction_timeout_ms(session, session.config.transaction_timeout_ms)
        self._identity: ProducerIdentity | None = None
        self._fresh = False
        self._begun = time.monotonic()
        #: Whether the present transaction may have been committed by us.
        self.commit_asked = False
        self._inits_unanswered = 0

    @property
    def timeout_ms(self) -> int:
        """How long a transaction may be open."""
        return self._timeout_ms

    @property
    def open_seconds(self) -> float:
        """How long ago the last transaction was begun."""
        return time.monotonic() - self._begun

    @property
    def init_lost(self) -> bool:
        """Whether an InitProducerId of ours had no answer, so that one may still arrive and raise the epoch."""
        return self._inits_unanswered > 0

    @property
    def identity(self) -> ProducerIdentity:
        """The producer id and epoch to produce with."""
        if self._identity is None:
            raise KafkaError(f"transactional id '{self.transactional_id}' is not owned yet; call init() first")
        return self._identity

    # --- owning the id ---

    def init(self, deadline: Deadline | None = None) -> ProducerIdentity:
        """Take the id over, whoever has it: fences the former owner and aborts what it left open (rule 3).

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
                transaction_timeout_ms=self._timeout_ms,
                producer_id=producer_id,
                producer_epoch=epoch,
                max_version=5,  # the next one is about two-phase commit
            )

        def check(answer: Any) -> ProducerIdentity:
            self._inits_unanswered -= 1
            fault = fault_of(answer.error_code)
            if fault.action is Action.OUTCOME and producer_id != _NO_ID:
                raise _Indefinite(fault.name)
            if fault.action is not Action.NONE:
                raise KafkaFault(fault)
            return ProducerIdentity(answer.producer_id, answer.producer_epoch, version)

        try:
            self._identity = self._ask("taking over transactional id", build, check, deadline)
        except _Indefinite as raised:
            raise self._unknown(str(raised)) from None
        except KafkaError:  # what a coordinator could not finish in time may be done all the same
            self._inits_unanswered += 1
            raise
        if producer_id not in {_NO_ID, self._identity.producer_id}:
            # The brokers have forgotten the id, and who had it since (rule 18), or its epochs ran out.
            raise self._unknown(f"after producer id {producer_id} came {self._identity.producer_id}")
        self._become(State.UNKNOWN if self.state is State.UNKNOWN else State.READY)
        self._fresh = True
        return self._identity

    def begin(self, deadline: Deadline | None = None) -> ProducerIdentity:
        """Begin a transaction: the identity that the batch is produced with, its sequences starting at 0 (rule 14).

        Raises UnknownOutcomeError when the id is not ours any more.
        """
        self._expect(State.OPEN)
        self.commit_asked = False
        self._begun = time.monotonic()
        version = transaction_version(self._session, deadline=deadline)
        if not self._fresh:
            # With our own id and epoch this fails where another instance took over, instead of fencing it in turn.
            self._init(self.identity.producer_id, self.identity.epoch, deadline)
        self._identity = ProducerIdentity(self.identity.producer_id, self.identity.epoch, version)
        self._become(State.OPEN)
        self._fresh = False
        return self._identity

    # --- offsets ---

    def add_offsets(
        self, group: str, offsets: Mapping[TopicPartition, CommittedOffset], deadline: Deadline | None = None
    ) -> None:
        """Commit a group's offsets as part of the transaction, without those of partitions that exist no more.

        Raises AbortableError also where the outcome is not known, and AuthorizationError, after which the
        transaction may still be committed (rule 20).
        """
        self._expect(State.ENDING)
        deadline = deadline or self._session.deadline()
        identity = self.identity
        implicit = identity.transaction_version >= IMPLICIT_VERSION
        what = f"adding the offsets of group '{group}' to the transaction"

        def check_added(answer: Any) -> None:
            self._check_offsets(answer.error_code, f"group '{group}'", what)

        def check(answer: Any) -> None:
            for topic in answer.topics:
                for each in topic.partitions:
                    if is_gone(self._session, (topic.name, each.partition_index), each.error_code, deadline):
                        continue
                    where = f"topic '{topic.name}', partition {each.partition_index}"
                    self._check_offsets(each.error_code, where, what)

        try:
            if not implicit:
                self._ask(what + " of transactional id", lambda: self._add_group(group), check_added, deadline)
            self._session.ask_coordinator(
                what, GROUP, group, lambda: self._offsets_request(group, offsets, implicit), check, deadline
            )
        except RetriableError as error:
            self._become(State.FAILED)
            raise AbortableError(str(error)) from error
        except AbortableError:
            self._become(State.FAILED)
            raise

    def _check_offsets(self, code: int, where: str, what: str) -> None:
        fault = fault_of(code)
        if fault.action is Action.OUTCOME:
            raise StaleEpochError(f"{what}: {where}: {fault.name}")
        if fault.action is not Action.NONE:
            raise KafkaFault(fault.lacking("Read"), where)

    def _add_group(self, group: str) -> Any:
        return AddOffsetsToTxnRequest(
            transactional_id=self.transactional_id,
            producer_id=self.identity.producer_id,
            producer_epoch=self.identity.epoch,
            group_id=group,
            max_version=3,
        )

    def _offsets_request(self, group: str, offsets: Mapping[TopicPartition, CommittedOffset], implicit: bool) -> Any:
        Topic = TxnOffsetCommitRequest.TxnOffsetCommitRequestTopic
        topics = [
            Topic(
                name=name,
                partitions=[
                    Topic.TxnOffsetCommitRequestPartition(
                        partition_index=partition,
                        committed_offset=offset.offset,
                        committed_leader_epoch=offset.leader_epoch,
                        committed_metadata=offset.metadata,
                    )
                    for (_, partition), offset in members
                ],
            )
            for name, members in groupby(sorted(offsets.items(), key=lambda each: each[0]), lambda each: each[0][0])
        ]
        versions = {"min_version": 5} if implicit else {"max_version": 4}
        return TxnOffsetCommitRequest(
            transactional_id=self.transactional_id,
            group_id=group,
            producer_id=self.identity.producer_id,
            producer_epoch=self.identity.epoch,
            generation_id=-1,
            member_id="",
            group_instance_id=None,
            topics=topics,
            **versions,
        )

    # --- ending ---

    def commit(self, deadline: Deadline | None = None) -> None:
        """End the transaction with a commit, asking until the answer is definite (rule 16).

        Raises UnknownOutcomeError when it is not: an answer may have been lost before one that refuses.
        """
        self._expect(State.ENDING)
        if self.state is State.FAILED:
            raise KafkaError(f"transaction of '{self.transactional_id}' has failed and can only be aborted")
        self._become(State.ENDING)
        self.commit_asked = True
        self._end(True, deadline)

    def abort(self, deadline: Deadline | None = None) -> None:
        """End the transaction with an abort; below transaction.version 2 by taking a new epoch (rule 15), for which
        brokers must be 3.0 or later.

        Raises UnknownOutcomeError when the id is not ours any more, the broker aborted the transaction by itself, or
        no definite answer came.
        """
        self._expect(State.ENDING)
        self._become(State.ENDING)
        identity = self.identity
        if identity.transaction_version >= IMPLICIT_VERSION:
            self._end(False, deadline)
            return
        # InitProducerId without an epoch writes the abort's markers with the next epoch, so that what is still on its
        # way cannot join the next transaction. It would fence whoever took over: only while the transaction is ours.
        try:
            seen = describe_transaction(self._session, self.transactional_id, deadline=deadline)
            ours = seen and (seen.producer_id, seen.epoch) == (identity.producer_id, identity.epoch)
            if not (seen and ours and seen.state == "Ongoing"):
                self._init(identity.producer_id, identity.epoch, deadline)
                return
            taken = self._init(_NO_ID, _NO_EPOCH, deadline)
        except KafkaError as error:
            raise self._unknown(str(error)) from error
        # The abort, ours or the broker's, took the next epoch and we the one after it. Any other says that somebody
        # took the id over after we asked, and perhaps published the same batch before we fenced it (or that an answer
        # was lost, or that epochs ran out): only progress and claims tell.
        if (taken.producer_id, taken.epoch) != (identity.producer_id, identity.epoch + 2):
            raise self._unknown(f"after epoch {identity.epoch} came {taken.epoch} of producer id {taken.producer_id}")

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
            fault = fault_of(answer.error_code)
            if fault.action is Action.OUTCOME or fault.code in _INDEFINITE:
                raise _Indefinite(fault.name)
            if fault.action is not Action.NONE:
                raise KafkaFault(fault)
            return answer.producer_id, answer.producer_epoch

        try:
            what = "committing the transaction of" if committed else "aborting the transaction of"
            producer_id, epoch = self._ask(what, build, check, deadline)
        except _Indefinite as raised:
            raise self._unknown(str(raised)) from None
        except KafkaError as error:  # whatever it says: it may be the answer to a repetition
            raise self._unknown(str(error)) from error
        except BaseException:  # interrupted
            self._become(State.UNKNOWN)
            raise
        if producer_id != _NO_ID:
            self._identity = ProducerIdentity(producer_id, epoch, identity.transaction_version)
            self._fresh = True
        self._become(State.READY)

    def settled(self, *, fenced: bool) -> None:
        """Leave :data:`State.UNKNOWN`: progress was read after :meth:`init`, or the id has another owner."""
        self._become(State.FENCED if fenced else State.READY)

    def _unknown(self, reason: str) -> UnknownOutcomeError:
        self._become(State.UNKNOWN)
        return UnknownOutcomeError(
            f"transactional id '{self.transactional_id}': the outcome of its transaction is not known: {reason}"
        )

    # --- helpers of all of them ---

    def _ask(self, what: str, build: Any, check: Any, deadline: Deadline | None) -> Any:
        return self._session.ask_coordinator(
            f"{what} '{self.transactional_id}'", TRANSACTION, self.transactional_id, build, check, deadline
        )

    def _expect(self, wanted: State) -> None:
        if wanted not in _LEGAL[self.state]:
            raise KafkaError(
                f"transactional id '{self.transactional_id}' is {self.state.value} and cannot become {wanted.value}"
            )

    def _become(self, state: State) -> None:
        self._expect(state)
        self.state = state


def describe_transaction(
    session: Session, transactional_id: str, *, deadline: Deadline | None = None
) -> TransactionDescription | None:
    """What the coordinator knows about a transactional id; None where it knows nothing, which proves nothing.

    Needs Describe on the transactional id. Brokers below 3.0 cannot be asked: KafkaError.
    """

    def check(answer: Any) -> TransactionDescription | None:
        found = answer.transaction_states[0]
        fault: Fault = fault_of(found.error_code)
        if fault.code == _NOT_FOUND:
            return None
        if fault.action is not Action.NONE:
            raise KafkaFault(fault)
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
    """Transactional id to state, over all coordinators; those that may be described, and that have one of
    ``producer_ids`` where some are given."""
    wanted = list(producer_ids)
    found: dict[str, str] = {}

    def check(answer: Any) -> dict[str, str]:
        fault = fault_of(answer.error_code)
        if fault.action is not Action.NONE:
            raise KafkaFault(fault)
        return {each.transactional_id: each.transaction_state for each in answer.transaction_states}

    def build() -> Any:
        return ListTransactionsRequest(
            state_filters=[], producer_id_filters=wanted, duration_filter=-1, transactional_id_pattern=None
        )

    for node in session.brokers(deadline):
        found |= session.ask_node("listing transactions", node, build, check, deadline)
    return found


def transaction_timeout_ms(session: Session, explicit: int | None = None, *, deadline: Deadline | None = None) -> int:
    """The time-out for transactions: as given, else one hour or the brokers' maximum, else 15 minutes (rule 19).

    Raises OptionsError only for an explicit value above a maximum that is known.
    """
    allowed = max_transaction_timeout_ms(session, deadline=deadline)
    if explicit is None:
        return _QUARTER_MS if allowed is None else min(_HOUR_MS, allowed)
    if allowed is not None and explicit > allowed:
        reason = f"{explicit} ms are more than the brokers' transaction.max.timeout.ms of {allowed} ms"
        raise OptionsError((Problem(reason, "transaction.timeout.ms", hint=f"lower it to {allowed} or less"),))
    return explicit
