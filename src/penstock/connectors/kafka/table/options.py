"""The options of the ``kafka`` connector, under Flink's names."""

from __future__ import annotations

import enum
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import ClassVar

from penstock.connectors.kafka.table.header_filter import HEADER_FILTER, HeaderTerm
from penstock.connectors.kafka.table.offsets import OFFSETS, PARTITIONS, PartitionOffsets
from penstock.errors import Problem
from penstock.kafka.partitions import TopicPartition
from penstock.kafka.reserved import is_reserved
from penstock.options import (
    BOOLEAN,
    DURATION,
    INTEGER,
    LIST,
    PATTERN,
    TEXT,
    Codec,
    OptionSet,
    Properties,
    Rule,
    choice,
    java_pattern,
    opt,
    opt_without_effect,
)
from penstock.spi import Guarantee


class StartupMode(enum.Enum):
    """Where reading starts when there is no checkpoint."""

    EARLIEST = "earliest-offset"
    LATEST = "latest-offset"
    GROUP_OFFSETS = "group-offsets"
    TIMESTAMP = "timestamp"
    SPECIFIC_OFFSETS = "specific-offsets"


class BoundedMode(enum.Enum):
    """Where reading ends; the record at the end offset is not read."""

    UNBOUNDED = "unbounded"
    LATEST = "latest-offset"
    GROUP_OFFSETS = "group-offsets"
    TIMESTAMP = "timestamp"
    SPECIFIC_OFFSETS = "specific-offsets"


class ResetStrategy(enum.Enum):
    """What to do for a partition without a valid start offset."""

    EARLIEST = "earliest"
    LATEST = "latest"
    NONE = "none"


class FieldsInclude(enum.Enum):
    """Whether the value of a message holds the key columns too."""

    ALL = "ALL"
    EXCEPT_KEY = "EXCEPT_KEY"


#: The names that Kafka allows for topics.
_TOPIC = re.compile(r"[a-zA-Z0-9._-]{1,249}")
_ANOTHER = "name another topic"


class NamingStrategy(enum.Enum):
    """How Flink names its transactions. Accepted for compatibility."""

    INCREMENTING = "incrementing"
    POOLING = "pooling"


def _at_least(low: int, expected: str) -> Codec:
    def parse(text: str) -> int:
        found: int = INTEGER.parse(text)
        if found < low:
            raise ValueError(f"expected {expected}")
        return found

    return replace(INTEGER, parse=parse, low=low)


def _check_size(text: str) -> str:
    """A prefix of transactional ids, no longer than Flink allows."""
    size = len(text.encode())
    if size > _LONGEST_PREFIX:
        raise ValueError(f"expected at most {_LONGEST_PREFIX} bytes of UTF-8, not the {size} of this text")
    return text


#: The most bytes of a prefix, as in Flink.
_LONGEST_PREFIX = 64_000
_COUNT = _at_least(1, "1 or more")
#: In Kafka's protocol negative times have other meanings: -1 means the end.
_MILLIS = _at_least(0, "milliseconds since 1970")


def _check_topics(options: KafkaTableOptions) -> Iterator[Problem]:
    if options.topic and options.topic_pattern:
        yield Problem("cannot be combined with 'topic'", "topic-pattern", hint="keep one of the two")
    if not options.topic and not options.topic_pattern:
        yield Problem("one of 'topic' and 'topic-pattern' is required", "topic", hint="for example 'topic' = 'orders'")


def _check_key(options: KafkaTableOptions) -> Iterator[Problem]:
    if options.key_fields and options.key_format is None:
        yield Problem("needs 'key.format'", "key.fields", hint="for example 'key.format' = 'json'")
    if options.key_format is not None and not options.key_fields:
        yield Problem("needs 'key.fields'", "key.format", hint="name the columns, joined by ';'")
    for name in sorted({each for each in options.key_fields if options.key_fields.count(each) > 1}):
        yield Problem(f"names '{name}' more than once", "key.fields")


def _check_key_prefix(options: KafkaTableOptions) -> Iterator[Problem]:
    if options.key_fields_prefix and options.value_fields_include is FieldsInclude.ALL:
        yield Problem(
            "needs 'value.fields-include' = 'EXCEPT_KEY'",
            "key.fields-prefix",
            hint="with ALL a column would need two names",
        )


def _check_prefixes(options: KafkaTableOptions) -> Iterator[Problem]:
    key, value = options.key_fields_prefix, options.value_fields_prefix
    if key and value and (key.startswith(value) or value.startswith(key)):
        yield Problem("neither prefix may begin with the other", "value.fields-prefix")


