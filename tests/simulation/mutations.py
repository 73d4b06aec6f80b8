"""Safeguards taken out of the code, one at a time: what the walks must notice."""

from __future__ import annotations

import contextlib
import itertools
import random
from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from typing import Any
from unittest import mock

from penstock import delivery
from penstock.connectors.kafka.sink import committer
from penstock.connectors.kafka.sink.acknowledgements import Acknowledged
from penstock.connectors.kafka.sink.committer import KafkaCommitter
from penstock.connectors.kafka.sink.writing_committer import WritingCommitter
from penstock.deadline import Deadline
from penstock.delivery import Publish
from penstock.errors import RetriableError
from penstock.kafka import ownership, progress
from penstock.kafka.offsets import CommittedOffset, commit_offsets
from penstock.kafka.partitions import TopicPartition
from penstock.kafka.produce import Ack, Producer
from penstock.kafka.progress import records
from penstock.kafka.session import Session
from penstock.kafka.transactions import State, TransactionClient
from penstock.spi import Batch, CommitStatus
from tests.simulation import driver
from tests.simulation.faults import Fault, Plan, Rule, TaskFault, random_plan
from tests.simulation.setting import Company, Setting, random_setting
from tests.simulation.walk import Found, walk

__all__ = ["MUTATIONS", "Mutation"]

Patch = tuple[Any, str, Any]


@dataclass(frozen=True)
class Mutation:
    """A safeguard that is missing, one of those of a ``rule``.

    ``patches`` gives what stands in its place: object, attribute, value. ``trouble``: the faults that the safeguard is
    for, which half of the walks meet besides what their seeds draw, in the setting that ``within`` makes of theirs;
    without them many more walks would be needed.
    """

    name: str
    rule: str
    patches: Callable[[], Sequence[Patch]]
    trouble: tuple[Rule, ...] = ()
    tasks: tuple[tuple[int, TaskFault], ...] = ()
    within: Callable[[Setting], Setting] = lambda made: made

    def walk(self, seed: int, *, stateful: bool | None = None) -> Found:
        """The walk of a seed, without the safeguard. ``stateful``: whether the job keeps a state, whatever is drawn."""
        with contextlib.ExitStack() as stack:
            for owner, name, value in self.patches():
                stack.enter_context(mock.patch.object(owner, name, value))
            return self.walk_with_it(seed, stateful=stateful)

    def walk_with_it(self, seed: int, *, stateful: bool | None = None) -> Found:
        """The same walk, with the safeguard where it belongs."""
        rng = random.Random(seed)
        setting = random_setting(rng)
        plan = random_plan(rng, interrupted=setting.wide)
        if seed % 2:
            ours, setting = len(self.trouble), self.within(setting)
            rules = [replace(each, after=None if each.after is None else each.after + ours) for each in plan.rules]
            plan = Plan([*deepcopy(self.trouble), *rules], tasks=self.tasks, rng=rng)
        return walk(seed, setting=setting, plan=plan, stateful=stateful)


def _progress_ignored() -> Sequence[Patch]:
    return [(committer, "decide", lambda *_, **__: Publish())]


def _settle_skipped() -> Sequence[Patch]:
    """A commit without an answer is taken for done."""
    return [(KafkaCommitter, "_find_outcome", lambda *_: True)]


def _settle_taken_for_aborted() -> Sequence[Patch]:
    """A commit without an answer is taken for an abort, whatever progress says."""
    settle = committer.settle

    def aborted(*args: Any, **kwargs: Any) -> bool:
        settle(*args, **kwargs)
        return False

    return [(committer, "settle", aborted)]


def _unread_progress_taken_for_aborted() -> Sequence[Patch]:
    """A batch is retried when the id was taken again, though progress could not be read."""
    settle = committer.settle

    def aborted(session: Session, client: TransactionClient, *args: Any, **kwargs: Any) -> bool:
        before = client.identity
        try:
            return settle(session, client, *args, **kwargs)
        except RetriableError:
            if client.identity == before:
                raise
            client.leave_unknown(fenced=False)
            return False

    return [(committer, "settle", aborted)]


def _any_read_believed() -> Sequence[Patch]:
    """Progress is believed of whoever answers, a broker that is cut off from the others too."""
    return [(module, "read_present_progress", progress.read_progress) for module in (ownership, committer)]


