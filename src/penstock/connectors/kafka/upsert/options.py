"""The options of the ``upsert-kafka`` connector: those of ``kafka`` that it shares, and its own, by Flink's names."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, ClassVar, TypeVar

from penstock.connectors.kafka.table.offsets import PartitionOffsets
from penstock.connectors.kafka.table.options import (
    READING_RULES,
    TABLE_RULES,
    WRITING_RULES,
    BoundedMode,
    FieldsInclude,
    KafkaSinkOptions,
    KafkaSourceOptions,
    KafkaTableOptions,
    NamingStrategy,
)
from penstock.errors import Problem
from penstock.kafka.partitions import TopicPartition
from penstock.options import DURATION, INTEGER, OptionSet, Properties, Rule, opt, same
from penstock.spi import Guarantee

_Options = TypeVar("_Options", bound=KafkaTableOptions)

_ROWS, _INTERVAL = "sink.buffer-flush.max-rows", "sink.buffer-flush.interval"


@dataclass(frozen=True, kw_only=True)
class UpsertKafkaTableOptions(OptionSet):
    """Options of both reading and writing. ``properties`` are Kafka's own, with the prefix ``properties.``."""

    bootstrap_servers: str = same(KafkaTableOptions, "bootstrap_servers")
    topic: tuple[str, ...] = same(KafkaTableOptions, "topic")
    topic_pattern: str | None = same(KafkaTableOptions, "topic_pattern")
    key_format: str = same(
        KafkaTableOptions,
        "key_format",
        required=True,
        doc="Format of a message's key, which is made of the columns of PRIMARY KEY in the order in which it names "
        "them. Not a format of changes.",
    )
    value_format: str = same(
        KafkaTableOptions, "value_format", aliases=(), doc="Format of a message's value. Not a format of changes."
    )
    key_fields_prefix: str = same(KafkaTableOptions, "key_fields_prefix")
    value_fields_include: FieldsInclude = same(KafkaTableOptions, "value_fields_include")
    properties: Properties = field(default=(), repr=False)

    rules: ClassVar[tuple[Rule, ...]] = TABLE_RULES

    def property(self, name: str) -> str | None:
        """The client property of this (Java) name, or None when it is not set."""
        return dict(self.properties).get(name)

    def as_kafka(self, options: type[_Options], **more: Any) -> _Options:
        """These as ``options`` of the ``kafka`` connector, with ``more`` of them."""
        known = {each.name for each in dataclasses.fields(options)}
        own = {each.name: getattr(self, each.name) for each in dataclasses.fields(self) if each.name in known}
        return options(**own, **more)


@dataclass(frozen=True, kw_only=True)
class UpsertKafkaSourceOptions(UpsertKafkaTableOptions):
    """Options of reading."""

    group_id: str | None = same(
        KafkaSourceOptions, "group_id", doc="Consumer group whose offsets are committed with every batch."
    )
    bounded_mode: BoundedMode = same(KafkaSourceOptions, "bounded_mode")
    bounded_offsets: PartitionOffsets = same(KafkaSourceOptions, "bounded_offsets")
    bounded_timestamp: int | None = same(KafkaSourceOptions, "bounded_timestamp")
    bounded_streaming: bool = same(KafkaSourceOptions, "bounded_streaming")
    partitions: tuple[TopicPartition, ...] = same(KafkaSourceOptions, "partitions")
    discovery_interval: timedelta = same(KafkaSourceOptions, "discovery_interval", default_text="")
    check_duplicated_group_id: bool = same(KafkaSourceOptions, "check_duplicated_group_id")
    fail_on_data_loss: bool = same(KafkaSourceOptions, "fail_on_data_loss")
    ignore_errors: bool = same(KafkaSourceOptions, "ignore_errors")
    dead_letter_topic: str | None = same(KafkaSourceOptions, "dead_letter_topic")
    parallelism: int | None = same(KafkaSourceOptions, "parallelism")
    max_records_per_trigger: int = same(KafkaSourceOptions, "max_records_per_trigger")
    max_records_per_second: int | None = same(KafkaSourceOptions, "max_records_per_second")
    min_records_per_trigger: int | None = same(KafkaSourceOptions, "min_records_per_trigger")
    max_trigger_delay: timedelta = same(KafkaSourceOptions, "max_trigger_delay")
    commit_offsets: bool | None = same(KafkaSourceOptions, "commit_offsets")
    consumer_metrics: bool = same(KafkaSourceOptions, "consumer_metrics")
    auto_commit: bool = same(KafkaSourceOptions, "auto_commit")
    auto_commit_interval: timedelta = same(KafkaSourceOptions, "auto_commit_interval")

    rules = (*TABLE_RULES, *READING_RULES)


def _buffer(options: UpsertKafkaSinkOptions) -> Iterator[Problem]:
    if (options.buffer_rows > 0) != (options.buffer_interval > timedelta(0)):
        key, other = (_INTERVAL, _ROWS) if options.buffer_rows > 0 else (_ROWS, _INTERVAL)
        yield Problem(
            f"must be more than 0 too: '{other}' is, and changes are buffered only with both",
            key,
            hint=f"set '{key}', or leave '{other}' out",
        )


@dataclass(frozen=True, kw_only=True)
class UpsertKafkaSinkOptions(UpsertKafkaTableOptions):
    """Options of writing."""

    guarantee: Guarantee = same(KafkaSinkOptions, "guarantee", aliases=(), default_text="")
    transactional_id_prefix: str | None = same(KafkaSinkOptions, "transactional_id_prefix")
    naming_strategy: NamingStrategy | None = same(KafkaSinkOptions, "naming_strategy")
    parallelism: int | None = same(KafkaSinkOptions, "parallelism")
    buffer_rows: int = opt(
        _ROWS,
        INTEGER,
        default=0,
        doc="With 'sink.buffer-flush.interval': most keys whose last change a writing task holds back. Of several "
        "changes of a key it writes the last. It writes what it holds when it has this many keys, and at the end of "
        "its batch. 0: every change is written.",
        example="10000",
    )
    buffer_interval: timedelta = opt(
        _INTERVAL,
        DURATION,
        default=timedelta(0),
        doc="More than 0 with 'sink.buffer-flush.max-rows', as in Flink. Its length has no effect: a batch, which "
        "'execution.checkpointing.interval' begins, ends with nothing held back.",
        example="1 s",
    )
    producer_metrics: bool = same(KafkaSinkOptions, "producer_metrics")

    rules = (*TABLE_RULES, *WRITING_RULES, _buffer)
