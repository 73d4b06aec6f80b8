"""What writing a Kafka table means, fully resolved."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from penstock.connectors.kafka.table.client import masked
from penstock.connectors.kafka.table.metadata import MetadataColumn
from penstock.connectors.kafka.table.options import KafkaSinkOptions
from penstock.errors import Problem
from penstock.options import Properties
from penstock.settings import Settings
from penstock.spi import CHANGES, INSERTIONS, ChangeFormat, FormatSpec, Guarantee, SinkCapabilities, formats
from penstock.types import RowType

#: What is lost with the values of acks that do not wait for all replicas in sync.
_LOSSES = {
    "0": "a record that was sent is taken for written, and is lost when its broker fails or refuses it",
    "1": "a record that only its leader has is taken for written, and is lost when that broker fails",
}


@dataclass(frozen=True, kw_only=True)
class KafkaSinkSpec:
    """Writes rows of ``schema`` to topics.

    ``key_columns`` and ``value_columns`` are names of columns of ``schema``, prefixes included; :attr:`key_schema`
    and :attr:`value_schema` are what the formats see. ``transactional_id_prefix`` is empty unless the guarantee is
    exactly-once. ``partitioner`` is default, fixed, round-robin or all-to-zero. With several ``topics`` or a
    ``topic_pattern`` each row names its topic in the metadata column ``topic``.
    """

    table: str
    options: KafkaSinkOptions
    value: FormatSpec
    key: FormatSpec | None
    schema: RowType
    key_columns: tuple[str, ...]
    key_prefix: str
    value_prefix: str
    value_columns: tuple[str, ...]
    metadata: tuple[MetadataColumn, ...]
    guarantee: Guarantee
    transactional_id_prefix: str
    topics: tuple[str, ...]
    topic_pattern: str
    partitioner: str
    client: Properties = field(repr=False)
    notes: tuple[str, ...] = field(default=(), compare=False)

    @property
    def key_schema(self) -> RowType:
        """The columns that the key format encodes, under the names it uses, in the order of 'key.fields'."""
        return self.schema.select(self.key_columns).without_prefix(self.key_prefix)

    @property
    def value_schema(self) -> RowType:
        """The columns that the value format encodes, under the names it uses, in the table's order."""
        return self.schema.select(self.value_columns).without_prefix(self.value_prefix)

    @property
    def keyed(self) -> bool:
        """Whether what decides a row's partition is the same for all tasks: a key, which may be a metadata column (as
        that of dead letters is), or a partitioner that knows no tasks. Otherwise each task has partitions of its own,
        as long as there are enough."""
        if self.partitioner == "default":
            return self.key is not None or any(column.key == "__raw_key__" for column in self.metadata)
        return self.partitioner != "fixed"

    @property
    def destination(self) -> str:
        """The topics that rows go to, in words."""
        return "; ".join(self.topics) or f"/{self.topic_pattern}/"

    @property
    def weakness(self) -> str:
        """What the table's client properties take from its guarantee, in words; empty when nothing."""
        acks = (self.options.property("acks") or "all").strip()
        if self.guarantee is not Guarantee.AT_LEAST_ONCE or acks not in _LOSSES:
            return ""
        return f"'properties.acks' = '{acks}' weakens 'at-least-once': {_LOSSES[acks]}; 'all' loses none"

    @property
    def capabilities(self) -> SinkCapabilities:
        """Changes where the format writes them. What goes to one cluster is committed together."""
        return SinkCapabilities(
            kinds=CHANGES if isinstance(formats.get(self.value.identifier), ChangeFormat) else INSERTIONS,
            guarantee=self.guarantee,
            commits_to=f"kafka at {dict(self.client).get('bootstrap.servers', '')}",
            destinations=self.topics,
            transactional_id_prefix=self.transactional_id_prefix,
        )

    def problems(self, settings: Settings) -> tuple[Problem, ...]:
        """What ``settings`` rule out: the job's progress topic is not written by a table, whatever it is called."""
        return progress_problems(self.topics, settings, "topic", self.table)

    def describe(self) -> str:
        """A few lines for people. Secrets are masked."""
        guarantee = self.guarantee.value
        if self.guarantee is Guarantee.EXACTLY_ONCE:
            guarantee += f" as '{self.transactional_id_prefix}'"
        lines = [
            f"kafka sink '{self.table}'",
            f"  topic: {self.destination}",
            f"  value: {self.value.identifier} {self.value_schema}",
            f"  key: {self.key.identifier} {self.key_schema}" if self.key else "",
            f"  metadata: {', '.join(f'{each.name} TO {each.key}' for each in self.metadata)}" if self.metadata else "",
            f"  guarantee: {guarantee}",
            f"  partitioner: {self.partitioner}",
            f"  client: {', '.join(f'{key}={value}' for key, value in masked(self.client))}",
            *(f"  note: {note}" for note in (*self.notes, self.weakness) if note),
        ]
        return "\n".join(line for line in lines if line)


def progress_problems(topics: Sequence[str], settings: Settings, key: str, table: str) -> tuple[Problem, ...]:
    """A problem when the job's progress topic is one of ``topics``, which the option ``key`` names."""
    if settings.progress_topic not in topics:
        return ()
    reason = f"'{settings.progress_topic}' is the job's own progress topic, which no table writes"
    hint = "name another topic, or another 'penstock.progress-topic'"
    return (Problem(reason, key, f"table '{table}'", hint),)