def _seal_unchecked() -> Sequence[Patch]:
    """Whatever looks like this query's progress is believed."""
    return [(records.hmac, "compare_digest", lambda *_: True)]


def _topics_unchecked() -> Sequence[Patch]:
    """Rows may go anywhere, to the partition of the progress record too, whose repetition the record then is."""
    return [(WritingCommitter, "check_topics", lambda *_: None)]


def _fencing_skipped() -> Sequence[Patch]:
    """Each start has a transactional id of its own, and fences nobody; progress stays under the checkpoint's id."""
    numbers = itertools.count()
    keep, key, seal = KafkaCommitter._keep, records.record_key, records.Seal.sign

    def shared(name: str) -> str:
        return name.partition("#")[0]

    def keep_own(self: Any, *args: Any) -> None:
        keep(self, *args)
        self.transactional_id += f"#{next(numbers)}"

    def key_of_all(name: str, record: Any) -> bytes:
        return key(shared(name) if record is delivery.Progress else name, record)

    def seal_of_all(self: Any, name: str, fields: Mapping[str, Any]) -> str:
        return seal(self, shared(name), fields)

    return [
        (KafkaCommitter, "_keep", keep_own),
        (records, "record_key", key_of_all),
        (records.Seal, "sign", seal_of_all),
    ]


def _abort_without_epoch() -> Sequence[Patch]:
    """Below transaction.version 2 a transaction is aborted as it is committed, and the next one has its epoch."""

    def abort(self: Any, deadline: Deadline | None = None) -> None:
        self._expect(State.ENDING)
        self._become(State.ENDING)
        self._end(False, deadline)
        self._fresh = True

    return [(TransactionClient, "abort", abort)]


def _offsets_outside() -> Sequence[Patch]:
    def add(
        self: Any, group: str, offsets: Mapping[TopicPartition, CommittedOffset], deadline: Deadline | None = None
    ) -> None:
        commit_offsets(self._session, group, offsets, deadline=deadline)

    return [(TransactionClient, "add_offsets", add)]


def _progress_outside() -> Sequence[Patch]:
    def record(session: Session, client: Any, topic: Any, what: Any, *, deadline: Deadline | None = None) -> Ack:
        with Producer(session) as producer:
            producer.submit(topic.name, *progress.encode_progress(topic, client.transactional_id, what))
            producer.flush(deadline)
            (ack,) = producer.acks()
        return ack

    return [(committer, "write_progress", record)]


def _counts_unchecked() -> Sequence[Patch]:
    return [(committer, "check_counts", lambda *_: None)]


def _one_writer_always() -> Sequence[Patch]:
    """Every task publishes what it encodes, and nobody looks whether two wrote to one partition."""
    collect = WritingCommitter.collect

    def claimed(*args: Any, **kwargs: Any) -> Acknowledged:
        return replace(collect(*args, **kwargs), one_writer=True)

    return [(WritingCommitter, "one_writer_each", lambda *_: True), (WritingCommitter, "collect", claimed)]


def _id_of_each_prefix() -> Sequence[Patch]:
    """The transactional id changes with the prefix, though the checkpoint knows another."""
    kept = KafkaCommitter._keep

    def keep(self: Any, known: Mapping[str, Any], found: Any) -> None:
        kept(self, {**known, "transactional_id": self.transactional_id}, found)

    return [(KafkaCommitter, "_keep", keep)]


def _partition_of_today() -> Sequence[Patch]:
    """The records of an id go to another partition when the progress topic is enlarged."""
    kept = KafkaCommitter._keep

    def keep(self: Any, known: Mapping[str, Any], found: Any) -> None:
        kept(self, {**known, "progress_partitions": found.partitions}, found)

    return [(KafkaCommitter, "_keep", keep)]


def _partition_of_another_topic() -> Sequence[Patch]:
    """The number of partitions that is kept is that of a topic which is no more."""
    change = KafkaCommitter._replace_identity

    def changed(self: Any, before: dict[str, Any], after: dict[str, Any]) -> dict[str, Any]:
        return change(self, before, {**after, "progress_partitions": before["progress_partitions"]})

    return [(KafkaCommitter, "_replace_identity", changed)]


def _adopts_over_progress() -> Sequence[Patch]:
    """--adopt-progress trusts the checkpoint although there is progress."""
    decide = delivery.decide
    return [(committer, "decide", lambda *given, **named: Publish() if named["adopt"] else decide(*given, **named))]


