"""Owning a transactional id: claims, progress in a transaction, and the outcome of a transaction."""

from __future__ import annotations

import contextlib
import time

from penstock.deadline import Deadline
from penstock.delivery import Claim, Progress, Skip, decide
from penstock.errors import (
    AbortableError,
    CheckpointError,
    FencedError,
    RetriableError,
    UnclaimedIdError,
    UnknownOutcomeError,
)
from penstock.kafka.fetch import Fetcher, Range
from penstock.kafka.produce import IMPLICIT_VERSION, Ack, Producer, ProducerIdentity
from penstock.kafka.progress.reading import ProgressRead, read_present_progress, read_progress
from penstock.kafka.progress.topic import ProgressTopic, encode_progress
from penstock.kafka.properties import READ_UNCOMMITTED
from penstock.kafka.session import Session
from penstock.kafka.transactions import State, TransactionClient, TransactionDescription, describe_transaction

_LAST_EPOCHS = 32_760
_CLAIM_ATTEMPTS = 3
#: How long a fenced run waits for the claim of the run that fenced it.
_CLAIM_SECONDS = 2.0


def claim(session: Session, client: TransactionClient, topic: ProgressTopic, run_id: str) -> Claim:
    """Commit a claim in a separate transaction, so that a fenced run can name the winner (rule "fence, claim, then
    read").

    If the broker aborts the claim, it is written again. Raises FencedError, which names the winner, if another run has
    taken the id over, and AuthorizationError if progress may be written but not read.
    """
    deadline = session.deadline()
    mine, since = Claim.from_this_process(run_id), client.identity
    failure: Exception | None = None
    for _ in range(_CLAIM_ATTEMPTS):
        try:
            client.begin(deadline)
            written = write_progress(session, client, topic, mine, deadline=deadline)
            client.commit(deadline)
            _check_readable(session, topic, written)
            return mine
        except (AbortableError, UnknownOutcomeError) as error:
            failure = error
        if client.state is not State.UNKNOWN:
            with contextlib.suppress(UnknownOutcomeError):
                client.abort(deadline)
        if client.state is State.UNKNOWN:
            found = _retake(session, client, topic, run_id, since, deadline).claim
            client.leave_unknown(fenced=False)
            if found == mine:
                return mine
    raise RetriableError(
        f"transactional id '{client.transactional_id}' cannot be claimed: {failure}; look in the brokers' logs for "
        "why, and start the job again"
    ) from failure


def write_progress(
    session: Session,
    client: TransactionClient,
    topic: ProgressTopic,
    entry: Progress | Claim,
    *,
    deadline: Deadline | None = None,
) -> Ack:
    """Write ``entry`` to the progress topic as part of the client's open transaction, and wait for the brokers."""
    with Producer(session, client.identity, transactional_id=client.transactional_id) as producer:
        producer.submit(topic.name, *encode_progress(topic, client.transactional_id, entry))
        producer.flush(deadline)
        (ack,) = producer.acks()
    return ack


def _check_readable(session: Session, topic: ProgressTopic, written: Ack) -> None:
    """Read a record back. An empty topic needs no right to read: without this, a first run would publish, and only the
    second one would fail."""
    if written.base_offset >= 0:  # a repetition is acknowledged without an offset
        readable = Range(topic.name, written.partition, written.base_offset, written.base_offset + 1, topic.topic_id)
        for _ in Fetcher(session, [readable], isolation=READ_UNCOMMITTED):
            pass


def settle(
    session: Session,
    client: TransactionClient,
    topic: ProgressTopic,
    batch: Progress,
    run_id: str,
    *,
    adopt: bool = False,
    deadline: Deadline | None = None,
) -> bool:
    """Whether ``batch`` was committed, if its transaction had no definite end (rule "outcomes are never guessed"). If
    not, nothing of it was published.

    Reads progress after InitProducerId; only then the client is ready for the next transaction. After an error the
    outcome is still unknown, except for FencedError, which names the winner if another run owns the id, and the errors
    of :func:`decide`. After RetriableError it may be called again. Without ``deadline`` each step has
    ``default.api.timeout.ms``.
    """
    read = _retake(session, client, topic, run_id, None, deadline)
    progress = read.progress
    if progress and progress.batch_id > batch.batch_id and progress.query_id == batch.query_id:
        client.leave_unknown(fenced=True)
        raise FencedError(
            f"transactional id '{client.transactional_id}' has published batch {progress.batch_id} of query "
            f"'{progress.query_id}' meanwhile, so another instance of the job runs or has run; stop one of the two"
        )
    decision = decide(progress, batch, place=topic.place, adopt=adopt)
    if not isinstance(decision, Skip) and (read.claim is None or read.claim.run_id != run_id):
        raise CheckpointError(
            f"whether {batch} was published is not known: topic '{topic.name}' does not hold the claim of this run any "
            "more, so it has lost records, perhaps also the progress of this batch. Check the topic; before you start "
            "the job again, check which records of the batch are in the output"
        )
    client.leave_unknown(fenced=False)
    return isinstance(decision, Skip)


