"""What every set of options can do."""

from __future__ import annotations

import pytest

from penstock.formats.csv.options import CsvOptions
from penstock.formats.json.options import JsonOptions
from penstock.spi import formats
from penstock.types import parse_columns


def test_options_of_another_class_are_a_mistake_of_the_program() -> None:
    assert JsonOptions.expect(JsonOptions()) == JsonOptions()
    fmt, schema = formats.get("json"), parse_columns("a INT")
    for build in (fmt.decoder, fmt.encoder):
        with pytest.raises(TypeError, match="expected JsonOptions, not CsvOptions"):
            build(schema, CsvOptions())