#: The rules of every table over topics.
TABLE_RULES: tuple[Rule, ...] = (_check_topics, _check_key_prefix)


@dataclass(frozen=True, kw_only=True)
class KafkaTableOptions(OptionSet):
    """Options of both reading and writing. ``properties`` are Kafka's own, with the prefix ``properties.``."""

    bootstrap_servers: str = opt(
        "properties.bootstrap.servers",
        TEXT,
        doc="Brokers to ask first, as host:port, joined by commas.",
        example="localhost:9092",
    )
    topic: tuple[str, ...] = opt(
        "topic", LIST, default=(), doc="Topic to read or write; several are joined by ';'.", example="orders"
    )
    topic_pattern: str | None = opt(
        "topic-pattern",
        PATTERN,
        default=None,
        doc="Java regular expression that a topic's whole name must match. Excludes 'topic'.",
        example="orders-.*",
    )
    value_format: str = opt(
        "value.format",
        TEXT,
        aliases=("format",),
        doc="Format of a message's value. 'format' is the same option; 'value.format' wins when both are given.",
        example="json",
    )
    key_format: str | None = opt(
        "key.format", TEXT, default=None, doc="Format of a message's key. Needs 'key.fields'.", example="json"
    )
    key_fields: tuple[str, ...] = opt(
        "key.fields", LIST, default=(), doc="Physical columns that make up the key, joined by ';'.", example="user;item"
    )
    key_fields_prefix: str = opt(
        "key.fields-prefix",
        TEXT,
        default="",
        doc="Prefix that the key's columns have in the table and not in the message. Needs EXCEPT_KEY.",
        example="key_",
    )
    value_fields_prefix: str = opt(
        "value.fields-prefix",
        TEXT,
        default="",
        doc="Prefix that the value's columns have in the table and not in the message.",
        example="val_",
    )
    value_fields_include: FieldsInclude = opt(
        "value.fields-include",
        choice(FieldsInclude),
        default=FieldsInclude.ALL,
        doc="Whether the value of a message holds the key's columns too.",
        example="EXCEPT_KEY",
    )
    properties: Properties = field(default=(), repr=False)

    #: Defaults of the Python builders where they differ from the declared ones, which SQL and YAML have.
    builder_defaults: ClassVar[Mapping[str, str]] = {}
    rules: ClassVar[tuple[Rule, ...]] = (*TABLE_RULES, _check_key, _check_prefixes)

    def property(self, name: str) -> str | None:
        """The client property of this (Java) name, or None when it is not set."""
        return dict(self.properties).get(name)


def _check_reserved(topics: Iterable[str], key: str) -> Iterator[Problem]:
    for topic in filter(is_reserved, topics):
        yield Problem(
            f"'{topic}' is an internal topic of Kafka or penstock, which no table may write", key, hint=_ANOTHER
        )


def _check_startup(options: KafkaSourceOptions) -> Iterator[Problem]:
    yield from _check_timestamp("scan.startup", options.startup_mode, options.startup_timestamp)
    if options.startup_mode is StartupMode.SPECIFIC_OFFSETS:
        yield from _check_offsets("scan.startup", options.startup_offsets, options)


def _check_bounded(options: KafkaSourceOptions) -> Iterator[Problem]:
    yield from _check_timestamp("scan.bounded", options.bounded_mode, options.bounded_timestamp)
    if options.bounded_mode is BoundedMode.SPECIFIC_OFFSETS:
        yield from _check_offsets("scan.bounded", options.bounded_offsets, options)


def _check_timestamp(prefix: str, mode: StartupMode | BoundedMode, timestamp: int | None) -> Iterator[Problem]:
    if mode in {StartupMode.TIMESTAMP, BoundedMode.TIMESTAMP} and timestamp is None:
        yield Problem(f"'timestamp' needs '{prefix}.timestamp-millis'", f"{prefix}.mode")


def _check_offsets(prefix: str, offsets: PartitionOffsets, options: KafkaSourceOptions) -> Iterator[Problem]:
    key, topics = f"{prefix}.specific-offsets", {topic for (topic, _), _ in offsets}
    if not offsets:
        yield Problem(f"'specific-offsets' needs '{key}'", f"{prefix}.mode", hint="for example 'partition:0,offset:42'")
    elif len(options.topic) != 1 and "" in topics:
        yield Problem("offsets without a topic need exactly one 'topic'", key, hint="name one topic, and no pattern")
    elif not options.topic_pattern and topics - {"", *options.topic}:
        unread = ", ".join(sorted(topics - {"", *options.topic}))
        yield Problem(f"names topics that are not read: {unread}", key)