def _retake(
    session: Session,
    client: TransactionClient,
    topic: ProgressTopic,
    run_id: str,
    since: ProducerIdentity | None,
    deadline: Deadline | None,
) -> ProgressRead:
    """Take the id over again after a transaction without a definite end, unless it has another owner by now. Returns
    the progress after that, which is definite. For ``since`` see :func:`_find_winner`.

    The client's state stays unknown, except after FencedError, which names the winner. The winner is not disturbed,
    unless it takes the id over at the same moment.
    """
    name, lost = client.transactional_id, client.identity
    patience, backoff = None, session.backoff()
    while True:
        # The order matters: a run that has committed when the coordinator is asked has its claim in the log that is
        # read afterwards.
        seen = describe_transaction(session, name, deadline=deadline)
        read = read_progress(session, topic, name, deadline=deadline)
        _check_winner(client, _find_winner(read, run_id, since, seen.producer_id if seen else lost.producer_id))
        # An InitProducerId of ours without an answer looks like another run's when it arrives: then only claims decide.
        if client.init_lost or not (seen and _is_taken_over(seen, lost, committing=client.commit_asked)):
            break
        patience = patience or Deadline.after(_CLAIM_SECONDS * 1000)
        if patience.passed:  # until then it may still write its claim
            read = read_present_progress(session, topic, name, deadline=deadline)
            _check_winner(client, _find_winner(read, run_id, since, seen.producer_id))
            client.leave_unknown(fenced=True)
            former = read.latest_claim
            known = f" ({former})" if former and former.run_id != run_id else ""
            raise UnclaimedIdError(
                f"transactional id '{name}' was taken over by a producer that left no claim (producer id "
                f"{seen.producer_id}, epoch {seen.epoch}): another client with this transactional id, or the job's "
                f"former run{known}, if it still runs or a request of it arrived late. Look for another client; if "
                "there is none, start the job again"
            )
        time.sleep(backoff.next())
    # No other run owns it. Taking a new epoch ends an open transaction, and only then progress is definite.
    owned = client.init(deadline)
    read = read_present_progress(session, topic, name, deadline=deadline)
    winner = _find_winner(read, run_id, since, owned.producer_id)
    if winner is not None:
        # A copy intervened and may have published; now both are fenced, and both stop.
        client.leave_unknown(fenced=True)
        raise FencedError(
            f"transactional id '{name}' was taken over by {winner} while the outcome of a transaction was looked up, "
            "and taken back; both runs stop: start one of the two again",
            winner.process,
        )
    return read


def _check_winner(client: TransactionClient, winner: Claim | None) -> None:
    if winner is not None:
        client.leave_unknown(fenced=True)
        raise taken_over_error(client.transactional_id, winner)


def taken_over_error(transactional_id: str, winner: Claim) -> FencedError:
    """The error of a run whose id another run has claimed."""
    return FencedError(
        f"transactional id '{transactional_id}' was taken over by {winner}, which continues the job; this copy ends",
        winner.process,
    )


def _find_winner(read: ProgressRead, run_id: str, since: ProducerIdentity | None, producer_id: int) -> Claim | None:
    """The claim of another run than ``run_id`` that took the id over after us.

    ``since`` is None once our own claim is committed: then a later claim is always a winner's. Before that, the latest
    claim may be a former owner's: its epoch is not above ``since``, the one of our takeover, or its producer id is
    neither that one's nor ``producer_id``, the coordinator's present one.
    """
    claim, by = read.latest_claim, read.latest_claimant
    if claim is None or by is None or claim.run_id == run_id:
        return None
    if since is None:
        return claim
    later = by.epoch > since.epoch if by.producer_id == since.producer_id else by.producer_id == producer_id
    return claim if later else None


def _is_taken_over(seen: TransactionDescription, lost: ProducerIdentity, *, committing: bool) -> bool:
    """Whether the coordinator's state comes from another client. ``committing``: we have asked for a commit.

    Our own commit and the broker's time-out leave the epoch unchanged or one higher, with a transaction that is being
    ended or has ended. InitProducerId by another client leaves it two higher, or one higher with nothing ended. Below
    transaction.version 2 our own commit never leaves it higher.
    """
    if lost.epoch >= _LAST_EPOCHS:
        return False  # the coordinator changes the producer id itself when epochs run out
    if seen.producer_id != lost.producer_id or seen.epoch > lost.epoch + 1:
        return True
    theirs = {"Empty", "Ongoing"}
    if not committing or lost.transaction_version < IMPLICIT_VERSION:
        theirs |= {"PrepareCommit", "CompleteCommit"}
    return seen.epoch == lost.epoch + 1 and seen.state in theirs
