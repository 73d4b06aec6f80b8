"""Regular expressions of Java for Arrow's engine: those that mean the same, and those that have no counterpart."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from penstock.flow.kernels.texts.regex import translate_pattern
from penstock.flow.rows.expressions import Evaluator, compile_expression
from penstock.sql import parse_expression
from penstock.types import arrow_schema, parse_columns

TEXTS = ["", "abc", "a.c", "a\nc", "a\rc", "x-9_", "2026-01-31", "\x0b", "AbC", "a{2}", "日本", "]", "^", "aa"]


@pytest.mark.parametrize(
    ("pattern", "matched"),
    [
        ("b", ["abc", "AbC"]),
        ("^a.c$", None),
        ("^a.c", ["abc", "a.c"]),
        (r"a\.c", ["a.c"]),
        (r"\s", ["a\nc", "a\rc", "\x0b"]),
        (r"[\s\d]", ["a\nc", "a\rc", "x-9_", "2026-01-31", "\x0b", "a{2}"]),
        (r"[a-c]{3}", ["abc"]),
        (r"[^a-z\n\r]", ["a.c", "x-9_", "2026-01-31", "\x0b", "AbC", "a{2}", "日本", "]", "^"]),
        (r"[x\-\]]", ["x-9_", "2026-01-31", "]"]),
        (r"[0-9-]+$", None),
        (r"(?:a|x)-?\w", ["abc", "x-9_", "aa"]),
        ("(a)+?b|本", ["abc", "日本"]),
        (r"\{2\}", ["a{2}"]),
        ("(&|^)a[.&b]", ["abc", "a.c"]),
        ("a^b", []),
        (r"\bc", ["a.c", "a\nc", "a\rc"]),
        ("", TEXTS),
    ],
)
def test_what_has_a_counterpart_matches_the_same(pattern, matched):
    regex = translate_pattern(pattern)
    if matched is None:
        assert regex is None
        return
    assert regex is not None
    found = pc.match_substring_regex(pa.array(TEXTS), regex).to_pylist()
    assert [text for text, here in zip(TEXTS, found, strict=True) if here] == matched


@pytest.mark.parametrize(
    "pattern",
    [
        *(r"(?=a)", r"(?<!a)b", r"(a)\1", "a++", "a*+", "a{2}+", r"\p{L}", "(?i)a", "a$", r"\Qa\E"),
        *(
            "[[:alpha:]]",
            "[a&&b]",
            "[]",
            "[a",
            "(a",
            "a)",
            "*a",
            "a{",
            "a**",
            r"[\W]",
            r"[\d-z]",
            "\\",
            r"\u0041",
            "a{2000}",
        ),
    ],
)
def test_what_has_none_is_refused(pattern):
    assert translate_pattern(pattern) is None


@pytest.mark.parametrize(("group", "found"), [(0, "key=v1"), (1, "key"), (2, "v1"), (3, ""), (4, None)])
def test_one_group_is_taken(group, found):
    regex = translate_pattern(r"(\w+)=(v\d)(;)?", group)
    if found is None:
        assert regex is None
    else:
        assert regex is not None
        (made,) = pc.extract_regex(pa.array(["a key=v1"]), regex).to_pylist()
        assert (made["g"] or "") == found


def test_a_pattern_in_a_column_that_only_java_computes_fails_its_row():
    schema = parse_columns("s STRING, p STRING")
    rows = pa.RecordBatch.from_arrays(
        [pa.array(["ab", "ab", "ab"]), pa.array(["b", "(", r"(?<=a+)b"])], schema=arrow_schema(schema)
    )
    found = compile_expression(parse_expression("REGEXP_REPLACE(s, p, 'x')", schema), rows.schema)
    assert isinstance(found, Evaluator)
    (vector,) = found.vectors(rows)
    assert vector.values.to_pylist()[:2] == ["ax", None]
    (failure,) = vector.failures
    assert failure.rows.tolist() == [False, False, True]
    assert "'(?<=a+)b' has parts that only Java's engine supports" in failure.reason(2)


def test_a_pattern_of_dates_in_a_column_that_is_not_known_fails_its_row():
    schema = parse_columns("d TIMESTAMP(3), p STRING")
    rows = pa.RecordBatch.from_arrays(
        [pa.array([0, 0, None], pa.timestamp("us")), pa.array(["yyyy", "nope", "nope"])], schema=arrow_schema(schema)
    )
    found = compile_expression(parse_expression("DATE_FORMAT(d, p)", schema), rows.schema)
    assert isinstance(found, Evaluator)
    (vector,) = found.vectors(rows)
    assert vector.values.to_pylist()[0] == "1970"
    (failure,) = vector.failures
    assert failure.rows.tolist() == [False, True, False]
    assert failure.reason(1) == "DATE_FORMAT does not accept 'nope'"
