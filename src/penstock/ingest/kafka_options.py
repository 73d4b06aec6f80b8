"""Options of Kafka sources and sinks that only YAML has."""

from __future__ import annotations

import enum
import re
from collections.abc import Iterator
from dataclasses import dataclass

from penstock.errors import Problem
from penstock.options import BOOLEAN, INTEGER, TEXT, Codec, OptionSet, choice, opt

#: The format of values in YAML, unless one is named.
DEFAULT_FORMAT = "debezium-json"
#: The option of the source that declares tables.
DDLS = "scan.value.initial-schemas.ddls"


class InferenceStrategy(enum.Enum):
    """When the schema of a table is inferred."""

    CONTINUOUS = "continuous"
    STATIC = "static"


class PartitionStrategy(enum.Enum):
    """Which partition of a topic a record is written to."""

    ALL_TO_ZERO = "all-to-zero"
    HASH_BY_KEY = "hash-by-key"


def _parse_headers(text: str) -> tuple[tuple[str, str], ...]:
    found = []
    for each in re.split("[,;]", text):
        name, colon, value = each.partition(":")
        if each.strip() and not colon:
            raise ValueError("expected pairs 'name:value', joined by commas or semicolons")
        if each.strip():
            found.append((name.strip(), value.strip()))
    return tuple(found)


HEADERS = Codec("Headers", _parse_headers, lambda pairs: ",".join(f"{name}:{value}" for name, value in pairs))
_DISTRIBUTED = "Accepted: a table may always be in several partitions."


def _tolerance(options: KafkaIngestSourceOptions) -> Iterator[Problem]:
    if options.max_errors < -1:
        yield Problem(f"expected -1 or more, not {options.max_errors}", "ingestion.error-tolerance.max-count")


@dataclass(frozen=True, kw_only=True)
class KafkaIngestSourceOptions(OptionSet):
    """Options of a Kafka source in YAML only."""

    strategy: InferenceStrategy = opt(
        "schema.inference.strategy",
        choice(InferenceStrategy),
        default=InferenceStrategy.CONTINUOUS,
        doc="continuous: columns are added and types widened as messages show them. static: a table keeps the columns "
        "that it is declared with, or that its first message has.",
        example="static",
    )
    ddls: str | None = opt(
        DDLS,
        TEXT,
        default=None,
        doc="The columns that tables begin with, as CREATE TABLE statements of SQL without options. Where messages do "
        "not name their table (json, csv), a statement is for the topic of its name, with or without a database; if it "
        "is the only one, for all topics.",
        example="CREATE TABLE shop.orders (id BIGINT); CREATE TABLE shop.items (id BIGINT, name STRING);",
    )
    prefetch: int = opt(
        "scan.max.pre.fetch.records",
        INTEGER,
        default=50,
        doc="How many of the newest records of each partition are looked at before the first batch of a job, so that "
        "tables begin with the columns that they have now. 0: none, as with 'json.infer-schema.fixed-types'.",
        example="0",
    )
    metadata: str = opt(
        "metadata.list",
        TEXT,
        default="",
        doc="Metadata to read as columns, separated by commas. Raw keys and values are STRING.",
        example="topic,partition,offset",
    )
    max_errors: int = opt(
        "ingestion.error-tolerance.max-count",
        INTEGER,
        default=-1,
        doc="With 'ingestion.ignore-errors': how many records may be left out before the job ends; -1 means any "
        "number. They are counted over restarts.",
        example="1000",
    )
    debezium_distributed: bool = opt("debezium-json.distributed-tables", BOOLEAN, default=False, doc=_DISTRIBUTED)
    canal_distributed: bool = opt("canal-json.distributed-tables", BOOLEAN, default=False, doc=_DISTRIBUTED)
    rules = (_tolerance,)


@dataclass(frozen=True, kw_only=True)
class KafkaIngestSinkOptions(OptionSet):
    """Options of a Kafka sink in YAML only."""

    partition_strategy: PartitionStrategy = opt(
        "partition.strategy",
        choice(PartitionStrategy),
        default=PartitionStrategy.ALL_TO_ZERO,
        doc="all-to-zero: partition 0 of the topic; hash-by-key: by the primary key.",
        example="hash-by-key",
    )
    mapping: str = opt(
        "sink.tableId-to-topic.mapping",
        TEXT,
        default="",
        doc="The topics of tables: entries 'pattern,pattern:topic', separated by ';'.",
        example="mydb.mytable1,mydb.mytable2:mytable",
    )
    table_id_in_header: bool = opt(
        "sink.add-tableId-to-header-enabled",
        BOOLEAN,
        default=False,
        doc="Write the parts of the table's id as the headers namespace, schemaName and tableName.",
        example="true",
    )
    custom_header: tuple[tuple[str, str], ...] = opt(
        "sink.custom-header",
        HEADERS,
        default=(),
        doc="Headers of every message: pairs 'name:value', joined by commas or semicolons.",
        example="origin:shop,team:sales",
    )
    schema_included: bool = opt(
        "debezium-json.include-schema.enabled",
        BOOLEAN,
        default=False,
        doc="Whether messages of debezium-json contain their schema, as Kafka Connect writes it.",
        example="true",
    )
