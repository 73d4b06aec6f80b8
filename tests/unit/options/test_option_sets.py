"""What every set of options can do."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import ClassVar

import pytest

from penstock.errors import OptionsError, Problem
from penstock.formats.avro_confluent.options import AvroConfluentOptions
from penstock.formats.csv.options import CsvOptions
from penstock.formats.json.options import JsonOptions
from penstock.formats.protobuf.options import ProtobufOptions
from penstock.options import COMMA_LIST, INTEGER, Codec, OptionSet, Property, Rule, number, one_of, opt
from penstock.spi import formats
from penstock.types import parse_columns


def test_options_of_another_class_are_a_mistake_of_the_program() -> None:
    assert JsonOptions.expect(JsonOptions()) == JsonOptions()
    fmt, schema = formats.get("json"), parse_columns("a INT")
    for build in (fmt.decoder, fmt.encoder):
        with pytest.raises(TypeError, match="expected JsonOptions, not CsvOptions"):
            build(schema, CsvOptions())


@dataclass(frozen=True, kw_only=True)
class Range(OptionSet):
    """Two ends and a step."""

    low: int = opt("low", INTEGER, doc="The least number.")
    high: int = opt("high", INTEGER, default=10, doc="The greatest number.")
    step: int = opt("step", INTEGER, default=1, doc="The distance of numbers.")
    rules: ClassVar[tuple[Rule, ...]] = (
        lambda options: [Problem("exceeds high", "low")] if options.low > options.high else [],
        lambda options: [Problem("exceeds high", "step")] if options.step > options.high else [],
        lambda options: [Problem("expected a number above 0", "step")] if options.step < 1 else [],
    )


def problems_of(options: type[OptionSet], given: dict[str, str], prefix: str = "") -> list[tuple[str, str]]:
    with pytest.raises(OptionsError) as caught:
        options.from_text(given, prefix=prefix)
    return [(problem.key, problem.reason) for problem in caught.value.problems]


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"r.step": "0"}, [("r.low", "is required"), ("r.step", "expected a number above 0")]),
        ({"r.step": "11"}, [("r.low", "is required"), ("r.step", "exceeds high")]),
        (
            {"r.low": "20", "r.high": "x", "r.step": "0"},
            [("r.high", "expected a whole number, not 'x'"), ("r.step", "expected a number above 0")],
        ),
        ({"r.low": "20", "r.step": "11"}, [("r.low", "exceeds high"), ("r.step", "exceeds high")]),
    ],
)
def test_rules_run_although_other_options_are_missing_or_wrong(
    given: dict[str, str], expected: list[tuple[str, str]]
) -> None:
    assert problems_of(Range, given, "r.") == expected


def test_a_missing_option_of_a_format_hides_no_problem_of_the_others() -> None:
    assert problems_of(ProtobufOptions, {"ignore-parse-errors": "maybe"}) == [
        ("message-class-name", "is required"),
        ("ignore-parse-errors", "expected true or false, not 'maybe'"),
        ("descriptor-file", "set either this option or 'proto-file'"),
    ]
    given = {"schema": "{", "request.timeout": "0 s", "properties.none": "x", "basic-auth.user-info": "nobody"}
    assert [key for key, _ in problems_of(AvroConfluentOptions, given)] == [
        "url",
        "schema",
        "properties.none",
        "basic-auth.user-info",
        "request.timeout",
    ]


@pytest.mark.parametrize(
    ("codec", "text", "expected"),
    [
        (number(1, 9), " 9 ", 9),
        (COMMA_LIST, "a, b,,c", ("a", "b", "c")),
        (one_of("X", "Y", fold=str.upper), " y ", "Y"),
    ],
)
def test_codecs_of_client_properties(codec: Codec, text: str, expected: object) -> None:
    assert codec.read(text) == expected
    assert codec.read(codec.show(expected)) == expected


@pytest.mark.parametrize(
    ("codec", "text", "reason"),
    [
        (number(1, 9), "0", "expected a number between 1 and 9, not '0'"),
        (number(1, 9), "x", "expected a whole number, not 'x'"),
        (COMMA_LIST, " , ", "expected a list separated by commas, not ' , '"),
        (one_of("X", "Y"), "y", "expected one of 'X', 'Y', not 'y'"),
        (replace(number(1, 9), quoted=False), "0", "expected a number between 1 and 9"),
    ],
)
def test_errors_quote_the_text_unless_it_may_be_secret(codec: Codec, text: str, reason: str) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(reason)}$"):
        Property(codec, "doc").read(text)
    with pytest.raises(ValueError, match=f"^{re.escape(reason.partition(', not ')[0])}$"):
        Property(codec, "doc", secret=True).read(text)
