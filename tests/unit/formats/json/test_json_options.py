"""The options of the json format."""

from __future__ import annotations

import pytest

from penstock.errors import OptionsError
from penstock.formats.json.options import JsonOptions, MapNullKeyMode, TimestampStandard


def test_every_option_binds() -> None:
    bound = JsonOptions.from_text(
        {
            "json.fail-on-missing-field": "false",
            "json.ignore-parse-errors": "true",
            "json.timestamp-format.standard": "iso-8601",
            "json.map-null-key.mode": "literal",
            "json.map-null-key.literal": "nil",
            "json.encode.decimal-as-plain-number": "true",
            "json.encode.ignore-null-fields": "true",
            "json.write-null-properties": "false",
            "json.decode.json-parser.enabled": "false",
        },
        prefix="json.",
    )
    assert bound == JsonOptions(
        ignore_parse_errors=True,
        timestamp_standard=TimestampStandard.ISO_8601,
        map_null_key_mode=MapNullKeyMode.LITERAL,
        map_null_key_literal="nil",
        decimal_as_plain_number=True,
        ignore_null_fields=True,
        write_null_properties=False,
        json_parser=False,
    )
    assert JsonOptions.from_text(bound.to_text("json."), prefix="json.") == bound


def test_missing_fields_cannot_be_refused_and_errors_ignored() -> None:
    given = {"value.json.fail-on-missing-field": "true", "value.json.ignore-parse-errors": "true"}
    with pytest.raises(OptionsError, match=r"'value\.json\.fail-on-missing-field': .* cannot both be true"):
        JsonOptions.from_text(given, prefix="value.json.")


def test_wrong_values_are_all_reported() -> None:
    given = {"timestamp-format.standard": "RFC", "map-null-key.mode": "keep", "ignore-parse-errors": "maybe"}
    with pytest.raises(OptionsError) as caught:
        JsonOptions.from_text(given)
    assert len(caught.value.problems) == 3