def _check_partitions(options: KafkaSourceOptions) -> Iterator[Problem]:
    named, key = {topic for topic, _ in options.partitions}, "scan.partitions"
    if named and options.topic_pattern:
        yield Problem("cannot be combined with 'topic-pattern'", key, hint="name the topics with 'topic'")
    elif "" in named and len(options.topic) != 1:
        yield Problem("partitions without a topic need exactly one 'topic'", key)
    elif named - {"", *options.topic}:
        yield Problem(f"names topics that are not read: {', '.join(sorted(named - {'', *options.topic}))}", key)
    elif named and "" not in named and set(options.topic) - named:
        left = ", ".join(sorted(set(options.topic) - named))
        yield Problem(f"names no partition of the topics {left}", key, hint="leave them out of 'topic'")


def _check_reset(options: KafkaSourceOptions) -> Iterator[Problem]:
    given = options.property("auto.offset.reset")
    if given is not None and given.strip().lower() not in {each.value for each in ResetStrategy}:
        yield Problem(f"expected earliest, latest or none, not '{given}'", "properties.auto.offset.reset")


def _check_dead_letters(options: KafkaSourceOptions) -> Iterator[Problem]:
    topic, key = options.dead_letter_topic, "scan.dead-letter.topic"
    if topic is None:
        return
    if _TOPIC.fullmatch(topic) is None or topic in (".", ".."):
        hint = "letters, digits, '.', '_' and '-', at most 249"
        yield Problem(f"expected the name of a topic, not '{topic}'", key, hint=hint)
    elif topic in options.topic or (options.topic_pattern and java_pattern(options.topic_pattern).fullmatch(topic)):
        reason = f"'{topic}' is read by this table: records that cannot be decoded would come back forever"
        yield Problem(reason, key, hint=_ANOTHER)
    yield from _check_reserved([topic], key)


def _check_amounts(options: KafkaSourceOptions) -> Iterator[Problem]:
    if (options.min_records_per_trigger or 0) > options.max_records_per_trigger:
        yield Problem(
            f"is more than 'scan.max-records-per-trigger', which is {options.max_records_per_trigger}",
            "scan.min-records-per-trigger",
        )
    if options.auto_commit_interval < timedelta(0):
        yield Problem("expected 0 or more", "properties.auto.commit.interval.ms")
    if options.max_trigger_delay <= timedelta(0):
        yield Problem(f"expected more than 0, not '{options.max_trigger_delay}'", "scan.max-trigger-delay")


#: The rules of every table that is read, wherever reading starts.
READING_RULES: tuple[Rule, ...] = (_check_bounded, _check_partitions, _check_reset, _check_dead_letters, _check_amounts)


