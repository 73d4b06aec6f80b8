"""How a Kafka table is written."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from penstock.connectors.kafka.sink.partitioners import BUILT_IN
from penstock.connectors.kafka.table.options import KafkaSinkOptions
from penstock.connectors.kafka.table.spec import KafkaTableSpec
from penstock.errors import Problem
from penstock.settings import Settings
from penstock.spi import CHANGES, Guarantee, SinkCapabilities
from penstock.types import RowType

#: What may be lost with values of acks that do not wait for all in-sync replicas.
_LOSSES = {
    "0": "a record counts as written once it is sent, and is lost when its broker fails or refuses it",
    "1": "a record counts as written once its leader has it, and is lost when that broker fails",
}


@dataclass(frozen=True, kw_only=True)
class KafkaSinkSpec(KafkaTableSpec[KafkaSinkOptions]):
    """Writes rows of ``schema`` to topics.

    ``transactional_id_prefix`` is empty unless the guarantee is exactly-once. With several topics or a pattern each row
    names its topic in the metadata column ``topic``. A table that upserts takes rows of every kind. With
    ``buffer_rows`` a task keeps that many keys, and writes the last change of each. ``chooser`` is a user-defined
    object that chooses partitions instead of the option 'sink.partitioner'. One with ``tables`` has no columns, and no
    topic unless all have the same: it stands for the tables that are found while the job runs. ``headers`` are those of
    every message, and with ``key_table`` keys begin with the field TableId, which has that value.
    """

    schema: RowType
    guarantee: Guarantee
    transactional_id_prefix: str
    buffer_rows: int = 0
    chooser: Any = field(default=None, hash=False)
    tables: bool = False
    headers: tuple[tuple[str, bytes], ...] = ()
    key_table: str = ""

    @property
    def shown_topics(self) -> str:
        """The topics or the pattern, as text."""
        return "*" if self.tables and not self.topics else super().shown_topics

    @property
    def topics(self) -> tuple[str, ...]:
        """The topics by name; none with a pattern."""
        return self.options.topic

    @property
    def partitioner(self) -> str:
        """default, fixed, round-robin, all-to-zero, or the name of a class."""
        return self.options.partitioner.strip()

    @property
    def chooses(self) -> bool:
        """Whether a user-defined class or object chooses partitions."""
        return self.chooser is not None or self.partitioner not in BUILT_IN

    @property
    def keyed(self) -> bool:
        """Whether all tasks choose the same partition for a row: by its key, which may be a metadata column (as in dead
        letters), or by a partitioner that does not depend on the task. Otherwise each task has its own partitions, as
        long as there are enough."""
        if self.chooser is not None or any(column.key == "__partition__" for column in self.metadata):
            return True
        if self.partitioner == "default":
            return self.key is not None or any(column.key == "__raw_key__" for column in self.metadata)
        return self.partitioner != "fixed"

    @property
    def weakness(self) -> str:
        """How the table's client properties weaken its guarantee, in words; empty when they do not."""
        acks = (self.options.property("acks") or "all").strip()
        if self.guarantee is not Guarantee.AT_LEAST_ONCE or acks not in _LOSSES:
            return ""
        return f"'properties.acks' = '{acks}' weakens 'at-least-once': {_LOSSES[acks]}; 'all' loses none"

    @property
    def capabilities(self) -> SinkCapabilities:
        """Changes where the table upserts, or its format writes them. All tables of a cluster are committed
        together."""
        return SinkCapabilities(
            kinds=CHANGES if self.upserts else self.kinds,
            guarantee=self.guarantee,
            commits_to=f"kafka at {dict(self.client).get('bootstrap.servers', '')}",
            destinations=self.topics,
            transactional_id_prefix=self.transactional_id_prefix,
            upsert_keys=self.upsert_keys,
        )

    def problems(self, settings: Settings) -> tuple[Problem, ...]:
        """A problem when the table would write the job's progress topic."""
        return find_progress_problems(self.topics, settings, "topic", self.table)

    def describe(self) -> str:
        """A human-readable description. Secrets are masked."""
        guarantee = self.guarantee.value
        if self.guarantee is Guarantee.EXACTLY_ONCE:
            guarantee += f" as '{self.transactional_id_prefix}'"
        return self._describe_lines(
            (f"{self.connector} sink '{self.table}'", f"topic: {self.shown_topics}"),
            "TO",
            (
                f"guarantee: {guarantee}",
                f"partitioner: {self.partitioner}",
                f"buffer: the last change of {self.buffer_rows} keys" if self.buffer_rows else "",
            ),
            (*self.notes, self.weakness),
        )


def find_progress_problems(topics: Sequence[str], settings: Settings, key: str, table: str) -> tuple[Problem, ...]:
    """A problem when ``topics``, the value of the option ``key``, has the job's progress topic."""
    if settings.progress_topic not in topics:
        return ()
    reason = f"'{settings.progress_topic}' is the job's own progress topic, which no table may write"
    hint = "name another topic, or another 'penstock.progress-topic'"
    return (Problem(reason, key, f"table '{table}'", hint),)
