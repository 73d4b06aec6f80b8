"""A look at the records of topics, without a job: the oldest and the newest ones of each partition."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa

from penstock.connectors.kafka.source.enumerator import ReaderSpec
from penstock.connectors.kafka.source.positions import Positions, Split
from penstock.connectors.kafka.source.reader import RangeReader
from penstock.connectors.kafka.source.spec import KafkaScanSpec
from penstock.connectors.kafka.source.starts_and_stops import (
    find_existing_topics,
    list_positions,
    select_partitions,
    topic_ids,
)
from penstock.errors import KafkaError
from penstock.kafka.offsets import EARLIEST, LATEST
from penstock.kafka.partitions import TopicPartition
from penstock.kafka.session import session_for


@dataclass(frozen=True)
class Sample:
    """Rows of a scan: of some records of its ``partitions``, which are in the order of their numbers."""

    batches: Sequence[pa.RecordBatch]
    partitions: Sequence[TopicPartition]

    @property
    def records(self) -> int:
        """The number of rows."""
        return sum(each.num_rows for each in self.batches)

    def find_place(self, number: int, offset: int) -> str:
        """The place of a record, by the number of its partition and its offset."""
        topic, partition = self.partitions[number]
        return f"topic '{topic}', partition {partition}, offset {offset}"


def read_sample(scan: KafkaScanSpec, count: int) -> Sample:
    """The oldest and the newest ``count`` records of each partition, at most. Writes nothing: no topic is created, and
    no offset committed. Raises KafkaError for a topic that does not exist, and RecordError for a record that the scan
    cannot read."""
    session = session_for(scan.client_config)
    topics = find_existing_topics(session, scan)
    for name in scan.options.topic:
        if name not in topics:
            where = ",".join(scan.client_config.bootstrap_servers)
            raise KafkaError(f"topic '{name}' does not exist on {where}; create it, or check its name")
    partitions = sorted(select_partitions(topics, scan))
    begins, ends = (list_positions(session, partitions, at) for at in (EARLIEST, LATEST))
    ids = topic_ids(topics)

    def select(choose: Callable[[int, int], tuple[int, int]]) -> list[pa.RecordBatch]:
        """The rows from one offset to another, which are chosen by the bounds of a log."""
        splits = []
        for number, (topic, partition) in enumerate(partitions):
            start, end = choose(begins[topic, partition].offset, ends[topic, partition].offset)
            if start < end:
                splits.append(Split(number, topic, ids.get(topic, ""), partition, start, end))
        return list(RangeReader(spec, splits).rows())

    lenient = replace(scan.for_tasks(), options=replace(scan.options, fail_on_data_loss=False))
    spec = ReaderSpec(lenient, 0, 1, Positions({}), None)
    oldest = select(lambda begin, end: (begin, min(begin + count, end)))
    newest = select(lambda begin, end: (max(begin + count, end - count), end))
    return Sample([*oldest, *newest], partitions)