@dataclass(frozen=True, kw_only=True)
class KafkaSourceOptions(KafkaTableOptions):
    """Options of reading."""

    group_id: str | None = opt(
        "properties.group.id",
        TEXT,
        default=None,
        default_text="KafkaSource-<table> in SQL; else none",
        doc="Consumer group whose offsets are read with 'group-offsets' and committed with every batch, with the job's "
        "name in their metadata.",
        example="billing",
    )
    startup_mode: StartupMode = opt(
        "scan.startup.mode",
        choice(StartupMode),
        default=StartupMode.GROUP_OFFSETS,
        default_text="group-offsets; earliest-offset from the builder",
        doc="Where reading starts when there is no checkpoint.",
        example="earliest-offset",
    )
    startup_offsets: PartitionOffsets = opt(
        "scan.startup.specific-offsets",
        OFFSETS,
        default=(),
        doc="Start offsets with 'specific-offsets'. Partitions left out start at the group's offset.",
        example="partition:0,offset:42;partition:1,offset:300",
    )
    startup_timestamp: int | None = opt(
        "scan.startup.timestamp-millis",
        _MILLIS,
        default=None,
        doc="With 'timestamp': milliseconds since 1970 of the first record to read, by the records' own timestamps.",
        example="1655395200000",
    )
    bounded_mode: BoundedMode = opt(
        "scan.bounded.mode",
        choice(BoundedMode),
        default=BoundedMode.UNBOUNDED,
        doc=(
            "Where reading ends. The end is fixed once, when the job first starts. With 'group-offsets' the group "
            "needs an offset in every partition."
        ),
        example="latest-offset",
    )
    bounded_offsets: PartitionOffsets = opt(
        "scan.bounded.specific-offsets",
        OFFSETS,
        default=(),
        doc=(
            "End offsets with 'specific-offsets'; the offset itself is not read. Partitions left out end at the "
            "group's offset, and are not read without one."
        ),
        example="partition:0,offset:100",
    )
    bounded_timestamp: int | None = opt(
        "scan.bounded.timestamp-millis",
        _MILLIS,
        default=None,
        doc="With 'timestamp': milliseconds since 1970 of the first record that is not read.",
        example="1655481600000",
    )
    bounded_streaming: bool = opt(
        "scan.bounded.streaming",
        BOOLEAN,
        default=False,
        doc=(
            "For a bounded scan: keep the job's interval between batches, as in an unbounded scan, instead of starting "
            "each batch right after the last."
        ),
        example="true",
    )
    partitions: tuple[TopicPartition, ...] = opt(
        "scan.partitions",
        PARTITIONS,
        default=(),
        doc="Only these partitions are read, and new ones are not looked for.",
        example="partition:0;partition:3",
    )
    discovery_interval: timedelta = opt(
        "scan.topic-partition-discovery.interval",
        DURATION,
        default=timedelta(minutes=5),
        default_text="5 min; off from the builder",
        aliases=(
            "properties.partition.discovery.interval.ms",
            "properties.flink.partition-discovery.interval-millis",
        ),
        doc="How often new partitions and topics are looked for; 0 or less: never.",
        example="30 s",
    )
    header_filter: tuple[HeaderTerm, ...] = opt(
        "scan.header-filter",
        HEADER_FILTER,
        default=(),
        doc="Keeps records by their headers: terms 'key:value' or '!key:value', joined by & and |, left to right.",
        example="depart:toy|depart:book&!env:test",
    )
    check_duplicated_group_id: bool = opt(
        "scan.check.duplicated.group.id",
        BOOLEAN,
        default=False,
        doc="Refuse to start when the consumer group already has members.",
        example="true",
    )
    fail_on_data_loss: bool = opt(
        "scan.fail-on-data-loss",
        BOOLEAN,
        default=True,
        doc=(
            "Whether the job fails when records are lost before they are read: removed by retention, truncated, "
            "or deleted with their topic. If not, reading continues with the remaining records, and the losses are "
            "counted."
        ),
        example="false",
    )
    ignore_errors: bool = opt(
        "ingestion.ignore-errors",
        BOOLEAN,
        default=False,
        doc=(
            "Leave out records whose key or value cannot be read. A format's 'ignore-parse-errors' keeps some of them, "
            "with NULL for what it cannot read."
        ),
        example="true",
    )
    dead_letter_topic: str | None = opt(
        "scan.dead-letter.topic",
        TEXT,
        default=None,
        doc=(
            "Topic, of the same cluster, for records that cannot be decoded, instead of failing or leaving them out: "
            "key, value, headers and timestamp as they were, and the reason in further headers. Written with the "
            "guarantee of the job's sinks, in the same transaction where there is one."
        ),
        example="orders-dead",
    )
    parallelism: int | None = opt(
        "scan.parallelism", _COUNT, default=None, doc="Most tasks that read at a time.", example="4"
    )
    max_records_per_trigger: int = opt(
        "scan.max-records-per-trigger",
        _COUNT,
        default=1_000_000,
        doc="Most records that one micro-batch reads, over all partitions.",
        example="50000",
    )
    max_records_per_second: int | None = opt(
        "scan.max-records-per-second",
        _COUNT,
        default=None,
        doc=(
            "Most records that are read per second, over all partitions. A batch may have as many as the time since "
            "the last planning allows; an unused allowance is lost."
        ),
        example="20000",
    )
    min_records_per_trigger: int | None = opt(
        "scan.min-records-per-trigger",
        _COUNT,
        default=None,
        doc=(
            "A micro-batch begins when this many records are waiting, or after 'scan.max-trigger-delay'. "
            "The last batch of a bounded scan does not wait."
        ),
        example="10000",
    )
    max_trigger_delay: timedelta = opt(
        "scan.max-trigger-delay",
        DURATION,
        default=timedelta(minutes=15),
        doc="Longest wait for 'scan.min-records-per-trigger', from the beginning of the last batch.",
        example="1 min",
    )
    commit_offsets: bool | None = opt(
        "properties.commit.offsets.on.checkpoint",
        BOOLEAN,
        default=None,
        default_text="true with a group id",
        doc="With checkpointing: whether the group's offsets are committed with every batch.",
        example="false",
    )
    consumer_metrics: bool = opt(
        "properties.register.consumer.metrics",
        BOOLEAN,
        default=True,
        doc="Whether the source's metrics also have the names of Kafka's own consumer.",
        example="false",
    )
    auto_commit: bool = opt(
        "properties.enable.auto.commit",
        BOOLEAN,
        default=False,
        doc="Without checkpointing: whether the group's offsets are committed at intervals, and when the job ends.",
        example="true",
    )
    auto_commit_interval: timedelta = opt(
        "properties.auto.commit.interval.ms",
        DURATION,
        default=timedelta(seconds=5),
        doc="Shortest time between two commits with 'properties.enable.auto.commit', in milliseconds as in Kafka.",
        example="10 s",
    )

    builder_defaults = {  # noqa: RUF012 - a ClassVar of the base
        "scan.startup.mode": "earliest-offset",
        "scan.topic-partition-discovery.interval": "0 ms",
    }
    rules = (*KafkaTableOptions.rules, _check_startup, *READING_RULES)