def _query_unnoticed() -> Sequence[Patch]:
    """Another query's progress is taken for none at all."""
    decide = delivery.decide

    def own(found: Any, batch: Any, **named: Any) -> Any:
        return decide(found if found and found.query_id == batch.query_id else None, batch, **named)

    return [(committer, "decide", own)]


def _older_checkpoint_unnoticed() -> Sequence[Patch]:
    """A batch is published though a later one was."""
    decide = delivery.decide

    def at_most(found: Any, batch: Any, **named: Any) -> Any:
        return Publish() if found and found.batch_id > batch.batch_id else decide(found, batch, **named)

    # It is looked for twice: before the id is taken, and when it is decided what to do.
    return [(committer, "decide", at_most), (committer, "check_ahead", lambda *_: None)]


def _state_outside() -> Sequence[Patch]:
    """The state is committed apart from its batch: to the checkpoint, after it."""
    status = KafkaCommitter.commit_status

    def status_so(self: Any, batch: Batch) -> CommitStatus:
        known = self.context.checkpoint.read("state") or {"state": ""}
        return replace(status(self, batch), state=known["state"])

    def deliver_so(batch: Batch, targets: Sequence[Any], operators: Any) -> delivery.Delivered:
        done = delivery.deliver(batch, targets, operators)
        targets[0].context.checkpoint.write("state", {"state": done.state})
        return done

    return [(KafkaCommitter, "commit_status", status_so), (driver, "deliver", deliver_so)]


def _lost_state_taken_for_none() -> Sequence[Patch]:
    """Where progress of the batch before is lost, its state is taken for empty."""
    status = KafkaCommitter.commit_status

    def status_so(self: Any, batch: Batch) -> CommitStatus:
        found = status(self, batch)
        return replace(found, state=found.state or "")

    return [(KafkaCommitter, "commit_status", status_so)]


def _any_state_taken() -> Sequence[Patch]:
    """The state of the progress that is there is taken, whichever batch and query it is of."""
    status = KafkaCommitter.commit_status

    def status_so(self: Any, batch: Batch) -> CommitStatus:
        found = status(self, batch)
        return found if found.done or self._progress is None else replace(found, state=self._progress.state)

    return [(KafkaCommitter, "commit_status", status_so)]


def _stateful(made: Setting) -> Setting:
    """A job with state alone on its checkpoint."""
    return replace(
        made,
        pipeline=replace(made.pipeline, stateful=True),
        company=Company.NONE,
        starts=(0,),
        restored=None,
        published_before=None,
    )


def _adopting(made: Setting) -> Setting:
    """The second start adopts."""
    return replace(made, company=Company.NONE, starts=(0,), adopting=(False, True), restored=None)


def _of_short_patience(made: Setting) -> Setting:
    """Two brokers of which one is cut off for longer than a request waits."""
    waits = {"request.timeout.ms": "1000", "default.api.timeout.ms": "2000", "delivery.timeout.ms": "120000"}
    properties = {"bootstrap.servers": "simulated:9092"} | waits
    pipeline = replace(made.pipeline, properties=tuple(properties.items()), tasks=1)
    return replace(
        made, pipeline=pipeline, brokers=2, progress_partitions=1, company=Company.NONE, starts=(0,), restored=None
    )


_UNANSWERED_COMMIT = Rule(Fault.UNANSWERED, "EndTxn commit", 1, 2)

