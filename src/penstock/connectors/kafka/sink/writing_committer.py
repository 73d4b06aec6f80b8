"""What the committers of Kafka sinks have in common."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from penstock.connectors.kafka.sink.acknowledgements import Acknowledged
from penstock.connectors.kafka.sink.encoding import DEFAULT_MAX_MESSAGE_BYTES
from penstock.connectors.kafka.sink.metrics import count_sends
from penstock.connectors.kafka.sink.topics import find_writable_topics
from penstock.connectors.kafka.sink.writer import (
    WRITTEN,
    Instructions,
    KafkaOutput,
    OpenTransaction,
    WriteSpec,
    number_works,
    open_writer,
    publish,
)
from penstock.errors import CheckpointError, RecordError
from penstock.kafka.produce import SendCounts
from penstock.kafka.reserved import is_out_of_reach
from penstock.kafka.session import Session, session_for
from penstock.kafka.topics import cluster_id, create_topics, find_matching_topics, read_topic_configs
from penstock.schemas import SchemaChange
from penstock.spi import Committer, JobContext, Output, WriterFactory, WriteTasks, Written, pickle_text


class WritingCommitter(Committer):
    """The common part of both committers: the session, the topics and the tasks' spec."""

    def __init__(self, outputs: Sequence[Output], context: JobContext):
        self.branches = tuple(KafkaOutput(**vars(each), client=each.spec.client_config) for each in outputs)
        self.context = context
        self.session: Session = session_for(self.branches[0].client)
        self._limits: dict[str, int] = {}
        self._progress_topics: tuple[str, ...] | None = None

    def writers(self) -> WriterFactory:
        """Encode in the tasks that compute the rows, and publish there too unless other tasks write to the same
        partitions."""
        calls, spec = any(branch.spec.chooses for branch in self.branches), self.spec()
        return WriterFactory(
            partial(open_writer, spec), WRITTEN, calls, partial(publish, spec), self.owners(), owner="owner"
        )

    def collect(
        self, tasks: WriteTasks, *, by_owners: bool, transaction: OpenTransaction | None = None
    ) -> Acknowledged:
        """What brokers have acknowledged to the tasks of a batch, in the ``transaction`` or outside of any. Raises
        SequenceError and other errors of the tasks."""
        once = transaction is not None
        found = tasks.collect(pickle_text(Instructions(transaction)), by_owners=by_owners, once=once)
        return Acknowledged.from_task_reports(found.rows, found.doubt, once=once)

    def spec(self) -> WriteSpec:
        """The tasks' spec, with the present topics. Raises KafkaError for a topic that does not exist."""
        found: set[str] = set()
        # In one request; what is not there yet is asked for alone.
        self.session.topics({topic for branch in self.branches for topic in branch.spec.topics}, fresh=False)
        for branch in self.branches:
            create = branch.client.allow_auto_create_topics
            found |= find_writable_topics(self.session, branch.spec, self.progress_topics, create=create)
            if pattern := branch.spec.options.topic_pattern:
                found |= find_matching_topics(self.session, pattern).keys() - set(self.progress_topics)
        new = found - self._limits.keys()
        if new:
            settings = read_topic_configs(self.session, sorted(new), ["max.message.bytes"]) or {}
            for name in new:
                limit = settings.get(name, {}).get("max.message.bytes", DEFAULT_MAX_MESSAGE_BYTES)
                self._limits[name] = int(limit)
        works = number_works(self.branches, self._limits)
        return WriteSpec(self.branches, self.branches[0].client, dict(self._limits), self.progress_topics, works)

    @property
    def progress_topics(self) -> tuple[str, ...]:
        """The job's progress topics: the configured one, and the one that the checkpoint names."""
        # Not a cached_property: until Python 3.12 its lock would make all jobs wait for an unreachable cluster.
        if self._progress_topics is None:
            kept = self.identity().get("progress_topic")
            self._progress_topics = tuple(dict.fromkeys(filter(None, (self.context.settings.progress_topic, kept))))
        return self._progress_topics

    def identity(self, change: Callable[[dict[str, Any]], dict[str, Any]] = dict) -> dict[str, Any]:
        """The checkpoint's document about the job's transactional id in the cluster, after this change: the id, the
        progress topic with its first number of partitions, and the process that has chosen it; empty before the first
        start. Raises CheckpointError."""
        name, checkpoint = f"identity-{cluster_id(self.session)}", self.context.checkpoint
        known = checkpoint.revise(name, change)
        missing = {"transactional_id", "progress_topic", "progress_topic_id", "progress_partitions"} - known.keys()
        if known and missing:
            raise CheckpointError(
                f"the last revision of 'penstock/{name}.*.json' in the checkpoint '{checkpoint.location}' lacks "
                f"{', '.join(sorted(missing))}; restore the file from a backup"
            )
        return known

    def one_writer_each(self, tasks: int) -> bool:
        """Whether no two of ``tasks`` write to one partition: each has its own partitions, if there are enough."""
        keyed = any(branch.spec.keyed for branch in self.branches)
        fewest = min((len(self.session.topic(name).partitions) for name in self._limits), default=0)
        return tasks == 1 or (not keyed and tasks <= fewest)

    def check_topics(self, done: Acknowledged) -> None:
        """Raises RecordError when a task reports records in a topic that no table may write. Encoders refuse these
        rows; this is the last check, before a commit makes them visible."""
        for name in sorted(done.topics):
            if is_out_of_reach(self.session, name, self.progress_topics):
                raise RecordError(
                    f"job '{self.context.job}': a row was written to '{name}', an internal topic of Kafka or penstock",
                    hint="give the rows another value in the metadata column 'topic'",
                )

    def count_written(self, done: Acknowledged) -> tuple[Written, ...]:
        """The records and bytes written to each output. Counts them in the metrics."""
        found = tuple(self._sum_written(done, number) for number in range(len(self.branches)))
        for number, (branch, each) in enumerate(zip(self.branches, found, strict=True)):
            if branch.spec.options.producer_metrics:  # under the names of Kafka's own producer
                group = self.context.operator(branch.spec.table).add_group("KafkaProducer")
                group.count("record-send-total", "record-send-rate", each.records)
                group.count("outgoing-byte-total", "outgoing-byte-rate", each.bytes)
                count_sends(group, done.sends.get(number, SendCounts()))
        return found

    def _sum_written(self, done: Acknowledged, number: int) -> Written:
        """What was written to an output: with tables that are found while the job runs, to all of them."""
        own = done.encoded.get(number, Written())
        if not self.branches[number].spec.tables:
            return own
        found = [own, *(each for other, each in done.encoded.items() if other >= len(self.branches))]
        times = [each.send_millis for each in found if each.send_millis is not None]
        return Written(sum(each.records for each in found), sum(each.bytes for each in found), max(times, default=None))

    def prepare_changes(self, outputs: Sequence[Output]) -> None:
        """Create the topics of tables that are new. Raises KafkaError."""
        wanted = {topic for output in outputs for topic in output.spec.topics}
        missing = wanted - self.session.topics(wanted, fresh=False).keys()
        if missing and self.branches[0].client.allow_auto_create_topics:
            create_topics(self.session, missing)

    def apply_changes(self, changes: Sequence[SchemaChange], output: Output) -> None:
        """Create the topic of a table that is new. Other changes need nothing: messages have the columns. Raises
        KafkaError, and OptionsError for a topic that no table may write."""
        self.prepare_changes([output])
        find_writable_topics(self.session, output.spec, self.progress_topics, create=False)

    def owners(self) -> int:
        """The number of tasks that own partitions."""
        if any(branch.spec.tables for branch in self.branches):
            return max(1, self.context.parallelism)
        asked = [branch.spec.options.parallelism for branch in self.branches if branch.spec.options.parallelism]
        partitions = sum(len(self.session.topic(name).partitions) for name in self._limits)
        return max(1, min(max(asked) if asked else self.context.parallelism, partitions))
