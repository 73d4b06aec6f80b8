"""The options that every format of change data has."""

from __future__ import annotations

from dataclasses import dataclass

from penstock.formats.json.options import JsonOptions, MapNullKeyMode, TimestampStandard
from penstock.options import BOOLEAN, TEXT, OptionSet, choice, opt

__all__ = ["ChangeOptions"]


@dataclass(frozen=True, kw_only=True)
class ChangeOptions(OptionSet):
    """Options of a format of change data, with Flink's names and defaults."""

    ignore_parse_errors: bool = opt(
        "ignore-parse-errors",
        BOOLEAN,
        default=False,
        doc="Read a value that does not fit its column as NULL and skip messages that are no change, instead of "
        "failing.",
    )
    timestamp_standard: TimestampStandard = opt(
        "timestamp-format.standard",
        choice(TimestampStandard),
        default=TimestampStandard.SQL,
        doc="How timestamps are read and written: 'yyyy-MM-dd HH:mm:ss.f' (SQL) or 'yyyy-MM-ddTHH:mm:ss.f' (ISO-8601).",
    )
    map_null_key_mode: MapNullKeyMode = opt(
        "map-null-key.mode",
        choice(MapNullKeyMode),
        default=MapNullKeyMode.FAIL,
        doc="When writing a map with a null key: fail, drop the entry, or write map-null-key.literal as its key. "
        "Understood, but without effect: maps in Spark and Arrow have no null keys.",
    )
    map_null_key_literal: str = opt(
        "map-null-key.literal",
        TEXT,
        default="null",
        doc="The key that stands for null when map-null-key.mode is LITERAL.",
    )
    decimal_as_plain_number: bool = opt(
        "encode.decimal-as-plain-number",
        BOOLEAN,
        default=False,
        doc="Write decimals without an exponent: 27000 instead of 2.7E+4.",
    )
    ignore_null_fields: bool = opt(
        "encode.ignore-null-fields", BOOLEAN, default=False, doc="Leave out fields that are NULL when writing."
    )

    @property
    def json(self) -> JsonOptions:
        """How the JSON of a message is read and written: Flink's change data goes through its tree parser."""
        return JsonOptions(
            ignore_parse_errors=self.ignore_parse_errors,
            timestamp_standard=self.timestamp_standard,
            map_null_key_mode=self.map_null_key_mode,
            map_null_key_literal=self.map_null_key_literal,
            decimal_as_plain_number=self.decimal_as_plain_number,
            ignore_null_fields=self.ignore_null_fields,
            json_parser=False,
        )
