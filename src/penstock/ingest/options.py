"""What a Kafka source and sink understand in YAML besides the options of a Kafka table."""

from __future__ import annotations

import enum
from collections.abc import Iterator
from dataclasses import dataclass

from penstock.errors import Problem
from penstock.options import BOOLEAN, INTEGER, TEXT, OptionSet, choice, opt

__all__ = ["InferenceStrategy", "KafkaIngestSinkOptions", "KafkaIngestSourceOptions", "PartitionStrategy"]


class InferenceStrategy(enum.Enum):
    """When the schema of a table is found out."""

    CONTINUOUS = "continuous"
    STATIC = "static"


class PartitionStrategy(enum.Enum):
    """Where records go."""

    ALL_TO_ZERO = "all-to-zero"
    HASH_BY_KEY = "hash-by-key"


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
        doc="static: the schema is fixed when the job starts. continuous is not supported yet.",
        example="static",
    )
    ddls: str | None = opt(
        "scan.value.initial-schemas.ddls",
        TEXT,
        default=None,
        doc="The schema, as CREATE TABLE.",
        example="CREATE TABLE orders (id BIGINT, amount DOUBLE);",
    )
    prefetch: int = opt(
        "scan.max.pre.fetch.records",
        INTEGER,
        default=50,
        doc="Most records per partition that are looked at to infer a schema. No effect with a schema given.",
        example="0",
    )
    metadata: str = opt(
        "metadata.list",
        TEXT,
        default="",
        doc="Metadata to read as columns, joined by commas.",
        example="topic,partition,offset",
    )
    ignore_errors: bool = opt(
        "ingestion.ignore-errors",
        BOOLEAN,
        default=False,
        doc="Leave out messages that cannot be read.",
        example="true",
    )
    max_errors: int = opt(
        "ingestion.error-tolerance.max-count",
        INTEGER,
        default=-1,
        doc="Messages that may be left out before the job fails; -1: any number. Others are not supported yet.",
        example="-1",
    )
    primitive_as_string: bool = opt(
        "json.infer-schema.primitive-as-string",
        BOOLEAN,
        default=False,
        doc="Infer STRING for every value. No effect with a schema given.",
        example="true",
    )
    flatten: bool = opt(
        "json.infer-schema.flatten-nested-columns.enable",
        BOOLEAN,
        default=False,
        doc="Infer columns for nested values. No effect with a schema given.",
        example="true",
    )
    fixed_types: str = opt(
        "json.infer-schema.fixed-types",
        TEXT,
        default="",
        doc="Types of fields that are not inferred. No effect with a schema given.",
        example="id BIGINT, name VARCHAR(10)",
    )
    table_id_fields: str = opt(
        "json.decode.parser-table-id.fields",
        TEXT,
        default="",
        doc="Fields that name a record's table, joined by commas. Not supported yet.",
        example="database,table",
    )

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
        doc="Topics of tables: patterns joined by ',', then ':' and the topic; entries joined by ';'.",
        example="mydb.mytable1,mydb.mytable2:mytable",
    )
    table_id_in_header: bool = opt(
        "sink.add-tableId-to-header-enabled",
        BOOLEAN,
        default=False,
        doc="Write the table's id as headers. Not supported yet.",
        example="false",
    )
    custom_header: str = opt(
        "sink.custom-header", TEXT, default="", doc="Headers for every record. Not supported yet.", example=""
    )
