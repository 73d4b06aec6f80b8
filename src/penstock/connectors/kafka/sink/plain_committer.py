"""The committer of Kafka sinks without transactions."""

from __future__ import annotations

from penstock.connectors.kafka.sink.acknowledgements import check_counts
from penstock.connectors.kafka.sink.writing_committer import WritingCommitter
from penstock.spi import Batch, Published, WriteTasks


class PlainCommitter(WritingCommitter):
    """Publishes without transactions: from the tasks that encode, or, where the order of changes counts, from the tasks
    that own partitions.

    A batch is done when the brokers have acknowledged it as ``acks`` asks. A batch that fails is written again, so
    records may be repeated. Sinks without a guarantee are written in the same way, so a job that ends has delivered all
    records that it has read.
    """

    def check(self) -> None:
        """Make sure that the topics exist."""
        self.spec()

    def open(self) -> None:
        """Warn of options that weaken the guarantee."""
        for branch in self.branches:
            if branch.spec.weakness:
                self.context.warn(f"table '{branch.spec.table}': {branch.spec.weakness}")

    def publish(self, batch: Batch, tasks: WriteTasks) -> Published:
        """Write the batch."""
        if not batch.tasks:
            return Published()
        self.spec()  # raises for topics that are gone
        upserts = any(branch.spec.upserts for branch in self.branches)  # the last change of a key has to be the last
        done = self.collect(tasks, by_owners=upserts and batch.tasks > 1)
        self.check_topics(done)
        check_counts(done, batch)
        return Published(self.count_written(done))
