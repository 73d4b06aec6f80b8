"""The committer of exactly-once Kafka sinks: one transaction per batch."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any
from uuid import UUID

from penstock.connectors.kafka.sink.acknowledgements import Acknowledged, check_counts
from penstock.connectors.kafka.sink.writer import OpenTransaction
from penstock.connectors.kafka.sink.writing_committer import WritingCommitter
from penstock.deadline import Deadline
from penstock.delivery import (
    FINISH_BATCH,
    Claim,
    Decision,
    Progress,
    Skip,
    TakeOver,
    check_ahead,
    check_stateless,
    decide,
    run_with_retries,
)
from penstock.errors import (
    AbortableError,
    AuthorizationError,
    CheckpointError,
    ExecutionError,
    FencedError,
    KafkaError,
    OptionsError,
    PossibleDataLossError,
    Problem,
    SequenceError,
    StaleEpochError,
    TransactionExpiredError,
    UnknownOutcomeError,
)
from penstock.kafka.offsets import GroupOffsets
from penstock.kafka.ownership import claim, settle, taken_over_error, write_progress
from penstock.kafka.progress import (
    ProgressTopic,
    Seal,
    encode_progress,
    ensure_progress_topic,
    read_present_progress,
    read_progress,
)
from penstock.kafka.topics import cluster_id
from penstock.kafka.transactions import State, TransactionClient, transaction_timeout_ms
from penstock.spi import Batch, CommitStatus, JobContext, Output, Published, WriteTasks


class KafkaCommitter(WritingCommitter):
    """One Kafka transaction per batch: records, progress record and group offsets become visible together, or never.

    The protocol and its rules are described in docs/exactly-once.md.
    """

    keeps_state = True

    def __init__(self, outputs: Sequence[Output], context: JobContext):
        super().__init__(outputs, context)
        prefixes = sorted({output.spec.transactional_id_prefix for output in outputs})
        self.transactional_id = f"{prefixes[0]}-{context.identity}"
        if len(prefixes) > 1:
            context.warn(
                f"sinks {', '.join(repr(output.table) for output in outputs)} are written in one transaction, as "
                f"'{self.transactional_id}'; the prefixes {', '.join(map(repr, prefixes[1:]))} are not used"
            )
        # By name and topic: generated names are numbered, and change when a sink is added or removed.
        self._tables = tuple(sorted(f"{output.table} -> {output.spec.shown_topics}" for output in outputs))
        self._topic: ProgressTopic | None = None
        self._client: TransactionClient | None = None
        self._progress: Progress | None = None
        self._known: dict[str, Any] = {}
        self._published = False
        self._shared = False
        self._refused: Counter[str] = Counter()  # batches whose offsets may not be committed, by group

    # --- ownership -------------------------------------------------------------------------------------------

    def check(self) -> None:
        """Find the transactional id and the progress topic, and raise errors that must stop a start before the id is
        taken.

        Raises CheckpointError when the query has published more than the checkpoint knows, and OptionsError when
        another group of the job's sinks writes to the same cluster.
        """
        session, context = self.session, self.context
        self.spec()
        document = f"target-{cluster_id(session)}"
        if (context.checkpoint.read(document) or {}).get("run_id") == context.run_id:
            reason = "sinks of one job write to one cluster with different addresses or credentials"
            hint = "give them (and dead letters) the same, so that they share one transaction"
            where = f"job '{context.job}', cluster {cluster_id(session)}"
            raise OptionsError((Problem(reason, where=where, hint=hint),))
        context.checkpoint.write(document, {"run_id": context.run_id})
        known = self.identity()
        found = self._find_topic(known)
        topic_id = str(found.topic_id or "")
        topic = {
            "progress_topic": found.name,
            "progress_topic_id": topic_id,
            "progress_partitions": found.partitions,
            "process": Claim.from_this_process(context.run_id).process,  # that has chosen it
        }
        if not known:
            mine = {"transactional_id": self.transactional_id, **topic}
            known = self.identity(lambda now: now or mine)  # two copies that start at once get the same
        elif known["progress_topic_id"] != topic_id:  # the user adopts that
            known = self._replace_identity(known, {**known, **topic})
        if (known["progress_topic"], known["progress_topic_id"]) != (found.name, topic_id):
            raise self._overtaken_error(known)
        self._keep(known, found)
        self._check_ahead()
        self._known = known

    def open(self) -> None:
        """Fence the former owner of the transactional id, claim it, and read what was committed under it."""
        if not self._known:
            self.check()
        self._client, self._progress = self._take_over()
        # Read after the claim: a copy that changes it later fences this run.
        self._replace_identity(self._known, self._known)

    @property
    def _adopts(self) -> bool:
        """Whether progress may be missing; this run's own may not."""
        return self.context.settings.adopt_progress and not self._published

    def _replace_identity(self, before: dict[str, Any], after: dict[str, Any]) -> dict[str, Any]:
        """Change the checkpoint's document. Raises FencedError when another copy of the job changed it first."""

        def change(now: dict[str, Any]) -> dict[str, Any]:
            if now != before:
                raise self._overtaken_error(now)
            return after

        return self.identity(change)

    def _overtaken_error(self, known: Mapping[str, Any]) -> FencedError:
        """The error of a copy that has found another progress topic than the checkpoint's document now has."""
        winner = str(known.get("process", ""))  # documents of former versions do not name it
        return FencedError(
            f"another copy of job '{self.context.job}'{winner and f', {winner},'} was started on the checkpoint "
            f"'{self.context.checkpoint.location}' with another progress topic, "
            f"'{known.get('progress_topic', '')}'; stop one of the two",
            winner,
        )

    def _find_topic(self, known: Mapping[str, Any]) -> ProgressTopic:
        """The progress topic that the checkpoint names. At the first start, and when it is lost and the user adopts
        that, the configured one."""
        session, settings = self.session, self.context.settings
        name, topic_id = known.get("progress_topic", settings.progress_topic), known.get("progress_topic_id", "")
        try:
            found = ensure_progress_topic(session, name, topic_id=UUID(topic_id) if topic_id else None)
        except CheckpointError:
            if not settings.adopt_progress or self.context.restarted:
                raise
            found = ensure_progress_topic(session, settings.progress_topic)
        for warning in found.warnings:
            self.context.warn(warning)
        return found

    def _keep(self, known: Mapping[str, Any], found: ProgressTopic) -> None:
        """Use the transactional id and the progress topic that the checkpoint knows. The id's records stay in their
        partition when the topic is enlarged (docs/decisions/0027-one-transactional-id.md)."""
        context = self.context
        kept = [
            ("transactional id", self.transactional_id, known["transactional_id"]),
            ("progress topic", context.settings.progress_topic, found.name),
        ]
        for name, configured, known_value in kept:
            if configured != known_value:
                context.warn(
                    f"the {name} stays '{known_value}', as in the checkpoint '{context.checkpoint.location}', and does "
                    f"not become '{configured}'; to change it, start the job with a new checkpoint"
                )
        self.transactional_id = known["transactional_id"]
        seal = Seal(context.query_id, context.secret, context.unsealed)
        self._topic = replace(found, partitions=known["progress_partitions"], seal=seal)

    def _check_ahead(self) -> None:
        """Raises CheckpointError when the query has published more than the checkpoint knows. This comes before the id
        is taken: the run that published it may be healthy, and would be fenced for nothing. An outdated read only finds
        less. Progress of another query proves nothing, since our own may still follow. The checkpoint is read last,
        because the healthy run writes it meanwhile."""
        context = self.context
        topic = self._require_topic()
        found = read_progress(self.session, topic, self.transactional_id).progress
        if found is not None and found.query_id == context.query_id:
            upcoming = context.next_batch()
            check_ahead(
                found, Progress.from_positions(context.query_id, upcoming.id, upcoming.start, None), topic.place
            )

    def _take_over(self) -> tuple[TransactionClient, Progress | None]:
        """Fence the former owner of the id, claim it, and read what was committed under it."""
        session, context, topic = self.session, self.context, self._require_topic()
        timeout = transaction_timeout_ms(session, self.branches[0].client.transaction_timeout_ms)
        client = TransactionClient(session, self.transactional_id, timeout)
        client.init()
        # Before progress is read: until then a former owner can take the id over again and commit a batch.
        claim(session, client, topic, context.run_id)
        read = read_present_progress(session, topic, self.transactional_id)
        for reason in read.ignored:
            context.warn(f"progress of transactional id '{self.transactional_id}': {reason}")
        return client, read.progress

    # --- batches ---------------------------------------------------------------------------------------------

    def can_commit_offsets(self, consumed: Any) -> bool:
        """Whether ``consumed`` is of a group in the same cluster, whose offsets the transaction can hold."""
        return isinstance(consumed, GroupOffsets) and consumed.cluster_id == self.session.cluster_id

    def publish(self, batch: Batch, tasks: WriteTasks) -> Published:
        """Publish and commit the batch, unless progress shows that it was committed before.

        Retries a few times when the broker aborts. Raises FencedError when another instance took over, and
        PossibleDataLossError or CheckpointError when checkpoint and progress cannot be reconciled.
        """
        progress = Progress.from_batch(self.context.query_id, batch, self._tables, tasks.state)
        decision = self._decide(progress)
        if isinstance(decision, Skip):
            self._check_tables(decision.record)
            return Published(skipped=True)
        if isinstance(decision, TakeOver):
            self.context.warn(decision.warning)
        if not tasks.computed:
            check_stateless(self.context, self._progress)
        # Before anything is sent: a record above the topic's limit raises here.
        encode_progress(self._require_topic(), self.transactional_id, progress)
        published = run_with_retries(lambda: self._attempt(batch, progress, tasks), batch.id, self.context)
        self._progress, self._published = progress, True
        return published

    def commit_status(self, batch: Batch) -> CommitStatus:
        """Whether progress has the batch, and the state that it refers to."""
        decision = self._decide(Progress.from_batch(self.context.query_id, batch, self._tables))
        if isinstance(decision, Skip):
            self._check_tables(decision.record)
            return CommitStatus(True, decision.record.state)
        if batch.id == 0:
            return CommitStatus(False, "")
        before = self._progress
        known = before is not None and (before.query_id, before.batch_id) == (self.context.query_id, batch.id - 1)
        return CommitStatus(False, before.state if before is not None and known else None)

    def state(self, upcoming: int) -> str:
        """The reference in the progress of this query, unless it is behind: the job ran without these tables then."""
        known = self._progress
        if known is None or known.query_id != self.context.query_id or known.batch_id < upcoming - 1:
            return ""
        return known.state

    def _decide(self, batch: Progress) -> Decision:
        """Whether to publish a batch. Raises FencedError, PossibleDataLossError or CheckpointError."""
        try:
            return decide(self._progress, batch, place=self._require_topic().place, adopt=self._adopts)
        except (CheckpointError, PossibleDataLossError):
            self.check_owner()  # another copy on the checkpoint explains the error better
            raise

    def _check_tables(self, published: Progress) -> None:
        """Raises CheckpointError for a batch that was published without one of the present tables, which would never
        get it."""
        missing = sorted(Counter(self._tables) - Counter(published.tables)) if published.tables else []
        if missing:
            raise CheckpointError(
                f"{published} was published into {', '.join(map(repr, published.tables))}, but not into "
                f"{', '.join(map(repr, missing))}, which the job did not write then. {FINISH_BATCH}"
            )

    def check_owner(self) -> None:
        """Raise FencedError when another run has claimed the id."""
        claimed = read_progress(self.session, self._require_topic(), self.transactional_id).latest_claim
        if claimed is not None and claimed.run_id != self.context.run_id:
            raise taken_over_error(self.transactional_id, claimed)

    def _attempt(self, batch: Batch, progress: Progress, tasks: WriteTasks) -> Published:
        """One transaction. After a retriable error nothing of it is published or open, and the batch may be retried.
        Raises UnknownOutcomeError when its outcome is not known; nothing may be published after that."""
        client, topic = self._require_open()
        done = Acknowledged()
        recorded: dict[int, bool] = {}
        try:
            transaction = OpenTransaction(self.transactional_id, client.begin())
            done = self._write(batch, tasks, transaction)
            write_progress(self.session, client, topic, progress)
            recorded = self._add_offsets(batch)
            client.commit()
        except BaseException as error:
            if not self._end_transaction(progress, error) or not isinstance(error, Exception):
                raise
        return Published(self.count_written(done), consumed=recorded)

    def _end_transaction(self, batch: Progress, reason: BaseException) -> bool:
        """End the transaction that ``reason`` has interrupted, or find out how it ended. Returns whether it was
        committed. If it was not, nothing of it is left open (unless the job is being stopped and the abort got no
        answer).

        Raises FencedError when another instance has taken over, TransactionExpiredError when it was open for too long,
        and UnknownOutcomeError.
        """
        client, _ = self._require_open()
        committed, seconds = False, client.open_seconds
        if client.state in {State.OPEN, State.FAILED}:
            try:
                client.abort()
            except UnknownOutcomeError as failure:
                if self.context.stopping() and not client.commit_asked:
                    self.context.warn(
                        f"the transaction of batch {batch.batch_id} is left open until its time-out: {failure}"
                    )
                    return False
                committed = self._find_outcome(batch, reason)
        elif client.state is State.UNKNOWN:
            committed = self._find_outcome(batch, reason)
        unknown = isinstance(reason, UnknownOutcomeError)
        if committed or not (unknown or (isinstance(reason, ExecutionError) and reason.retriable)):
            return committed
        if seconds * 1000 >= client.timeout_ms:
            raise TransactionExpiredError(
                f"batch {batch.batch_id}: its transaction was open for {seconds:.1f} s, and the brokers abort those "
                f"open for longer than transaction.timeout.ms, which is {client.timeout_ms}; nothing of it was "
                "published. Raise 'properties.transaction.timeout.ms' of the sink, or make batches smaller with "
                f"'scan.max-records-per-trigger'. The first symptom was: {reason}"
            ) from reason
        if isinstance(reason, StaleEpochError):
            raise AbortableError(
                f"{reason}: the brokers aborted the transaction after {seconds:.1f} s, before its time-out; did "
                "somebody abort it by hand? Nothing of it was published"
            ) from reason
        if unknown:
            raise AbortableError(
                f"the brokers now confirm that batch {batch.batch_id} was not committed: {reason}"
            ) from reason
        return False

    def _find_outcome(self, batch: Progress, reason: BaseException) -> bool:
        """Whether a batch was committed. Asks until it is known. Raises UnknownOutcomeError when that takes too long or
        the job is being stopped."""
        session, context = self.session, self.context
        client, topic = self._require_open()
        patience, backoff = Deadline.after(session.config.delivery_timeout_ms), session.backoff()
        while True:
            try:
                return settle(session, client, topic, batch, context.run_id, adopt=self._adopts)
            except KafkaError as error:
                if not error.retriable or patience.passed or context.stopping():
                    unknown = UnknownOutcomeError(
                        f"whether batch {batch.batch_id} was committed is not known: {error}. Nothing was published "
                        f"since; start the job again when the brokers answer, and it will find out ({reason})"
                    )
                    if context.stopping():  # the failure of a job that is being stopped is not reported
                        context.warn(str(unknown))
                    raise unknown from error
                context.warn(f"whether batch {batch.batch_id} was committed is not known yet: {error}")
            time.sleep(backoff.next())

    def _write(self, batch: Batch, tasks: WriteTasks, transaction: OpenTransaction) -> Acknowledged:
        if not batch.tasks:
            return Acknowledged()
        self.spec()  # raises for topics that are gone, and notices new ones
        by_owners = self._shared or not self.one_writer_each(batch.tasks)
        try:
            done = self.collect(tasks, by_owners=by_owners, transaction=transaction)
        except SequenceError:
            self._shared = True  # two writers of one partition may cause this before they can be counted
            raise
        self.check_topics(done)
        if done.doubt:
            raise AbortableError(done.doubt)
        if not done.one_writer:
            self._shared = True  # tasks and driver know different numbers of partitions; owners do not depend on that
            raise AbortableError(
                f"batch {batch.id}: two tasks wrote to one partition; did the topic get more partitions? A retry has "
                "one writer for each partition; if that fails too, start the job again"
            )
        check_counts(done, batch)
        if not done.whole:
            raise AbortableError(
                f"batch {batch.id}: the acknowledged sequences are not the sent ones; look in Spark's log "
                "for tasks that ran twice"
            )
        return done

    def _add_offsets(self, batch: Batch) -> dict[int, bool]:
        client, _ = self._require_open()
        recorded: dict[int, bool] = {}
        for number, consumed in enumerate(batch.consumed):
            if not self.can_commit_offsets(consumed):
                continue
            recorded[number] = True
            try:
                client.add_offsets(consumed.group, consumed.offsets)
            except AuthorizationError as error:
                recorded[number] = False
                self._refused[consumed.group] += 1
                if self._refused[consumed.group] == 1:
                    self.context.warn(f"offsets of group '{consumed.group}' are not committed: {error}")
        return recorded

    def close(self) -> None:
        """Report offsets that were not committed. No transaction is open: ``publish`` ends those that it begins."""
        for group, batches in self._refused.items():
            self.context.warn(f"offsets of group '{group}' were not committed in {batches} batch(es)")
        self._refused.clear()

    def _require_open(self) -> tuple[TransactionClient, ProgressTopic]:
        if self._client is None:
            raise ExecutionError("the committer was not opened")
        return self._client, self._require_topic()

    def _require_topic(self) -> ProgressTopic:
        if self._topic is None:
            raise ExecutionError("the committer was not opened")
        return self._topic
