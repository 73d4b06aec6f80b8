"""The options of the ``avro`` format."""

from __future__ import annotations

import enum
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

from penstock.errors import Problem, SchemaError
from penstock.formats.avro.schema import Record, parse
from penstock.options import BOOLEAN, TEXT, OptionSet, Rule, choice, opt


class Encoding(enum.Enum):
    """The encoding of Avro data."""

    BINARY = "binary"
    JSON = "json"


def check_record_schema(options: Any) -> Iterator[Problem]:
    """The problems of the option ``schema`` in a format of the Avro family."""
    if options.schema is None:
        return
    try:
        found = parse(options.schema)
    except SchemaError as error:
        for problem in error.problems:
            yield Problem(f"{problem.key}: {problem.reason}" if problem.key else problem.reason, "schema")
        return
    if not isinstance(found, Record):
        yield Problem("expected the schema of a record", "schema", hint="each row of a table is a record")


@dataclass(frozen=True, kw_only=True)
class AvroOptions(OptionSet):
    """Options of ``avro``, with Flink's names and defaults, and one more: ``schema``."""

    encoding: Encoding = opt(
        "encoding",
        choice(Encoding),
        default=Encoding.BINARY,
        doc="The encoding of data: binary, or Avro's own JSON, which is much slower.",
    )
    codec: str = opt("codec", TEXT, default="snappy", doc="The compression of Avro files; messages have none.")
    legacy_timestamps: bool = opt(
        "timestamp_mapping.legacy",
        BOOLEAN,
        default=True,
        doc="Map TIMESTAMP(3) to timestamp-millis and refuse other timestamps. If false, TIMESTAMP is "
        "local-timestamp-millis, -micros or -nanos by its precision, and TIMESTAMP_LTZ is timestamp-millis, "
        "-micros or -nanos.",
    )
    fast_read: bool = opt(
        "open.fastread", BOOLEAN, default=False, doc="Accepted, but without effect: reading is always fast."
    )
    schema: str | None = opt(
        "schema",
        TEXT,
        default=None,
        doc="The Avro schema of the messages, as JSON; by default it is derived from the columns. Fields and "
        "columns are paired by name and resolved by Avro's rules. Fields without a column are skipped when "
        "reading and get their default when writing. Not in Flink, where only avro-confluent has it.",
    )

    rules: ClassVar[tuple[Rule, ...]] = (check_record_schema,)
