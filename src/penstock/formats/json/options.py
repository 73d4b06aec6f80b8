"""The options of the ``json`` format."""

from __future__ import annotations

import enum
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from penstock.errors import Problem
from penstock.options import BOOLEAN, TEXT, OptionSet, Rule, choice, opt


class TimestampStandard(enum.Enum):
    """The text form of timestamps."""

    SQL = "SQL"
    ISO_8601 = "ISO-8601"
    ISO_8601_WITH_OFFSET = "ISO-8601-WITH-OFFSET"


class MapNullKeyMode(enum.Enum):
    """The handling of map entries with a null key."""

    FAIL = "FAIL"
    DROP = "DROP"
    LITERAL = "LITERAL"


def _check_missing_or_ignored(options: JsonOptions) -> Iterator[Problem]:
    if options.fail_on_missing_field and options.ignore_parse_errors:
        yield Problem(
            "fail-on-missing-field and ignore-parse-errors cannot both be true",
            "fail-on-missing-field",
            hint="set one of them to false",
        )


@dataclass(frozen=True, kw_only=True)
class JsonTextOptions(OptionSet):
    """How values are written in JSON: options of ``json`` and of all change data formats."""

    timestamp_standard: TimestampStandard = opt(
        "timestamp-format.standard",
        choice(TimestampStandard),
        default=TimestampStandard.SQL,
        doc="The format of timestamps: 'yyyy-MM-dd HH:mm:ss.f' (SQL) or 'yyyy-MM-ddTHH:mm:ss.f' (ISO-8601), with "
        "a 'Z' after a TIMESTAMP_LTZ; or ISO-8601 with an offset such as '+02:00' or 'Z' after both types.",
    )
    map_null_key_mode: MapNullKeyMode = opt(
        "map-null-key.mode",
        choice(MapNullKeyMode),
        default=MapNullKeyMode.FAIL,
        doc="When writing a map with a null key: fail, drop the entry, or write map-null-key.literal as its key. "
        "Accepted, but without effect: maps in Spark and Arrow have no null keys.",
    )
    map_null_key_literal: str = opt(
        "map-null-key.literal",
        TEXT,
        default="null",
        doc="The key for null if map-null-key.mode is LITERAL.",
    )
    decimal_as_plain_number: bool = opt(
        "encode.decimal-as-plain-number",
        BOOLEAN,
        default=False,
        doc="Write decimals without an exponent and with all digits of their scale: 27000.00 instead of 2.7E+4.",
    )
    ignore_null_fields: bool = opt(
        "encode.ignore-null-fields", BOOLEAN, default=False, doc="Leave out fields that are NULL when writing."
    )

    #: Whether a timestamp may be a date, for its midnight, and a TIMESTAMP_LTZ a text without a zone, in UTC: columns
    #: whose type was widened have such values.
    lenient_times: bool = False
    #: Whether a BOOLEAN may be a number, as text too: all but 0 are true. Canal writes bits and TINYINT(1) so.
    numeric_booleans: bool = False


@dataclass(frozen=True, kw_only=True)
class JsonOptions(JsonTextOptions):
    """Options of ``json``, with Flink's names and defaults."""

    fail_on_missing_field: bool = opt(
        "fail-on-missing-field", BOOLEAN, default=False, doc="Refuse a message that lacks one of the columns."
    )
    ignore_parse_errors: bool = opt(
        "ignore-parse-errors",
        BOOLEAN,
        default=False,
        doc="Read a value that does not fit its column as NULL, and skip messages that are not JSON, instead of "
        "failing.",
    )
    write_null_properties: bool = opt(
        "write-null-properties",
        BOOLEAN,
        default=True,
        doc="Write fields that are NULL; false is the same as encode.ignore-null-fields = true.",
    )
    json_parser: bool = opt(
        "decode.json-parser.enabled",
        BOOLEAN,
        default=True,
        doc="Read like Flink's streaming parser. If false, read like its tree parser: the last value of a "
        "repeated key counts, and numbers are normalized before they become text.",
    )

    rules: ClassVar[tuple[Rule, ...]] = (_check_missing_or_ignored,)

    @property
    def omits_nulls(self) -> bool:
        """Whether NULL fields are left out."""
        return self.ignore_null_fields or not self.write_null_properties