def _check_partitioner(options: KafkaSinkOptions) -> Iterator[Problem]:
    if not options.partitioner.strip():
        yield Problem("must not be empty", "sink.partitioner", hint="default, fixed or round-robin")
    elif options.partitioner == "round-robin" and options.key_fields:
        yield Problem(
            "'round-robin' ignores keys and cannot be combined with 'key.fields'",
            "sink.partitioner",
            hint="use 'default' to partition by key",
        )


def _check_exactly_once(options: KafkaSinkOptions) -> Iterator[Problem]:
    if options.guarantee is not Guarantee.EXACTLY_ONCE:
        return
    if not (options.transactional_id_prefix or "").strip():
        yield Problem(
            "is required with 'sink.delivery-guarantee' = 'exactly-once'",
            "sink.transactional-id-prefix",
            hint="choose a name that no other job uses and keep it across restarts",
        )
    for name, wanted in (("enable.idempotence", ("true",)), ("acks", ("all", "-1"))):
        given = options.property(name)
        if given is not None and given.strip().lower() not in wanted:
            yield Problem(f"must be '{wanted[0]}' with exactly-once, not '{given}'", f"properties.{name}")
    if (options.property("retries") or "").strip() == "0":
        yield Problem("must be more than 0 with exactly-once", "properties.retries", hint="leave it out")


def _check_writable(options: KafkaSinkOptions) -> Iterator[Problem]:
    yield from _check_reserved(options.topic, "topic")


#: The rules of every table that is written, however records are partitioned.
WRITING_RULES: tuple[Rule, ...] = (_check_writable, _check_exactly_once)


@dataclass(frozen=True, kw_only=True)
class KafkaSinkOptions(KafkaTableOptions):
    """Options of writing."""

    partitioner: str = opt(
        "sink.partitioner",
        TEXT,
        default="default",
        doc=(
            "Partition of each record. default: by key as Kafka's own clients do, without a key in runs; "
            "fixed: one partition per task; round-robin: in turn; all-to-zero: partition 0; else the path of a Python "
            "class with a method `partition(record, key, value, target_topic, partitions)`, which is called for each "
            "record, and perhaps `open(task, tasks)`. Tasks import the class too: its module is installed, or in "
            "`PYTHONPATH`."
        ),
        example="round-robin",
    )
    guarantee: Guarantee = opt(
        "sink.delivery-guarantee",
        choice(Guarantee),
        default=Guarantee.AT_LEAST_ONCE,
        default_text="at-least-once; none from the builder",
        aliases=("sink.semantic",),
        doc="none: a failure may lose or repeat records; at-least-once: it may repeat them; exactly-once: it does "
        "neither. With each of them a batch is done when the brokers have acknowledged it as 'properties.acks' asks.",
        example="at-least-once",
    )
    transactional_id_prefix: str | None = opt(
        "sink.transactional-id-prefix",
        Codec("String", _check_size, quoted=False),
        default=None,
        doc="Begins the transactional id, <prefix>-<job name>, which nothing else may use. Required with exactly-once. "
        "Counts at the first start: the checkpoint keeps the id.",
        example="orders-enrichment",
    )
    naming_strategy: NamingStrategy | None = opt_without_effect(
        "sink.transaction-naming-strategy",
        choice(NamingStrategy),
        "a query has one transactional id, so there is nothing to name",
        example="pooling",
    )
    parallelism: int | None = opt(
        "sink.parallelism", _COUNT, default=None, doc="Most tasks that write at a time.", example="4"
    )
    producer_metrics: bool = opt(
        "properties.register.producer.metrics",
        BOOLEAN,
        default=True,
        doc="Whether the sink's metrics also have the names of Kafka's own producer.",
        example="false",
    )

    builder_defaults = {"sink.delivery-guarantee": "none"}  # noqa: RUF012 - a ClassVar of the base
    rules = (*KafkaTableOptions.rules, _check_partitioner, *WRITING_RULES)
