"""The common part of scans and sinks of Kafka tables."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Generic, TypeVar

from penstock.connectors.kafka.table.metadata import MetadataColumn
from penstock.connectors.kafka.table.options import KafkaTableOptions
from penstock.kafka.properties import SECRETS, ClientConfig
from penstock.options import Properties, mask_secrets
from penstock.spi import CHANGES, INSERTIONS, ChangeFormat, FormatSpec, formats
from penstock.types import RowKind, RowType

_Options = TypeVar("_Options", bound=KafkaTableOptions)


@dataclass(frozen=True, kw_only=True)
class KafkaTableSpec(Generic[_Options]):
    """A Kafka table whose options, formats and columns are checked and fit together.

    ``key_columns`` and ``value_columns`` are names of columns of ``physical``, prefixes included; the formats see
    :attr:`key_schema` and :attr:`value_schema`. A table that ``upserts`` has one row for each key: a message replaces
    the row of its key, and one without a value deletes it. ``client`` holds Kafka's own properties as text, by their
    Java names. ``notes`` are remarks for the user.
    """

    table: str
    options: _Options
    value: FormatSpec
    key: FormatSpec | None
    physical: RowType
    key_columns: tuple[str, ...]
    value_columns: tuple[str, ...]
    metadata: tuple[MetadataColumn, ...]
    client: Properties = field(repr=False)
    upserts: bool = False
    notes: tuple[str, ...] = field(default=(), compare=False)

    @cached_property
    def key_schema(self) -> RowType:
        """The columns of the key format, under the names it uses, in the order of 'key.fields'."""
        return self.physical.select(self.key_columns).without_prefix(self.options.key_fields_prefix)

    @cached_property
    def value_schema(self) -> RowType:
        """The columns of the value format, under the names it uses, in the table's order."""
        return self.physical.select(self.value_columns).without_prefix(self.options.value_fields_prefix)

    @cached_property
    def kinds(self) -> frozenset[RowKind]:
        """The row kinds that the value format knows."""
        return CHANGES if isinstance(formats.get(self.value.identifier), ChangeFormat) else INSERTIONS

    @property
    def upsert_keys(self) -> tuple[str, ...]:
        """The columns whose values say which row is replaced or deleted; none unless the table ``upserts``."""
        return self.key_columns if self.upserts else ()

    @property
    def connector(self) -> str:
        """The name of the table's connector."""
        return "upsert-kafka" if self.upserts else "kafka"

    @property
    def shown_topics(self) -> str:
        """The topics or the pattern, as text."""
        return "; ".join(self.options.topic) or f"/{self.options.topic_pattern or ''}/"

    @property
    def client_config(self) -> ClientConfig:
        """The configuration of the table's client."""
        return ClientConfig.from_properties(dict(self.client), f"table '{self.table}'")

    def _describe_lines(
        self, heading: Sequence[str], preposition: str, properties: Sequence[str], notes: Sequence[str]
    ) -> str:
        """Human-readable lines, without empty ones. Secrets are masked."""
        metadata = ", ".join(f"{each.name} {preposition} {each.key}" for each in self.metadata)
        lines = [
            *heading,
            f"value: {_describe_part(self.value, self.value_schema)}",
            f"key: {_describe_part(self.key, self.key_schema)}" if self.key else "",
            f"metadata: {metadata}" if metadata else "",
            *properties,
            f"client: {', '.join(f'{key}={value}' for key, value in mask_secrets(self.client, SECRETS))}",
            *(f"note: {note}" for note in notes if note),
        ]
        return "\n  ".join(filter(None, lines))


def _describe_part(spec: FormatSpec, row: RowType) -> str:
    """A format and its columns; those of tables that are found while the job runs are not known."""
    return f"{spec.identifier} {row}" if row.fields else spec.identifier
