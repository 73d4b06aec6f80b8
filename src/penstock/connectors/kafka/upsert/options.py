"""The options of the ``upsert-kafka`` connector, by Flink's names: the ones that it shares with ``kafka``, and its
own."""

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
from penstock.options import DURATION, INTEGER, OptionSet, Properties, Rule, opt, opt_like
from penstock.spi import Guarantee

_Options = TypeVar("_Options", bound=KafkaTableOptions)

_ROWS, _INTERVAL = "sink.buffer-flush.max-rows", "sink.buffer-flush.interval"


@dataclass(frozen=True, kw_only=True)
class UpsertKafkaTableOptions(OptionSet):
    """Options of both reading and writing. ``properties`` are Kafka's own, with the prefix ``properties.``."""

    bootstrap_servers: str = opt_like(KafkaTableOptions, "bootstrap_servers")
    topic: tuple[str, ...] = opt_like(KafkaTableOptions, "topic")
    topic_pattern: str | None = opt_like(KafkaTableOptions, "topic_pattern")
    key_format: str = opt_like(
        KafkaTableOptions,
        "key_format",
        required=True,
        doc="Format of a message's key, which is made of the columns of PRIMARY KEY in the order in which it names "
        "them. Not a format of changes.",
    )
    value_format: str = opt_like(
        KafkaTableOptions, "value_format", aliases=(), doc="Format of a message's value. Not a format of changes."
    )
    key_fields_prefix: str = opt_like(KafkaTableOptions, "key_fields_prefix")
    value_fields_include: FieldsInclude = opt_like(KafkaTableOptions, "value_fields_include")
    properties: Properties = field(default=(), repr=False)

    rules: ClassVar[tuple[Rule, ...]] = TABLE_RULES

    def property(self, name: str) -> str | None:
        """The client property of this (Java) name, or None when it is not set."""
        return dict(self.properties).get(name)

    def as_kafka(self, options: type[_Options], **more: Any) -> _Options:
        """These options as ``options`` of the ``kafka`` connector, with ``more`` added."""
        known = {each.name for each in dataclasses.fields(options)}
        own = {each.name: getattr(self, each.name) for each in dataclasses.fields(self) if each.name in known}
        return options(**own, **more)


@dataclass(frozen=True, kw_only=True)
class UpsertKafkaSourceOptions(UpsertKafkaTableOptions):
    """Options of reading."""

    group_id: str | None = opt_like(
        KafkaSourceOptions, "group_id", doc="Consumer group whose offsets are committed with every batch."
    )
    bounded_mode: BoundedMode = opt_like(KafkaSourceOptions, "bounded_mode")
    bounded_offsets: PartitionOffsets = opt_like(KafkaSourceOptions, "bounded_offsets")
    bounded_timestamp: int | None = opt_like(KafkaSourceOptions, "bounded_timestamp")
    bounded_streaming: bool = opt_like(KafkaSourceOptions, "bounded_streaming")
    partitions: tuple[TopicPartition, ...] = opt_like(KafkaSourceOptions, "partitions")
    discovery_interval: timedelta = opt_like(KafkaSourceOptions, "discovery_interval", default_text="")
    check_duplicated_group_id: bool = opt_like(KafkaSourceOptions, "check_duplicated_group_id")
    fail_on_data_loss: bool = opt_like(KafkaSourceOptions, "fail_on_data_loss")
    ignore_errors: bool = opt_like(KafkaSourceOptions, "ignore_errors")
    dead_letter_topic: str | None = opt_like(KafkaSourceOptions, "dead_letter_topic")
    parallelism: int | None = opt_like(KafkaSourceOptions, "parallelism")
    max_records_per_trigger: int = opt_like(KafkaSourceOptions, "max_records_per_trigger")
    max_records_per_second: int | None = opt_like(KafkaSourceOptions, "max_records_per_second")
    min_records_per_trigger: int | None = opt_like(KafkaSourceOptions, "min_records_per_trigger")
    max_trigger_delay: timedelta = opt_like(KafkaSourceOptions, "max_trigger_delay")
    commit_offsets: bool | None = opt_like(KafkaSourceOptions, "commit_offsets")
    consumer_metrics: bool = opt_like(KafkaSourceOptions, "consumer_metrics")
    auto_commit: bool = opt_like(KafkaSourceOptions, "auto_commit")
    auto_commit_interval: timedelta = opt_like(KafkaSourceOptions, "auto_commit_interval")

    rules = (*TABLE_RULES, *READING_RULES)


def _check_buffer(options: UpsertKafkaSinkOptions) -> Iterator[Problem]:
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

    guarantee: Guarantee = opt_like(KafkaSinkOptions, "guarantee", aliases=(), default_text="")
    transactional_id_prefix: str | None = opt_like(KafkaSinkOptions, "transactional_id_prefix")
    naming_strategy: NamingStrategy | None = opt_like(KafkaSinkOptions, "naming_strategy")
    parallelism: int | None = opt_like(KafkaSinkOptions, "parallelism")
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
    producer_metrics: bool = opt_like(KafkaSinkOptions, "producer_metrics")

    rules = (*TABLE_RULES, *WRITING_RULES, _check_buffer)