MUTATIONS = {
    each.name: each
    for each in [
        Mutation(
            "progress-ignored", "progress decides", _progress_ignored, (Rule(Fault.CRASH_AFTER, "EndTxn commit", 1),)
        ),
        Mutation(
            "settle-skipped", "outcomes are never guessed", _settle_skipped, (Rule(Fault.LOST, "EndTxn commit", 1, 2),)
        ),
        Mutation(
            "settle-taken-for-aborted", "outcomes are never guessed", _settle_taken_for_aborted, (_UNANSWERED_COMMIT,)
        ),
        Mutation(
            "unread-progress-taken-for-aborted",
            "outcomes are never guessed",
            _unread_progress_taken_for_aborted,
            (_UNANSWERED_COMMIT, Rule(Fault.LOST, "ListOffsets", 2, 60, after=0)),
        ),
        Mutation(
            "any-read-believed",
            "progress reads are definite",
            _any_read_believed,
            (Rule(Fault.CUT_OFF, "EndTxn commit", 1), Rule(Fault.UNANSWERED, "EndTxn commit", 0, 2, after=0)),
        ),
        Mutation(
            "row-taken-for-progress",
            "tables never write progress",
            _topics_unchecked,
            tasks=((0, TaskFault.ROW_IN_PROGRESS),),
        ),
        Mutation(
            "seal-unchecked",
            "progress is sealed",
            _seal_unchecked,
            (Rule(Fault.FOREIGN_ROW, "ApiVersions", 1, 8), Rule(Fault.CRASH, "ApiVersions", after=0)),
        ),
        Mutation(
            "fencing-skipped",
            "fence, claim, then read",
            _fencing_skipped,
            (Rule(Fault.SECOND_DRIVER, "EndTxn commit", 1),),
        ),
        Mutation("abort-without-epoch", "aborts raise the epoch", _abort_without_epoch, tasks=((0, TaskFault.DIES),)),
        Mutation("offsets-outside", "group offsets join the transaction", _offsets_outside),
        Mutation("progress-outside", "progress decides", _progress_outside),
        Mutation("counts-unchecked", "tasks run once", _counts_unchecked, tasks=((0, TaskFault.LOST_OUTPUT),)),
        Mutation("one-writer-always", "one writer per partition", _one_writer_always),
        Mutation(
            "id-of-each-prefix",
            "one identity per job",
            _id_of_each_prefix,
            (Rule(Fault.CRASH_AFTER, "EndTxn commit", 1),),
            within=lambda made: replace(made, prefixes=("walk", "run")),
        ),
        Mutation(
            "partition-of-today",
            "one identity per job",
            _partition_of_today,
            (
                Rule(Fault.LOST, "EndTxn commit", 2, 2),
                Rule(Fault.ENLARGED, "DescribeTransactions"),
                # The second of the brokers that are asked leads what came to the topic, with luck.
                Rule(Fault.CUT_OFF, "ListOffsets", 1, after=1),
                Rule(Fault.SECOND_DRIVER, "Fetch", after=2),
                Rule(Fault.LOST, "InitProducerId", after=3),
            ),
            within=_of_short_patience,
        ),
        Mutation(
            "partition-of-another-topic",
            "one identity per job",
            _partition_of_another_topic,
            (Rule(Fault.CRASH_AFTER, "EndTxn commit", 1), Rule(Fault.PROGRESS_RECREATED, "ApiVersions", after=0)),
            within=lambda made: replace(made, progress_partitions=None),
        ),
        Mutation(
            "adopts-over-progress",
            "progress decides",
            _adopts_over_progress,
            (Rule(Fault.CRASH_AFTER, "EndTxn commit", 1),),
            within=_adopting,
        ),
        Mutation(
            "query-unnoticed",
            "progress decides",
            _query_unnoticed,
            (Rule(Fault.CRASH_AFTER, "EndTxn commit", 1), Rule(Fault.CRASH_AFTER, "EndTxn commit", 1, after=0)),
            within=lambda made: replace(made, company=Company.QUERY, starts=(0, 1, 0), restored=None),
        ),
        Mutation(
            "older-checkpoint-unnoticed",
            "progress decides",
            _older_checkpoint_unnoticed,
            (Rule(Fault.CRASH_AFTER, "EndTxn commit", 1), Rule(Fault.CRASH_AFTER, "EndTxn commit", 2, after=0)),
            within=lambda made: replace(made, company=Company.NONE, starts=(0,), restored=(1, 2)),
        ),
        Mutation(
            "state-outside",
            "state commits with the output",
            _state_outside,
            (Rule(Fault.CRASH_AFTER, "EndTxn commit", 1),),
            within=_stateful,
        ),
        Mutation(
            "lost-state-taken-for-none",
            "state commits with the output",
            _lost_state_taken_for_none,
            (Rule(Fault.CRASH, "EndTxn commit", 2), Rule(Fault.PROGRESS_RECREATED, "ApiVersions", after=0)),
            within=lambda made: _adopting(_stateful(made)),
        ),
        Mutation(
            "any-state-taken",
            "state commits with the output",
            _any_state_taken,
            (Rule(Fault.CRASH_AFTER, "EndTxn commit", 1),),
            within=lambda made: replace(_stateful(made), company=Company.QUERY, starts=(0, 1), prefixes=("walk",)),
        ),
    ]
}
