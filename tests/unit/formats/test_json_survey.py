"""What the survey of JSON objects finds, beside a plain recomputation."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pytest

from penstock.formats.json import survey_kernel as kernel
from penstock.formats.json.options import TimestampStandard
from penstock.formats.json.spans import TextSpans
from penstock.formats.json.survey import FieldSurvey, Survey, survey_messages, survey_nested
from penstock.types import NULL, Field

KIND_NAMES = (
    *("NULL", "BOOLEAN", "INTEGER", "LARGE", "HUGE", "FRACTION", "TEXT"),
    *("DATE", "TIME", "TIMESTAMP", "TIMESTAMP_LTZ", "OBJECT", "ARRAY"),
)


def untyped(names: Sequence[str]) -> list[Field]:
    return [Field(name, NULL) for name in names]


def survey(*messages: str | bytes | None, known: tuple[str, ...] = (), **options: Any) -> Survey:
    found = [each.encode() if isinstance(each, str) else each for each in messages]
    return survey_messages(pa.array(found, pa.binary()), untyped(known), **options)


def kinds(field: FieldSurvey) -> dict[str, int]:
    return {name: first for name, first in zip(KIND_NAMES, field.firsts, strict=True) if first >= 0}


@pytest.mark.parametrize(
    ("text", "kind", "digits", "fraction"),
    [
        ("null", "NULL", 0, 0),
        ("true", "BOOLEAN", 0, 0),
        ("false", "BOOLEAN", 0, 0),
        ("0", "INTEGER", 0, 0),
        ("-0", "INTEGER", 0, 0),
        ("9223372036854775807", "INTEGER", 0, 0),
        ("-9223372036854775808", "INTEGER", 0, 0),
        ("9223372036854775808", "LARGE", 19, 0),
        ("-9223372036854775809", "LARGE", 19, 0),
        ("9" * 38, "LARGE", 38, 0),
        ("9" * 39, "HUGE", 0, 0),
        ("1.0", "FRACTION", 0, 0),
        ("1e3", "FRACTION", 0, 0),
        ("-1.5E-7", "FRACTION", 0, 0),
        ('""', "TEXT", 0, 0),
        ('"12345678"', "TEXT", 0, 0),
        ('"2024-02-29"', "DATE", 0, 0),
        ('"2023-02-29"', "TEXT", 0, 0),
        ('"23:59:59"', "TIME", 0, 0),
        ('"23:59:59.123456"', "TIME", 0, 6),
        ('"2024-02-29 23:59:59"', "TIMESTAMP", 0, 0),
        ('"2024-02-29 23:59:59.5"', "TIMESTAMP", 0, 1),
        ('"2024-02-29 23:59:59.123456789"', "TIMESTAMP", 0, 9),
        ('"2024-02-29 23:59:59.123Z"', "TIMESTAMP_LTZ", 0, 3),
        ('"2024-02-29T23:59:59"', "TEXT", 0, 0),
        ('"2024-02-29 24:59:59"', "TEXT", 0, 0),
        ("{}", "OBJECT", 0, 0),
        ('{"b": [1, {"c": null}]}', "OBJECT", 0, 0),
        ("[]", "ARRAY", 0, 0),
        ("[" * 70 + "]" * 70, "ARRAY", 0, 0),
    ],
)
def test_each_kind_of_value(text: str, kind: str, digits: int, fraction: int):
    (field,) = survey(f'{{"a": {text}}}').fields
    assert (field.name, kinds(field), field.digits, field.fraction) == ("a", {kind: 0}, digits, fraction)


def test_the_character_between_date_and_time_is_that_of_the_standard():
    (field,) = survey('{"a": "2024-02-29T23:59:59.12Z"}', standard=TimestampStandard.ISO_8601).fields
    assert (kinds(field), field.fraction) == ({"TIMESTAMP_LTZ": 0}, 2)


def test_fields_are_the_known_ones_and_then_new_ones_as_they_come():
    found = survey('{"b": 1, "a": "x"}', None, '{"c": 1, "a": null}', "", '{"b": 2.5}', known=("a", "z"))
    assert [each.name for each in found.fields] == ["a", "z", "b", "c"]
    assert [kinds(each) for each in found.fields] == [
        {"TEXT": 0, "NULL": 2},
        {},
        {"INTEGER": 0, "FRACTION": 4},
        {"INTEGER": 2},
    ]
    assert found.bad == ()


def test_new_fields_of_deep_messages_are_among_those_of_the_others():
    deep = "[" * 70 + "]" * 70
    found = survey('{"a": 1}', f'{{"b": {deep}}}', '{"c": 1}')
    assert [(each.name, kinds(each)) for each in found.fields] == [
        ("a", {"INTEGER": 0}),
        ("b", {"ARRAY": 1}),
        ("c", {"INTEGER": 2}),
    ]


def test_a_field_that_is_given_twice_has_both_kinds():
    (field,) = survey('{"a": 1, "a": "x"}').fields
    assert kinds(field) == {"INTEGER": 0, "TEXT": 0}


def test_names_with_escapes_and_quotes_are_what_they_stand_for():
    found = survey('{"\\u0061b": 1, "ab": 2.5, "q\\"": 1, "\\\\": true, "ü": 1, "": null}', '{"q\\"": "x", "ab": null}')
    assert {each.name: kinds(each) for each in found.fields} == {
        "ab": {"INTEGER": 0, "FRACTION": 0, "NULL": 1},
        'q"': {"INTEGER": 0, "TEXT": 1},
        "\\": {"BOOLEAN": 0},
        "ü": {"INTEGER": 0},
        "": {"NULL": 0},
    }


@pytest.mark.parametrize(
    "text", ["{", '{"a"', '{"a": 1', '{"a": 1, "b": 01}', "[1]", "1", "nothing", '{"x": 1, "a": \xff}', '{"n": tru}']
)
def test_what_is_seen_of_a_message_that_is_no_object_does_not_count(text: str):
    found = survey('{"b": 1}', text.encode("latin-1"), '{"b": null}')
    assert {each.name: kinds(each) for each in found.fields} == {"b": {"INTEGER": 0, "NULL": 2}}
    ((row, reason),) = found.bad
    assert row == 1
    assert reason


def test_more_unknown_fields_than_one_pass_has_room_for():
    messages = [json.dumps({f"f{row}_{at}": at for at in range(50)}) for row in range(200)]
    found = survey(*messages)
    assert [each.name for each in found.fields] == [f"f{row}_{at}" for row in range(200) for at in range(50)]
    assert all(kinds(each) == {"INTEGER": int(each.name[1:].split("_")[0])} for each in found.fields)


# --- nested objects ------------------------------------------------------------------------------------------


def nested(*messages: str, known: tuple[str, ...] = ()) -> Survey:
    return survey_nested(
        TextSpans.from_messages(pa.array([each.encode() for each in messages], pa.binary())), untyped(known)
    )


def test_the_fields_of_objects_take_their_place():
    found = nested(
        '{"id": 1, "a": {"b": {"c": "x"}, "d": [1]}}', '{"a": null}', '{"a": {}}', '{"a": {"b": {"e": 2.5}}}'
    )
    assert {each.name: kinds(each) for each in found.fields} == {
        "id": {"INTEGER": 0},
        "a": {"NULL": 1},
        "a.d": {"ARRAY": 0},
        "a.b.c": {"TEXT": 0},
        "a.b.e": {"FRACTION": 3},
    }
    assert found.fields[-1].name == "a.b.e"


def test_a_field_with_objects_and_other_values_has_both():
    found = nested('{"a": {"b": 1}}', '{"a": 7}', '{"a.b": "x"}', known=("z", "a"))
    assert [(each.name, kinds(each)) for each in found.fields] == [
        ("z", {}),
        ("a", {"INTEGER": 1}),
        ("a.b", {"INTEGER": 0, "TEXT": 2}),
    ]


def test_nested_objects_of_messages_that_are_no_objects_do_not_count():
    found = nested('{"a": {"b": 1}}', '{"a": {"c": 1}', "[]")
    assert [each.name for each in found.fields] == ["a.b"]
    assert [row for row, _ in found.bad] == [1, 2]


def test_messages_that_are_nested_too_deeply_are_refused():
    found = nested('{"a": {"b": 1}}', f'{{"a": {{"c": 1}}, "d": {"[" * 70 + "]" * 70}}}')
    assert found.bad == ((1, "its objects are nested too deeply to be flattened"),)


# --- random objects ------------------------------------------------------------------------------------------


def classify(value: Any) -> tuple[str, int, int]:
    """The kind, digits and fraction of a value, computed plainly."""
    match value:
        case None:
            return "NULL", 0, 0
        case bool():
            return "BOOLEAN", 0, 0
        case int():
            digits = len(str(abs(value)))
            if -(2**63) <= value < 2**63:
                return "INTEGER", 0, 0
            return ("LARGE", digits, 0) if digits <= 38 else ("HUGE", 0, 0)
        case float():
            return "FRACTION", 0, 0
        case dict():
            return "OBJECT", 0, 0
        case list():
            return "ARRAY", 0, 0
    patterns = {
        "DATE": r"\d{4}-\d\d-\d\d",
        "TIME": r"\d\d:\d\d:\d\d(?:\.(\d+))?",
        "TIMESTAMP": r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(?:\.(\d+))?",
        "TIMESTAMP_LTZ": r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(?:\.(\d+))?Z",
    }
    for kind, pattern in patterns.items():
        if match := re.fullmatch(pattern, value):
            return kind, 0, len((match.groups() or ("",))[0] or "")
    return "TEXT", 0, 0


def random_value(random: random.Random) -> Any:
    fraction = random.choice(["", ".5", ".123", ".123456"])
    return random.choice(
        [
            *(None, True, random.randrange(-(10**6), 10**6), random.randrange(10**18, 10**25), 10**40, random.random()),
            *("", "plain", "with \"quotes\" and ü", f"12:30:0{random.randrange(10)}{fraction}"),
            *("2024-01-31", f"2024-01-31 00:00:01{fraction}", f"2024-01-31 00:00:01{fraction}Z"),
            *({"x": [1, "}"]}, [1, {"y": "]"}], []),
        ]
    )  # fmt: skip


@pytest.mark.parametrize("seed", range(20))
def test_random_objects_beside_a_plain_recomputation(seed: int):
    generator = random.Random(seed)
    names = [f"n{at}" for at in range(8)] + ['q"', "ä\n"]
    rows = [
        {name: random_value(generator) for name in generator.sample(names, generator.randrange(len(names)))}
        for _ in range(60)
    ]
    wanted: dict[str, tuple[dict[str, int], int, int]] = {}
    for row, each in enumerate(rows):
        for name, value in each.items():
            kind, digits, fraction = classify(value)
            firsts, most, longest = wanted.get(name, ({}, 0, 0))
            firsts.setdefault(kind, row)
            wanted[name] = firsts, max(most, digits), max(longest, fraction)
    dumped = [
        json.dumps(each, ensure_ascii=bool(generator.randrange(2)), indent=generator.choice([None, 1])) for each in rows
    ]
    found = survey(*dumped)
    assert {each.name: (kinds(each), each.digits, each.fraction) for each in found.fields} == wanted
    assert len(KIND_NAMES) == kernel.KINDS
