"""Options of Kafka sources and sinks that only YAML has."""

from __future__ import annotations

import enum
from collections.abc import Iterator
from dataclasses import dataclass

from penstock.errors import Problem
from penstock.options import BOOLEAN, INTEGER, TEXT, OptionSet, choice, one_of, opt


class InferenceStrategy(enum.Enum):
    """When the schema of a table is inferred."""

    CONTINUOUS = "continuous"
    STATIC = "static"


class PartitionStrategy(enum.Enum):
    """Which partition of a topic a record is written to."""

    ALL_TO_ZERO = "all-to-zero"
    HASH_BY_KEY = "hash-by-key"


_INFERRED = "How a schema is inferred. Schemas are not inferred yet, so only the default is accepted."
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
        doc="static: the schema is fixed when the job starts. continuous is not supported yet.",
        example="static",
    )
    ddls: str | None = opt(
        "scan.value.initial-schemas.ddls",
        TEXT,
        default=None,
        doc="The schema of the table, as a CREATE TABLE statement of SQL without options. Where messages do not name "
        "their table (json, csv), it is named after its topic, unless the statement has the topic's name, with or "
        "without a database.",
        example="CREATE TABLE orders (id BIGINT, amount DOUBLE);",
    )
    prefetch: int = opt(
        "scan.max.pre.fetch.records",
        INTEGER,
        default=50,
        doc="Most records of a partition from which a schema is inferred. No effect, as schemas are not inferred yet.",
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
        doc="With 'ingestion.ignore-errors': records that may be left out before the job fails. Only -1, which means "
        "any number, is supported yet.",
        example="-1",
    )
    primitive_as_string: bool = opt("json.infer-schema.primitive-as-string", BOOLEAN, default=False, doc=_INFERRED)
    flatten: bool = opt("json.infer-schema.flatten-nested-columns.enable", BOOLEAN, default=False, doc=_INFERRED)
    fixed_types: str = opt("json.infer-schema.fixed-types", TEXT, default="", doc=_INFERRED)
    debezium_as_string: bool = opt(
        "debezium-json.infer-schema.primitive-as-string", BOOLEAN, default=False, doc=_INFERRED
    )
    canal_as_string: bool = opt("canal-json.infer-schema.primitive-as-string", BOOLEAN, default=False, doc=_INFERRED)
    canal_strategy: str = opt(
        "canal-json.infer-schema.strategy",
        one_of("AUTO", "SQL_TYPE", "MYSQL_TYPE", fold=str.upper),
        default="AUTO",
        doc=_INFERRED,
    )
    canal_datetime: bool = opt(
        "canal-json.mysql.treat-mysql-timestamp-as-datetime-enabled", BOOLEAN, default=True, doc=_INFERRED
    )
    canal_tinyint: bool = opt(
        "canal-json.mysql.treat-tinyint1-as-boolean.enabled", BOOLEAN, default=True, doc=_INFERRED
    )
    debezium_distributed: bool = opt("debezium-json.distributed-tables", BOOLEAN, default=False, doc=_DISTRIBUTED)
    canal_distributed: bool = opt("canal-json.distributed-tables", BOOLEAN, default=False, doc=_DISTRIBUTED)
    table_id_fields: str = opt(
        "json.decode.parser-table-id.fields",
        TEXT,
        default="",
        doc="Fields that name a record's table, separated by commas. Not supported yet.",
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
        doc="The topics of tables: entries 'pattern,pattern:topic', separated by ';'.",
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
    schema_included: bool = opt(
        "debezium-json.include-schema.enabled",
        BOOLEAN,
        default=False,
        doc="Whether messages of debezium-json contain their schema. Only false is supported yet.",
        example="false",
    )
