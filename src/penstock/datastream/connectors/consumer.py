"""The source that Flink had before ``KafkaSource``, for programs that still name it."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Self

from penstock.common import DeserializationSchema, TypeInformation
from penstock.datastream.connectors.base import client_options, table_to_read
from penstock.datastream.connectors.offsets import KafkaOffsetsInitializer, KafkaTopicPartition
from penstock.spi import TableDefinition

__all__ = ["FlinkKafkaConsumer"]


class FlinkKafkaConsumer:
    """Reads ``topics``, one or several, or those whose whole name a compiled pattern matches.

    ``properties`` are Kafka's own, by their Java names: ``bootstrap.servers``, ``group.id`` and others. Without one of
    the ``set_start_from`` methods it starts at the group's offsets; where the group has none, ``auto.offset.reset``
    says what to do, and without that property the job fails. For ``StreamExecutionEnvironment.add_source``.
    """

    def __init__(
        self,
        topics: str | Sequence[str] | re.Pattern[str],
        deserialization_schema: DeserializationSchema,
        properties: Mapping[str, str],
    ):
        self._options = {"connector": "kafka", **client_options(properties)}
        if isinstance(topics, re.Pattern):
            self._options["topic-pattern"] = topics.pattern
        else:
            self._options["topic"] = topics if isinstance(topics, str) else ";".join(topics)
        self._schema = deserialization_schema
        self._start = KafkaOffsetsInitializer.committed_offsets()

    @property
    def type_info(self) -> TypeInformation:
        """The type of the values."""
        return self._schema.type_info

    def get_produced_type(self) -> TypeInformation:
        """The type of the values."""
        return self.type_info

    def set_start_from_earliest(self) -> Self:
        """Start at the first record there is."""
        return self._starting(KafkaOffsetsInitializer.earliest())

    def set_start_from_latest(self) -> Self:
        """Start behind the last record there is when the job first starts."""
        return self._starting(KafkaOffsetsInitializer.latest())

    def set_start_from_timestamp(self, startup_offsets_timestamp: int) -> Self:
        """Start at the first record at or after a time, in milliseconds since 1970; where there is none, at the end."""
        return self._starting(KafkaOffsetsInitializer.timestamp(startup_offsets_timestamp))

    def set_start_from_group_offsets(self) -> Self:
        """Start at the group's offsets, as without any of these methods."""
        return self._starting(KafkaOffsetsInitializer.committed_offsets())

    def set_start_from_specific_offsets(self, specific_startup_offsets: Mapping[KafkaTopicPartition, int]) -> Self:
        """Start at these offsets; partitions left out start at the group's."""
        return self._starting(KafkaOffsetsInitializer.offsets(specific_startup_offsets))

    def set_commit_offsets_on_checkpoints(self, commit_on_checkpoints: bool) -> Self:
        """Whether the group's offsets are committed with every batch, as they are when nothing is said."""
        self._options["properties.commit.offsets.on.checkpoint"] = str(commit_on_checkpoints).lower()
        return self

    def table(self, name: str) -> TableDefinition:
        """The table that is read."""
        # The initializer's own strategy does not count: here 'auto.offset.reset' always has the last word.
        return table_to_read(name, self._schema, {**self._options, **self._start.options("scan.startup")})

    def _starting(self, initializer: KafkaOffsetsInitializer) -> Self:
        self._start = initializer
        return self
